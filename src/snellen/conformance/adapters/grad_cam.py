"""pytorch-grad-cam (`grad-cam`): confidence under the map as a mask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from snellen.conformance.adapters.workarounds import working_torchvision
from snellen.conformance.scene import Scene
from snellen.conformance.toolkit import Ask
from snellen.folding import unit_mask

working_torchvision()

from pytorch_grad_cam.metrics.cam_mult_image import DropInConfidence, IncreaseInConfidence  # noqa: E402
from pytorch_grad_cam.utils.model_targets import ClassifierOutputSoftmaxTarget  # noqa: E402


def _measured(metric: Callable[..., Any], scene: Scene) -> list[float]:
    """Its maps are masks in [0, 1], and its targets give the probability of a class, as its tutorial on metrics has it."""
    masks = unit_mask(scene.maps).numpy()
    found: list[float] = []
    for begin in range(0, len(scene), scene.batch):
        rows = slice(begin, begin + scene.batch)
        targets = [ClassifierOutputSoftmaxTarget(int(one)) for one in scene.targets[rows]]
        found += [float(one) for one in metric(scene.inputs[rows], masks[rows], targets, scene.model)]
    return found


OFFERS: dict[str, Ask] = {
    "average-drop": lambda scene: _measured(DropInConfidence(), scene),
    "average-increase": lambda scene: _measured(IncreaseInConfidence(), scene),
}
