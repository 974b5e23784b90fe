"""Sweeps on one 4×4 picture, checkable with a pencil. A test is named after its metric, then two underscores."""

from __future__ import annotations

import math

import pytest
import torch
from tests.worked.pictures import FALLING, QUARTERS, RNG, approx, grid, total
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.explainer import Explainer
from snellen.maps.fills import MEAN
from snellen.metrics.monotonicity import Monotonicity, MonotonicityCorrelation
from snellen.metrics.perturbation import LeRF, MoRF
from snellen.metrics.region_perturbation import RegionPerturbation
from snellen.metrics.road import Road
from snellen.metrics.sparsity import Sparsity
from snellen.metrics.sufficiency import EffectiveComplexity, EffectiveComplexityCount, Minimality, Sufficiency
from snellen.plugins.registry import METHODS, METRICS
from snellen.types import Case, Passes


def sums(inputs: Tensor) -> Tensor:
    """Logits: the sum of all pixels for class 0, nothing for class 1."""
    return torch.stack([inputs.flatten(1).sum(dim=1), torch.zeros(len(inputs))], dim=1)


def rounded(inputs: Tensor) -> Tensor:
    """f = 5, whatever the picture, but for the last bit, which depends on the place in the pass."""
    last = torch.arange(len(inputs)) // 3 % 2
    return torch.stack([5 + last * 2**-21, torch.zeros(len(inputs))], dim=1)


def make_case(maps: Tensor, picture: Tensor, *, model=total, target: int = 0) -> Case:
    outputs = {total: "probabilities", sums: "logits", rounded: "logits"}[model]
    classifier = Classifier(model, outputs=outputs, channels=1)
    targets = torch.tensor([target])
    return Case(classifier, picture.unsqueeze(1), targets, maps, Explainer(METHODS.build("edge"), classifier, targets))


def test_morf__of_a_sum():
    # f = Σx = 10 with the map x itself: 10, 6, 3, 1, then 0 thirteen times.
    # Falls: 4, 7, 9, then 10 thirteen times: (20 + 130) / 16.
    case = make_case(FALLING, FALLING, model=sums)
    assert MoRF(steps=16).curve(case, rng=RNG)[0].tolist() == pytest.approx([10, 6, 3, 1] + [0] * 13, abs=1e-5)
    assert MoRF(steps=16)(case, rng=RNG).item() == pytest.approx(150 / 16)


def test_morf__in_two_steps():
    # Half of the picture holds all that is lit: falls 10, 10.
    assert MoRF(steps=2)(make_case(FALLING, FALLING, model=sums), rng=RNG).item() == pytest.approx(10)


def test_lerf__of_a_sum():
    # The other way round: 10 thirteen times, 9, 7, 4, 0. Falls: 0 twelve times, 1, 3, 6, 10: 20 / 16.
    case = make_case(FALLING, FALLING, model=sums)
    curve = LeRF(steps=16).curve(case, rng=RNG)[0].tolist()
    assert curve == pytest.approx([10] * 13 + [9, 7, 4, 0], abs=1e-5)
    assert LeRF(steps=16)(case, rng=RNG).item() == pytest.approx(20 / 16)


def test_lerf__of_a_map_turned_round_is_morf():
    # Taking the least salient pixels of -m first is taking the most salient pixels of m first.
    distinct = torch.arange(16.0).view(1, 4, 4)
    there, back = make_case(distinct, FALLING, model=sums), make_case(-distinct, FALLING, model=sums)
    assert LeRF(steps=16)(back, rng=RNG).item() == pytest.approx(MoRF(steps=16)(there, rng=RNG).item())


def test_region_perturbation__of_four_quadrants():
    # Quadrant sums 10, 0, 2, 1 of the map; the picture has 1 in the first: 1, 0, 0, 0, 0.
    # AOPC: (0 + 1 + 1 + 1 + 1) / 5.
    maps = FALLING + grid({(2, 0): 2.0, (2, 2): 1.0})
    case = make_case(maps, QUARTERS)
    metric = RegionPerturbation(region=2, fill=MEAN)
    assert metric.curve(case, rng=RNG)[0].tolist() == pytest.approx([1, 0, 0, 0, 0], abs=1e-6)
    assert metric(case, rng=RNG).item() == approx(4 / 5)


