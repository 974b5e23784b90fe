"""Grad-CAM."""

from __future__ import annotations

from dataclasses import dataclass

from snellen.methods.class_activation import Features, Grids, class_activation_method


@class_activation_method(
    "grad-cam",
    cite="selvaraju2017",
    caveats={
        "draelos2020": "it averages the gradient over positions, so it can point at some that the classifier did not use",
        "viering2019": "a few changed weights can turn its map into any other, while the outputs stay nearly the same",
    },
    # The published wrapper of boggust2023 leaves out the ReLU; its text does not.
    presets={"zhang2024": {}, "cose2023": {}, "kim2022": {}, "boggust2023": {}},
)
@dataclass(frozen=True)
class GradCam:
    """Where the features that raise the target's logit are active: a layer's coarse grid, upsampled to the image's size.

    `layer` is by default the last one whose features have spatial positions.
    """

    layer: str | None = None
    """Name of the layer; None for the last one whose features have spatial positions."""

    def coarse(self, features: Features, gradient: Features) -> Grids:
        weights = gradient.mean(dim=(2, 3), keepdim=True)
        return (weights * features).sum(dim=1).relu()
