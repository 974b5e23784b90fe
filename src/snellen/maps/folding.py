"""The one place where channels become one map, and where maps become masks or masses."""

from __future__ import annotations

from typing import Literal

from jaxtyping import Float
from torch import Tensor

Fold = Literal["sum", "absolute-sum", "absolute-max", "norm", "mean"]


def fold(attributions: Float[Tensor, "batch channels height width"], how: Fold) -> Float[Tensor, "batch height width"]:
    """One number per pixel; `sum` keeps the sign and the total, `norm` and the `absolute-` ways keep neither."""
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
    """Each map's magnitude stretched to [0, 1]; a constant map has no such mask and becomes NaN.

    The order (magnitude first, then stretch) is that of the published code of Zhang et al. 2024.
    """
    size = maps.abs()
    low = size.amin(dim=(1, 2), keepdim=True)
    return (size - low) / (size.amax(dim=(1, 2), keepdim=True) - low)


def mass(maps: Float[Tensor, "batch height width"]) -> Float[Tensor, "batch height width"]:
    """Each map's magnitude as shares that sum to 1; an all-zero map has no shares and becomes NaN."""
    size = maps.abs()
    return size / size.sum(dim=(1, 2), keepdim=True)
