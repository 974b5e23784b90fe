"""One 4×4 picture per metric, checkable with a pencil. A test is named after its metric, then two underscores."""

from __future__ import annotations

import math

import pytest
import torch
from tests.worked.pictures import FALLING, QUARTERS, RNG, approx, grid, total
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.explainer import Explainer
from snellen.maps.fills import MEAN, Blur
from snellen.metrics.complexity import Complexity
from snellen.metrics.confidence import AverageDrop, AverageGain, AverageIncrease
from snellen.metrics.deletion import Deletion
from snellen.metrics.insertion import Insertion
from snellen.metrics.pointing_game import EnergyPointingGame, PointingGame
from snellen.metrics.sensitivity import AvgSensitivity, MaxSensitivity
from snellen.metrics.sparseness import Sparseness
from snellen.types import Case, Passes


def both(inputs: Tensor) -> Tensor:
    """f = 1 when two opposite corners are both lit, 0 when one of them is dark."""
    chance = inputs[:, 0, 0, 0] * inputs[:, 0, 3, 3]
    return torch.stack([chance, 1 - chance], dim=1)


def rivals(inputs: Tensor) -> Tensor:
    """f = 0.3 + the top left pixel - the bottom right pixel, where pixels = inputs / 2 + 1 / 2."""
    pixels = inputs / 2 + 0.5
    chance = 0.3 + pixels[:, 0, 0, 0] - pixels[:, 0, 3, 3]
    return torch.stack([chance, 1 - chance], dim=1)


class Drifting:
    """All ones, but copy k of a sample has k + 1 more in the corner."""

    def __call__(self, classifier, inputs, targets, *, rng):
        maps = torch.ones(len(inputs), 4, 4)
        maps[:, 0, 0] += torch.tensor([1.0 + int(sample.split("#")[1]) for sample in rng.ids])
        return maps

    def passes(self, size, classifier):
        return Passes()


def make_case(
    maps: Tensor, *, model=total, picture: Tensor | None = None, truth: Tensor | None = None, normalised=False
) -> Case:
    statistics = {"mean": 0.5, "std": 0.5} if normalised else {}
    classifier = Classifier(model, outputs="probabilities", channels=1, **statistics)
    pixels = torch.zeros(1, 4, 4) if picture is None else picture
    inputs, targets = classifier.to_inputs(pixels.unsqueeze(1)), torch.tensor([0])
    return Case(classifier, inputs, targets, maps, Explainer(Drifting(), classifier, targets), truth)


def test_deletion__of_the_four_bright_pixels_first():
    # 16 steps of one pixel: 1, 3/4, 1/2, 1/4, then 0 thirteen times.
    # Area: (1/2 + 3/4 + 1/2 + 1/4) / 16 = 2 / 16.
    metric = Deletion(steps=16)
    case = make_case(FALLING, picture=QUARTERS)
    curve = metric.curve(case, rng=RNG)
    assert curve[0].tolist() == pytest.approx([1, 0.75, 0.5, 0.25] + [0] * 13, abs=1e-6)
    assert metric(case, rng=RNG).item() == approx(2 / 16)


def test_deletion__in_four_steps():
    # The first step takes all four: 1, 0, 0, 0, 0. Area: (1/2) / 4.
    assert Deletion(steps=4)(make_case(FALLING, picture=QUARTERS), rng=RNG).item() == approx(1 / 8)


def test_deletion__of_the_bright_pixels_last():
    # The signed map says the four matter least, however large their magnitude: 1 thirteen times, 3/4, 1/2, 1/4, 0.
    # Area: (13 - 1/2 + 3/4 + 1/2 + 1/4) / 16 = 14 / 16.
    assert Deletion(steps=16)(make_case(-FALLING, picture=QUARTERS), rng=RNG).item() == approx(14 / 16)


def test_deletion__perfect():
    # One corner is enough to end f = both: 1, then 0 sixteen times. No map can do better than 1 / 32.
    corners = grid({(0, 0): 1.0, (3, 3): 1.0})
    case = make_case(grid({(3, 3): 1.0}), model=both, picture=corners)
    assert Deletion(steps=16)(case, rng=RNG).item() == approx(1 / 32)


def test_deletion__more_steps_than_pixels():
    # 28 steps cannot be told apart on 16 pixels: there are 16 steps, so 17 points.
    assert Deletion(steps=28).curve(make_case(FALLING, picture=QUARTERS), rng=RNG).shape == (1, 17)


