"""A small study without a run: items whose truth is known, and pictures of a few pixels."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import yaml
from PIL import Image

from snellen.study import folder as folders
from snellen.study.folder import Study, new_password
from snellen.study.protocol import Protocol
from snellen.study.scales import shipped
from snellen.study.stimuli import Item, Picture
from snellen.study.tasks import Decision, Percent, Rating, Selection, find_task
from snellen.study.texts import written_languages, written_texts

PROTOCOL: dict[str, Any] = {
    "title": "Planted",
    "arms": ["grad-cam", "guided-backprop", "none"],
    "tasks": [{"task": "error-detection", "items": 6, "practice": 1}, {"task": "class-accuracy", "items": 4, "practice": 1}],
}


def plant(folder: Path, **changes: Any) -> tuple[Study, str]:
    """A study in a new folder, and the experimenter's password; `changes` replace settings of `PROTOCOL`."""
    values = PROTOCOL | changes
    protocol = Protocol.of(values, "planted")
    (folder / "pictures").mkdir(parents=True)
    count = 0

    def picture() -> Picture:
        nonlocal count
        count += 1
        name = f"{count * 7919 % 100_003:05x}.png"
        Image.new("RGB", (8, 8), (count * 37 % 256, count * 91 % 256, count * 53 % 256)).save(folder / "pictures" / name)
        return Picture(name, 8, 8)

    items = []
    for plan in protocol.tasks:
        task = find_task(plan.task)
        further = task.form.pictures if isinstance(task.form, Selection) else 0
        for place in range(plan.practice + plan.items):
            samples = tuple(f"{plan.task}-{place}-{number}" for number in range(task.traits.images))
            truth: Any = {
                Percent: float(5 + 13 * place % 95),
                Decision: float(place % 2),
                Selection: tuple((place + number) % 3 > 0 for number in range(further)),
                Rating: None,
            }[type(task.form)]
            items.append(
                Item(
                    id=f"{plan.task}-{place}",
                    task=plan.task,
                    practice=place < plan.practice,
                    samples=samples,
                    predictions=tuple("tabby" for _ in samples),
                    truth=truth,
                    pictures={condition.name: tuple(picture() for _ in samples) for condition in protocol.conditions},
                    about="tabby" if task.traits.about_class else "",
                    further=tuple(f"further-{place}-{number}" for number in range(further)),
                    choices=tuple(picture() for _ in range(further)),
                )
            )
    subject = {"run": "planted", "model": "planted", "fingerprint": "0" * 32, "digest": "0" * 32, "images": len(items)}
    stimuli = {"schema": folders.SCHEMA, "subject": subject, "items": [item.as_values() for item in items]}
    (folder / "stimuli.json").write_text(json.dumps(stimuli))
    (folder / "study.yaml").write_text(yaml.safe_dump(values))
    for room in ("questionnaires", "texts"):
        (folder / room).mkdir()
    for file in shipped().values():
        shutil.copy(file, folder / "questionnaires")
    for language in written_languages():
        (folder / "texts" / f"{language}.yaml").write_text(written_texts(language))
    password = new_password(folder)
    return Study.read(folder), password
