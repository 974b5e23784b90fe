"""pytorch-grad-cam (`grad-cam`): confidence under the map as a mask, coherency, and ROAD by probability."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from snellen.conformance.adapters.workarounds import working_torchvision
from snellen.conformance.fixtures import Fixture
from snellen.conformance.toolkit import Compute, NotOffered
from snellen.maps.folding import unit_mask

working_torchvision()

from pytorch_grad_cam.metrics.arcc import Coherency  # noqa: E402
from pytorch_grad_cam.metrics.cam_mult_image import (  # noqa: E402
    CamMultImageConfidenceChange,
    DropInConfidence,
    IncreaseInConfidence,
)
from pytorch_grad_cam.metrics.road import ROADMostRelevantFirst  # noqa: E402
from pytorch_grad_cam.utils.model_targets import ClassifierOutputSoftmaxTarget  # noqa: E402


class _SigmoidTarget:
    """The sigmoid of one label; the package has none, and takes any function of the outputs."""

    def __init__(self, category: int) -> None:
        self.category = category

    def __call__(self, outputs: Tensor) -> Tensor:
        return outputs[..., self.category].sigmoid()


def _scores(metric: Callable[..., Any], fixture: Fixture, **how: Any) -> list[float]:
    """Calls a metric with maps as masks in [0, 1] and probabilities as targets, as in the tutorial on metrics."""
    masks = unit_mask(fixture.maps).numpy()
    target_of = _SigmoidTarget if fixture.independent else ClassifierOutputSoftmaxTarget
    scores: list[float] = []
    for rows in fixture.batches():
        targets = [target_of(int(target)) for target in fixture.targets[rows]]
        scores += [float(score) for score in metric(fixture.inputs[rows], masks[rows], targets, fixture.model, **how)]
    return scores


def _road(fixture: Fixture, *, fractions: Sequence[float], of: str) -> list[float]:
    """The remaining probability, averaged over the fractions; a percentile is the share of pixels that stay."""
    if of != "probability":
        raise NotOffered("road by whether the class survives")
    # It removes pixels above a percentile of the mask, so the order of signed values must be preserved.
    rising = fixture.with_maps(fixture.maps - fixture.maps.amin(dim=(1, 2), keepdim=True))
    points = [_scores(ROADMostRelevantFirst(100 * (1 - fraction)), rising, return_diff=False) for fraction in fractions]
    return [sum(values) / len(values) for values in zip(*points, strict=True)]


def _coherency(fixture: Fixture) -> list[float]:
    explain = fixture.explain
    if explain is None:
        raise NotOffered("coherency without a method")

    def again(input_tensor: Tensor, targets: list[Any]) -> np.ndarray:
        return explain(fixture.model, input_tensor, torch.tensor([target.category for target in targets])).numpy()

    return _scores(Coherency(), fixture, base_method=again)


OFFERS: dict[str, Compute] = {
    "average-drop": lambda fixture: _scores(DropInConfidence(), fixture),
    "average-increase": lambda fixture: _scores(IncreaseInConfidence(), fixture),
    "local-accuracy": lambda fixture: [abs(change) for change in _scores(CamMultImageConfidenceChange(), fixture)],
    "coherency": _coherency,
    "road": _road,
}
