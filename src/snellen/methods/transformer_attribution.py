"""Transformer attribution."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.classifier.attention import Weights
from snellen.methods.class_activation import upsample
from snellen.plugins.registry import method
from snellen.types import Images, Maps, Output, Passes, Rng, Targets


@method(
    "transformer-attribution",
    cite="chefer2021generic",
    family="relevance-propagation",
    needs={"gradients", "layer"},
    presets={"chefer2021generic": {}},
    ranges={"of": ("probability",)},
    tested_on="a planted transformer only, since no pretrained network with attention comes with Snellen",
)
@dataclass(frozen=True)
class TransformerAttribution:
    """How much of each patch reaches the token that the head reads through attention that raises the target's output.

    This is the later of two rules by Chefer, Gur and Wolf, that for self-attention (ICCV 2021): in every layer the positive
    part of attention times its gradient, averaged over heads, and R ← R + that · R from the identity on. The earlier rule
    (CVPR 2021) has layer-wise relevance in place of attention, and would need a rule for every other layer of the model too.
    Where the head reads several tokens, the map is the mean over these.
    """

    of: Output = "logit"

    def prepare(self, classifier: Classifier, inputs: Images) -> None:
        """Refuses a classifier without attention between all tokens."""
        classifier.rows_for(inputs, gradients=True)
        classifier.attention_layout(inputs, method="transformer-attribution")

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward, and one backward that ends at the first attention."""
        return Passes(1, 1)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        attending = classifier.attention_layout(inputs, method="transformer-attribution")
        layers = classifier.attention_gradients(inputs, targets, _raising, of=self.of)
        # Only R - identity is computed: what a token keeps of itself is no flow. A class token has the same map either way.
        gained = torch.zeros_like(layers[:, 0])
        for layer in layers.unbind(dim=1):
            gained = gained + layer + layer @ gained
        return upsample(attending.read(gained).squeeze(1), inputs)


def _raising(weights: Weights, gradient: Weights) -> Float[Tensor, "batch tokens tokens"]:
    return (weights * gradient).relu().mean(dim=1)
