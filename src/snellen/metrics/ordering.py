"""Pixels from the most to the least salient, with equals kept together: their order among themselves is unknown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Ordered:
    """Pixels in order: which are marked, and where each one's group of equals begins and ends."""

    order: Int[Tensor, "batch pixels"]
    marked: Float[Tensor, "batch pixels"]
    first: Int[Tensor, "batch pixels"]
    last: Int[Tensor, "batch pixels"]
    total: Float[Tensor, " batch"]
    unordered: Bool[Tensor, " batch"]

    def marking(self, marks: Bool[Tensor, "batch height width"]) -> Ordered:
        """The same order with other pixels marked, without sorting again."""
        marked = marks.flatten(1).gather(1, self.order).double()
        return replace(self, marked=marked, total=marked.sum(dim=1))

    def defined(self, values: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """The values, NaN where nothing is marked or the map has no order."""
        return values.masked_fill(self.unordered | (self.total == 0), torch.nan)

    def expected(
        self, score: Callable[[Tensor, int, int], Tensor], taken: Int[Tensor, " batch"] | None = None
    ) -> Float[Tensor, " batch"]:
        """The mean of `score(hits, taken, total)` over all orders of equal pixels.

        `taken` of the most salient pixels are looked at, as many as are marked unless said otherwise; `hits` of them are
        marked, `total` are in all. Taking none is undefined.
        """
        before = torch.nn.functional.pad(self.marked.cumsum(dim=1), (1, 0))
        totals = self.total.long().tolist()
        found = []
        for row, (size, total) in enumerate(zip(totals if taken is None else taken.tolist(), totals, strict=True)):
            if not (size and total):
                found.append(torch.nan)
                continue
            # The last place that is taken falls into a group of equals: some of the group are taken, and of those some
            # are marked.
            begin, end = int(self.first[row, size - 1]), int(self.last[row, size - 1]) + 1
            above, through = int(before[row, begin]), int(before[row, end])
            among, chosen, equals = through - above, size - begin, end - begin
            hits = torch.arange(max(0, chosen + among - equals), min(chosen, among) + 1, dtype=torch.float64)
            chances = (_ways(among, hits) + _ways(equals - among, chosen - hits)).softmax(dim=0)
            found.append(float((chances * score(above + hits, size, total)).sum()))
        return self.defined(torch.tensor(found, dtype=torch.float64, device=self.marked.device))


def ordered(maps: Float[Tensor, "batch height width"], marks: Bool[Tensor, "batch height width"]) -> Ordered:
    """The pixels of each map, the highest value first."""
    flat = maps.flatten(1)
    values, order = flat.sort(dim=1, descending=True)
    change = values[:, 1:] != values[:, :-1]
    edge = change.new_ones(len(values), 1)
    places = torch.arange(values.shape[1], device=values.device).expand_as(values)
    first = places.masked_fill(~torch.cat([edge, change], dim=1), 0).cummax(dim=1).values
    ends = places.masked_fill(~torch.cat([change, edge], dim=1), values.shape[1])
    last = ends.flip(1).cummin(dim=1).values.flip(1)
    marked = marks.flatten(1).gather(1, order).double()
    return Ordered(order, marked, first, last, marked.sum(dim=1), flat.isnan().any(dim=1))


def _ways(things: int, chosen: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """The logarithm of how many ways there are to choose so many of these things."""
    count = torch.full_like(chosen, things)
    return torch.lgamma(count + 1) - torch.lgamma(chosen + 1) - torch.lgamma(count - chosen + 1)
