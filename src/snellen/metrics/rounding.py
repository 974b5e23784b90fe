"""When a change of an output counts as rounding."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

_ROUNDING = 1e-6


def within_rounding(change: Float[Tensor, " batch"], size: Float[Tensor, " batch"]) -> Bool[Tensor, " batch"]:
    """Whether a change is no more than rounding for outputs of this size; rounding depends on the batch size of a pass."""
    return change <= _ROUNDING * size
