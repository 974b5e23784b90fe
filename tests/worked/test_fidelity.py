"""What a map says about the output, with a pencil: one small picture per metric, named after it."""

from __future__ import annotations

import math

import pytest
import torch
from tests.worked.pictures import RNG, approx
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.explainer import Explainer
from snellen.maps.fills import BLACK
from snellen.metrics.adcc import Adcc, Coherency
from snellen.metrics.completeness import Completeness
from snellen.metrics.confidence import LocalAccuracy
from snellen.metrics.faithfulness import Faithfulness, LuminosityCalibration
from snellen.metrics.infidelity import Infidelity
from snellen.metrics.sensitivity import Robustness
from snellen.metrics.stability import Stability
from snellen.metrics.targets import RandomLogit, TargetSensitivity
from snellen.types import Case, Passes


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


class Gap(Times):
    """As above, with a hole: the first row is missing."""

    def __call__(self, classifier, inputs, targets, *, rng):
        maps = super().__call__(classifier, inputs, targets, rng=rng)
        return maps.index_fill(1, torch.tensor([0]), torch.nan)


def make_case(maps: Tensor, picture: Tensor, *, model=total, method=None, labels=None, target: int = 0) -> Case:
    outputs = "probabilities" if model is chance else "logits"
    classifier, targets = Classifier(model, outputs=outputs, channels=1), torch.tensor([target])
    explain = Explainer(method or Times(), classifier, targets)
    return Case(classifier, picture.unsqueeze(1), targets, maps, explain, labels=labels)


RISING = grid([[0.1, 0.2], [0.3, 0.4]])
"""Sums up to 1."""
HALF = grid([[1.0, 1.0], [0.0, 0.0]])
FULL = torch.ones(1, 2, 2)


def test_completeness__of_the_sum_of_all_pixels():
    # f(x) = 1, f(0) = 0. The picture itself adds up to 1: no gap. Three times it adds up to 3: |3 - 1| / 1 = 2.
    metric = Completeness()
    assert metric(make_case(RISING, RISING), rng=RNG).item() == approx(0)
    assert metric(make_case(3 * RISING, RISING), rng=RNG).item() == approx(2)
    assert metric.curve(make_case(3 * RISING, RISING), rng=RNG)[0].tolist() == pytest.approx([3, 1, 2], abs=1e-6)


def test_completeness__relative_and_plain():
    # The picture is doubled: f(x) = 2. A map that adds up to 3 is 1 off, which is half of 2.
    case = make_case(3 * RISING, 2 * RISING)
    assert Completeness()(case, rng=RNG).item() == approx(0.5)
    assert Completeness(relative=False)(case, rng=RNG).item() == approx(1)


def test_completeness__of_an_output_that_never_changes():
    # f(x) = f(0) = 5: nothing to be relative to, but a plain gap of 1.
    case = make_case(RISING, RISING, model=still)
    assert math.isnan(Completeness()(case, rng=RNG).item())
    assert Completeness(relative=False)(case, rng=RNG).item() == approx(1)


def test_local_accuracy__of_half_a_picture():
    # The mask shows two of four white pixels: p = 1, o = 1/2. Losing and winning count alike.
    assert LocalAccuracy()(make_case(HALF, FULL, model=chance), rng=RNG).item() == approx(0.5)
    assert LocalAccuracy()(make_case(HALF, FULL, model=chance, target=1), rng=RNG).item() == approx(0.5)
    assert math.isnan(LocalAccuracy()(make_case(FULL, FULL, model=chance), rng=RNG).item())


def test_robustness__of_three_times_the_picture():
    # Φ = 3x moves three times as far as the picture, whatever the noise. ‖x‖ = 5, so relative to ‖Φ(x)‖ = 15 that is 1/5.
    picture = grid([[3.0, 0.0], [0.0, 4.0]])
    case = make_case(3 * picture, picture, method=Times(3))
    assert Robustness(relative=False)(case, rng=RNG).item() == pytest.approx(3, rel=1e-5)
    assert Robustness()(case, rng=RNG).item() == pytest.approx(0.2, rel=1e-5)


def test_coherency__of_the_picture_and_its_negative():
    # The mask of (0, 1, 2, 2) is (0, 1/2, 1, 1), which is all that is left of a white picture. As a map of its own it
    # correlates perfectly with the first, and its negative not at all.
    maps = grid([[0.0, 1.0], [2.0, 2.0]])
    assert Coherency()(make_case(maps, FULL, method=Times(1)), rng=RNG).item() == approx(1)
    assert Coherency()(make_case(maps, FULL, method=Times(-1)), rng=RNG).item() == approx(0)


