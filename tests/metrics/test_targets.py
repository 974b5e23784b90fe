"""Every metric that reads outputs scores every kind of target as the second of two exclusive classes, or refuses by name."""

from __future__ import annotations

import pytest
import torch
from tests.targets import PARAMETERS, TARGETS, WITHOUT_PROBABILITY, Target
from torch import Tensor

from snellen.classifier import Classifier
from snellen.classifier.targets import Contrast, OutputFunction
from snellen.maps.explainer import case_of
from snellen.methods.gradient import InputXGradient
from snellen.plugins.checks.planted import planted_batch, planted_network
from snellen.plugins.registry import METRICS, traits
from snellen.runs.requirements import head_problem
from snellen.types import Metric, Passes, Rng

OTHERWISE = dict.fromkeys(
    ("sensitivity", "cose", "linearity"),
    "explains the new class where a decision changes, draws weights by layer name, or mixes all classes",
)
"""Metrics that cannot be compared so, and why."""


def reads_outputs(name: str) -> bool:
    facts = traits(METRICS.build(name))
    return not facts.needs & {"truth", "recipe", "checkpoints", "labels", "layer"} and facts.needs_output != "classes"


NAMES = [name for name in METRICS if reads_outputs(name) and name not in OTHERWISE]
NEEDS_PROBABILITY = {"average-drop", "average-increase", "average-gain", "local-accuracy", "adcc", "sufficiency"}
NEEDS_DECISION = {"stability", "road", "minimality", "consistency", "input-consistency"}


def build(name: str, target: str) -> Metric:
    without = target in WITHOUT_PROBABILITY and getattr(METRICS.build(name), "of", None) == "probability"
    return METRICS.build(name, {"of": "logit"} if without else {})


def scores(metric: Metric, target: Target, *, twin: bool) -> Tensor:
    classifier, column = target.classifier(planted_network(), twin=twin)
    batch = planted_batch(3)
    case = case_of(InputXGradient(), classifier, batch.pixels, torch.full((3,), column), rng=batch.rng)
    with torch.no_grad():
        return metric(case, rng=batch.rng)


@pytest.mark.parametrize("target", PARAMETERS)
@pytest.mark.parametrize("name", NAMES)
def test_a_target_is_scored_as_one_of_two_classes(name: str, target: str) -> None:
    metric = build(name, target)
    problem = head_problem(metric, TARGETS[target].classifier(planted_network())[0])
    refused = target in WITHOUT_PROBABILITY and name in NEEDS_PROBABILITY | NEEDS_DECISION
    assert (problem is not None) == refused, problem
    if problem is None:
        own, expected = (scores(metric, TARGETS[target], twin=twin) for twin in (False, True))
        assert torch.allclose(own, expected, rtol=1e-3, atol=1e-4, equal_nan=True), (own - expected).abs().max()


def test_most_metrics_were_compared() -> None:
    assert len(NAMES) > 25
    assert set(NAMES) >= NEEDS_PROBABILITY | NEEDS_DECISION


def test_a_number_has_no_classes_to_rename() -> None:
    number = TARGETS["number"].classifier(planted_network())[0]
    assert "linearity(partner=randomised)" in str(head_problem(METRICS.build("linearity"), number))
    assert head_problem(METRICS.build("linearity", {"partner": "randomised"}), number) is None


class Recording:
    """A method that records which targets it explains."""

    def __init__(self) -> None:
        self.explained: list[Tensor] = []

    def __call__(self, classifier: Classifier, inputs: Tensor, targets: Tensor, *, rng: Rng) -> Tensor:
        self.explained.append(targets)
        return inputs.mean(dim=1)

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        return Passes()


def test_the_other_class_of_a_contrast_may_be_any_class() -> None:
    """random-logit draws evenly from all classes, the last one too."""
    classifier = Classifier(planted_network()).with_target(Contrast(0, 1), "it")
    batch = planted_batch(1)
    inputs = batch.pixels.expand(24, -1, -1, -1)
    rng, recording = Rng(0, tuple(str(place) for place in range(24))), Recording()
    METRICS.build("random-logit")(case_of(recording, classifier, inputs, torch.full((24,), 3), rng=rng), rng=rng)
    assert set(recording.explained[-1].tolist()) == {0, 1, 2}


def test_variants_explain_a_contrast_too() -> None:
    """Where a head is not stated, the sum of two networks once lost the contrast that is explained."""
    classifier = Classifier(planted_network()).with_target(Contrast(0, 2), "it")
    batch = planted_batch(2)
    case = case_of(InputXGradient(), classifier, batch.pixels, torch.full((2,), 3), rng=batch.rng)
    for settings in ({}, {"partner": "randomised"}):
        assert METRICS.build("linearity", settings)(case, rng=batch.rng).tolist() == pytest.approx([0, 0], abs=1e-4)
    summed = classifier.variant(planted_network(), "again")
    assert torch.equal(summed.logits(batch.pixels), classifier.logits(batch.pixels))


def test_a_sum_need_not_be_explained_by_a_function_of_the_outputs() -> None:
    classifier = Classifier(planted_network()).with_target(
        OutputFunction(lambda rows: rows.square().sum(1), "squares"), "it"
    )
    assert head_problem(METRICS.build("linearity"), classifier) == (
        "adds the logits of two models, but it of a sum need not be the sum; name a class"
    )
