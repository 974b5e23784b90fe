"""Equal pixels: their order is unknown, so a score of the most salient ones is what all their orders give on average."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor


def mean_over_orders(
    score: Callable[[Float[Tensor, " n"]], Float[Tensor, " n"]], *, above: int, equals: int, among: int, taken: int
) -> float:
    """The mean of `score(hits)`, hits being the marked pixels among the most salient ones.

    `above` marked pixels are more salient than the group of equals at which the choice ends; of these `equals`, `among` are
    marked and any `taken` are chosen.
    """
    hits = torch.arange(max(0, taken + among - equals), min(taken, among) + 1, dtype=torch.float64)
    chances = (_ways(among, hits) + _ways(equals - among, taken - hits)).softmax(dim=0)
    return float((chances * score(above + hits)).sum())


def _ways(things: int, chosen: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """The logarithm of how many ways there are to choose so many of these things."""
    count = torch.full_like(chosen, things)
    return torch.lgamma(count + 1) - torch.lgamma(chosen + 1) - torch.lgamma(count - chosen + 1)
