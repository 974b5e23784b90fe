"""Model consistency: models that decide alike should be explained alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.registry import metric
from snellen.relatives import pruned, quantised, weight_layers
from snellen.similarity import Likeness, likeness
from snellen.types import Case, Passes, Rng


@metric(
    "model-consistency",
    cite="ding2021",
    attribute="model-sensitivity",
    higher_is_better=True,
    bounds=(-1.0, 1.0),
    needs={"explain", "layer"},
    undefined="a map is constant, or no compressed sibling predicts the same class as the classifier",
    test="Model Consistency",
    formula="mean over siblings f′ of likeness(Φ(x; f), Φ(x; f′)), where f′ predicts the same class",
    reading="The paper distils a smaller model; here the siblings are the classifier with its smallest weights pruned and "
    "with its weights rounded, which needs no training. Signs count; likeness=ssim and likeness=pearson give others.",
    caveats={"ding2021": "a map that does not look at the model is perfectly consistent"},
)
@dataclass(frozen=True)
class ModelConsistency:
    """How alike the maps of the classifier and of its compressed siblings are: 1 is the same map.

    Ding & Koehn 2021. One sibling lacks the share `prune` of its weights, the smallest over all layers; the other has
    weights of `bits` bits. A sibling that predicts another class for a picture is left out there. Likenesses 0.9 and 0.7
    give 0.8.
    """

    prune: float = 0.3
    bits: int = 8
    likeness: Likeness = "spearman"

    def __post_init__(self) -> None:
        if not 0 < self.prune < 1:
            raise ValueError(f"prune must lie between 0 and 1, not {self.prune}")
        if not 2 <= self.bits <= 16:
            raise ValueError(f"bits must lie between 2 and 16, not {self.bits}")

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        return self.score(self.curve(case, rng=rng))

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch siblings"]:
        """The likeness for each sibling."""
        siblings = self._siblings(case.classifier, (int(case.inputs.shape[2]), int(case.inputs.shape[3])))
        if not siblings:
            return case.maps.new_empty(len(case), 0)
        own = case.classifier.answered(case.inputs, case.targets).predicted
        columns = []
        for compress in siblings.values():
            sibling = compress()
            said = sibling.answers([(case.inputs, case.targets)]).predicted
            again = case.explain(case.inputs.clone(), classifier=sibling, rng=rng)
            columns.append(likeness(case.maps, again, self.likeness).masked_fill(said != own, torch.nan))
        return torch.stack(columns, dim=1)

    def score(self, curve: Float[Tensor, "batch siblings"]) -> Float[Tensor, " batch"]:
        """The mean over the siblings that count."""
        return curve.nanmean(dim=1)

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The siblings."""
        return tuple(self._siblings(classifier, size))

    def _siblings(self, classifier: Classifier, size: tuple[int, int]) -> dict[str, Callable[[], Classifier]]:
        if not weight_layers(classifier, size):
            return {}
        return {
            f"pruned {self.prune:.0%}": lambda: pruned(classifier, self.prune),
            f"{self.bits} bits": lambda: quantised(classifier, self.bits),
        }

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """The picture, and for each sibling the picture and a map."""
        count = len(self._siblings(classifier, size))
        return (explain + Passes(forward=1)) * count + Passes(forward=min(1, count))

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The picture itself."""
        return {("images", "answered"): Passes(forward=1)} if self._siblings(classifier, size) else {}
