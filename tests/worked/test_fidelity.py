"""What a map says about the output, with a pencil: one small picture per metric, named after it."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from snellen.classifier import Classifier
from snellen.explainer import Explainer
from snellen.masking import BLACK
from snellen.metrics.adcc import Adcc, Coherency
from snellen.metrics.completeness import Completeness
from snellen.metrics.confidence import LocalAccuracy
from snellen.metrics.sensitivity import Robustness
from snellen.metrics.targets import RandomLogit, TargetSensitivity
from snellen.types import Case, Passes, Rng

RNG = Rng(seed=0, ids=("picture",))


def grid(rows: list[list[float]]) -> Tensor:
    """One picture or map, row by row."""
    return torch.tensor([rows])


def total(inputs: Tensor) -> Tensor:
    """f = the sum of all pixels: the logit of class 0; class 1 has the opposite."""
    value = inputs.flatten(1).sum(dim=1)
    return torch.stack([value, -value], dim=1)


def chance(inputs: Tensor) -> Tensor:
    """f = the mean of all pixels, as a probability of class 0 against class 1."""
    value = inputs.flatten(1).mean(dim=1)
    return torch.stack([value, 1 - value], dim=1)


def still(inputs: Tensor) -> Tensor:
    """f = 5, whatever the picture."""
    return torch.tensor([[5.0, 0.0]]).repeat(len(inputs), 1)


class Times:
    """The picture itself, times a number: as a map, or as a map of class 1 with the opposite sign."""

    def __init__(self, factor: float = 1.0, *, signed: bool = False) -> None:
        self.factor, self.signed = factor, signed

    def __call__(self, classifier, inputs, targets, *, rng):
        sign = (1.0 - 2 * targets.view(-1, 1, 1)) if self.signed else 1.0
        return self.factor * sign * inputs[:, 0]

    def passes(self, size, classifier):
        return Passes()


def case(maps: Tensor, picture: Tensor, *, model=total, method=None, labels=None, target: int = 0) -> Case:
    outputs = "probabilities" if model is chance else "logits"
    classifier, targets = Classifier(model, outputs=outputs, channels=1), torch.tensor([target])
    explain = Explainer(method or Times(), classifier, targets)
    return Case(classifier, picture.unsqueeze(1), targets, maps, explain, labels=labels)


def approx(value: float):
    return pytest.approx(value, abs=1e-6)


RISING = grid([[0.1, 0.2], [0.3, 0.4]])
"""Sums up to 1."""
HALF = grid([[1.0, 1.0], [0.0, 0.0]])
FULL = torch.ones(1, 2, 2)


def test_completeness__of_the_sum_of_all_pixels():
    # f(x) = 1, f(0) = 0. The picture itself adds up to 1: no gap. Three times it adds up to 3: |3 - 1| / 1 = 2.
    metric = Completeness()
    assert metric(case(RISING, RISING), rng=RNG).item() == approx(0)
    assert metric(case(3 * RISING, RISING), rng=RNG).item() == approx(2)
    assert metric.curve(case(3 * RISING, RISING), rng=RNG)[0].tolist() == pytest.approx([3, 1, 2], abs=1e-6)


def test_completeness__relative_and_plain():
    # The picture is doubled: f(x) = 2. A map that adds up to 3 is 1 off, which is half of 2.
    one = case(3 * RISING, 2 * RISING)
    assert Completeness()(one, rng=RNG).item() == approx(0.5)
    assert Completeness(relative=False)(one, rng=RNG).item() == approx(1)


def test_completeness__of_an_output_that_never_changes():
    # f(x) = f(0) = 5: nothing to be relative to, but a plain gap of 1.
    one = case(RISING, RISING, model=still)
    assert math.isnan(Completeness()(one, rng=RNG).item())
    assert Completeness(relative=False)(one, rng=RNG).item() == approx(1)


def test_local_accuracy__of_half_a_picture():
    # The mask shows two of four white pixels: p = 1, o = 1/2. Losing and winning count alike.
    assert LocalAccuracy()(case(HALF, FULL, model=chance), rng=RNG).item() == approx(0.5)
    assert LocalAccuracy()(case(HALF, FULL, model=chance, target=1), rng=RNG).item() == approx(0.5)
    assert math.isnan(LocalAccuracy()(case(FULL, FULL, model=chance), rng=RNG).item())


def test_robustness__of_three_times_the_picture():
    # Φ = 3x moves three times as far as the picture, whatever the noise. ‖x‖ = 5, so relative to ‖Φ(x)‖ = 15 that is 1/5.
    picture = grid([[3.0, 0.0], [0.0, 4.0]])
    one = case(3 * picture, picture, method=Times(3))
    assert Robustness(relative=False)(one, rng=RNG).item() == pytest.approx(3, rel=1e-5)
    assert Robustness()(one, rng=RNG).item() == pytest.approx(0.2, rel=1e-5)


def test_coherency__of_the_picture_and_its_negative():
    # The mask of (0, 1, 2, 2) is (0, 1/2, 1, 1), which is all that is left of a white picture. As a map of its own it
    # correlates perfectly with the first, and its negative not at all.
    maps = grid([[0.0, 1.0], [2.0, 2.0]])
    assert Coherency()(case(maps, FULL, method=Times(1)), rng=RNG).item() == approx(1)
    assert Coherency()(case(maps, FULL, method=Times(-1)), rng=RNG).item() == approx(0)


def test_coherency__of_a_corner():
    # Seen through (1, 1, 0, 0), the picture (2, 0, 2, 0) becomes (2, 0, 0, 0).
    # Around their means: (1, 1, -1, -1) / 2 and (3, -1, -1, -1) / 2. r = 4 / √(4 · 12) = 1 / √3.
    one = case(HALF, grid([[2.0, 0.0], [2.0, 0.0]]))
    assert Coherency()(one, rng=RNG).item() == approx((1 / math.sqrt(3) + 1) / 2)


def test_adcc__of_half_a_picture():
    # Coherency 1; the mask's mean is 1/2; from p = 1 to o = 1/2 the drop is 1/2: 3 / (1 + 2 + 2).
    one = case(HALF, FULL, model=chance)
    assert Adcc().curve(one, rng=RNG)[0].tolist() == pytest.approx([1, 0.5, 0.5], abs=1e-6)
    assert Adcc()(one, rng=RNG).item() == approx(0.6)
    assert Adcc(fill=BLACK)(one, rng=RNG).item() == approx(0.6)  # black is zero here


def test_adcc__of_an_incoherent_map():
    # One virtue that is missing altogether spoils the harmonic mean.
    assert Adcc()(case(HALF, FULL, model=chance, method=Times(-1)), rng=RNG).item() == approx(0)


def test_target_sensitivity__of_a_sign():
    # f = (1, -1): class 1 is the least likely. Its map is the opposite of the other: r = -1, so 1 - r = 2.
    metric = TargetSensitivity(likeness="pearson")
    assert metric(case(RISING, RISING, method=Times(1, signed=True)), rng=RNG).item() == approx(2)
    assert metric(case(RISING, RISING, method=Times(1)), rng=RNG).item() == approx(0)


def test_target_sensitivity__when_the_target_is_the_least_likely_class():
    # Nothing to compare with; but the right class is class 0, whose map is the opposite.
    one = case(-RISING, RISING, method=Times(1, signed=True), labels=torch.tensor([0]), target=1)
    least, right = TargetSensitivity(likeness="pearson").curve(one, rng=RNG)[0].tolist()
    assert math.isnan(least)
    assert right == approx(2)


def test_random_logit__of_a_sign():
    # There is only one other class to draw.
    metric = RandomLogit(likeness="pearson")
    assert metric(case(RISING, RISING, method=Times(1, signed=True)), rng=RNG).item() == approx(-1)
    assert metric(case(RISING, RISING, method=Times(1)), rng=RNG).item() == approx(1)
