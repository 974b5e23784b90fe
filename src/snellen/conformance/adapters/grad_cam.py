"""pytorch-grad-cam (`grad-cam`): confidence under the map as a mask, coherency, and ROAD by probability."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from snellen.conformance.adapters.workarounds import working_torchvision
from snellen.conformance.scene import Scene
from snellen.conformance.toolkit import Ask, NotOffered
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


def _measured(metric: Callable[..., Any], scene: Scene, **how: Any) -> list[float]:
    """Its maps are masks in [0, 1], and its targets give the probability of a class, as its tutorial on metrics has it."""
    masks = unit_mask(scene.maps).numpy()
    found: list[float] = []
    for rows in scene.batches():
        targets = [ClassifierOutputSoftmaxTarget(int(target)) for target in scene.targets[rows]]
        found += [float(one) for one in metric(scene.inputs[rows], masks[rows], targets, scene.model, **how)]
    return found


def _road(scene: Scene, *, fractions: Sequence[float], of: str) -> list[float]:
    """The probability that is left, averaged over the fractions; its percentile is the share of pixels that stay."""
    if of != "probability":
        raise NotOffered("road by whether the class survives")
    # It removes what reaches a percentile of the mask itself, so the map's order must not be folded by its magnitude.
    rising = scene.mapped(scene.maps - scene.maps.amin(dim=(1, 2), keepdim=True))
    points = [_measured(ROADMostRelevantFirst(100 * (1 - fraction)), rising, return_diff=False) for fraction in fractions]
    return [sum(one) / len(one) for one in zip(*points, strict=True)]


def _coherency(scene: Scene) -> list[float]:
    explain = scene.explain
    if explain is None:
        raise NotOffered("coherency without a method")

    def again(input_tensor: Tensor, targets: list[Any]) -> np.ndarray:
        return explain(scene.model, input_tensor, torch.tensor([target.category for target in targets])).numpy()

    return _measured(Coherency(), scene, base_method=again)


OFFERS: dict[str, Ask] = {
    "average-drop": lambda scene: _measured(DropInConfidence(), scene),
    "average-increase": lambda scene: _measured(IncreaseInConfidence(), scene),
    "local-accuracy": lambda scene: [abs(one) for one in _measured(CamMultImageConfidenceChange(), scene)],
    "coherency": _coherency,
    "road": _road,
}