def test_insertion__of_the_four_bright_pixels_first():
    # Onto zeros, one pixel at a time: 0, 1/4, 1/2, 3/4, then 1 thirteen times.
    # Area: (1/4 + 1/2 + 3/4 + 13 - 1/2) / 16 = 14 / 16.
    case = make_case(FALLING, picture=QUARTERS)
    assert Insertion(steps=16, fill=MEAN)(case, rng=RNG).item() == approx(14 / 16)


def test_insertion__perfect():
    # f = both needs both corners: 0, 0, then 1 fifteen times. Area: (15 - 1/2) / 16.
    corners = grid({(0, 0): 1.0, (3, 3): 1.0})
    case = make_case(grid({(0, 0): 2.0, (3, 3): 1.0}), model=both, picture=corners)
    assert Insertion(steps=16, fill=MEAN)(case, rng=RNG).item() == approx(14.5 / 16)


def test_insertion__from_a_blur_of_one_pixel():
    # A 1×1 kernel blurs nothing, so f = total stays at 1 all along.
    case = make_case(FALLING, picture=QUARTERS)
    assert Insertion(steps=16, fill=Blur(kernel=1))(case, rng=RNG).item() == approx(1)


LIT = grid({(0, 0): 0.2, (0, 1): 0.2, (1, 0): 0.2, (1, 1): 0.2})


def test_average_drop__through_a_signed_map():
    # |map| / 2 = 1, 1, 1, 1/2 on the four lit pixels: p = 0.8, o = 0.2 · 3.5 = 0.7, drop = 0.1 / 0.8.
    maps = grid({(0, 0): 2.0, (0, 1): 2.0, (1, 0): 2.0, (1, 1): -1.0})
    assert AverageDrop()(make_case(maps, picture=LIT), rng=RNG).item() == approx(0.125)


def test_average_drop__never_below_zero():
    case = make_case(grid({(0, 0): 1.0}), model=rivals, picture=grid({(0, 0): 0.3, (3, 3): 0.2}), normalised=True)
    assert AverageDrop()(case, rng=RNG).item() == 0


def test_average_increase__when_the_rival_is_hidden():
    # p = 0.3 + 0.3 - 0.2 = 0.4. The map shows the top left pixel and turns the rival black: o = 0.3 + 0.3 = 0.6 > p.
    case = make_case(grid({(0, 0): 1.0}), model=rivals, picture=grid({(0, 0): 0.3, (3, 3): 0.2}), normalised=True)
    assert AverageIncrease()(case, rng=RNG).item() == 1


def test_average_increase__not_when_nothing_changes():
    # The map shows all that is lit: o = p, which is no increase.
    assert AverageIncrease()(make_case(LIT, picture=LIT), rng=RNG).item() == 0


def test_average_gain__when_the_rival_is_hidden():
    # As above: gain = (0.6 - 0.4) / (1 - 0.4) = 1 / 3. With grey in place of black it would differ: black is zero pixels.
    case = make_case(grid({(0, 0): 1.0}), model=rivals, picture=grid({(0, 0): 0.3, (3, 3): 0.2}), normalised=True)
    assert AverageGain()(case, rng=RNG).item() == approx(1 / 3)


def test_average_gain__when_the_rival_turns_grey():
    # Grey is pixel 1/2, so the rival gets stronger: o = 0.3 + 0.3 - 0.5 = 0.1, a drop of 0.3 / 0.4 and no gain.
    case = make_case(grid({(0, 0): 1.0}), model=rivals, picture=grid({(0, 0): 0.3, (3, 3): 0.2}), normalised=True)
    assert AverageGain(fill=MEAN)(case, rng=RNG).item() == 0
    assert AverageDrop(fill=MEAN)(case, rng=RNG).item() == approx(0.75)


def test_average_gain__of_a_certain_classifier():
    # p = 1: nothing is left to win, so nothing is won.
    assert AverageGain()(make_case(FALLING, picture=QUARTERS), rng=RNG).item() == 0


def test_complexity__of_a_half_and_two_quarters():
    # Magnitudes 2, 1, 1: shares 1/2, 1/4, 1/4. Entropy: (1/2) ln 2 + 2 · (1/4) ln 4 = 1.5 ln 2.
    maps = grid({(0, 0): -2.0, (1, 1): 1.0, (2, 2): 1.0})
    assert Complexity()(make_case(maps), rng=RNG).item() == approx(1.5 * math.log(2))


