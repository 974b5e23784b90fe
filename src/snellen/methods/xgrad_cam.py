"""XGrad-CAM."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from snellen.methods.class_activation import Features, Grids, class_activation_method


@class_activation_method(
    "xgrad-cam",
    cite="fu2020",
    caveats={
        "fu2020": "its weights are derived for ReLU networks; elsewhere a feature's sum may be near zero and its weight huge"
    },
)
@dataclass(frozen=True)
class XGradCam:
    """Where features are active, each weighed by the mean of its gradient, in which active positions count more.

    A feature whose activations sum to zero has no such mean and the weight zero.
    """

    layer: str | None = None
    """Name of the layer; None for the last one whose features have spatial positions."""

    def coarse(self, features: Features, gradient: Features) -> Grids:
        total = features.sum(dim=(2, 3), keepdim=True)
        product = (gradient * features).sum(dim=(2, 3), keepdim=True)
        weights = torch.where(total != 0, product / total, 0)
        return (weights * features).sum(dim=1).relu()
