"""Folding the channels of attributions into one map, and maps into masks or shares."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Float
from torch import Tensor

from snellen.maps.row_ranges import row_range

Fold = Literal["sum", "absolute-sum", "absolute-max", "norm", "mean"]
"""How the channels of a pixel become one number: sum or mean, sum or largest of magnitudes, or Euclidean norm."""


def fold(attributions: Float[Tensor, "batch channels height width"], how: Fold) -> Float[Tensor, "batch height width"]:
    """One number per pixel from one per channel; `sum` and `mean` keep the sign, the others do not."""
    if how == "sum":
        return attributions.sum(dim=1)
    if how == "mean":
        return attributions.mean(dim=1)
    if how == "norm":
        return attributions.square().sum(dim=1).sqrt()
    if how == "absolute-sum":
        return attributions.abs().sum(dim=1)
    return attributions.abs().amax(dim=1)


def unit_mask(maps: Float[Tensor, "batch height width"]) -> Float[Tensor, "batch height width"]:
    """Each map's magnitude scaled to [0, 1]; NaN for a constant map.

    The order (magnitude first, then scaling) is that of the published code of Zhang et al. 2024.
    """
    magnitude = maps.abs()
    low, high = (ends.view(-1, 1, 1) for ends in row_range(magnitude.flatten(1)))
    return (magnitude - low) / (high - low)


def mass(maps: Float[Tensor, "batch height width"]) -> Float[Tensor, "batch height width"]:
    """Each map's magnitude as shares that sum to 1; NaN for a map of zeros."""
    magnitude = maps.abs()
    return magnitude / magnitude.sum(dim=(1, 2), keepdim=True)
