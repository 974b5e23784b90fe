"""Attention rollout."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.classifier.attention import Weights
from snellen.methods.class_activation import upsample
from snellen.plugins.registry import method
from snellen.types import Images, Maps, Passes, Rng, Targets

Folded = Float[Tensor, "batch tokens tokens"]


@method(
    "attention-rollout",
    cite="abnar2020",
    family="attention",
    class_specific=False,
    needs={"layer"},
    caveats={
        "chefer2021": "it is the same for every class, and often marks tokens that do not affect the output",
        "jain2019": "attention weights need not show what an output depends on",
    },
    presets={"abnar2020": {}},
    ranges={"heads": ("max", "min")},
    tested_on="a planted transformer only, since no pretrained network with attention comes with Snellen",
)
@dataclass(frozen=True)
class AttentionRollout:
    """How much of each patch flows into the token that the head reads, when attention is taken for the share that flows.

    Every layer passes on half of each token as it is and half as attention mixes it; the layers multiply. `heads` says how
    the heads of a layer become one. Where the head reads several tokens (the mean over patches, or a class token and a
    distillation token), the map is the mean over these.
    """

    heads: Literal["mean", "max", "min"] = "mean"

    def prepare(self, classifier: Classifier, inputs: Images) -> None:
        """Refuses a classifier without attention between all tokens."""
        classifier.rows_for(inputs)
        classifier.attention_layout(inputs, method="attention-rollout")

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward."""
        return Passes(1)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        attending = classifier.attention_layout(inputs, method="attention-rollout")
        layers = classifier.attentions(inputs, {"mean": _mean, "max": _max, "min": _min}[self.heads])
        mixing = layers + torch.eye(layers.shape[-1]).to(layers)
        mixing = mixing / mixing.sum(dim=-1, keepdim=True)
        flow = mixing[:, 0]
        for layer in mixing.unbind(dim=1)[1:]:
            flow = layer @ flow
        return upsample(attending.read(flow).squeeze(1), inputs)


def _mean(weights: Weights) -> Folded:
    return weights.mean(dim=1)


def _max(weights: Weights) -> Folded:
    return weights.amax(dim=1)


def _min(weights: Weights) -> Folded:
    return weights.amin(dim=1)
