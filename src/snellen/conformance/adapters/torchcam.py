"""torch-cam (`torchcam`): average drop and increase, deletion and insertion. It returns means over batches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from snellen.conformance.adapters.workarounds import working_torchvision
from snellen.conformance.fixtures import Fixture
from snellen.conformance.toolkit import Compute, NotOffered
from snellen.maps.folding import unit_mask

working_torchvision()

from torchcam.metrics import ClassificationMetric, DeletionInsertionMetric  # noqa: E402


class _FixedMaps:
    """Stands in for an extractor of torchcam and returns the maps of the fixture."""

    def __init__(self, model: nn.Module, maps: Tensor) -> None:
        self.model = model
        self.maps = maps

    def __call__(self, class_idx: Any = None, scores: Any = None, normalized: bool = True, **rest: Any) -> list[Tensor]:
        return [self.maps]

    def fuse_cams(self, cams: list[Tensor]) -> Tensor:
        """The only map; there is one layer."""
        return cams[0]

    @contextlib.contextmanager
    def _hooks_off(self) -> Iterator[None]:
        yield


def _scores(fixture: Fixture, kind: Any, name: str, masks: Tensor, **settings: Any) -> list[float]:
    """One update and one summary per batch; with one sample each, that is a score per sample."""
    scores = []
    for rows in fixture.batches():
        metric = kind(_FixedMaps(fixture.model, masks[rows]), fixture.probabilities, **settings)
        metric.update(fixture.inputs[rows], fixture.targets[rows].tolist())
        scores.append(float(metric.summary()[name]))
    return scores


def _confidence(name: str) -> Compute:
    return lambda fixture: _scores(fixture, ClassificationMetric, name, unit_mask(fixture.maps))


def _curve_area(name: str) -> Compute:
    def compute(fixture: Fixture, *, steps: int, fill: str) -> list[float]:
        if fill not in ("mean", "black"):  # its default is zeros, which is both here
            raise NotOffered(f"a fill of {fill}")
        return _scores(fixture, DeletionInsertionMetric, name, fixture.maps, steps=steps)

    return compute


OFFERS: dict[str, Compute] = {
    "average-drop": _confidence("avg_drop"),
    "average-increase": _confidence("conf_increase"),
    "deletion": _curve_area("deletion_auc"),
    "insertion": _curve_area("insertion_auc"),
}
