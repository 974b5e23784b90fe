"""The planted study with pictures as people see them: photographs of real size, with maps of two kinds drawn over them."""

from __future__ import annotations

import json
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageFilter, ImageOps
from tests.study.planted_study import plant

from snellen.study.folder import Study
from snellen.study.making.rendering import encoded, picture
from snellen.zoo.efficientnet_lite0 import class_names
from snellen.zoo.photographs import PHOTOGRAPHS

SIDE = 224
WHOLE: dict[str, Any] = {
    "title": "How people read maps",
    "arms": ["grad-cam", "guided-backprop"],
    "tasks": [
        {"task": name, "items": 1, "practice": 1}
        for name in ("confidence", "error-detection", "class-accuracy", "forward-selection", "betting", "sharpness")
    ],
    "attention": 1,
}
"""Every task and every questionnaire, each once and once in practice."""

CHANGING: dict[str, Any] = {
    "title": "How people read maps, all kinds of them in turn",
    "design": "within",
    "arms": ["grad-cam", "none"],
    "presentation": ["side-by-side", "map"],
    "tasks": [
        {"task": "error-detection", "items": 3, "practice": 1},
        {"task": "class-accuracy", "items": 3, "practice": 0},
    ],
    "attention": 1,
    "recruiting": ["PROLIFIC_PID"],
    "return_link": "https://example.org/done?code={code}",
}
"""Everybody meets two kinds of maps and none, and so the pages on which something changes."""

SMALL: dict[str, Any] = {
    "title": "A few pages",
    "arms": ["grad-cam", "none"],
    "tasks": [{"task": "error-detection", "items": 2, "practice": 0}],
    "attention": 0,
    "scales": ["trust"],
}

STUDIES = {"whole": WHOLE, "changing": CHANGING, "small": SMALL}


def plant_photographs(folder: Path, settings: dict[str, Any]) -> tuple[Study, str]:
    """A study whose pictures are photographs with maps; truths and names are those of `plant`."""
    _, password = plant(folder, **settings)
    path = folder / "stimuli.json"
    stimuli = json.loads(path.read_text())
    numbers = count(1)

    def file(place: int, condition: str) -> dict[str, Any]:
        content, width, height = _drawn(place % len(PHOTOGRAPHS), condition)
        name = f"{next(numbers) * 7919 % 100_003:05x}.webp"
        (folder / "pictures" / name).write_bytes(content)
        return {"name": name, "width": width, "height": height}

    for old_picture in (folder / "pictures").iterdir():
        old_picture.unlink()
    place = count()
    for item in stimuli["items"]:
        first = next(place)
        item["said"] = [
            class_names()[PHOTOGRAPHS[(first + at) % len(PHOTOGRAPHS)].sensible[0]] for at, _ in enumerate(item["said"])
        ]
        item["about"] = item["about"] and item["said"][0]
        for condition, some in item["pictures"].items():
            item["pictures"][condition] = [file(first + at, condition) for at, _ in enumerate(some)]
        item["choices"] = [file(first + at, "none") for at, _ in enumerate(item["choices"])]
    path.write_text(json.dumps(stimuli))
    return Study.read(folder), password


@cache
def _drawn(place: int, condition: str) -> tuple[bytes, int, int]:
    photo = ImageOps.fit(Image.open(PHOTOGRAPHS[place].path()).convert("RGB"), (SIDE, SIDE))
    pixels = np.asarray(photo)
    arm, _, presentation = condition.partition("/")
    values = None
    if arm == "grad-cam":
        across, down = np.meshgrid(np.linspace(0, 1, SIDE), np.linspace(0, 1, SIDE))
        values = np.exp(-(((across - 0.3 - 0.05 * place) / 0.2) ** 2) - ((down - 0.5) / 0.25) ** 2).astype(np.float32)
    elif arm != "none":
        values = np.asarray(photo.convert("L").filter(ImageFilter.FIND_EDGES), np.float32) / 255
    shown = picture(pixels, values, presentation or "photograph")
    return encoded(shown, pixels), shown.shape[1], shown.shape[0]
