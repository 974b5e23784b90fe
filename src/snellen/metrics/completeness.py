"""Completeness: whether the map adds up to the change of the classifier's output."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.fills import MEAN
from snellen.metrics.case_cache import output_parts
from snellen.metrics.rounding import within_rounding
from snellen.plugins.registry import metric
from snellen.types import Case, CurveMetric, Fill, Output, Passes, Rng


@metric(
    "completeness",
    cite="sundararajan2017",
    attribute="input-sensitivity",
    higher_is_better=False,
    bounds=(0.0, float("inf")),
    undefined="the output is the same for the image and for the baseline, so no gap can be relative to it",
    test="Completeness",
    formula="|Σ Φ − (f(x) − f(x₀))| / |f(x) − f(x₀)|",
    reading="The axiom of Sundararajan et al. 2017 (sensitivity-n for all pixels at once in Ancona et al. 2018), read with "
    "a tolerance, because sums of floats are never equal; `relative=false` is the plain gap in units of the output.",
    caveats={
        "hedstrom2023": "a common implementation compares floats with ==, after normalising the map, so that nothing is "
        "ever complete",
        "zhang2024": "a map that was stretched to [0, 1] has lost its units and cannot be complete, however good",
    },
    tolerance=0.05,
)
@dataclass(frozen=True)
class Completeness(CurveMetric):
    """The gap between the sum of the map and the change of the output, relative to that change: 0 is complete.

    Sundararajan et al. 2017: Σ Φ should equal f(x) - f(x₀), where x₀ is the image with everything removed. A map that
    adds up to 3 for an output that went from 1 to 3 leaves a gap of |3 - 2| / 2 = 0.5.
    """

    baseline: Fill = MEAN
    of: Output = "logit"
    relative: bool = True
    """Whether the gap is a share of the change of the output; otherwise it is in units of the output."""

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """The sum of the map, the change of the output, and the gap between them."""
        classifier, inputs, targets = case.classifier, case.inputs, case.targets
        full = classifier.output(inputs, targets, self.of).double()
        base = classifier.scores([(self.baseline(classifier, inputs, rng=rng), targets)], self.of).double()
        total, change = case.maps.double().sum(dim=(1, 2)), full - base
        gap = (total - change).abs()
        if self.relative:
            constant = within_rounding(change.abs(), torch.maximum(full.abs(), base.abs()))
            gap = (gap / change.abs()).masked_fill(constant, torch.nan)
        return torch.stack([total, change, gap], dim=1).to(case.maps.dtype)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The gap."""
        return curve[:, 2]

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The three numbers."""
        return ("sum", "difference", "gap")

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """The image and the baseline."""
        return Passes(forward=2)

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The unchanged image."""
        return output_parts()
