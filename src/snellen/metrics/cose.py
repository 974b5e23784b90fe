"""COSE: whether a map changes exactly when the prediction changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.metrics.consistency import PRESETS
from snellen.metrics.transformed import TRANSFORM_KINDS, Alike, ChangeComparison, ChangeMetric
from snellen.plugins.registry import metric
from snellen.types import Case, Rng

_CAVEATS = {
    "hedstrom2024": "a noisy map is unlike any other, so it seems sensitive; only its consistency shows that it is noise",
    "cose2023": "the explained class changes with the prediction, so part of the change is due to the class; "
    "fixed_class=true keeps the class",
}
_READING = (
    "Transforms and models count where the prediction changes, regardless of the label, as in the paper's text; its code "
    "also requires a right prediction for the unchanged image (correct_only). The map after the change explains the new "
    "prediction, as published; fixed_class=true explains the target throughout. "
)


@dataclass(frozen=True)
class _ImagesAndModels(ChangeMetric, Protocol):
    """The settings of both metrics; they score the same changes."""

    likeness: Alike = "ssim"
    magnitudes: int = 6
    """Number of different strengths of each signed transform."""
    correct_only: bool = False
    """Leave out images that are classified wrongly or have no label."""
    fixed_class: bool = False
    """Explain the target also where the prediction changed."""

    @property
    def comparison(self) -> ChangeComparison:
        """All transforms, and other models."""
        return ChangeComparison(
            kinds=TRANSFORM_KINDS, magnitudes=self.magnitudes, alike=self.likeness, fixed_class=self.fixed_class, models=True
        )


@metric(
    "sensitivity",
    cite="cose2023",
    attribute="model-sensitivity",
    higher_is_better=True,
    bounds=(0.0, 2.0),
    needs={"explain"},
    needs_output="decision",
    undefined="no change of the image or the model changes the prediction, or the map and all that it is compared with "
    "are constant or hold NaN; with correct_only also where the image is classified wrongly or has no label",
    version=2,
    formula="mean of 1 - L(Φ(f, x), t⁻¹Φ(f, t(x))) over f(t(x)) ≠ f(x), and of 1 - L(Φ(f, x), Φ(f', x)) over f'(x) ≠ f(x)",
    reading=_READING + "Models are one with random weights, and the checkpoints that are given, up to ten; the published "
    "numbers pool all of them, as here.",
    caveats=_CAVEATS,
    presets=PRESETS,
    optional_needs={"checkpoints"},
)
@dataclass(frozen=True)
class Sensitivity(_ImagesAndModels):
    """How much a map changes when a change of the image or of the model changes the prediction: 0 is not at all.

    Daroya et al. 2023, equation 7. The changes of the image are those of consistency, with the same maps; the models are
    the classifier with random weights and its checkpoints, where there are any. Two changes that change the prediction,
    with likenesses 0.9 and 0.5, give 0.3. The last point of the curve is the number of models.
    """

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """1 - likeness for each transform and model (NaN where the prediction stays the same), and the number of models."""
        results = self.comparison.results(case, rng=rng)
        return torch.cat([results.sensitive(self.correct_only), results.models], dim=1)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The mean over the changes that changed the prediction."""
        return curve[:, :-1].nanmean(dim=1)

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The names of the transforms and models."""
        return (*self.comparison.names, "models")


@metric(
    "cose",
    cite="cose2023",
    attribute="model-sensitivity",
    higher_is_better=True,
    bounds=(0.0, 4 / 3),
    needs={"explain"},
    needs_output="decision",
    undefined="consistency or sensitivity is",
    version=2,
    formula="2 · consistency · sensitivity / (consistency + sensitivity)",
    reading=_READING + "The harmonic mean of the paper, per sample, as a fraction; the geometric mean of the published code "
    "is in the curve, and the pooled numbers of the paper's table come from snellen.metrics.cose_pooling. A negative "
    "consistency counts as 0, because a harmonic mean has no meaning for it. It belongs to model sensitivity: its two "
    "parts require that the map changes exactly when the prediction does.",
    caveats=_CAVEATS,
    presets=PRESETS,
    optional_needs={"checkpoints"},
)
@dataclass(frozen=True)
class Cose(_ImagesAndModels):
    """Whether a map changes when the prediction changes, and only then: high needs both.

    Daroya et al. 2023, equation 8: the harmonic mean of consistency and sensitivity, over the same changes. Consistency
    0.8 and sensitivity 0.4 give 2 · 0.32 / 1.2 = 0.533, and a geometric mean of 0.566.
    """

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """The points of consistency, those of sensitivity, the number of models, and the geometric mean."""
        results = self.comparison.results(case, rng=rng)
        alike = results.consistent(self.correct_only)[:, : self._transforms()]
        unlike = results.sensitive(self.correct_only)
        mean = geometric(alike.nanmean(dim=1), unlike.nanmean(dim=1)).unsqueeze(1)
        return torch.cat([alike, unlike, results.models, mean], dim=1)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The harmonic mean of the two means."""
        return harmonic(curve[:, : self._transforms()].nanmean(dim=1), curve[:, self._transforms() : -2].nanmean(dim=1))

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The names of the changes, once for consistency and once for sensitivity."""
        return (
            *(f"consistency/{name}" for name in self.comparison.changes),
            *(f"sensitivity/{name}" for name in self.comparison.names),
            "models",
            "geometric-mean",
        )

    def _transforms(self) -> int:
        return len(self.comparison.changes)


def harmonic(consistency: Float[Tensor, "*any"], sensitivity: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """2 c s / (c + s), with a negative consistency taken for 0; 0 where both are."""
    positive = consistency.clamp_min(0)
    total = positive + sensitivity
    return (2 * positive * sensitivity / total).masked_fill(total == 0, 0.0)


def geometric(consistency: Float[Tensor, "*any"], sensitivity: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """√(c s), with a negative consistency taken for 0."""
    return (consistency.clamp_min(0) * sensitivity).sqrt()
