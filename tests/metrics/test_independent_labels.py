"""Independent labels are scored by their own sigmoid: as the second of two exclusive classes with the logits 0 and z."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.maps.explainer import case_of
from snellen.methods.gradient import InputXGradient
from snellen.plugins.checks.planted import SIDE, planted_network
from snellen.plugins.registry import METHODS, METRICS, traits
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


class FourteenFindings(nn.Module):
    """Fourteen sigmoid heads over a small convolution with random weights, spread enough for the heads to differ."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(14)
        self.convolution = nn.Conv2d(3, 8, 3, padding=1)
        self.heads = nn.Linear(8, 14)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.heads(self.convolution(inputs).relu().mean((2, 3)))
        return logits


def naive_deletion(network: nn.Module, image: Tensor, label: int, saliency: Tensor, ties: Tensor, steps: int) -> float:
    """The area under the label's own sigmoid while black pixels replace salient ones; `ties` orders equal pixels."""
    ranks = list(zip((-saliency).flatten().tolist(), ties.tolist(), strict=True))
    order = sorted(range(len(ranks)), key=ranks.__getitem__)
    heights = []
    for step in range(steps + 1):
        changed = image.clone()
        for index in order[: len(order) * step // steps]:
            changed[:, index // image.shape[2], index % image.shape[2]] = 0
        heights.append(1 / (1 + math.exp(-float(network(changed[None])[0, label]))))
    return sum((left + right) / 2 for left, right in pairwise(heights)) / steps


def test_fourteen_heads_are_told_apart_by_deletion() -> None:
    network, steps = FourteenFindings().eval(), 8
    images = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    classifier = Classifier(network, heads="independent-labels")
    rng, metric = Rng(0, ("a", "b")), METRICS.build("deletion", {"steps": steps, "fill": "black"})
    means, ties = {}, rng.uniform("ties", (256,))
    for label in (3, 11):
        for name in ("grad-cam", "gradient", "random"):
            with torch.no_grad():
                case = case_of(METHODS.build(name), classifier, images, torch.full((2,), label), rng=rng)
                scores = metric(case, rng=rng).tolist()
                naive = [naive_deletion(network, images[row], label, case.maps[row], ties[row], steps) for row in range(2)]
            assert scores == pytest.approx(naive, abs=1e-5), (label, name)
            means[label, name] = sum(scores) / 2
    assert len({round(mean, 3) for mean in means.values()}) == 6, means
