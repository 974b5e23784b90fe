"""Exams whose things stand where a test wants them."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from snellen.textbox.exam.exam_scenes import ExamScenes
from snellen.textbox.networks.network_spec import NetworkSpec
from snellen.textbox.scenes.scenes import SceneBatch

Box = tuple[int, int, int, int]
"""Top, left, bottom, right."""


def exam_of(
    focus: Sequence[Sequence[Box]], avoid: Sequence[Sequence[Box]], *, side: int = 64, buckets: Sequence[int] | None = None
) -> ExamScenes:
    """An exam of scenes that have these rectangles to focus on and these to avoid, and nothing else."""
    most = max(len(good) + len(bad) for good, bad in zip(focus, avoid, strict=True)) or 1
    boxes = torch.zeros(len(focus), most, 4, dtype=torch.int64)
    focused, avoided = (torch.zeros(len(focus), most, dtype=torch.bool) for _ in range(2))
    ink = torch.zeros(len(focus), most, side, side, dtype=torch.bool)
    for row, (good, bad) in enumerate(zip(focus, avoid, strict=True)):
        for place, (top, left, bottom, right) in enumerate([*good, *bad]):
            boxes[row, place] = torch.tensor((top, left, bottom, right))
            ink[row, place, top:bottom, left:right] = True
            (focused if place < len(good) else avoided)[row, place] = True
    pixels = ink.any(dim=1)[:, None].expand(-1, 3, -1, -1).to(torch.uint8) * 255
    scenes = SceneBatch(pixels=pixels, ink=ink, boxes=boxes, buckets=torch.tensor(list(buckets or range(1, len(focus) + 1))))
    ids = tuple(f"scene-{row}" for row in range(len(focus)))
    return ExamScenes(
        spec=NetworkSpec.of_setting("simple-fr"),
        ids=ids,
        scenes=scenes,
        labels=torch.zeros(len(focus), dtype=torch.int64),
        focused=focused,
        avoided=avoided,
    )