def test_coherency__of_a_corner():
    # Seen through (1, 1, 0, 0), the picture (2, 0, 2, 0) becomes (2, 0, 0, 0).
    # Around their means: (1, 1, -1, -1) / 2 and (3, -1, -1, -1) / 2. r = 4 / √(4 · 12) = 1 / √3.
    case = make_case(HALF, grid([[2.0, 0.0], [2.0, 0.0]]))
    assert Coherency()(case, rng=RNG).item() == approx((1 / math.sqrt(3) + 1) / 2)


@pytest.mark.parametrize("metric", [Coherency(), Adcc(), Stability()])
def test_coherency__and_others_do_not_look_past_a_gap_in_the_map_of_the_changed_picture(metric):
    picture = grid([[0.1, 0.3], [0.2, 0.4], [0.6, 0.5]])
    assert not math.isnan(metric(make_case(picture, picture), rng=RNG).item())
    assert math.isnan(metric(make_case(picture, picture, method=Gap()), rng=RNG).item())


def test_adcc__of_half_a_picture():
    # Coherency 1; the mask's mean is 1/2; from p = 1 to o = 1/2 the drop is 1/2: 3 / (1 + 2 + 2).
    case = make_case(HALF, FULL, model=chance)
    assert Adcc().curve(case, rng=RNG)[0].tolist() == pytest.approx([1, 0.5, 0.5], abs=1e-6)
    assert Adcc()(case, rng=RNG).item() == approx(0.6)
    assert Adcc(fill=BLACK)(case, rng=RNG).item() == approx(0.6)  # black is zero here


def test_adcc__of_an_incoherent_map():
    # One virtue that is missing altogether spoils the harmonic mean.
    assert Adcc()(make_case(HALF, FULL, model=chance, method=Times(-1)), rng=RNG).item() == approx(0)


def test_target_sensitivity__of_a_sign():
    # f = (1, -1): class 1 is the least likely. Its map is the opposite of the other: r = -1, so 1 - r = 2.
    metric = TargetSensitivity(likeness="pearson")
    assert metric(make_case(RISING, RISING, method=Times(1, signed=True)), rng=RNG).item() == approx(2)
    assert metric(make_case(RISING, RISING, method=Times(1)), rng=RNG).item() == approx(0)


def test_target_sensitivity__when_the_target_is_the_least_likely_class():
    # Nothing to compare with; but the right class is class 0, whose map is the opposite.
    case = make_case(-RISING, RISING, method=Times(1, signed=True), labels=torch.tensor([0]), target=1)
    least, right = TargetSensitivity(likeness="pearson").curve(case, rng=RNG)[0].tolist()
    assert math.isnan(least)
    assert right == approx(2)


def test_random_logit__of_a_sign():
    # There is only one other class to draw.
    metric = RandomLogit(likeness="pearson")
    assert metric(make_case(RISING, RISING, method=Times(1, signed=True)), rng=RNG).item() == approx(-1)
    assert metric(make_case(RISING, RISING, method=Times(1)), rng=RNG).item() == approx(1)


def test_faithfulness__of_the_sum_of_all_pixels():
    # Without pixel i the mean of four falls by xᵢ / 4, so the picture itself is in proportion and its negative against it.
    metric = Faithfulness(of="probability")
    assert metric(make_case(RISING, RISING, model=chance), rng=RNG).item() == approx(1)
    assert metric(make_case(-RISING, RISING, model=chance), rng=RNG).item() == approx(-1)
    drops = metric.curve(make_case(RISING, RISING, model=chance), rng=RNG)[0, 4:]
    assert drops.tolist() == pytest.approx([0.025, 0.05, 0.075, 0.1], abs=1e-6)


def test_faithfulness__of_one_pixel_of_four():
    # Map (0, 0, 0, 1) against drops (1, 2, 3, 4) / 40. Around their means: (-1, -1, -1, 3) / 4 and (-3, -1, 1, 3) / 80.
    # r = (3 + 1 - 1 + 9) / √(12 · 20) = 12 / √240.
    case = make_case(grid([[0.0, 0.0], [0.0, 1.0]]), RISING, model=chance)
    assert Faithfulness()(case, rng=RNG).item() == approx(12 / math.sqrt(240))


def test_faithfulness__undefined_without_differences():
    assert math.isnan(Faithfulness()(make_case(FULL, RISING, model=chance), rng=RNG).item())
    assert math.isnan(Faithfulness()(make_case(RISING, RISING, model=still), rng=RNG).item())


def test_faithfulness__of_random_subsets():
    # f = Σx: what a set adds up to is what is lost without it, whatever the set.
    metric = Faithfulness(subsets=8, share=0.5, of="logit")
    assert metric(make_case(RISING, RISING), rng=RNG).item() == approx(1)
    assert metric(make_case(-RISING, RISING), rng=RNG).item() == approx(-1)


