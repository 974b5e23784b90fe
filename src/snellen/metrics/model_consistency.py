"""Model consistency: models with the same predictions should have similar maps."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.maps.similarity import Likeness, is_constant, likeness
from snellen.metrics.case_cache import output_parts
from snellen.metrics.requirements import require_variant
from snellen.plugins.registry import metric
from snellen.types import Case, CurveMetric, Method, Passes, Recipe, Rng, TrainedVariant
from snellen.variants.compressed import prune, quantise
from snellen.variants.recipes import Training, seed_for
from snellen.variants.weight_layers import weight_layers


@dataclass(frozen=True)
class DistilledModel:
    """A model trained on the classifier's predictions."""

    name: str = "distilled"
    """Key of the variant."""

    def train(self, recipe: Recipe, training: Training, classifier: Classifier, *, seed: int) -> nn.Module:
        """Trains on the predicted class of each training image."""
        predicted: list[int] = []
        for _, inputs in training.batches(64):
            predicted += classifier.predictions(inputs).tolist()
        return recipe(training.with_labels(predicted), seed_for(self.name, seed), {"classes": training.output_count()})


@metric(
    "model-consistency",
    cite="ding2021",
    attribute="model-sensitivity",
    higher_is_better=True,
    bounds=(-1.0, 1.0),
    needs={"explain", "layer"},
    needs_output="decision",
    undefined="a map is constant, or no compressed variant predicts the same class as the classifier",
    version=2,
    test="Model Consistency",
    formula="mean over variants f′ of likeness(Φ(x; f), Φ(x; f′)), where f′ predicts the same class",
    reading="The paper distils a smaller model; here the variants are the classifier with its smallest weights pruned and "
    "with its weights rounded, which needs no training. `distilled=true` adds a model that the recipe trains on the "
    "classifier's predictions for the training images. Signs count; likeness=ssim and likeness=pearson give others.",
    caveats={"ding2021": "a map that ignores the model is perfectly consistent"},
)
@dataclass(frozen=True)
class ModelConsistency(CurveMetric):
    """How alike the maps of the classifier and of its compressed variants are: 1 is the same map.

    Ding & Koehn 2021. One variant lacks the share `prune` of its weights, the smallest over all layers; the other has
    weights of `bits` bits; `distilled` adds a model trained on the classifier's predictions. A variant that predicts
    another class for an image is left out for that image. Likenesses 0.9 and 0.7 give 0.8.
    """

    prune: float = 0.3
    bits: int = 8
    likeness: Likeness = "spearman"
    distilled: bool = False

    def trained_variants(self, method: Method) -> tuple[TrainedVariant, ...]:
        """The distilled model, if `distilled` is set."""
        return (DistilledModel(),) if self.distilled else ()

    def __post_init__(self) -> None:
        if not 0 < self.prune < 1:
            raise ValueError(f"prune must lie between 0 and 1, not {self.prune}")
        if not 2 <= self.bits <= 16:
            raise ValueError(f"bits must lie between 2 and 16, not {self.bits}")

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch variants"]:
        """The likeness for each variant."""
        variants = self._variants(case.classifier, case.size)
        if self.distilled:
            variants[DistilledModel().name] = lambda: require_variant(case, self, DistilledModel().name)
        if not variants:
            return case.maps.new_empty(len(case), 0)
        expected = case.classifier.cached_outputs(case.inputs, case.targets).predicted
        columns = []
        for compress in variants.values():
            variant = compress()
            predicted = variant.target_outputs([(case.inputs, case.targets)]).predicted
            variant_maps = case.explain(case.inputs, classifier=variant, rng=rng)
            undefined = (predicted != expected) | is_constant(case.maps) | is_constant(variant_maps)
            columns.append(likeness(case.maps, variant_maps, self.likeness).masked_fill(undefined, torch.nan))
        return torch.stack(columns, dim=1)

    def score(self, curve: Float[Tensor, "batch variants"]) -> Float[Tensor, " batch"]:
        """The mean over the variants that predict the same class."""
        return curve.nanmean(dim=1)

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The names of the variants."""
        return tuple(self._variants(classifier, size)) + ((DistilledModel().name,) if self.distilled else ())

    def _variants(self, classifier: Classifier, size: tuple[int, int]) -> dict[str, Callable[[], Classifier]]:
        if not weight_layers(classifier, size):
            return {}
        return {
            f"pruned {self.prune:.0%}": lambda: prune(classifier, self.prune),
            f"{self.bits} bits": lambda: quantise(classifier, self.bits),
        }

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """The outputs of the classifier, and the outputs and a map of each variant."""
        count = len(self.points(size, classifier))
        return (explain + Passes(forward=1)) * count + Passes(forward=min(1, count))

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The outputs of the classifier."""
        return output_parts() if self.points(size, classifier) else {}
