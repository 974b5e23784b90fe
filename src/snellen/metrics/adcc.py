"""Coherency: the likeness of the map and the map of the masked image. ADCC: coherency, complexity and average drop in one.

Both need the map of the masked image, which is computed once.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.fills import MEAN
from snellen.maps.folding import unit_mask
from snellen.maps.similarity import pearson
from snellen.metrics.case_cache import cached_per_case
from snellen.metrics.confidence import AverageDrop, confidence_parts, mask_inputs
from snellen.plugins.registry import metric
from snellen.types import Case, CurveMetric, Fill, Passes, Rng, SharedPasses

_CONSTANT = "the map is constant, so it has no mask, or the map of the masked image is constant or holds NaN"
_READING = (
    "The mask is the magnitude stretched to [0, 1] and multiplies the normalised image, as in the authors' code; "
    "`fill=black` fades to black pixels as average-drop does here."
)


@metric(
    "coherency",
    cite="poppi2021",
    attribute="input-sensitivity",
    higher_is_better=True,
    bounds=(0.0, 1.0),
    needs={"explain"},
    undefined=_CONSTANT,
    version=2,
    formula="(r(Φ(x), Φ(x⊙m)) + 1) / 2",
    reading=_READING,
    caveats={"poppi2021": "a map that never changes (fake-cam) is perfectly coherent"},
)
@dataclass(frozen=True)
class Coherency(SharedPasses):
    """How alike the map and the map of the masked image are: 1 is the same, 1/2 is unrelated.

    Poppi et al. 2021: Pearson's correlation of the two maps, scaled from [-1, 1] to [0, 1]. The target and the method
    stay the same. Maps 1, 2, 3 and 2, 3, 4 correlate perfectly, which gives 1; 1, 2, 3 and 3, 2, 1 give 0.
    """

    fill: Fill = MEAN

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        return _coherency(case, self.fill, rng)

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The map of the masked image."""
        return {("masked map", self.fill): explain}


@metric(
    "adcc",
    cite="poppi2021",
    attribute="input-sensitivity",
    higher_is_better=True,
    bounds=(0.0, 1.0),
    needs={"explain"},
    needs_output="probability",
    undefined=_CONSTANT,
    version=2,
    formula="3 / (1 / coherency + 1 / (1 − complexity) + 1 / (1 − average drop))",
    reading="One harmonic mean per image. " + _READING,
    caveats={"zhang2024": "maps that hide nothing have the best average drop; only the complexity counts against them"},
)
@dataclass(frozen=True)
class Adcc(CurveMetric, SharedPasses):
    """The harmonic mean of coherency, simplicity and preserved confidence: 1 is the best in all three.

    Poppi et al. 2021: the harmonic mean of coherency, of 1 - complexity (the mean of the unit mask) and of 1 -
    average-drop. Coherency 1, complexity 1/2 and no drop give 3 / (1 + 2 + 1) = 0.75. A map that marks almost everything
    has a complexity near 1 and scores almost 0, regardless of the other two.
    """

    fill: Fill = MEAN

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """The three numbers."""
        complexity = unit_mask(case.maps).mean(dim=(1, 2))
        drop = AverageDrop(self.fill)(case, rng=rng).to(complexity)
        return torch.stack([_coherency(case, self.fill, rng).to(complexity), complexity, drop], dim=1)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The harmonic mean, with 1 minus each of the last two."""
        coherency, complexity, drop = curve.unbind(dim=1)
        return 3 / (1 / coherency + 1 / (1 - complexity) + 1 / (1 - drop))

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The three numbers."""
        return ("coherency", "complexity", "average-drop")

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The map of the masked image, and the outputs for the image and the masked image."""
        return {("masked map", self.fill): explain, **confidence_parts(self.fill)}


def _coherency(case: Case, fill: Fill, rng: Rng) -> Float[Tensor, " batch"]:
    def compute() -> Tensor:
        masked, missing = mask_inputs(case, fill, rng=rng)
        masked_maps = case.explain(masked, rng=rng.child("coherency/explain"))
        return ((pearson(case.maps, masked_maps) + 1) / 2).masked_fill(missing, torch.nan)

    return cached_per_case(case, ("coherency", fill, rng), compute)