def test_luminosity_calibration__of_shares():
    # Losses are shared as (1, 2, 3, 4) / 10. The picture is lit like that: 1. Lit evenly, 1/4 each:
    # 1 - (0.15 + 0.05 + 0.05 + 0.15) / 2 = 0.8. Lit in the last pixel alone: 0.4. The other way round, in the first: 0.1.
    metric = LuminosityCalibration()
    for maps, expected in [
        (7 * RISING, 1),
        (FULL, 0.8),
        (grid([[0.0, 0.0], [0.0, 2.0]]), 0.4),
        (grid([[5.0, 0.0], [-9.0, 0.0]]), 0.1),
    ]:
        assert metric(make_case(maps, RISING, model=chance), rng=RNG).item() == approx(expected)


def test_luminosity_calibration__without_light_or_loss():
    metric = LuminosityCalibration()
    assert math.isnan(metric(make_case(-RISING, RISING, model=chance), rng=RNG).item())
    assert math.isnan(metric(make_case(RISING, RISING, model=chance, target=1), rng=RNG).item()), "class 1 only ever gains"
    assert math.isnan(metric(make_case(RISING, RISING, model=still), rng=RNG).item())


def test_infidelity__of_the_sum_of_all_pixels():
    # f = Σx: the picture foretells every loss. Three times the picture is wrong by two thirds of it, but not in proportion.
    assert Infidelity(size=0.5)(make_case(RISING, RISING), rng=RNG).item() == approx(0)
    plain, scaled = Infidelity(size=0.5).curve(make_case(3 * RISING, RISING), rng=RNG)[0].tolist()
    assert 4 * 0.01 < plain < 4 * 0.16  # a single pixel is removed, so the error is (2xᵢ)²
    assert scaled == approx(0)
    assert Infidelity(size=0.5, scaled=True)(make_case(3 * RISING, RISING), rng=RNG).item() == scaled


def test_infidelity__of_the_whole_picture():
    # A square of the full size has one place: 1 is lost, and a map of sum 3 foretells 3: (3 - 1)² = 4. A zero map: 1.
    metric = Infidelity(size=1.0)
    assert metric(make_case(3 * RISING, RISING), rng=RNG).item() == approx(4)
    assert metric.curve(make_case(0 * RISING, RISING), rng=RNG)[0].tolist() == pytest.approx([1, 1], abs=1e-6)


def test_infidelity__of_noise():
    # The gradient of Σx is one everywhere: it foretells the effect of any noise.
    metric = Infidelity(perturb="noise")
    assert metric(make_case(FULL, RISING), rng=RNG).item() == approx(0)
    assert metric(make_case(RISING, RISING), rng=RNG).item() > 0.01


def test_stability__of_an_order():
    # Values 0.1 apart keep their order when each moves by less than 0.05; by 0.2, with the signs drawn, they do not.
    case = make_case(RISING, RISING)
    assert Stability(radius=0.04)(case, rng=RNG).item() == approx(1)
    assert Stability(radius=0.2)(case, rng=RNG).item() < 0.9
    assert Stability(radius=0.0).curve(case, rng=RNG)[0].tolist() == pytest.approx([1] * 5)


def test_stability__of_two_pixels_that_can_swap():
    # The worst that ±0.06 can do to 0.1, 0.2, 0.3, 0.4 is to swap two pairs: 2, 1, 4, 3. Rank differences 1, 1, 1, 1:
    # ρ = 1 - 6 · 4 / (4 · 15) = 0.6. There are 2⁴ pictures to try, and 64 lots find them all.
    metric = Stability(rounds=2, candidates=64, radius=0.06)
    assert metric.curve(make_case(RISING, RISING), rng=RNG)[0].tolist() == pytest.approx([0.6, 0.6], abs=1e-6)


def test_stability__undefined_without_an_order_or_when_every_neighbour_is_another_class():
    def edge(inputs: Tensor) -> Tensor:
        """Class 0 for this very picture alone."""
        same = (inputs[:, 0] == RISING).flatten(1).all(dim=1)
        return torch.stack([same.float(), 1 - same.float()], dim=1)

    assert math.isnan(Stability()(make_case(FULL, RISING), rng=RNG).item())
    assert math.isnan(Stability()(make_case(RISING, RISING, model=edge), rng=RNG).item())


def test_stability__of_a_classifier_that_soon_says_something_else():
    # At ±0.16 every neighbour is another class. The second round tries ±0.04, where the order of RISING survives.
    def near(inputs: Tensor) -> Tensor:
        """Class 0 as long as no pixel moves by more than 0.07."""
        away = (inputs[:, 0] - RISING).abs().flatten(1).amax(dim=1)
        return torch.stack([0.07 - away, away - 0.07], dim=1)

    curve = Stability(radius=0.16).curve(make_case(RISING, RISING, model=near), rng=RNG)[0]
    assert curve.isnan().tolist() == [True, False, False, False, False]
    assert curve[1:].tolist() == pytest.approx([1] * 4)