def test_complexity__from_one_pixel_to_all():
    assert Complexity()(make_case(grid({(2, 3): -7.0})), rng=RNG).item() == 0
    assert Complexity()(make_case(torch.full((1, 4, 4), 0.1)), rng=RNG).item() == approx(math.log(16))
    assert math.isnan(Complexity()(make_case(torch.zeros(1, 4, 4)), rng=RNG).item())


def test_sparseness__of_three_to_one():
    # Shares in rising order: fourteen times 0, then 1/4 (k = 15) and 3/4 (k = 16).
    # 1 - 2 · (1/4 · (16 - 15 + 1/2) + 3/4 · (16 - 16 + 1/2)) / 16 = 1 - 2 · 0.75 / 16.
    assert Sparseness()(make_case(grid({(0, 0): 1.0, (3, 0): -3.0})), rng=RNG).item() == approx(1 - 1.5 / 16)


def test_sparseness__from_one_pixel_to_all():
    # One pixel: 1 - 2 · (1/2) / 16. All alike: 0.
    assert Sparseness()(make_case(grid({(2, 3): -7.0})), rng=RNG).item() == approx(15 / 16)
    assert Sparseness()(make_case(torch.full((1, 4, 4), 0.1)), rng=RNG).item() == 0
    assert math.isnan(Sparseness()(make_case(torch.zeros(1, 4, 4)), rng=RNG).item())


def test_max_sensitivity__of_two_changes():
    # The map of sixteen ones has norm 4; the copies are 1 and 2 away from it: max(1, 2) / 4.
    case = make_case(torch.ones(1, 4, 4))
    assert MaxSensitivity(samples=2)(case, rng=RNG).item() == 0.5
    assert MaxSensitivity(samples=2, relative=False)(case, rng=RNG).item() == 2


def test_avg_sensitivity__of_two_changes():
    # The same changes on average: (1 + 2) / 2 / 4.
    case = make_case(torch.ones(1, 4, 4))
    assert AvgSensitivity(samples=2)(case, rng=RNG).item() == 0.375
    assert AvgSensitivity(samples=2, relative=False)(case, rng=RNG).item() == 1.5


def test_avg_sensitivity__of_a_zero_map():
    # Nothing can be relative to a map of norm 0, but the plain distance of sixteen ones and one or two more is defined:
    # sqrt(15 + 2²) and sqrt(15 + 3²).
    case = make_case(torch.zeros(1, 4, 4))
    assert math.isnan(AvgSensitivity(samples=2)(case, rng=RNG).item())
    assert AvgSensitivity(samples=2, relative=False)(case, rng=RNG).item() == approx((math.sqrt(19) + math.sqrt(24)) / 2)


LEFT = torch.zeros(1, 4, 4, dtype=torch.bool)
LEFT[0, :, :2] = True


def test_pointing_game__hit_and_miss():
    assert PointingGame()(make_case(grid({(1, 1): 1.0}), truth=LEFT), rng=RNG).item() == 1
    assert PointingGame()(make_case(grid({(1, 2): 1.0, (1, 1): -9.0}), truth=LEFT), rng=RNG).item() == 0


def test_pointing_game__shared_maximum():
    # Three equal maxima, two of them on the left half.
    maps = grid({(0, 0): 1.0, (1, 1): 1.0, (3, 3): 1.0})
    assert PointingGame()(make_case(maps, truth=LEFT), rng=RNG).item() == approx(2 / 3)


def test_pointing_game__with_tolerance():
    # The object is the top left pixel. (1, 1) is √2 = 1.41 away, (0, 2) is 2 away.
    corner = grid({(0, 0): 1.0}).bool()
    for place, tolerance, hit in [((0, 1), 1, 1), ((1, 1), 1, 0), ((1, 1), 2, 1), ((0, 2), 2, 1), ((1, 2), 2, 0)]:
        assert PointingGame(tolerance)(make_case(grid({place: 1.0}), truth=corner), rng=RNG).item() == hit


def test_energy_pointing_game__of_a_signed_map():
    # 3 inside, 1 outside; what is negative, inside or outside, points nowhere: 3 / 4.
    maps = grid({(0, 0): 3.0, (2, 1): -2.0, (0, 3): 1.0, (3, 3): -5.0})
    assert EnergyPointingGame()(make_case(maps, truth=LEFT), rng=RNG).item() == 0.75


def test_energy_pointing_game__without_energy():
    assert math.isnan(EnergyPointingGame()(make_case(grid({(0, 0): -1.0}), truth=LEFT), rng=RNG).item())
