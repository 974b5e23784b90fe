"""Axioms about the model: implementation invariance, linearity, input invariance.

Each compares the map with that of a variant of the classifier for which the axiom says what the map must be. The score
is a relative change: 0 is exact. The method uses the same random draws for both, so that sampling noise breaks no axiom.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.classifier.heads import Number, WithTargets
from snellen.classifier.targets import OutputFunction
from snellen.metrics.case_cache import output_parts
from snellen.plugins.registry import metric
from snellen.types import Case, CurveMetric, Passes, Rng
from snellen.variants.randomised import randomise_layers
from snellen.variants.recombined import mix_classes, shift_inputs, sum_classifiers
from snellen.variants.rewrites import possible_rewrites, rewrite
from snellen.variants.weight_layers import weight_layers

_ZERO = "the map is zero everywhere, so no change can be relative to it"
SAME = 1e-3
"""How far the target's logit of a rewrite may be from the original's, relative to 1 + its size."""


@metric(
    "implementation-invariance",
    cite="sundararajan2017",
    attribute="model-sensitivity",
    higher_is_better=False,
    bounds=(0.0, float("inf")),
    needs={"explain", "layer"},
    undefined=f"{_ZERO}; or the classifier has no exact rewrite",
    test="Implementation Invariance",
    formula="max over rewrites f′ = f of ‖Φ(x; f′) - Φ(x; f)‖ / ‖Φ(x; f)‖",
    reading="The paper states the axiom without a number; here it is the largest relative change over the rewrites that are "
    "exact for this classifier: batch normalisation folded, hidden channels permuted, rectified channels rescaled, "
    "channels added that cancel each other.",
    caveats={"sundararajan2017": "a finite number of rewrites can refute the axiom but never prove it"},
    tolerance=0.01,
)
@dataclass(frozen=True)
class ImplementationInvariance(CurveMetric):
    """The largest change of the map when the same function is written as another network: 0 is no change.

    Sundararajan et al. 2017. The curve has a point per rewrite; a rewrite whose logit for an image differs by more than
    float tolerance is left out for that image. Changes of norm 1 and 2 of a map of norm 4 give 0.5.
    """

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch rewrites"]:
        """The relative change for each rewrite."""
        size = case.size
        rewrites = possible_rewrites(case.classifier, size)
        if not rewrites:
            return case.maps.new_empty(len(case), 0)
        original = case.classifier.cached_outputs(case.inputs, case.targets).logit
        columns = []
        for name in rewrites:
            variant = rewrite(case.classifier, name, size)
            logit = variant.scores([(case.inputs, case.targets)], "logit")
            variant_maps = case.explain(case.inputs, classifier=variant, rng=rng)
            inexact = (logit - original).abs() > SAME * (1 + original.abs())
            columns.append(_change(case.maps, variant_maps, _norm(case.maps)).masked_fill(inexact, torch.nan))
        return torch.stack(columns, dim=1)

    def score(self, curve: Float[Tensor, "batch rewrites"]) -> Float[Tensor, " batch"]:
        """The largest defined change."""
        if curve.shape[1] == 0:
            return curve.new_full((len(curve),), torch.nan)
        return curve.nan_to_num(-1.0).amax(dim=1).masked_fill(curve.isnan().all(dim=1), torch.nan)

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The rewrites that are exact for this classifier."""
        return possible_rewrites(classifier, size)

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """The outputs of the classifier, and the outputs and a map of each rewrite."""
        count = len(possible_rewrites(classifier, size))
        return (explain + Passes(forward=1)) * count + Passes(forward=min(1, count))

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The outputs of the classifier."""
        return output_parts() if possible_rewrites(classifier, size) else {}


@metric(
    "linearity",
    cite="sundararajan2017",
    attribute="model-sensitivity",
    higher_is_better=False,
    bounds=(0.0, float("inf")),
    needs={"explain"},
    undefined="the maps of both models are zero everywhere",
    test="Linearity",
    formula="‖Φ(w f + (1 - w) g) - (w Φ(f) + (1 - w) Φ(g))‖ / (w ‖Φ(f)‖ + (1 - w) ‖Φ(g)‖)",
    reading="g is the classifier itself with each class renamed to the one before it, so that the sum is one network and "
    "every method can explain it; with partner=randomised, g is a network with all weights redrawn, as in the paper.",
    caveats={
        "sundararajan2017": "a method that explains probabilities or folds channels by magnitude is not linear in logits, "
        "however linear what it folds; with a second network, a method that uses one layer sees only one of the two"
    },
    tolerance=0.01,
)
@dataclass(frozen=True)
class Linearity:
    """How far the map of a weighted sum of two models is from the weighted sum of their maps: 0 is linear.

    Sundararajan et al. 2017. Maps 2 and 4 of two models must give 3 for their mean; a map of 3.3 gives 0.3 / 3 = 0.1.
    """

    weight: float = 0.5
    """The weight of the classifier in the sum; that of the partner is 1 less this."""
    partner: Literal["renamed", "randomised"] = "renamed"
    """The other model: the classifier with renamed classes, or one with all weights redrawn."""

    def __post_init__(self) -> None:
        if not 0 < self.weight < 1:
            raise ValueError(f"weight must lie between 0 and 1, not {self.weight}")

    def output_problem(self, classifier: Classifier) -> str | None:
        """It needs classes that can be renamed, and a target whose value for a sum of logits is the sum of its values."""
        head = classifier.head.head if isinstance(classifier.head, WithTargets) else classifier.head
        further = classifier.head.further if isinstance(classifier.head, WithTargets) else ()
        if any(isinstance(target, OutputFunction) for target in further):
            return f"adds the logits of two models, but {classifier.target_name} of a sum need not be the sum; name a class"
        if self.partner == "renamed" and isinstance(head, Number):
            return f"renames classes, but '{classifier.name}' gives {head.words}; say linearity(partner=randomised)"
        return None

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        if not self._possible(case.size, case.classifier):
            return case.maps.new_full((len(case),), torch.nan)
        total, other = self._variants(case, rng)
        of_other = case.explain(case.inputs, classifier=other, rng=rng)
        of_sum = case.explain(case.inputs, classifier=total, rng=rng)
        weight, partner_weight = self.weight, 1 - self.weight
        expected = weight * case.maps.double() + partner_weight * of_other.double()
        return _change(expected, of_sum, weight * _norm(case.maps) + partner_weight * _norm(of_other))

    def _variants(self, case: Case, rng: Rng) -> tuple[Classifier, Classifier]:
        """The sum and the partner."""
        classifier, size = case.classifier, case.size
        if self.partner == "renamed":
            return mix_classes(classifier, self.weight, size), mix_classes(classifier, 0.0, size)
        # The order of a cascade from the top, so that the map is cached for the randomisation metrics.
        other = randomise_layers(classifier, weight_layers(classifier, size)[::-1], rng=rng)
        return sum_classifiers(classifier, other, self.weight), other

    def _possible(self, size: tuple[int, int], classifier: Classifier) -> bool:
        return self.partner == "renamed" or bool(weight_layers(classifier, size))

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """The maps of the partner and of the sum."""
        return explain * (2 if self._possible(size, classifier) else 0)


@metric(
    "input-invariance",
    cite="kindermans2019",
    attribute="input-sensitivity",
    higher_is_better=False,
    bounds=(0.0, float("inf")),
    needs={"explain"},
    undefined=_ZERO,
    test="Input Invariance",
    formula="‖Φ(x + m; f′) - Φ(x; f)‖ / ‖Φ(x; f)‖, where f′(x + m) = f(x)",
    reading="The first bias absorbs the shift as in the paper, so nothing has to be trained; pixels keep their meaning: a "
    "black reference is black for both, and a reference of zero inputs is another image.",
    caveats={"kindermans2019": "a method with a reference passes or fails with the choice of the reference"},
    tolerance=0.01,
)
@dataclass(frozen=True)
class InputInvariance:
    """How much the map changes when a constant is added to all inputs and the model subtracts it again: 0 is no change.

    Kindermans et al. 2019: `shift` is added to every input value; the paper moves [0, 1] to [-1, 0]. A map of norm 4
    that changes by a norm of 2 gives 0.5.
    """

    shift: float = -1.0

    def __post_init__(self) -> None:
        if self.shift == 0:
            raise ValueError("shift must not be 0, because then nothing changes")

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        variant = shift_inputs(case.classifier, self.shift, case.size)
        variant_maps = case.explain(case.inputs + self.shift, classifier=variant, rng=rng)
        return _change(case.maps, variant_maps, _norm(case.maps))

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """One map."""
        return explain


def _norm(maps: Float[Tensor, "batch height width"]) -> Float[Tensor, " batch"]:
    norms: Tensor = torch.linalg.vector_norm(maps, dim=(1, 2), dtype=torch.float64)
    return norms


def _change(first: Tensor, second: Tensor, size: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
    """The distance of two maps relative to this size; NaN where the size is 0."""
    return (_norm(second.double() - first.double()) / size).masked_fill(size == 0, torch.nan).to(second.dtype)
