"""COSE: whether a map follows the model, changing with its answer and keeping still with it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.metrics.consistency import PRESETS
from snellen.metrics.transformed import KINDS, Alike, Comparison, check_magnitudes
from snellen.plugins.registry import metric
from snellen.types import Case, CurveMetric, Passes, Rng, SharedPasses

_CAVEATS = {
    "hedstrom2024": "a noisy map is unlike any other, so it looks sensitive; only its consistency gives it away",
    "cose2023": "the explained class changes with the prediction, so part of the change is that of the class; "
    "fixed_class=true holds it",
}
_READING = (
    "Variants and models count where the prediction changes, whatever the label, as the paper's text says; its code also "
    "asks that the untouched picture is classified rightly (correct_only). The map after the change explains the new "
    "prediction, as published; fixed_class=true explains the target throughout. "
)


@metric(
    "sensitivity",
    cite="cose2023",
    attribute="model-sensitivity",
    higher_is_better=True,
    bounds=(0.0, 2.0),
    needs={"explain"},
    undefined="no change of the picture or the model changes the prediction, or the map and all that it is compared with "
    "are constant or hold NaN; with correct_only also where the picture is classified wrongly or has no label",
    version=2,
    formula="mean of 1 - L(Φ(f, x), t⁻¹Φ(f, t(x))) over f(t(x)) ≠ f(x), and of 1 - L(Φ(f, x), Φ(f', x)) over f'(x) ≠ f(x)",
    reading=_READING + "Models are one with random weights, and the checkpoints that are given, up to ten; the published "
    "numbers pool all of them, as here.",
    caveats=_CAVEATS,
    presets=PRESETS,
    optional_needs={"checkpoints"},
)
@dataclass(frozen=True)
class Sensitivity(CurveMetric, SharedPasses):
    """How unlike a map becomes when a change of the picture or of the model changes the prediction: 0 is not at all.

    Daroya et al. 2023, equation 7. The changes of the picture are those of consistency, and the maps are the same; the
    models are the classifier with random weights and its checkpoints, where there are any. Two variants that change the
    prediction and leave likenesses of 0.9 and 0.5 give 0.3. The last column of the trace says how many models there were.
    """

    likeness: Alike = "ssim"
    magnitudes: int = 6
    correct_only: bool = False
    fixed_class: bool = False

    def __post_init__(self) -> None:
        check_magnitudes(self.magnitudes)

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """What the likeness lacks of 1 for each variant and model (NaN where the prediction stayed), and how many models."""
        found = self._comparison.rows(case, rng=rng)
        return torch.cat([found.sensitive(self.correct_only), found.models], dim=1)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The mean over the variants and models that count."""
        return curve[:, :-1].nanmean(dim=1)

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The names of the variants and models."""
        return (*self._comparison.names, "models")

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """All of it; the predictions are the same for every method."""
        return self._comparison.parts(size, explain, classifier)

    @property
    def _comparison(self) -> Comparison:
        return Comparison(KINDS, self.magnitudes, self.likeness, self.fixed_class, models=True)


@metric(
    "cose",
    cite="cose2023",
    attribute="model-sensitivity",
    higher_is_better=True,
    bounds=(0.0, 4 / 3),
    needs={"explain"},
    undefined="consistency or sensitivity is",
    version=2,
    formula="2 · consistency · sensitivity / (consistency + sensitivity)",
    reading=_READING + "The harmonic mean of the paper, per sample, as a fraction; the geometric mean of the published code "
    "stands in the trace, and the pooled numbers of the paper's table come from snellen.metrics.pooling. A negative "
    "consistency counts as 0, because a harmonic mean has no meaning for it. It is filed under model sensitivity: its two "
    "halves ask that the map changes exactly when the model's answer does.",
    caveats=_CAVEATS,
    presets=PRESETS,
    optional_needs={"checkpoints"},
)
@dataclass(frozen=True)
class Cose(CurveMetric, SharedPasses):
    """Whether a map keeps still while the prediction does, and changes when it changes: high needs both.

    Daroya et al. 2023, equation 8: the harmonic mean of consistency and sensitivity, over the same variants. Consistency
    0.8 and sensitivity 0.4 give 2 · 0.32 / 1.2 = 0.533, and a geometric mean of 0.566.
    """

    likeness: Alike = "ssim"
    magnitudes: int = 6
    correct_only: bool = False
    fixed_class: bool = False

    def __post_init__(self) -> None:
        check_magnitudes(self.magnitudes)

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """The columns of consistency, then those of sensitivity, then how many models there were and the geometric mean."""
        found = self._comparison.rows(case, rng=rng)
        alike = found.consistent(self.correct_only)[:, : self._variants()]
        unlike = found.sensitive(self.correct_only)
        beside = geometric(alike.nanmean(dim=1), unlike.nanmean(dim=1)).unsqueeze(1)
        return torch.cat([alike, unlike, found.models, beside], dim=1)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The harmonic mean of the two means."""
        return harmonic(curve[:, : self._variants()].nanmean(dim=1), curve[:, self._variants() : -2].nanmean(dim=1))

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The names of the variants twice, each time with the part to which a number belongs."""
        return (
            *(f"consistency/{one}" for one in self._comparison.changes),
            *(f"sensitivity/{one}" for one in self._comparison.names),
            "models",
            "geometric-mean",
        )

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """All of it; the predictions are the same for every method."""
        return self._comparison.parts(size, explain, classifier)

    @property
    def _comparison(self) -> Comparison:
        return Comparison(KINDS, self.magnitudes, self.likeness, self.fixed_class, models=True)

    def _variants(self) -> int:
        return len(self._comparison.changes)


def harmonic(consistency: Float[Tensor, "*any"], sensitivity: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """2 c s / (c + s), with a negative consistency taken for 0; 0 where both are."""
    steady = consistency.clamp_min(0)
    total = steady + sensitivity
    return (2 * steady * sensitivity / total).masked_fill(total == 0, 0.0)


def geometric(consistency: Float[Tensor, "*any"], sensitivity: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    """√(c s), with a negative consistency taken for 0."""
    return (consistency.clamp_min(0) * sensitivity).sqrt()
