"""Deep Taylor decomposition."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from snellen.classifier import Classifier
from snellen.maps.folding import Fold, fold
from snellen.methods.propagation import Propagation, check
from snellen.methods.relevance_rules import AlphaBeta, Box
from snellen.plugins.registry import method
from snellen.types import Images, Maps, Passes, Rng, Targets


@method(
    "deep-taylor",
    cite="montavon2017",
    family="relevance-propagation",
    needs={"gradients", "relu"},
    caveats={
        "sixt2020": "its maps hardly change when the weights of upper layers are drawn at random, or for another class",
        "snellen2026": "little of the logit reaches the pixels through depthwise convolutions: on EfficientNet-Lite0 the "
        "map sums to 3 to 8 % of it (7 photographs)",
    },
    presets={"kim2022": {}},
    ranges={"fold": ("absolute-sum", "absolute-max", "norm")},
)
@dataclass(frozen=True)
class DeepTaylor:
    """Each pixel's share of the target's positive logit, handed down among what excites each neuron, never below zero.

    Biases take no share: the map sums to the logit but for neurons that nothing excites except their bias. Of a class whose
    logit is not positive it is zero everywhere. The first layer uses that pixels lie between 0 and 1. It is defined for
    rectifiers only.
    """

    fold: Fold = "sum"

    def prepare(self, classifier: Classifier, inputs: Images) -> None:
        """Refuses a classifier with an operation that has no rule."""
        check(self._rules(classifier), classifier, inputs)

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward and one backward."""
        return Passes(1, 1)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        shares, output = classifier.gradient(inputs, targets, through=self._rules(classifier))
        return fold(shares * output.clamp_min(0).view(-1, 1, 1, 1), self.fold)

    def _rules(self, classifier: Classifier) -> Propagation:
        excited = AlphaBeta(biased=False)
        pixels = torch.arange(2.0).view(2, 1, 1, 1).expand(2, classifier.channels, 1, 1)
        black, white = classifier.to_inputs(pixels).flatten(1).tolist()
        return Propagation(
            "deep-taylor", dense=excited, convolution=excited, first=Box(), positive=True, activations=frozenset(),
            box=(tuple(black), tuple(white)),
        )  # fmt: skip
