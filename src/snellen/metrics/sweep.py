"""Sweeps: pixels leave or enter in the map's order while the classifier watches. Most tests of fidelity are sweeps."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from snellen.classifier.outputs import TargetOutputs
from snellen.metrics.case_cache import cached_per_case, output_parts
from snellen.types import Case, Fill, Passes, Rng


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


def unordered(maps: Float[Tensor, "batch height width"]) -> Bool[Tensor, " batch"]:
    """Which maps hold NaN, and so have no order."""
    return maps.isnan().flatten(1).any(dim=1)


def stops(steps: int, size: tuple[int, int]) -> list[int]:
    """How many pixels were exchanged at each point, from none to all; never more points than pixels allow.

    >>> stops(4, (4, 4)), stops(28, (1, 2))
    ([0, 4, 8, 12, 16], [0, 1, 2])
    """
    return evenly(steps, size[0] * size[1])


def evenly(steps: int, things: int) -> list[int]:
    """How many of these things were exchanged at each point, from none to all; never more points than there are things."""
    steps = min(steps, things)
    return [things * step // steps for step in range(steps + 1)]


def sweep(case: Case, fill: Fill, *, keeping: bool, steps: int, rng: Rng) -> TargetOutputs:
    """What the classifier says while pixels give way to the fill; (batch, points) for each of its answers.

    At point k the `stops(...)[k]` most salient pixels are exchanged for the fill, or (`keeping`) are all that is left of the
    picture. The untouched picture is the same for every method, so its pass is shared, and every metric over the same
    ranking and fill shares the rest. A map with NaN has no order and no curve.
    """

    def compute() -> TargetOutputs:
        return exchanged(case, ranks(case.maps, rng=rng), stops(steps, case.size), fill, keeping=keeping, rng=rng)

    return cached_per_case(case, ("sweep", fill, keeping, steps, rng), compute)


def exchanged(
    case: Case, order: Int[Tensor, "batch height width"], points: list[int], fill: Fill, *, keeping: bool, rng: Rng
) -> TargetOutputs:
    """What the classifier says while pixels give way to the fill, those of place 0 first; (batch, points) for each answer.

    At point k all pixels whose place is below `points[k]` are exchanged, or (`keeping`) are all that is left. Where the
    picture is untouched (the first point, or with `keeping` the last) its answers are those that every method shares.
    """
    classifier, inputs, targets = case.classifier, case.inputs, case.targets
    changed = points[:-1] if keeping else points[1:]
    # Rows are built in the layout that the model takes, so that no pass has to rearrange them.
    rank, whole, bare = (
        one.contiguous(memory_format=torch.channels_last)
        for one in (order.unsqueeze(1).expand_as(inputs), inputs, fill(classifier, inputs, rng=rng))
    )
    before, after = (bare, whole) if keeping else (whole, bare)

    def blocks() -> Iterator[tuple[Tensor, Tensor]]:
        for count in changed:
            yield torch.where(rank < count, after, before), targets

    swept = classifier.target_outputs(blocks())
    untouched = classifier.cached_outputs(inputs, targets)
    broken = unordered(case.maps).unsqueeze(1)

    def joined(found: Tensor, end: Tensor) -> Tensor:
        rows = found.view(len(changed), len(inputs)).T
        return torch.cat([rows, end[:, None]] if keeping else [end[:, None], rows], dim=1)

    return TargetOutputs(
        joined(swept.logit, untouched.logit).masked_fill(broken, torch.nan),
        joined(swept.probability, untouched.probability).masked_fill(broken, torch.nan),
        joined(swept.predicted, untouched.predicted).masked_fill(broken, -1),
    )


def sweep_parts(fill: Fill, *, keeping: bool, steps: int, size: tuple[int, int]) -> dict[Hashable, Passes]:
    """What a sweep costs, in the parts that others may have paid."""
    changed = len(stops(steps, size)) - 1
    return output_parts() | {("sweep", fill, keeping, steps): Passes(forward=changed)}


def check_steps(steps: int) -> None:
    """Refuses a sweep without steps."""
    if steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps}")


def area(curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
    """The area under a curve by the trapezoid rule, both ends included, over a sweep of length 1."""
    return torch.trapezoid(curve, dim=1) / (curve.shape[1] - 1)
