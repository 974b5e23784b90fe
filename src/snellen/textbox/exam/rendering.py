"""Maps as the published code of Kim et al. (2022) draws them before it scores the picture, by kind of method.

That code draws three channels and takes the largest; here methods have folded the channels into one before.
"""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from snellen.plugins.registry import METHODS
from snellen.textbox.exam.families import plain_name

COLOURED = frozenset(
    {
        "deep-taylor", "input-x-gradient", "integrated-gradients", "lrp-z", "lrp-epsilon", "lrp-alpha1-beta0",
        "lrp-alpha2-beta1", "deeplift-reveal-cancel", "deeplift-rescale",
    }
)  # fmt: skip
"""Drawn in the colours of `seismic`, and then measured by how far the colour is from white."""
GREY = frozenset({"gradient", "smoothgrad", "smoothgrad-squared"})
"""Drawn by magnitude, in 256 greys."""
CLIPPED = frozenset({"deconvnet", "guided-backprop"})
"""Clipped to the middle 98 % of a bucket's values, and drawn with zero as middle grey."""
STRETCHED = frozenset({"deepshap"})
"""Drawn from their lowest to their highest value, so that zero is some grey."""

_STOPS = (0.0, 0.25, 0.5, 0.75, 1.0)
_RED, _GREEN, _BLUE = (0.0, 0.0, 1.0, 1.0, 0.5), (0.0, 0.0, 1.0, 0.0, 0.0), (0.3, 1.0, 1.0, 0.0, 0.0)
_PLACES = np.linspace(0, 1, 256)
COLOUR = torch.from_numpy(1 - np.mean([np.interp(_PLACES, _STOPS, channel) for channel in (_RED, _GREEN, _BLUE)], axis=0))
"""How far each of the 256 colours of `seismic` (blue, white, red, with dark ends) is from white."""


def render(
    maps: Float[Tensor, "batch height width"], buckets: Int[Tensor, " batch"], method: str
) -> Float[Tensor, "batch height width"]:
    """The picture of each map, before it is blurred; a method that the published code lacks is drawn like similar ones."""
    maps = maps.double()
    name = plain_name(method).strip()
    if name in COLOURED or (name not in GREY | CLIPPED | STRETCHED and _is_signed(name)):
        return COLOUR[((_scale(maps) + 1) / 2 * 255).long().clamp(0, 255)]
    if name in GREY:
        return (_scale(maps.abs()) * 255).floor() / 255
    if name in CLIPPED:
        return (_scale(_clip(maps, buckets)) + 1) / 2
    return stretch(maps) if name in STRETCHED else maps


def blur(pictures: Float[Tensor, "batch height width"], width: int = 7) -> Float[Tensor, "batch height width"]:
    """The mean over a square around each pixel; beyond the border the picture is mirrored, the border itself not twice."""
    soft = functional.pad(pictures[:, None], (width // 2,) * 4, mode="reflect")[:, 0]
    for dim, side in enumerate(pictures.shape[1:], 1):
        total = soft.narrow(dim, 0, side).clone()
        for start in range(1, width):
            total += soft.narrow(dim, start, side)
        soft = total / width
    return soft


def stretch(pictures: Float[Tensor, "batch height width"]) -> Float[Tensor, "batch height width"]:
    """Values from 0 at the lowest to 1 at the highest; NaN where all are equal."""
    low, high = (end(pictures, dim=(1, 2), keepdim=True) for end in (torch.amin, torch.amax))
    return (pictures - low) / (high - low)


def _is_signed(name: str) -> bool:
    return name in METHODS and bool(METHODS[name].traits.signed)  # type: ignore[attr-defined]


def _scale(maps: Float[Tensor, "batch height width"]) -> Float[Tensor, "batch height width"]:
    largest = maps.abs().amax(dim=(1, 2), keepdim=True)
    return torch.where(largest > 0, maps / largest, maps)


def _clip(maps: Float[Tensor, "batch height width"], buckets: Int[Tensor, " batch"]) -> Float[Tensor, "batch height width"]:
    """Clips all scenes of a bucket at the same two values, for they were explained together."""
    clipped = maps.clone()
    for bucket in buckets.unique():
        rows = buckets == bucket
        low, high = np.percentile(maps[rows].numpy(), [1, 99])
        clipped[rows] = maps[rows].clamp(float(low), float(high))
    return clipped
