"""Eigen-CAM."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.maps.row_ranges import row_range
from snellen.methods.class_activation import Features, Grids, class_activation_method


@class_activation_method(
    "eigen-cam",
    cite="muhammad2020",
    gradients=False,
    signed=True,
    class_specific=False,
    caveats={"muhammad2020": "it never looks at the outputs, so the map is the same for every class"},
    ranges={"centred": (True,)},
)
@dataclass(frozen=True)
class EigenCam:
    """How far each position of a layer points along the direction in which its features vary most, whatever the class.

    The direction is the first right singular vector of the positions × features matrix. Its sign, which a singular value
    decomposition leaves open, is the one that makes the largest value of the map positive. `centred` first subtracts the
    mean over positions, as pytorch-grad-cam does and the paper does not.
    """

    layer: str | None = None
    """Name of the layer; None for the last one whose features have spatial positions."""
    centred: bool = False

    def coarse(self, features: Features) -> Grids:
        positions = features.flatten(2).transpose(1, 2).double()
        if self.centred:
            positions = positions - positions.mean(dim=1, keepdim=True)
        component = _first_component(positions)
        low, high = (ends[:, None] for ends in row_range(component))
        component = torch.where(high < -low, -component, component)
        grids: Tensor = component.unflatten(1, features.shape[2:])
        return grids.to(features)


def _first_component(matrix: Float[Tensor, "batch positions features"]) -> Float[Tensor, "batch positions"]:
    """The matrix times its first right singular vector, from the smaller of its two Gram matrices."""
    if matrix.shape[1] <= matrix.shape[2]:
        values, vectors = torch.linalg.eigh(matrix @ matrix.mT)
        component: Tensor = vectors[..., -1] * values[:, -1:].clamp_min(0).sqrt()
    else:
        _, vectors = torch.linalg.eigh(matrix.mT @ matrix)
        component = (matrix @ vectors[..., -1:]).squeeze(2)
    return component
