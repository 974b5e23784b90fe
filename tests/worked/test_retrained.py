"""Comparisons with models that were trained again, worked out by hand on pictures of 6×6."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn

from snellen.classifier import Classifier
from snellen.explainer import case_of
from snellen.registry import METRICS
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
    metric = METRICS.build(name, {"how": how})
    (relative,) = metric.relatives(Weights())
    sibling = classifier.relative(Sum(other, constant), "retrained")
    return float(metric(replace(case, siblings={relative.name: sibling}), rng=rng))


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
