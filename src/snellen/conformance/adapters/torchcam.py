"""torch-cam (`torchcam`): average drop and increase, deletion and insertion. It gives out means over what it was shown."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from snellen.conformance.adapters.workarounds import working_torchvision
from snellen.conformance.scene import Scene
from snellen.conformance.toolkit import Ask, NotOffered
from snellen.maps.folding import unit_mask

working_torchvision()

from torchcam.metrics import ClassificationMetric, DeletionInsertionMetric  # noqa: E402


class _Given:
    """An extractor, as its metrics want one, that hands out the maps of the scene."""

    def __init__(self, model: nn.Module, maps: Tensor) -> None:
        self.model = model
        self.maps = maps

    def __call__(self, class_idx: Any = None, scores: Any = None, normalized: bool = True, **rest: Any) -> list[Tensor]:
        return [self.maps]

    def fuse_cams(self, cams: list[Tensor]) -> Tensor:
        """There is one layer only."""
        return cams[0]

    @contextlib.contextmanager
    def _hooks_off(self) -> Iterator[None]:
        yield


def _measured(scene: Scene, kind: Any, name: str, masks: Tensor, **settings: Any) -> list[float]:
    """One update and one summary per batch; with one sample each, that is a score per sample."""
    found = []
    for rows in scene.batches():
        metric = kind(_Given(scene.model, masks[rows]), partial(torch.softmax, dim=-1), **settings)
        metric.update(scene.inputs[rows], scene.targets[rows].tolist())
        found.append(float(metric.summary()[name]))
    return found


def _confidence(name: str) -> Ask:
    return lambda scene: _measured(scene, ClassificationMetric, name, unit_mask(scene.maps))


def _sweep(name: str) -> Ask:
    def ask(scene: Scene, *, steps: int, fill: str) -> list[float]:
        if fill not in ("mean", "black"):  # its default is zeros, which is both here
            raise NotOffered(f"a fill of {fill}")
        return _measured(scene, DeletionInsertionMetric, name, scene.maps, steps=steps)

    return ask


OFFERS: dict[str, Ask] = {
    "average-drop": _confidence("avg_drop"),
    "average-increase": _confidence("conf_increase"),
    "deletion": _sweep("deletion_auc"),
    "insertion": _sweep("insertion_auc"),
}
