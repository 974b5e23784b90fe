"""Likeness to the maps of a retrained model: on permuted labels, from another seed, or of another architecture."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import torch
from jaxtyping import Float
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.maps.similarity import Likeness, likeness
from snellen.metrics.case_cache import output_parts
from snellen.metrics.requirements import require_variant
from snellen.plugins.registry import metric
from snellen.types import Case, Method, Passes, Recipe, Rng, SharedPasses, TrainedVariant
from snellen.variants.recipes import Training, seed_for


@dataclass(frozen=True)
class PermutedLabels:
    """A model trained on the same images with permuted labels."""

    name: str = "permuted-labels"
    """Key of the variant."""

    def train(self, recipe: Recipe, training: Training, classifier: Classifier, *, seed: int) -> nn.Module:
        """Trains on permuted labels; every label stays as frequent as it was."""
        order = Rng(seed, ()).shared(self.name).permutation(len(training))
        permuted = training.with_labels([training.labels[int(place)] for place in order])
        return recipe(permuted, seed_for(self.name, seed), {"classes": training.output_count()})


@dataclass(frozen=True)
class OtherSeed:
    """A model trained like the classifier, with other initial weights and another order of the images."""

    name: str = "other-seed"
    """Key of the variant."""

    def train(self, recipe: Recipe, training: Training, classifier: Classifier, *, seed: int) -> nn.Module:
        """Trains with another seed."""
        return recipe(training, seed_for(self.name, seed), {"classes": training.output_count()})


@dataclass(frozen=True)
class OtherArchitecture:
    """A model of another architecture, trained on the same images."""

    name: str = "other-architecture"
    """Key of the variant."""

    def train(self, recipe: Recipe, training: Training, classifier: Classifier, *, seed: int) -> nn.Module:
        """Trains another architecture."""
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
    reading="Signed maps; the paper also compares their magnitudes. The paper trains f′ until it "
    "fits all permuted labels; here the recipe decides how long it trains, so that it may fit them badly; "
    "its accuracy is in the record.",
    caveats={"binder2023": "noisy maps resemble nothing by structural similarity, so they pass tests of this kind easily"},
)
@dataclass(frozen=True)
class DataRandomisation:
    """How alike the maps of the model and of one trained on permuted labels are: low is good.

    Adebayo et al. 2018, section 3.3. The target stays the same. A method that ignores the model scores 1; maps with a
    structural similarity of 0.3 score 0.3.
    """

    likeness: Likeness = "ssim"

    def trained_variants(self, method: Method) -> tuple[TrainedVariant, ...]:
        """One model, the same for every method."""
        return (PermutedLabels(),)

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        other = require_variant(case, self, PermutedLabels().name)
        return likeness(case.maps, case.explain(case.inputs, classifier=other, rng=rng), self.likeness)

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """One map."""
        return explain


@dataclass(frozen=True)
class _TrainedAgain(SharedPasses, Protocol):
    """Compares with the maps of a variant: a class that inherits from it names the variant."""

    variant: ClassVar[TrainedVariant]
    """The model to compare with."""
    likeness: Likeness = "ssim"

    def trained_variants(self, method: Method) -> tuple[TrainedVariant, ...]:
        """One model, the same for every method."""
        return (self.variant,)

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        other = require_variant(case, self, self.variant.name)
        predicted = case.classifier.cached_outputs(case.inputs, case.targets).predicted
        agreed = other.cached_outputs(case.inputs, case.targets).predicted == predicted
        alike = likeness(case.maps, case.explain(case.inputs, classifier=other, rng=rng), self.likeness)
        return alike.masked_fill(~agreed, torch.nan)

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The outputs of both models, and the map of the other one."""
        name = self.variant.name
        return output_parts() | output_parts(name) | ({("explained", name): explain} if explain != Passes() else {})


@metric(
    "repeatability",
    cite="arun2021",
    attribute="model-sensitivity",
    higher_is_better=True,
    bounds=(-1.0, 1.0),
    needs={"explain", "recipe"},
    undefined="the two models predict different classes, or both maps are constant (one of them where maps are correlated)",
    test="Repeatability",
    formula="likeness(M(f, x), M(f′, x)) where argmax f(x) = argmax f′(x), f′ trained from another seed",
    reading="Structural similarity of signed maps over the whole image, for the class that the case explains.",
    caveats={
        "arun2021": "a map that ignores the model is perfectly repeatable; read it beside a test that such a map fails"
    },
)
@dataclass(frozen=True)
class Repeatability(_TrainedAgain):
    """How alike the maps of two models are that were trained with different seeds.

    Arun et al. 2021. Images for which the two models predict different classes are left out. Maps with a structural
    similarity of 0.8 score 0.8. A method that ignores the model scores 1, so read this beside a test that such a method
    fails.
    """

    variant: ClassVar[TrainedVariant] = OtherSeed()


@metric(
    "reproducibility",
    cite="arun2021",
    attribute="model-sensitivity",
    higher_is_better=True,
    bounds=(-1.0, 1.0),
    needs={"explain", "recipe"},
    undefined="the two models predict different classes, or both maps are constant (one of them where maps are correlated)",
    test="Reproducibility",
    formula="likeness(M(f, x), M(f′, x)) where argmax f(x) = argmax f′(x), f′ of another architecture",
    reading="Structural similarity of signed maps over the whole image, for the class that the case explains.",
    caveats={
        "arun2021": "a map that ignores the model is perfectly reproducible; read it beside a test that such a map fails"
    },
)
@dataclass(frozen=True)
class Reproducibility(_TrainedAgain):
    """How alike the maps of two architectures are that were trained on the same images.

    Arun et al. 2021. Images for which the two models predict different classes are left out. Maps with a structural
    similarity of 0.8 score 0.8. Two architectures may use different parts of an image, so less than 1 is no proof
    against a method.
    """

    variant: ClassVar[TrainedVariant] = OtherArchitecture()
