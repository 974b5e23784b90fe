"""Comparisons with models that were trained again, worked out by hand on pictures of 6×6."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn

from snellen.classifier import Classifier
from snellen.maps.explainer import case_of
from snellen.plugins.registry import METRICS
from snellen.types import Case, Passes, Rng


class Sum(nn.Module):
    """Class 0 gets the sum of all pixels under some weights, class 1 a constant."""

    def __init__(self, weights: torch.Tensor, other: float = 0.5) -> None:
        super().__init__()
        self.weights = nn.Parameter(weights)
        self.other = other

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        first = (inputs * self.weights).sum(dim=(1, 2, 3))
        return torch.stack([first, torch.full_like(first, self.other)], dim=1)


@dataclass(frozen=True)
class Weights:
    """The weights of the model, as a map."""

    def __call__(self, classifier, inputs, targets, *, rng):
        gradient, _ = classifier.gradient(inputs, torch.zeros(len(inputs), dtype=torch.long))
        return gradient.sum(dim=1)

    def passes(self, size, classifier):
        return Passes(1, 1)


RISING = torch.arange(36.0).view(1, 6, 6) / 36


def compared(name: str, other: torch.Tensor, how: str, constant: float = 0.5) -> float:
    classifier = Classifier(Sum(RISING), channels=1)
    rng = Rng(0, ("a",))
    case: Case = case_of(Weights(), classifier, torch.ones(1, 1, 6, 6), torch.tensor([0]), rng=rng)
    metric = METRICS.build(name, {"likeness": how})
    (relative,) = metric.trained_variants(Weights())
    variant = classifier.variant(Sum(other, constant), "retrained")
    return float(metric(replace(case, variants={relative.name: variant}), rng=rng))


def test_data_randomisation__the_opposite_model_has_the_opposite_map():
    assert compared("data-randomisation", RISING, "pearson") == 1.0
    assert abs(compared("data-randomisation", -RISING, "pearson") + 1.0) < 1e-6
    assert abs(compared("data-randomisation", RISING, "ssim") - 1.0) < 1e-6


def test_repeatability__a_model_with_the_same_weights_has_the_same_map_and_one_that_decides_otherwise_has_none():
    assert abs(compared("repeatability", RISING, "ssim") - 1.0) < 1e-6
    assert compared("repeatability", RISING.square(), "spearman") == 1.0
    assert torch.tensor(compared("repeatability", RISING, "ssim", constant=1e6)).isnan()
    assert torch.tensor(compared("repeatability", -RISING, "pearson")).isnan()


def test_reproducibility__half_of_the_pixels_turned_round():
    """Weights 0…35 and 17…0, 18…35: the correlation of the two lists, by hand."""
    turned = torch.cat([RISING.flatten()[:18].flip(0), RISING.flatten()[18:]]).view(1, 6, 6)
    numbers, other = torch.arange(36.0), torch.cat([torch.arange(17.0, -1.0, -1.0), torch.arange(18.0, 36.0)])
    by_hand = float(((numbers - 17.5) * (other - 17.5)).sum() / ((numbers - 17.5) ** 2).sum())
    assert abs(compared("reproducibility", turned, "pearson") - by_hand) < 1e-5
    assert torch.tensor(compared("reproducibility", turned, "ssim", constant=1e6)).isnan()


class Looks(nn.Module):
    """Class 1 if this pixel is bright, else class 0."""

    def __init__(self, row: int, column: int) -> None:
        super().__init__()
        self.row, self.column = row, column
        self.gain = nn.Parameter(torch.ones(1))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        seen = self.gain * inputs[:, 0, self.row, self.column]
        return torch.stack([0.5 - seen, seen - 0.5], dim=1)


def test_roar__a_model_is_right_until_its_pixel_is_gone():
    """On 2×2, a map 4 3 / 2 1 removes the first pixel, then the first two; the models look at the pixels 4, 3 and 1."""
    metric = METRICS.build("roar", {"fractions": [0.25, 0.5], "pictures": 7})
    classifier = Classifier(Looks(0, 0), channels=1)
    maps = torch.tensor([[[4.0, 3.0], [2.0, 1.0]]])
    rng = Rng(0, ("a",))
    case = case_of(
        Weights(), classifier, torch.ones(1, 1, 2, 2), torch.tensor([1]), rng=rng, maps=maps, labels=torch.tensor([1])
    )
    whole, quarter, half = (variant.name for variant in metric.trained_variants(Weights()))
    variants = {
        whole: classifier.variant(Looks(0, 0), "whole"),
        quarter: classifier.variant(Looks(0, 1), "a quarter"),
        half: classifier.variant(Looks(1, 1), "half"),
    }
    assert metric.curve(replace(case, variants=variants), rng=rng).tolist() == [[1, 1, 1]]
    variants[half] = variants[quarter]  # looks at the second pixel, which is gone now
    assert metric.curve(replace(case, variants=variants), rng=rng).tolist() == [[1, 1, 0]]
    assert float(metric(replace(case, variants=variants), rng=rng)) == 0.5
    unknown = replace(case, variants=variants, labels=torch.tensor([-1]))
    assert metric(unknown, rng=rng).isnan().all()
    # Another test of the same run was trained on 70 whole pictures, and its model is always wrong.
    blind = classifier.variant(Looks(0, 0), "seventy")
    with torch.no_grad():
        blind.module.gain.zero_()
    beside = {f"{whole}0": blind, **variants}
    assert metric.curve(replace(case, variants=beside), rng=rng).tolist() == [[1, 1, 0]]


@dataclass(frozen=True)
class Marking:
    """0.6 of the map on the object for a model called objects, 0.05 for any other; the rest outside."""

    def __call__(self, classifier, inputs, targets, *, rng):
        tile = (inputs != 0.5).any(dim=1)
        share = 0.6 if classifier.name.endswith("objects") else 0.05
        inside = tile.sum(dim=(1, 2), keepdim=True)
        return torch.where(tile, share / inside, -(1 - share) / (tile[0].numel() - inside))

    def passes(self, size, classifier):
        return Passes()


class Constant(nn.Module):
    def __init__(self, answer: int) -> None:
        super().__init__()
        self.answer = nn.Parameter(nn.functional.one_hot(torch.tensor(answer), 6).float())

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.answer.expand(len(inputs), -1) + 0 * inputs.sum(dim=(1, 2, 3))[:, None]


def test_model_contrast__six_tenths_on_the_object_against_a_twentieth():
    metric = METRICS.build("model-contrast", {"correct_only": False})
    classifier = Classifier(Constant(0), channels=1)
    rng = Rng(0, ("a", "b", "c"))
    targets = torch.zeros(3, dtype=torch.long)
    inputs = torch.full((3, 1, 16, 16), 0.5)
    case = case_of(Marking(), classifier, inputs, targets, rng=rng, labels=torch.tensor([0, 0, -1]))
    trained = metric.trained_variants(Marking())
    variants = {variant.name: classifier.variant(Constant(0), variant.task) for variant in trained}
    contrast = metric(replace(case, variants=variants), rng=rng)
    torch.testing.assert_close(contrast, torch.tensor([0.55, 0.55, torch.nan]), equal_nan=True)
    # 16 of 256 pixels are the object: 0.6/16 is more than 0.4/240 outside, but 0.05/16 is less than 0.95/240. Stretched to
    # [0, 1], the object is all bright for the first model and all dark for the second.
    by_mean = METRICS.build("model-contrast", {"correct_only": False, "inside": "mean"})
    assert by_mean(replace(case, variants=variants), rng=rng)[:2].tolist() == [1.0, 1.0]


def test_checkpoint_sensitivity__only_a_state_that_decided_otherwise_counts():
    classifier = Classifier(Sum(RISING), channels=1)
    rng = Rng(0, ("a",))
    case = case_of(Weights(), classifier, torch.ones(1, 1, 6, 6), torch.tensor([0]), rng=rng)
    states = {"checkpoint/a": Sum(-RISING), "checkpoint/b": Sum(RISING, other=1e6), "checkpoint/c": Sum(RISING + 1)}
    variants = {name: classifier.variant(model, name) for name, model in states.items()}
    metric = METRICS.build("checkpoint-sensitivity", {"likeness": "pearson", "states": 3})
    curve = metric.curve(replace(case, variants=variants), rng=rng)
    torch.testing.assert_close(curve, torch.tensor([[2.0, 0.0, torch.nan]]), equal_nan=True, rtol=0, atol=1e-6)
    assert abs(float(metric(replace(case, variants=variants), rng=rng)) - 1.0) < 1e-6
    del variants["checkpoint/a"], variants["checkpoint/b"]
    assert metric(replace(case, variants=variants), rng=rng).isnan().all()