def test_region_perturbation__of_the_first_half():
    # Of the four quadrants only the first two are exchanged: 1, 0, 0: (0 + 1 + 1) / 3.
    assert RegionPerturbation(region=2, share=0.5, fill=MEAN)(make_case(FALLING, QUARTERS), rng=RNG).item() == approx(2 / 3)


def test_region_perturbation__with_small_regions_at_the_rim():
    # Regions of 3 leave a rim: 3×3, 3×1, 1×3 and 1×1. Means: 10 / 9, 0, 0 and 2, so the corner pixel goes first:
    # 1, 1, 0, 0, 0 gives 3 / 5. By their sums, 10 before 2, the first region would have come first: 4 / 5.
    case = make_case(FALLING + grid({(3, 3): 2.0}), QUARTERS)
    assert RegionPerturbation(region=3, fill=MEAN)(case, rng=RNG).item() == approx(3 / 5)


def test_region_perturbation__of_the_paper_takes_a_hundred_regions():
    metric = METRICS.build("region-perturbation@samek2017")
    assert metric.passes((224, 224), Passes(), make_case(FALLING, QUARTERS).classifier) == Passes(forward=101)


def test_road__of_one_pixel():
    # The corner is filled in from its neighbours 0.2, 0.3 (beside, 1/6 each) and 0.1 (across, 1/12):
    # (2 · 0.2 + 2 · 0.3 + 0.1) / 5 = 0.22 in place of 0.4, so that the sum 1 falls to 0.82, and class 0 stays on top.
    picture = grid({(0, 0): 0.4, (0, 1): 0.2, (1, 0): 0.3, (1, 1): 0.1})
    case = make_case(grid({(0, 0): 1.0}), picture)
    for of, value in (("probability", 0.82), ("accuracy", 1.0)):
        assert Road(fractions=(1 / 16,), of=of, noise=0.0)(case, rng=RNG).item() == approx(value)


def test_road__of_two_pixels_that_depend_on_each_other():
    # Top left a and the pixel b to its right. Neighbours of a: b and 0.3 (1/6), 0.1 (1/12); of b: a, 0.1 and 0 (1/6),
    # 0.3 and 0 (1/12). So 5a = 2b + 0.6 + 0.1 and 8b = 2a + 0.2 + 0.3: a = 0.183333, b = 0.108333.
    # The sum 1 becomes 0.183333 + 0.108333 + 0.3 + 0.1 = 0.691667.
    picture = grid({(0, 0): 0.4, (0, 1): 0.2, (1, 0): 0.3, (1, 1): 0.1})
    metric = Road(fractions=(2 / 16,), of="probability", noise=0.0)
    assert metric(make_case(grid({(0, 0): 2.0, (0, 1): 1.0}), picture), rng=RNG).item() == approx(0.691667)


def test_road__of_a_target_that_goes_under():
    # Two fractions: one pixel leaves 0.82 for class 0, eight (all but the lower half) leave next to nothing: 1 / 2.
    picture = grid({(0, 0): 0.4, (0, 1): 0.2, (1, 0): 0.3, (1, 1): 0.1})
    maps = torch.tensor([9.0, 8, 7, 6, 5, 4, 3, 2] + [0] * 8).view(1, 4, 4)
    assert Road(fractions=(1 / 16, 1 / 2), noise=0.0)(make_case(maps, picture), rng=RNG).item() == 0.5


def test_sufficiency__of_a_quarter_of_the_pixels():
    # A quarter of the 16 pixels are the four lit ones: all of f = 1 is left.
    assert Sufficiency(steps=16)(make_case(FALLING, QUARTERS), rng=RNG).item() == approx(1)
    # An eighth are two of them: 1 / 2 is left.
    assert Sufficiency(share=0.125, steps=16)(make_case(FALLING, QUARTERS), rng=RNG).item() == approx(0.5)
    # The wrong quarter leaves nothing (a probability of 0 is 1e-7 here, as logarithms need).
    assert Sufficiency(steps=16)(make_case(-FALLING, QUARTERS), rng=RNG).item() == approx(0)


