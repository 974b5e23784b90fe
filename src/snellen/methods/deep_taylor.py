"""Deep Taylor decomposition."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.folding import Fold
from snellen.methods.propagation import Propagation, RelevancePropagation
from snellen.methods.relevance_rules import AlphaBeta, Box
from snellen.plugins.registry import method


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
class DeepTaylor(RelevancePropagation):
    """Each pixel's share of the target's positive logit, handed down among what excites each neuron, never below zero.

    Biases take no share: the map sums to the logit but for neurons that nothing excites except their bias. Of a class whose
    logit is not positive it is zero everywhere. The first layer uses that pixels lie between 0 and 1. It is defined for
    rectifiers only.
    """

    fold: Fold = "sum"

    def relevance(self, output: Float[Tensor, " batch"]) -> Float[Tensor, " batch"]:
        """What is handed down: the target's logit where it is positive."""
        return output.clamp_min(0)

    def output_problem(self, classifier: Classifier) -> str | None:
        """It refuses differences: what excites a contrast is no sum of what excites its two classes."""
        if classifier.head.outputs_as_columns:
            return None
        what = classifier.target_name or classifier.head.words
        return f"hands down what excites an output of the model, but explained is {what}; use lrp-alpha1-beta0"

    def rules(self, classifier: Classifier) -> Propagation:
        """One for all layers but the first, which uses the range of the pixels."""
        excited = AlphaBeta(biased=False)
        pixels = torch.arange(2.0).view(2, 1, 1, 1).expand(2, classifier.channels, 1, 1)
        black, white = classifier.to_inputs(pixels).flatten(1).tolist()
        return Propagation(
            "deep-taylor", dense=excited, convolution=excited, first=Box(), positive=True, activations=frozenset(),
            box=(tuple(black), tuple(white)),
        )  # fmt: skip
