"""Independent labels are scored by their own sigmoid: as the second of two exclusive classes with the logits 0 and z."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.maps.explainer import case_of
from snellen.methods.gradient import InputXGradient
from snellen.plugins.checks.planted import SIDE, planted_network
from snellen.plugins.registry import METRICS, traits
from snellen.types import CurveMetric, Rng

LABEL = 1


class Shifted(nn.Module):
    """The planted network with logits that are never exactly 0, where two classes tie and a threshold does not."""

    def __init__(self) -> None:
        super().__init__()
        self.network = planted_network("cnn")

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.network(inputs) - 0.05
        return logits


class YesOrNo(nn.Module):
    """The logits 0 and z of one output of a network: exclusive classes with the probability sigmoid(z) of yes."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor) -> Tensor:
        yes = self.network(inputs)[:, LABEL : LABEL + 1]
        return torch.cat([torch.zeros_like(yes), yes], dim=1)


def reads_outputs(name: str) -> bool:
    """Whether the metric reads an output of the model and needs neither training nor a truth nor layers."""
    facts = traits(METRICS.build(name))
    return not facts.needs & {"truth", "recipe", "checkpoints", "labels", "layer"} and facts.needs_output != "classes"


OTHERWISE = dict.fromkeys(
    ("sensitivity", "cose"),
    "explains the new class where a decision changes, which a label has not, and random weights differ by layer name",
)
"""Metrics that cannot be compared so, and why."""

NAMES = [name for name in METRICS if reads_outputs(name) and name not in OTHERWISE]


@pytest.mark.parametrize("name", NAMES)
def test_a_label_scores_as_the_yes_of_a_yes_or_no_question(name: str) -> None:
    network = Shifted()
    independent = Classifier(network, heads="independent-labels")
    exclusive = Classifier(YesOrNo(network))
    inputs = torch.rand(3, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(4))
    rng, metric = Rng(0, ("a", "b", "c")), METRICS.build(name)
    scores = []
    for classifier, target in ((independent, LABEL), (exclusive, 1)):
        case = case_of(InputXGradient(), classifier, inputs, torch.full((3,), target), rng=rng)
        with torch.no_grad():
            scores.append(metric.curve(case, rng=rng) if isinstance(metric, CurveMetric) else metric(case, rng=rng))
    assert torch.allclose(scores[0], scores[1], atol=1e-5, rtol=1e-4, equal_nan=True), (scores[0] - scores[1]).abs().max()
    assert not scores[0].isnan().all(), "nothing was compared"


def test_most_metrics_were_compared() -> None:
    assert len(NAMES) > 25
    assert {"deletion", "insertion", "average-drop", "average-gain", "adcc", "faithfulness", "road", "stability"} <= set(
        NAMES
    )
