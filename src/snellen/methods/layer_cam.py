"""LayerCAM."""

from __future__ import annotations

from dataclasses import dataclass

from snellen.methods.class_activation import Features, Grids, class_activation_method


@class_activation_method(
    "layer-cam",
    cite="jiang2021",
    caveats={"jiang2021": "it drops negative gradients, so that evidence against the class goes unseen"},
)
@dataclass(frozen=True)
class LayerCam:
    """The layer's activations where they raise the target's logit, each position weighed by its own positive gradient.

    Unlike grad-cam it stays sharp in early layers, where `layer` names one.
    """

    layer: str | None = None
    """Name of the layer; None for the last one whose features have spatial positions."""

    def coarse(self, features: Features, gradient: Features) -> Grids:
        return (gradient.relu() * features).sum(dim=1).relu()
