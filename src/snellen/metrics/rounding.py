"""Rounding: when an output counts as unmoved."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

_ROUNDING = 1e-6


def unmoved(change: Float[Tensor, " batch"], size: Float[Tensor, " batch"]) -> Bool[Tensor, " batch"]:
    """Where an output of this size moves by no more than rounding, which hangs on how many pictures share a pass."""
    return change <= _ROUNDING * size
