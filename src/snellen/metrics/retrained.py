"""Maps of a model that was trained again: on permuted labels, from another seed, or as another architecture."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.maps.similarity import Likeness, likeness
from snellen.metrics.case_cache import output_parts
from snellen.metrics.requirements import variant_of
from snellen.plugins.registry import metric
from snellen.types import Case, Method, Metric, Passes, Recipe, Rng, SharedPasses, TrainedVariant
from snellen.variants.recipes import Training, seed_for


@dataclass(frozen=True)
class PermutedLabels:
    """A model that was trained on the same pictures under permuted labels."""

    name: str = "permuted-labels"

    def train(self, recipe: Recipe, training: Training, classifier: Classifier, *, seed: int) -> nn.Module:
        """Every label stays as frequent as it was, but belongs to another picture."""
        order = Rng(seed, ()).shared(self.name).permutation(len(training))
        permuted = training.with_labels([training.labels[int(place)] for place in order])
        return recipe(permuted, seed_for(self.name, seed), {"classes": training.output_count()})


@dataclass(frozen=True)
class OtherSeed:
    """A model that was trained as the classifier was, from other initial weights and in another order."""

    name: str = "other-seed"

    def train(self, recipe: Recipe, training: Training, classifier: Classifier, *, seed: int) -> nn.Module:
        """The recipe once more."""
        return recipe(training, seed_for(self.name, seed), {"classes": training.output_count()})


@dataclass(frozen=True)
class OtherArchitecture:
    """A model of another kind, trained on the same pictures."""

    name: str = "other-architecture"

    def train(self, recipe: Recipe, training: Training, classifier: Classifier, *, seed: int) -> nn.Module:
        """The recipe, asked for another architecture."""
        options: dict[str, Any] = {"classes": training.output_count(), "architecture": "other"}
        return recipe(training, seed_for(self.name, seed), options)


@metric(
    "data-randomisation",
    cite="adebayo2018",
    attribute="label-sensitivity",
    higher_is_better=False,
    bounds=(-1.0, 1.0),
    needs={"explain", "recipe"},
    undefined="both maps are constant, or one of them where maps are correlated",
    test="Data Randomization",
    formula="likeness(M(f, x), M(f′, x)), f′ trained on permuted labels",
    reading="Signed maps, as the method gives them; the paper also compares their magnitudes. The paper trains f′ until it "
    "knows all permuted labels by heart; here f′ is whatever the recipe makes of them, so that it may have learnt little; "
    "its accuracy is in the record.",
    caveats={"binder2023": "noisy maps resemble nothing by structural similarity, so they pass tests of this kind easily"},
)
@dataclass(frozen=True)
class DataRandomisation:
    """How much the map still looks the same when the model learnt from permuted labels; a map that follows labels does not.

    Adebayo et al. 2018, section 3.3. A method that ignores the model gives both models the same map and scores 1. The class
    that is explained stays the same.
    """

    likeness: Likeness = "ssim"

    def trained_variants(self, method: Method) -> tuple[TrainedVariant, ...]:
        """One, whatever the method."""
        return (PermutedLabels(),)

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        other = variant_of(case, self, PermutedLabels().name)
        return likeness(case.maps, case.explain(case.inputs, classifier=other, rng=rng), self.likeness)

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """One map."""
        return explain


def agreement(case: Case, metric: Metric, name: str, how: Likeness, *, rng: Rng) -> Float[Tensor, " batch"]:
    """How alike the maps of the two models are where both find the same class most likely, else NaN."""
    other = variant_of(case, metric, name)
    same = case.classifier.cached_outputs(case.inputs, case.targets).predicted
    agreed = other.cached_outputs(case.inputs, case.targets).predicted == same
    found = likeness(case.maps, case.explain(case.inputs, classifier=other, rng=rng), how)
    return found.masked_fill(~agreed, torch.nan)


def agreement_parts(name: str, explain: Passes) -> Mapping[Hashable, Passes]:
    """What `agreement` costs, in parts that others may have paid."""
    return output_parts() | output_parts(name) | ({("explained", name): explain} if explain != Passes() else {})


@metric(
    "repeatability",
    cite="arun2021",
    attribute="model-sensitivity",
    higher_is_better=True,
    bounds=(-1.0, 1.0),
    needs={"explain", "recipe"},
    undefined="the two models disagree about the picture, or both maps are constant (one of them where maps are correlated)",
    test="Repeatability",
    formula="likeness(M(f, x), M(f′, x)) where argmax f(x) = argmax f′(x), f′ trained from another seed",
    reading="Structural similarity of signed maps over the whole picture, for the class that the case explains.",
    caveats={
        "arun2021": "a map that ignores the model is perfectly repeatable; read it beside a test that such a map fails"
    },
)
@dataclass(frozen=True)
class Repeatability(SharedPasses):
    """How alike the maps of two models are that differ only in the seed of their training.

    Arun et al. 2021. Pictures on which the two models decide differently are left out, because there is no reason why their
    maps should agree. A method that ignores the model scores 1, so read this beside a test that such
    a method fails.
    """

    likeness: Likeness = "ssim"

    def trained_variants(self, method: Method) -> tuple[TrainedVariant, ...]:
        """One, whatever the method."""
        return (OtherSeed(),)

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        return agreement(case, self, OtherSeed().name, self.likeness, rng=rng)

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """All of it."""
        return agreement_parts(OtherSeed().name, explain)


@metric(
    "reproducibility",
    cite="arun2021",
    attribute="model-sensitivity",
    higher_is_better=True,
    bounds=(-1.0, 1.0),
    needs={"explain", "recipe"},
    undefined="the two models disagree about the picture, or both maps are constant (one of them where maps are correlated)",
    test="Reproducibility",
    formula="likeness(M(f, x), M(f′, x)) where argmax f(x) = argmax f′(x), f′ of another architecture",
    reading="Structural similarity of signed maps over the whole picture, for the class that the case explains.",
    caveats={
        "arun2021": "a map that ignores the model is perfectly reproducible; read it beside a test that such a map fails"
    },
)
@dataclass(frozen=True)
class Reproducibility(SharedPasses):
    """How alike the maps of two models of different architecture are that were trained on the same pictures.

    Arun et al. 2021. Pictures on which the two models decide differently are left out. Two architectures may rightly look at
    different things, so less than 1 is no proof against a method.
    """

    likeness: Likeness = "ssim"

    def trained_variants(self, method: Method) -> tuple[TrainedVariant, ...]:
        """One, whatever the method."""
        return (OtherArchitecture(),)

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        return agreement(case, self, OtherArchitecture().name, self.likeness, rng=rng)

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """All of it."""
        return agreement_parts(OtherArchitecture().name, explain)
