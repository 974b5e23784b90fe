"""HiResCAM."""

from __future__ import annotations

from dataclasses import dataclass

from snellen.methods.class_activation import Features, Grids, class_activation_method


@class_activation_method(
    "hires-cam",
    cite="draelos2020",
    caveats={"draelos2020": "its guarantee holds only where one linear layer follows the layer that is looked at"},
)
@dataclass(frozen=True)
class HiResCam:
    """What each position of a layer adds to the target's logit, to first order: activation times gradient, positive part.

    Where one linear layer follows on all positions, the map before its ReLU sums to the logit without the bias.
    """

    layer: str | None = None
    """Name of the layer; None for the last one whose features have spatial positions."""

    def coarse(self, features: Features, gradient: Features) -> Grids:
        return (gradient * features).sum(dim=1).relu()