def test_sufficiency__never_more_than_whole():
    # With class 1 the target, 1 - Σx rises when pixels go: from 1/4 to more.
    picture = grid({(0, 0): 0.25, (0, 1): 0.25, (1, 0): 0.25})
    assert Sufficiency(steps=16)(make_case(-FALLING, picture, target=1), rng=RNG).item() == approx(1)


def test_sufficiency__of_a_probability_that_is_rounded_to_zero():
    # Logits 1000 and 0: class 1 has e⁻¹⁰⁰⁰, with all pixels and with a quarter of them.
    case = make_case(FALLING, 1000 * QUARTERS, model=sums, target=1)
    assert math.isnan(Sufficiency(steps=16)(case, rng=RNG).item())


def test_minimality__of_four_bright_pixels():
    # p = 1 needs 0.9: kept 0, 1/4, 1/2, 3/4, 1: the fourth pixel of sixteen is the first that is enough.
    assert Minimality(steps=16)(make_case(FALLING, QUARTERS), rng=RNG).item() == approx(4 / 16)
    # For 0.6 of it three pixels do, for 0.5 two would but then the other class is as likely.
    assert Minimality(confidence=0.6, steps=16)(make_case(FALLING, QUARTERS), rng=RNG).item() == approx(3 / 16)


def test_minimality__when_only_the_whole_picture_does():
    assert Minimality(steps=16)(make_case(-FALLING, QUARTERS), rng=RNG).item() == 1


def test_minimality__needs_the_target_on_top():
    # p = 0.4 for class 0 and 0.6 for class 1: whoever explains class 0 has no set that decides for it.
    picture = grid({(0, 0): 0.4})
    assert math.isnan(Minimality(steps=16)(make_case(FALLING, picture), rng=RNG).item())
    # Class 1 needs no pixel at all: nothing kept gives it 1.
    assert Minimality(steps=16)(make_case(FALLING, picture, target=1), rng=RNG).item() == 0


def test_minimality__needs_the_target_on_top_however_low_the_confidence():
    # Kept 0, 0.2, 0.4, 0.6, 0.8: class 0 is on top from the third pixel on, and any probability will do.
    assert Minimality(confidence=0.0, steps=16)(make_case(FALLING, 0.8 * QUARTERS), rng=RNG).item() == approx(3 / 16)


def test_effective_complexity__of_four_bright_pixels():
    # Losses with 0, 1, 2, 3, 4 pixels kept: 1, 9/16, 1/4, 1/16, 0. At most 0.01: four. At most 0.1: three.
    case = make_case(FALLING, QUARTERS)
    assert EffectiveComplexity(steps=16)(case, rng=RNG).item() == 4
    assert EffectiveComplexity(tolerance=0.1, steps=16)(case, rng=RNG).item() == 3
    # In steps of five pixels and more (0, 5, 10, 16) the count is rounded up to a step.
    assert EffectiveComplexity(steps=3)(case, rng=RNG).item() == 5


def test_effective_complexity_count__of_small_and_negative_values():
    maps = grid({(0, 0): 0.5, (0, 1): -0.5, (0, 2): 1e-6, (0, 3): -2e-5})
    assert EffectiveComplexityCount()(make_case(maps, QUARTERS), rng=RNG).item() == 3
    assert EffectiveComplexityCount(threshold=0.1)(make_case(maps, QUARTERS), rng=RNG).item() == 2


def test_effective_complexity_count__of_fake_cam_is_the_published_value():
    classifier = Classifier(lambda inputs: inputs.flatten(1)[:, :2], channels=1)
    inputs, targets = torch.zeros(1, 1, 224, 224), torch.tensor([0])
    method = METHODS.build("fake-cam")
    maps = method(classifier, inputs, targets, rng=RNG)
    case = Case(classifier, inputs, targets, maps, Explainer(method, classifier, targets))
    assert EffectiveComplexityCount()(case, rng=RNG).item() == 50175


def test_monotonicity__of_a_sum():
    # Two chunks of eight pixels: means 0 and 10/8; with the first 0 lit, with both 1. Two rising points: correlation 1.
    assert Monotonicity(steps=2)(make_case(FALLING, QUARTERS), rng=RNG).item() == approx(1)


