"""COSE on a grey picture of 4×4, checkable with a pencil; a test is named after its metric, then two underscores."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch

from snellen.classifier import Classifier
from snellen.explainer import Explainer
from snellen.metrics.consistency import Consistency, InputConsistency
from snellen.transforms import TRANSFORMS, drawn
from snellen.types import Case, Passes, Rng

RNG = Rng(seed=0, ids=("picture",))
GREY = 128 / 255
"""The only level of the picture: whatever has to do with colour, contrast or edges leaves it alone; only light does not."""
RISING = torch.arange(4.0).expand(1, 4, 4)
"""A map that rises from left to right."""


def day_or_night(inputs: torch.Tensor) -> torch.Tensor:
    """Class 0 (day) or class 1 (night, where the mean is below 0.3), as a probability of 0.9."""
    day = torch.where(inputs.flatten(1).mean(dim=1) >= 0.3, 0.9, 0.1)
    return torch.stack([day, 1 - day], dim=1)


@dataclass(frozen=True)
class Fixed:
    """The rising map; falling where the picture is darker than the original, and for night a map from top to bottom."""

    falls_in_the_dark: bool = False
    knows_the_night: bool = False

    def __call__(self, classifier, inputs, targets, *, rng):
        maps = RISING.repeat(len(inputs), 1, 1)
        darker = inputs.flatten(1).mean(dim=1) < GREY - 1e-4
        if self.falls_in_the_dark:
            maps = torch.where(darker.view(-1, 1, 1), -maps, maps)
        if self.knows_the_night:
            maps = torch.where((targets == 1).view(-1, 1, 1), maps.transpose(1, 2), maps)
        return maps

    def passes(self, size, classifier):
        return Passes()


def case(method: Fixed, *, label: int | None = None) -> Case:
    classifier = Classifier(day_or_night, outputs="probabilities", channels=1)
    inputs, targets = torch.full((1, 1, 4, 4), GREY), torch.tensor([0])
    explain = Explainer(method, classifier, targets)
    labels = None if label is None else torch.tensor([label])
    return Case(classifier, inputs, targets, RISING.clone(), explain, labels=labels)


def steps_of(name: str, count: int = 6) -> list[int]:
    return drawn(next(one for one in TRANSFORMS if one.name == name), count, rng=RNG)[0].tolist()


def trace(metric, one: Case) -> dict[str, float]:
    names = metric.points((4, 4), one.classifier)
    return dict(zip(names, metric.curve(one, rng=RNG)[0].tolist(), strict=True))


def test_input_consistency__of_a_map_that_falls_in_the_dark():
    # 28 variants, of which only those of brightness change the grey. Brightness 1 + 0.99 s / 30 makes it night (below 0.3)
    # where s < -12.2: those do not count. A darker day gives the falling map, likeness -1; all else the same map, +1.
    steps = steps_of("brightness")
    dusk, night = sum(-12.2 < step < 0 for step in steps), sum(step < -12.2 for step in steps)
    assert dusk > 0
    assert night > 0
    metric = InputConsistency(likeness="pearson")
    found = trace(metric, case(Fixed(falls_in_the_dark=True)))
    for draw, step in enumerate(steps):
        wanted = 1.0 if step > 0 else -1.0 if step > -12.2 else math.nan
        assert found[f"photometric/brightness/{draw}"] == pytest.approx(wanted, nan_ok=True)
    counted = 28 - night
    value = metric(case(Fixed(falls_in_the_dark=True)), rng=RNG).item()
    assert value == pytest.approx((counted - 2 * dusk) / counted)


def test_input_consistency__of_a_map_that_never_changes():
    assert InputConsistency(likeness="pearson")(case(Fixed()), rng=RNG).item() == pytest.approx(1)


def test_input_consistency__only_where_the_label_is_right():
    metric = InputConsistency(likeness="pearson", correct_only=True)
    assert metric(case(Fixed(), label=0), rng=RNG).item() == pytest.approx(1)
    assert math.isnan(metric(case(Fixed(), label=1), rng=RNG).item())  # day is the wrong answer
    assert math.isnan(metric(case(Fixed(), label=-1), rng=RNG).item())  # nobody knows
    assert math.isnan(metric(case(Fixed()), rng=RNG).item())


def test_consistency__of_a_rising_map_under_flips_and_moves():
    # The map does not move with the picture. Flipped back left to right it falls: -1. Upside down it is the same: +1.
    # A translation by one pixel of four (the least there is) leaves three quarters of the light, 0.376, which is day; moved
    # back it is a rising line again, one lower, on the three columns or rows that have a counterpart: +1.
    found = trace(Consistency(likeness="pearson"), case(Fixed()))
    assert found["geometric/flip-lr"] == pytest.approx(-1)
    assert found["geometric/flip-ud"] == pytest.approx(1)
    for draw in range(6):
        assert found[f"geometric/translate-x/{draw}"] == pytest.approx(1)
        assert found[f"geometric/translate-y/{draw}"] == pytest.approx(1)


def test_consistency__is_the_mean_of_what_counts():
    metric = Consistency(likeness="pearson", magnitudes=1)
    found = trace(metric, case(Fixed()))
    assert len(found) == 7 + 6
    kept = [value for value in found.values() if not math.isnan(value)]
    assert metric(case(Fixed()), rng=RNG).item() == pytest.approx(sum(kept) / len(kept))
    assert metric.score(torch.tensor([[0.9, math.nan, 0.7]])).item() == pytest.approx(0.8)
