"""Monotonicity: whether more saliency goes with more effect on the output."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.fills import MEAN, NOISE
from snellen.maps.row_ranges import has_nan
from snellen.maps.similarity import correlation, rank_correlation
from snellen.maps.sorted_rows import sort_rows
from snellen.metrics.case_cache import output_parts
from snellen.metrics.pixel_removal import (
    RemovalMetric,
    is_below,
    pixel_ranks,
    removal_counts,
)
from snellen.metrics.rounding import within_rounding
from snellen.plugins.registry import metric
from snellen.types import Case, Fill, Output, Passes, Rng


@metric(
    "monotonicity",
    cite="arya2019",
    attribute="input-sensitivity",
    higher_is_better=True,
    bounds=(-1.0, 1.0),
    undefined="the map holds NaN or is constant, or the output never changes",
    version=2,
    formula="Pearson corrᵢ(mean saliency of chunk i, f(chunks 1…i present)), least salient chunk first",
    reading="The text of Zhang et al. 2024 (section 4.1) after Arya et al. 2019; what their code computes is "
    "monotonicity-correlation.",
    caveats={
        "zhang2024": "a classifier may need several regions together, so pixels of equal worth need not raise its output "
        "evenly"
    },
)
@dataclass(frozen=True)
class Monotonicity(RemovalMetric):
    """The correlation of saliency with the target's probability while pixels are inserted, least salient first: 1 is best.

    Arya et al. 2019, as Zhang et al. 2024 write it: `steps` equal chunks of pixels are inserted into the fill in rising
    order; the mean saliency of each chunk is correlated with the output after its insertion. Chunk means 0, 0, 3 and
    outputs 0.1, 0.1, 0.9 give 1. Both series rise for almost any map: compare with a random map, which can score above
    0.9.
    """

    keep_salient: ClassVar[bool] = False
    steps: int = 28
    """Number of equal chunks of pixels."""
    fill: Fill = MEAN
    of: Output = "probability"

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        removed = self.outputs(case, rng).of(self.of)
        points = removal_counts(self.steps, case.size)
        falling = -sort_rows(-case.maps.flatten(1).double())
        means = _chunk_means(falling, points)
        # Chunk k (0 is the most salient) is the last to be inserted before point k of the removal curve.
        outputs = removed[:, :-1].double()
        constant = within_rounding(outputs.amax(dim=1) - outputs.amin(dim=1), outputs.abs().amax(dim=1))
        return correlation(means, outputs).masked_fill(constant, torch.nan).to(case.maps.dtype)


@metric(
    "monotonicity-correlation",
    cite="nguyen2020",
    attribute="input-sensitivity",
    higher_is_better=True,
    bounds=(-1.0, 1.0),
    undefined="the map holds NaN or is constant in magnitude, or no chunk changes the output",
    version=2,
    formula="Spearman corrᵢ(mean |a| over chunk i, E[(f(x with noise in chunk i) − f(x))²])",
    reading="What the published code of Zhang et al. 2024 computes as monotonicity, with its seven chunks and ten draws; "
    "equal chunks share their rank; in that code they are ranked in memory order.",
    caveats={
        "zhang2024": "seven chunks give few ranks, and a control map came out among the best two",
    },
)
@dataclass(frozen=True)
class MonotonicityCorrelation:
    """The rank correlation of a chunk's saliency with how much noise in that chunk changes the output: 1 is best.

    Nguyen & Martínez 2020: the pixels, in the order of their magnitude, are divided into `chunks` equal chunks; each
    alone is replaced by `samples` draws of the fill, and the mean squared change of the output is its effect. Mean
    magnitudes 1, 2, 3 and effects 0.1, 0.3, 0.2 give 0.5.
    """

    chunks: int = 7
    samples: int = 10
    fill: Fill = NOISE
    of: Output = "probability"

    def __post_init__(self) -> None:
        if self.chunks < 2:
            raise ValueError(f"chunks must be at least 2, not {self.chunks}")
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        classifier, inputs, targets = case.classifier, case.inputs, case.targets
        size = case.maps.abs()
        points = removal_counts(self.chunks, case.size)
        rank = classifier.lay_out(pixel_ranks(size, rng=rng).unsqueeze(1).to(inputs).expand_as(inputs))
        image = classifier.lay_out(inputs)

        def blocks() -> Iterator[tuple[Tensor, Tensor]]:
            # Chunks do not overlap, so all of them can use the same noise image per draw.
            for draw in range(self.samples):
                noise = classifier.lay_out(self.fill(classifier, inputs, rng=rng.child("monotonicity").repeat([draw])))
                for start, end in pairwise(points):
                    yield torch.lerp(image, noise, is_below(rank, end) - is_below(rank, start)), targets

        moved = classifier.scores(blocks(), self.of).view(self.samples, len(points) - 1, len(case)).double()
        change = moved - classifier.output(inputs, targets, self.of).double()
        effects = change.square().mean(dim=0).T
        constant = within_rounding(change.abs().amax(dim=(0, 1)), moved.abs().amax(dim=(0, 1)))
        # Means, so that chunks of unequal length are comparable; single precision, so that rounding makes no ranks.
        means = _chunk_means(-sort_rows(-size.flatten(1).double()), points).float()
        return rank_correlation(means, effects).masked_fill(has_nan(case.maps) | constant, torch.nan).to(case.maps.dtype)

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """Each chunk with each draw, and the unchanged image."""
        return Passes(forward=(len(removal_counts(self.chunks, size)) - 1) * self.samples + 1)

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The unchanged image."""
        return output_parts()


def _chunk_means(ordered: Float[Tensor, "batch pixels"], points: list[int]) -> Float[Tensor, "batch chunks"]:
    return torch.stack([ordered[:, start:end].mean(dim=1) for start, end in pairwise(points)], dim=1)
