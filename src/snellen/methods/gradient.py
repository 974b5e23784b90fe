"""The plain gradient, and the gradient times the input; both use the same cached pass."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Protocol

from snellen.classifier import Classifier
from snellen.maps.folding import Fold, fold
from snellen.plugins.registry import method
from snellen.plugins.traits import TraitEvidence
from snellen.types import Images, Maps, OneGradient, Output, Rng, Targets


class _CachedGradient(OneGradient, Protocol):
    of: Output

    def cache_key(self) -> Hashable:
        """The gradient itself."""
        return "gradient", self.of


@method(
    "gradient",
    cite="simonyan2014",
    family="gradient",
    needs={"gradients"},
    implementation_invariant=TraitEvidence(0.01, images=18, networks=5, missed=2),
    presets={"zhang2024": {}, "kim2022": {}, "boggust2023": {"fold": "absolute-sum"}},
    ranges={"fold": ("absolute-sum", "norm", "sum"), "of": ("probability",)},
)
@dataclass(frozen=True)
class Gradient(_CachedGradient):
    """How much the target's output would change with a small change of each pixel; by default the largest of its channels.

    A linear classifier `2 * red - 3 * green` has the map 3 everywhere, and -1 with `fold="sum"`.
    """

    fold: Fold = "absolute-max"
    of: Output = "logit"

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        gradient, _ = classifier.gradient(inputs, targets, of=self.of, cached=True)
        return fold(gradient, self.fold)


@method(
    "input-x-gradient",
    cite="shrikumar2016",
    family="path",
    signed=True,
    needs={"gradients"},
    implementation_invariant=TraitEvidence(0.01, images=18, networks=5, missed=2),
    presets={"kim2022": {}, "boggust2023": {"fold": "absolute-sum"}},
    ranges={"of": ("probability",), "fold": ("absolute-sum", "absolute-max", "norm")},
)
@dataclass(frozen=True)
class InputXGradient(_CachedGradient):
    """Each pixel's share of the target's output were the classifier linear: input times gradient, summed over channels."""

    of: Output = "logit"
    fold: Fold = "sum"

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        gradient, _ = classifier.gradient(inputs, targets, of=self.of, cached=True)
        return fold(inputs * gradient, self.fold)
