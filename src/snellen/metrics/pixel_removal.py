"""Outputs of the classifier while pixels are removed, or inserted, in the order of a map."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import ClassVar, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.classifier.outputs import TargetOutputs
from snellen.maps.row_ranges import has_nan
from snellen.maps.sorted_rows import stable_argsort_rows
from snellen.metrics.case_cache import cached_per_case, output_parts
from snellen.types import Case, Fill, Passes, Rng, SharedPasses


def pixel_ranks(maps: Float[Tensor, "batch height width"], *, rng: Rng) -> Int[Tensor, "batch height width"]:
    """The rank of each pixel, 0 for the largest signed value; equal values are ordered at random, per sample."""
    # One integer per pixel sorts by value, then by a random number: the bits of the float, made monotonic, above 24 random
    # bits. Adding zero makes -0 the same as 0.
    bits = (maps.flatten(1).float() + 0.0).view(torch.int32)
    rising = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    tie_breaks = (rng.uniform("ties", (bits.shape[1],)) * 2**24).to(bits)
    order = stable_argsort_rows((~rising).long() << 32 | tie_breaks.long())
    places = torch.arange(bits.shape[1], dtype=torch.int32, device=bits.device).expand_as(order)
    return torch.empty_like(order, dtype=torch.int32).scatter_(1, order, places).view(maps.shape)


def case_ranks(case: Case, *, rng: Rng) -> Int[Tensor, "batch height width"]:
    """The ranks of the pixels of a case's maps, cached for all metrics that remove pixels in this order."""
    return cached_per_case(case, ("ranks", rng), lambda: pixel_ranks(case.maps, rng=rng))


def removal_counts(steps: int, size: tuple[int, int]) -> list[int]:
    """The number of removed pixels at each point of a curve, from none to all; there are at most as many steps as pixels.

    >>> removal_counts(4, (4, 4)), removal_counts(28, (1, 2))
    ([0, 4, 8, 12, 16], [0, 1, 2])
    """
    return even_counts(steps, size[0] * size[1])


def even_counts(steps: int, total: int) -> list[int]:
    """Counts from 0 to `total` in `steps` even steps, or in `total` steps if that is fewer."""
    steps = min(steps, total)
    return [total * step // steps for step in range(steps + 1)]


def removal_outputs(case: Case, fill: Fill, *, keep_salient: bool, steps: int, rng: Rng) -> TargetOutputs:
    """The classifier's outputs at each point of a curve, as tensors (batch, points); NaN for maps with NaN.

    The result is cached for all metrics with the same fill and steps; that of the unchanged image also for all methods.

    Args:
        fill: replaces removed pixels.
        keep_salient: False removes the `removal_counts(...)[k]` most salient pixels at point k, True keeps only these.
        steps: number of steps from no pixel to all.
    """

    def compute() -> TargetOutputs:
        order = case_ranks(case, rng=rng)
        return outputs_by_rank(case, order, removal_counts(steps, case.size), fill, keep_salient=keep_salient, rng=rng)

    return cached_per_case(case, ("sweep", fill, keep_salient, steps, rng), compute)


def is_below(
    ranks: Float[Tensor, "batch channels height width"], count: int
) -> Float[Tensor, "batch channels height width"]:
    """1 where the rank, a whole number, is less than `count`, and 0 elsewhere.

    To blend two images by such weights is exact, and five times as fast as to choose from them by conditions.
    """
    return (count - ranks).clamp_(0, 1)


def outputs_by_rank(
    case: Case, order: Int[Tensor, "batch height width"], counts: list[int], fill: Fill, *, keep_salient: bool, rng: Rng
) -> TargetOutputs:
    """The classifier's outputs while pixels are removed by rank, as tensors (batch, points); NaN for maps with NaN.

    Args:
        order: the rank of each pixel; pixels of equal rank are removed together.
        counts: point k removes all pixels with a rank below `counts[k]`, or with `keep_salient` keeps only these.
    """
    classifier, inputs, targets = case.classifier, case.inputs, case.targets
    changed = counts[:-1] if keep_salient else counts[1:]
    ranks = order.unsqueeze(1).to(inputs).expand_as(inputs)
    rank, image, filled = map(classifier.lay_out, (ranks, inputs, fill(classifier, inputs, rng=rng)))
    before, after = (filled, image) if keep_salient else (image, filled)

    def blocks() -> Iterator[tuple[Tensor, Tensor]]:
        for count in changed:
            yield torch.lerp(before, after, is_below(rank, count)), targets

    outputs = classifier.target_outputs(blocks())
    unchanged = classifier.cached_outputs(inputs, targets)
    undefined = has_nan(case.maps).unsqueeze(1)

    def curve(values: Tensor, end: Tensor) -> Tensor:
        columns = values.view(len(changed), len(inputs)).T
        return torch.cat([columns, end[:, None]] if keep_salient else [end[:, None], columns], dim=1)

    return TargetOutputs(
        curve(outputs.logit, unchanged.logit).masked_fill(undefined, torch.nan),
        curve(outputs.probability, unchanged.probability).masked_fill(undefined, torch.nan),
        curve(outputs.predicted, unchanged.predicted).masked_fill(undefined, -1),
    )


def removal_parts(fill: Fill, *, keep_salient: bool, steps: int, size: tuple[int, int]) -> dict[Hashable, Passes]:
    """The cost of `removal_outputs` for one image, by cache key."""
    changed = len(removal_counts(steps, size)) - 1
    return output_parts() | {("sweep", fill, keep_salient, steps): Passes(forward=changed)}


class RemovalMetric(SharedPasses, Protocol):
    """The frame of metrics of a removal curve: a class that inherits from it says what is kept and has these fields."""

    keep_salient: ClassVar[bool]
    """False removes the most salient pixels first, True keeps only these."""
    steps: int
    fill: Fill

    def __post_init__(self) -> None:
        check_steps(self.steps)

    def outputs(self, case: Case, rng: Rng) -> TargetOutputs:
        """The classifier's outputs at each point of the curve."""
        return removal_outputs(case, self.fill, keep_salient=self.keep_salient, steps=self.steps, rng=rng)

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The removal curve, and the unchanged image."""
        return removal_parts(self.fill, keep_salient=self.keep_salient, steps=self.steps, size=size)


def check_steps(steps: int) -> None:
    """Raises for fewer steps than one."""
    if steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps}")


def area_under_curve(curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
    """The area under each curve by the trapezoid rule, both ends included, over an axis of length 1."""
    return torch.trapezoid(curve, dim=1) / (curve.shape[1] - 1)
