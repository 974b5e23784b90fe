"""Sweeps: pixels leave or enter in the map's order while the classifier watches. Deletion and insertion are both sweeps."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from jaxtyping import Float, Int
from torch import Tensor

from snellen.types import Case, Fill, Output, Rng


def ranks(maps: Float[Tensor, "batch height width"], *, rng: Rng) -> Int[Tensor, "batch height width"]:
    """Each pixel's place when the largest signed value comes first; equal values stand in an order drawn per sample."""
    # One integer per pixel sorts by value, then by lot: the bits of a float, bent to run in one direction, above 24 random
    # bits. Adding zero makes -0 the same as 0.
    bits = (maps.flatten(1).float() + 0.0).view(torch.int32)
    rising = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    lots = (rng.uniform("ties", (bits.shape[1],)) * 2**24).to(bits)
    order = ((~rising).long() << 32 | lots.long()).argsort(dim=1, stable=True)
    places = torch.arange(bits.shape[1], dtype=torch.int32, device=bits.device).expand_as(order)
    return torch.empty_like(order, dtype=torch.int32).scatter_(1, order, places).view(maps.shape)


def stops(steps: int, size: tuple[int, int]) -> list[int]:
    """How many pixels were exchanged at each point, from none to all; never more points than pixels allow.

    >>> stops(4, (4, 4)), stops(28, (1, 2))
    ([0, 4, 8, 12, 16], [0, 1, 2])
    """
    pixels = size[0] * size[1]
    steps = min(steps, pixels)
    return [pixels * step // steps for step in range(steps + 1)]


def sweep(case: Case, fill: Fill, *, inserting: bool, steps: int, of: Output, rng: Rng) -> Float[Tensor, "batch points"]:
    """The target's output while pixels give way to the fill, or come back from it, most salient first.

    The untouched picture is the same for every method, so its pass is shared. A map with NaN has no order and no curve.
    """
    classifier, inputs, targets = case.classifier, case.inputs, case.targets
    points = stops(steps, (inputs.shape[2], inputs.shape[3]))
    changed = points[:-1] if inserting else points[1:]
    # Rows are built in the layout that the model takes, so that no pass has to rearrange them.
    rank, whole, bare = (
        one.contiguous(memory_format=torch.channels_last)
        for one in (ranks(case.maps, rng=rng).unsqueeze(1).expand_as(inputs), inputs, fill(classifier, inputs, rng=rng))
    )
    before, after = (bare, whole) if inserting else (whole, bare)

    def blocks() -> Iterator[tuple[Tensor, Tensor]]:
        for count in changed:
            yield torch.where(rank < count, after, before), targets

    found = classifier.scores(blocks(), of).view(len(changed), len(inputs)).T
    untouched = classifier.output(inputs, targets, of).unsqueeze(1)
    curve = torch.cat([found, untouched] if inserting else [untouched, found], dim=1)
    return curve.masked_fill(case.maps.isnan().flatten(1).any(dim=1, keepdim=True), torch.nan)


def area(curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
    """The area under a curve by the trapezoid rule, both ends included, over a sweep of length 1."""
    return torch.trapezoid(curve, dim=1) / (curve.shape[1] - 1)
