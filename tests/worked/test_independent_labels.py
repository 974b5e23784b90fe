"""One of three independent labels, with a pencil, for the metrics that `snellen conform` has no such case of.

The first label is always present (logit 9) and the third always absent (-9): a softmax over the three, or their argmax,
would give other values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.conformance.adapters.snellen import OFFERS
from snellen.conformance.cases.independent_labels import CASES, ThreeLogits
from snellen.conformance.fixtures import LabelsModel, fixed, gradient, label_fixture, nervous, noise, total
from snellen.maps.explainer import case_of
from snellen.plugins.registry import METHODS, METRICS, traits
from snellen.types import Rng

PHOTO = 0.25 + noise(16, 16, seed=61) / 2
WEIGHTS = noise(16, 16, seed=62)


def weighted(weights: list[list[float]], start: float = 0.0) -> Callable[[Tensor], Tensor]:
    """p = start + Σ wx."""
    return lambda inputs: start + (inputs.mean(dim=1) * torch.tensor(weights)).sum(dim=(1, 2))


def unchanged(photo: Tensor) -> Callable[[Tensor], Tensor]:
    """p = 0.9 for this image, and 0.1 for every other."""
    return lambda inputs: 0.1 + 0.8 * (inputs.mean(dim=1) - photo).abs().amax(dim=(1, 2)).lt(1e-6).float()


def test_luminosity_calibration() -> None:
    # p = Σx: 0.2 and 0.6 alone, the shares 1/4 and 3/4. The map says 3/4 and 1/4: 1 - (1/2 + 1/2) / 2.
    fixture = label_fixture(total, [[0.2, 0.6]], [[3.0, 1.0]])
    assert OFFERS["luminosity-calibration"](fixture, cells=2, of="probability") == pytest.approx([0.5], abs=1e-5)
    right = fixture.with_maps(torch.tensor([[1.0, 3.0]]))
    assert OFFERS["luminosity-calibration"](right, cells=2, of="probability") == pytest.approx([1.0], abs=1e-5)


def test_monotonicity() -> None:
    # p = 1/2 + (a - b) / 4 and the map (1, -1): b enters with p = 1/4, then a with p = 1/2. The map (-1, 1): 3/4, then 1/2.
    formula, settings = weighted([[0.25, -0.25]], 0.5), {"steps": 2, "of": "probability", "fill": "mean"}
    for maps, expected in (([[1.0, -1.0]], 1.0), ([[-1.0, 1.0]], -1.0)):
        fixture = label_fixture(formula, [[1.0, 1.0]], maps)
        assert OFFERS["monotonicity"](fixture, **settings) == pytest.approx([expected], abs=1e-5)


def test_monotonicity_correlation() -> None:
    # p = Σ wx, so the effect of a pixel is (wx)², which rises with w.
    strengths = [[0.05, 0.1], [0.2, 0.35]]
    settings = {"chunks": 4, "samples": 1, "of": "probability", "fill": "mean"}
    for maps, expected in ((torch.tensor(strengths), 1.0), (0.5 - torch.tensor(strengths), -1.0)):
        fixture = label_fixture(weighted(strengths), torch.ones(2, 2), maps)
        assert OFFERS["monotonicity-correlation"](fixture, **settings) == pytest.approx([expected], abs=1e-5)


@pytest.mark.parametrize("metric", ["stability", "consistency", "input-consistency"])
def test_changes_that_lose_the_label_do_not_count(metric: str) -> None:
    # Every change of the image loses the label (p = 0.1 < 1/2), though the most likely label stays: nothing is compared.
    lost = label_fixture(unchanged(PHOTO), PHOTO, fixed)
    assert math.isnan(OFFERS[metric](lost)[0])


@pytest.mark.parametrize("metric", ["stability", "input-consistency"])
def test_changes_that_keep_the_label_count(metric: str) -> None:
    # The label stays (p = 0.9), and its map is the same for every image.
    stays = label_fixture(lambda inputs: 0.9 + 0 * total(inputs), PHOTO, fixed)
    assert OFFERS[metric](stays) == pytest.approx([1.0], abs=1e-5)


@pytest.mark.parametrize("metric", ["sensitivity", "cose"])
def test_sensitivity_needs_a_change_that_loses_the_label(metric: str) -> None:
    stays = label_fixture(lambda inputs: 0.9 + 0 * total(inputs), PHOTO, nervous)
    assert math.isnan(OFFERS[metric](stays)[0])


def test_sensitivity_counts_changes_that_lose_the_label() -> None:
    # Light and colour move no pixel: with a map that never changes, all of them lose the label and have 1 - 1 = 0.
    lost = label_fixture(unchanged(PHOTO), PHOTO, fixed)
    stays = label_fixture(lambda inputs: 0.9 + 0 * total(inputs), PHOTO, fixed)
    assert 0 <= OFFERS["sensitivity"](lost)[0] < 0.5 < OFFERS["sensitivity"](replace(lost, explain=nervous))[0]
    assert math.isnan(OFFERS["sensitivity"](stays)[0])


class Convolution(nn.Module):
    """Three labels whose logits are 9, a weighted sum and -9, by a convolution that can be compressed."""

    def __init__(self, weights: Tensor, bias: float) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(1, 3, weights.shape[0])
        with torch.no_grad():
            self.convolution.weight.zero_()
            self.convolution.weight[1, 0] = weights
            self.convolution.bias.copy_(torch.tensor([9.0, bias, -9.0]))

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.convolution(inputs).flatten(1)
        return logits


def test_model_consistency() -> None:
    # All weights but the largest are pruned: the label's logit falls from 8 + 1 - 8.5 = 0.5 to 8 - 8.5 = -0.5 and the label
    # is lost, though the first label stays the most likely. With bias -7 it stays.
    weights = torch.tensor([[8.0, 1.0], [0.0, 0.0]])
    for bias, defined in ((-8.5, False), (-7.0, True)):
        classifier = Classifier(Convolution(weights, bias), channels=1, heads="independent-labels")
        inputs, rng = torch.ones(1, 1, 2, 2), Rng(0, ("x",))
        case = case_of(METHODS.build("gradient"), classifier, inputs, torch.tensor([1]), rng=rng)
        metric = METRICS.build("model-consistency", {"prune": 11 / 12, "bits": 16})
        curve = metric.curve(case, rng=rng) if hasattr(metric, "curve") else metric(case, rng=rng)
        pruned = curve.flatten()[0]
        assert bool(pruned.isnan()) != defined


def test_checkpoint_sensitivity() -> None:
    # The checkpoint has the opposite weights: it loses the label, whose gradient turns round, 1 - (-1) = 2. With twice the
    # weights the label stays, and nothing is compared.
    fixture = label_fixture(ThreeLogits(WEIGHTS), PHOTO, gradient)
    for factor, expected in ((-1, 2.0), (2, math.nan)):
        variants = {"checkpoint/0": ThreeLogits(factor * WEIGHTS)}
        scores = OFFERS["checkpoint-sensitivity"](replace(fixture, variants=variants), likeness="pearson")
        assert scores == pytest.approx([expected], abs=1e-5, nan_ok=True)


def test_every_metric_that_reads_a_probability_has_a_case_of_a_label() -> None:
    here = {name.removeprefix("test_").replace("_", "-") for name in globals() if name.startswith("test_")}
    covered = (
        here | {case.metric for case in CASES} | {"stability", "consistency", "input-consistency", "sensitivity", "cose"}
    )
    reads = {
        name
        for name in METRICS
        if traits(METRICS[name]).needs_output is not None or getattr(METRICS.build(name), "of", None) is not None
    }
    assert reads <= covered
    assert len(reads) > 20
    assert isinstance(label_fixture(total, PHOTO, PHOTO).model, LabelsModel)