def test_monotonicity__in_four_steps():
    # Chunks of four pixels, least salient first: means 0, 0, 0, 10/4 with outputs 0, 0, 0, 1: correlation 1.
    assert Monotonicity(steps=4)(make_case(FALLING, QUARTERS), rng=RNG).item() == approx(1)
    # The map turned round: means -10/4, 0, 0, 0 with outputs 1, 1, 1, 1 (all is there from the first chunk on): undefined.
    assert math.isnan(Monotonicity(steps=4)(make_case(-FALLING, QUARTERS), rng=RNG).item())


def test_monotonicity__of_a_map_that_is_wrong_about_one_pixel():
    # Means of single pixels 0 (ten times), 1, 2, 3, 4, 5, 6; the lit pixels are those of 1, 2, 3 and 6:
    # outputs 0 (ten times), 1/4, 1/2, 3/4, 3/4, 3/4, 1.
    maps = FALLING + grid({(0, 0): 2.0, (0, 1): 0.0, (3, 3): 5.0, (3, 2): 4.0})
    # Σw = 21, Σo = 4, Σwo = 16.25, Σw² = 91, Σo² = 3: (16.25 - 21 · 4 / 16) / √((91 - 21² / 16) (3 - 4² / 16)).
    expected = 11 / math.sqrt(63.4375 * 2)
    assert Monotonicity(steps=16)(make_case(maps, QUARTERS), rng=RNG).item() == pytest.approx(expected, abs=1e-5)


def test_monotonicity__of_a_constant_map():
    assert math.isnan(Monotonicity(steps=4)(make_case(torch.full((1, 4, 4), 0.1), QUARTERS), rng=RNG).item())


def test_monotonicity__of_an_output_that_only_rounding_moves():
    for of in ("logit", "probability"):
        assert math.isnan(Monotonicity(of=of)(make_case(FALLING, QUARTERS, model=rounded), rng=RNG).item())


def test_monotonicity_correlation__of_three_chunks():
    # f = Σx with 4 + 3 = 7 lit; the fill takes a chunk to zero, always alike. Chunks of 5, 5 and 6 pixels by magnitude:
    # the first holds 3 and 4, the second nothing, the third nothing. Effects 49, 0, 0: ranks 3, 1.5, 1.5.
    # Magnitudes 9, 1, 0 on average have ranks 3, 2, 1: correlation √3 / 2.
    maps = torch.tensor([9.0] * 5 + [-1.0] * 5 + [0.0] * 6).view(1, 4, 4)
    picture = grid({(0, 0): 4.0, (0, 1): 3.0})
    metric = MonotonicityCorrelation(chunks=3, samples=2, fill=MEAN, of="logit")
    assert metric(make_case(maps, picture, model=sums), rng=RNG).item() == pytest.approx(math.sqrt(3) / 2, abs=1e-6)


def test_monotonicity_correlation__of_a_constant_map():
    metric = MonotonicityCorrelation(chunks=3, samples=2)
    assert math.isnan(metric(make_case(torch.full((1, 4, 4), -0.1), QUARTERS), rng=RNG).item())


def test_monotonicity_correlation__of_an_output_that_only_rounding_moves():
    metric = MonotonicityCorrelation(chunks=4, samples=2, of="logit")
    assert math.isnan(metric(make_case(FALLING, QUARTERS, model=rounded), rng=RNG).item())


def test_sparsity__of_three_pixels():
    # Magnitudes 4, 2, 2 and zeros: maximum 4, mean 8 / 16.
    maps = grid({(0, 0): -4.0, (1, 1): 2.0, (2, 2): 2.0})
    assert Sparsity()(make_case(maps, QUARTERS), rng=RNG).item() == approx(8)


def test_sparsity__from_one_pixel_to_all():
    assert Sparsity()(make_case(grid({(2, 3): -7.0}), QUARTERS), rng=RNG).item() == approx(16)
    assert Sparsity()(make_case(torch.full((1, 4, 4), 0.1), QUARTERS), rng=RNG).item() == 1
    assert math.isnan(Sparsity()(make_case(torch.zeros(1, 4, 4), QUARTERS), rng=RNG).item())
