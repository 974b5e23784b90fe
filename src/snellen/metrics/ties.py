"""Ties: equal pixels have no order, so a score of the most salient pixels is the mean over all orders of equal pixels."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor


def mean_over_orders(
    score: Callable[[Float[Tensor, " n"]], Float[Tensor, " n"]], *, above: int, equals: int, among: int, taken: int
) -> float:
    """The mean of `score(hits)`, where hits is the number of marked pixels among the most salient ones.

    Args:
        score: maps numbers of hits to scores.
        above: marked pixels that are more salient than the group of equal pixels in which the selection ends.
        equals: size of that group.
        among: marked pixels in that group.
        taken: how many pixels of that group are selected.
    """
    hits = torch.arange(max(0, taken + among - equals), min(taken, among) + 1, dtype=torch.float64)
    probabilities = (_log_combinations(among, hits) + _log_combinations(equals - among, taken - hits)).softmax(dim=0)
    return float((probabilities * score(above + hits)).sum())


def _log_combinations(total: int, chosen: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """The logarithm of the number of ways to choose `chosen` of `total`."""
    count = torch.full_like(chosen, total)
    return torch.lgamma(count + 1) - torch.lgamma(chosen + 1) - torch.lgamma(count - chosen + 1)
