"""Small pictures, maps and models for examples that are computed by hand."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from snellen.types import Rng

RNG = Rng(seed=0, ids=("picture",))


def approx(value: float):
    return pytest.approx(value, abs=1e-6)


def grid(values: dict[tuple[int, int], float]) -> Tensor:
    """A 4×4 map or picture that is zero except at these (row, column)."""
    out = torch.zeros(1, 4, 4)
    for (row, column), value in values.items():
        out[0, row, column] = value
    return out


def total(inputs: Tensor) -> Tensor:
    """f = the sum of all pixels, as a probability of class 0 against class 1."""
    chance = inputs.flatten(1).sum(dim=1)
    return torch.stack([chance, 1 - chance], dim=1)


QUARTERS = grid({(0, 0): 0.25, (0, 1): 0.25, (1, 0): 0.25, (1, 1): 0.25})
"""Four pixels of 1/4, so that f = total starts at 1 and loses 1/4 with each of them."""
FALLING = grid({(0, 0): 4.0, (0, 1): 3.0, (1, 0): 2.0, (1, 1): 1.0})
"""The same four pixels, as a map that takes them in order or as a picture with the sum 10."""
