"""Grad-CAM++."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from snellen.methods.class_activation import Features, Grids, class_activation_method


@class_activation_method(
    "grad-cam++",
    cite="chattopadhay2018",
    caveats={"lerma2022": "its maps are nearly those of grad-cam with only the positive gradients kept"},
    presets={"zhang2024": {"epsilon": 1e-6}, "cose2023": {"epsilon": 1e-6}},
    ranges={"epsilon": (1e-8, 1e-6, 1e-4)},
)
@dataclass(frozen=True)
class GradCamPlusPlus:
    """Where features are active, each weighed by positive gradients, more so where a feature is active in few positions.

    The weights are those of the paper's equation 19, whose short form holds for the exponential of the logit only: there
    the higher derivatives are powers g², g³ of the logit's gradient g. They are meant for a layer behind a ReLU. `epsilon`
    is added to the denominator; the definition has none. pytorch-grad-cam adds 1e-6, which changes maps visibly where
    gradients are near 1e-3.
    """

    layer: str | None = None
    """Name of the layer; None for the last one whose features have spatial positions."""
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        if self.epsilon < 0:
            raise ValueError(f"epsilon must not be negative, not {self.epsilon}")

    def coarse(self, features: Features, gradient: Features) -> Grids:
        square = gradient.square()
        denominator = 2 * square + features.sum(dim=(2, 3), keepdim=True) * square * gradient + self.epsilon
        alphas = torch.where((gradient != 0) & (denominator != 0), square / denominator, 0)
        weights = (alphas * gradient.relu()).sum(dim=(2, 3), keepdim=True)
        return (weights * features).sum(dim=1).relu()
