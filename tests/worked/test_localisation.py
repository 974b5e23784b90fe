"""Localisation by hand: the truth is the left half of a 4×4 picture, or a few pixels of a smaller one."""

from __future__ import annotations

import math

import torch
from tests.worked.pictures import RNG, approx
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.explainer import case_of
from snellen.metrics.localisation import LocalisationUtility, MeanIou, Plausibility, RelevanceMass, RelevanceRank
from snellen.metrics.pointing_game import EnergyPointingGame
from snellen.plugins.registry import METHODS
from snellen.types import Case


def make_case(values: list[list[float]], marked: list[list[int]]) -> Case:
    maps, truth = torch.tensor([values], dtype=torch.float32), torch.tensor([marked], dtype=torch.bool)
    classifier = Classifier(lambda inputs: torch.zeros(len(inputs), 2), channels=1)
    inputs = torch.zeros(1, 1, *maps.shape[1:])
    return case_of(METHODS.build("fake-cam"), classifier, inputs, torch.tensor([0]), rng=RNG, truth=truth, maps=maps)


def value(metric, case: Case) -> float:
    out: Tensor = metric(case, rng=RNG)
    return out.item()


def test_localisation_utility__of_four_pixels():
    # From the top: marked, not, marked, not. Precision 1 at half of the truth, 2/3 at all of it: (1 + 2/3) / 2.
    assert value(LocalisationUtility(), make_case([[4, 3], [2, 1]], [[1, 0], [1, 0]])) == approx(5 / 6)
    # The other way round: 1/2 and 2/4.
    assert value(LocalisationUtility(), make_case([[-4, -3], [-2, -1]], [[1, 0], [1, 0]])) == approx(1 / 2)


def test_localisation_utility__of_equal_pixels():
    # The two highest are equal and come together: precision 1/2 at half of the truth, then 2/3 at all of it.
    assert value(LocalisationUtility(), make_case([[4, 4], [2, 1]], [[1, 0], [1, 0]])) == approx((1 / 2 + 2 / 3) / 2)
    # A constant map: all at once, with the precision of the whole picture.
    assert value(LocalisationUtility(), make_case([[0, 0], [0, 0]], [[1, 0], [0, 0]])) == approx(1 / 4)


def test_mean_iou__of_three_hits_in_four():
    maps = [[9, 8, 7, 0], [0, 0, 0, 1]]
    # The four highest are three marked pixels and the last one: 3 in common, 5 in all.
    assert value(MeanIou(), make_case(maps, [[1, 1, 1, 0], [1, 0, 0, 0]])) == approx(3 / 5)


def test_mean_iou__of_two_objects_is_that_of_their_union():
    assert value(MeanIou(), make_case([[5, 0, 4, 0]], [[1, 0, 1, 0]])) == 1


def test_mean_iou__of_equal_pixels():
    # Two pixels are wanted. One is the marked maximum; the other is any of three equals, one of them marked:
    # 1/3 of the orders give 2 / 2, 2/3 of them give 1 / 3. The score of the mean count, (4/3) / (8/3) = 1/2, is another.
    assert value(MeanIou(), make_case([[2, 1], [1, 1]], [[1, 1], [0, 0]])) == approx(1 / 3 + 2 / 3 * 1 / 3)


def test_mean_iou__above_half_of_the_maximum():
    maps = [[8, 4, 3.9, -9]]
    # At least 4: the first two, of which one is marked; three pixels in all.
    assert value(MeanIou(threshold=0.5), make_case(maps, [[1, 0, 1, 0]])) == approx(1 / 3)
    assert math.isnan(value(MeanIou(threshold=0.5), make_case([[-1, -2]], [[1, 0]])))


def test_relevance_mass__counts_what_is_negative():
    case = make_case([[3, 1], [-4, 0]], [[1, 0], [0, 0]])
    assert value(RelevanceMass(), case) == approx(3 / 8)
    assert value(EnergyPointingGame(), case) == approx(3 / 4)
    assert math.isnan(value(RelevanceMass(), make_case([[0, 0]], [[1, 0]])))


def test_relevance_rank__of_three_hits_in_four():
    maps = [[9, 8, 7, 0], [0, 0, 0, 1]]
    assert value(RelevanceRank(), make_case(maps, [[1, 1, 1, 0], [1, 0, 0, 0]])) == approx(3 / 4)


def test_relevance_rank__of_equal_pixels():
    # One sure hit, and one of three equals, one of which is marked: (1 + 1/3) / 2.
    assert value(RelevanceRank(), make_case([[2, 1], [1, 1]], [[1, 1], [0, 0]])) == approx(2 / 3)


def test_relevance_rank__of_magnitudes():
    case = make_case([[-5, 1], [0, 0]], [[1, 0], [0, 0]])
    assert value(RelevanceRank(), case) == 0
    assert value(RelevanceRank(magnitude=True), case) == 1


def test_plausibility__of_pairs():
    # Inside 3 and 1, outside 2: one of the two pairs is in order.
    assert value(Plausibility(), make_case([[3, 1, 2]], [[1, 1, 0]])) == approx(1 / 2)
    # Inside 3 and 2, outside 2 and 0: in order, in order, equal, in order.
    assert value(Plausibility(), make_case([[3, 2, 2, 0]], [[1, 1, 0, 0]])) == approx(3.5 / 4)


def test_plausibility__needs_something_outside():
    assert math.isnan(value(Plausibility(), make_case([[3, 2]], [[1, 1]])))
    assert value(Plausibility(), make_case([[7, 7]], [[1, 0]])) == 0.5
