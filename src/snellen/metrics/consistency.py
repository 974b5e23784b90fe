"""Consistency: whether a map stays the same when the image changes and the prediction does not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.metrics.transformed import TRANSFORM_KINDS, Alike, ChangeComparison, ChangeMetric
from snellen.plugins.registry import metric
from snellen.types import Case, Rng

_UNDEFINED = (
    "every change of the image changes the prediction, or the map and all that it is compared with are constant or hold "
    "NaN; with correct_only also where the image is classified wrongly or has no label"
)
_READING = (
    "Transforms count where the prediction stays the same, regardless of the label, as in the paper's text; its code also "
    "requires a right prediction (correct_only). Maps are compared raw and signed, by the structural similarity of "
    "scikit-image, whose constants grow with the range of the maps (the paper prints them without it); where both maps are "
    "blank it finds them alike, so a map that marks little scores high, which a correlation (likeness=pearson) avoids. Of "
    "maps that were moved or turned back, only windows inside the image count. The authors' code counts pixels at the edges "
    "too, with windows completed by mirroring: likeness=ssim-mirrored, the reading of @cose2023."
)
PRESETS: Mapping[str, Mapping[str, Any]] = {
    "cose2023": {"likeness": "ssim-mirrored"},
    "cose2023-code": {"likeness": "ssim-mirrored", "correct_only": True},
}
"""The settings of the paper's text and of its code."""
_CAVEATS = {"yeh2019": "a map that never changes is perfectly consistent, so consistency means nothing without sensitivity"}


@dataclass(frozen=True)
class _SamePrediction(ChangeMetric, Protocol):
    """The settings of both metrics, and their score."""

    likeness: Alike = "ssim"
    magnitudes: int = 6
    """Number of different strengths of each signed transform."""
    correct_only: bool = False
    """Leave out images that are classified wrongly or have no label."""

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """The likeness for each transform; NaN where the prediction changed."""
        return self.comparison.results(case, rng=rng).consistent(self.correct_only)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The mean over the transforms that keep the prediction."""
        return curve.nanmean(dim=1)

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The names of the transforms."""
        return self.comparison.names


@metric(
    "consistency",
    cite="cose2023",
    attribute="input-sensitivity",
    higher_is_better=True,
    bounds=(-1.0, 1.0),
    needs={"explain"},
    needs_output="decision",
    undefined=_UNDEFINED,
    version=2,
    formula="mean of L(Φ(x), t⁻¹Φ(t(x))) over transforms t with f(t(x)) = f(x)",
    reading=_READING,
    caveats=_CAVEATS,
    presets=PRESETS,
)
@dataclass(frozen=True)
class Consistency(_SamePrediction):
    """How alike the maps of an image and of its transformed copies with the same prediction are: 1 is the same map.

    Daroya et al. 2023, equation 4: the image is moved, turned, flipped, and changed in light and colour; `magnitudes`
    different strengths for each of seven signed transforms and six fixed ones, 48 copies by default. The maps of moved
    images are moved back and compared where both have pixels. Two copies with likeness 0.9 and 0.7 and a third that
    changes the prediction give 0.8.
    """

    @property
    def comparison(self) -> ChangeComparison:
        """All transforms."""
        return ChangeComparison(TRANSFORM_KINDS, self.magnitudes, self.likeness)


@metric(
    "input-consistency",
    cite="ding2021",
    attribute="input-sensitivity",
    higher_is_better=True,
    bounds=(-1.0, 1.0),
    needs={"explain"},
    needs_output="decision",
    undefined=_UNDEFINED,
    version=2,
    test="Input Consistency",
    formula="mean of L(Φ(x), Φ(h(x))) over changes h of light and colour with f(h(x)) = f(x)",
    reading="The card's test is stated for texts, in which words that do not matter to the label are replaced. For images "
    "these are changes of light and colour: the photometric part of consistency, with the same settings.",
    caveats=_CAVEATS,
)
@dataclass(frozen=True)
class InputConsistency(_SamePrediction):
    """How alike a map stays when light and colours of the image change and the prediction does not: 1 is the same map.

    Ding and Koehn 2021 require that maps agree on inputs that differ only in what is irrelevant. Here: the photometric
    part of consistency (Daroya et al. 2023), 28 copies by default, in which no pixel moves. Two copies with likeness 0.9
    and 0.7 and a third that changes the prediction give 0.8.
    """

    @property
    def comparison(self) -> ChangeComparison:
        """Changes of light and colour."""
        return ChangeComparison(("photometric",), self.magnitudes, self.likeness)
