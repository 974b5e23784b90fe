"""Known faults of other implementations, each with a test that would find it here."""

from __future__ import annotations

import math

import pytest
import torch

from snellen.classifier import Classifier
from snellen.maps.explainer import case_of
from snellen.maps.fills import MEAN, NOISE
from snellen.metrics.complexity import Complexity
from snellen.metrics.confidence import AverageDrop, AverageGain, AverageIncrease
from snellen.metrics.deletion import Deletion
from snellen.metrics.insertion import Insertion
from snellen.metrics.pixel_removal import pixel_ranks
from snellen.metrics.pointing_game import EnergyPointingGame, PointingGame
from snellen.metrics.sensitivity import AvgSensitivity, MaxSensitivity
from snellen.metrics.sparseness import Sparseness
from snellen.plugins.checks.planted import planted_batch
from snellen.plugins.registry import METHODS
from snellen.types import Passes, Rng


def scene_and_case(method: str = "gradient", count: int = 3):
    scene = planted_batch(count)
    return scene, case_of(
        METHODS.parse(method), scene.classifier, scene.inputs, scene.targets, rng=scene.rng, truth=scene.truth
    )


@pytest.mark.parametrize("metric", [MaxSensitivity(), AvgSensitivity()])
def test_a_map_that_never_changes_has_sensitivity_zero(metric):
    """A published table gives Fake-CAM 0.96, because another method was asked to explain again."""
    scene, case = scene_and_case("fake-cam")
    assert metric(case, rng=scene.rng).tolist() == [0.0, 0.0, 0.0]


def test_both_sensitivities_pay_for_one_set_of_maps():
    scene, case = scene_and_case("gradient")
    with scene.classifier.counting() as first:
        MaxSensitivity()(case, rng=scene.rng)
    with scene.classifier.counting() as second:
        AvgSensitivity()(case, rng=scene.rng)
    assert (first.passes, first.cached) == (Passes(30, 30), Passes())
    assert (second.passes, second.cached) == (Passes(), Passes(30, 30))


def test_a_random_method_draws_anew_for_each_perturbed_picture():
    """Uniform maps have norm √(n/3); two independent ones are √(n/6) apart, so the ratio is about √(1/2)."""
    scene, case = scene_and_case("random")
    assert AvgSensitivity()(case, rng=scene.rng).tolist() == pytest.approx([math.sqrt(0.5)] * 3, rel=0.1)


def test_drop_increase_and_gain_pay_for_one_masked_picture():
    scene, case = scene_and_case("gradient")
    costs = []
    for metric in (AverageGain(), AverageDrop(), AverageIncrease()):
        with scene.classifier.counting() as ledger:
            metric(case, rng=scene.rng)
        costs.append((ledger.passes.forward, ledger.cached.forward))
    assert costs == [(6, 0), (0, 6), (0, 6)]


def test_another_fill_is_another_masked_picture():
    scene, case = scene_and_case("gradient")
    black, noisy = AverageDrop()(case, rng=scene.rng), AverageDrop(fill=NOISE)(case, rng=scene.rng)
    other = AverageDrop(fill=NOISE)(case, rng=Rng(1, scene.rng.ids))
    assert not torch.allclose(black, noisy)
    assert not torch.allclose(other, noisy)


def test_a_curve_starts_at_step_zero_and_ends_with_all():
    scene, case = scene_and_case("gradient")
    classifier, (targets, inputs) = scene.classifier, (scene.targets, scene.inputs)

    def chance(pictures: torch.Tensor) -> torch.Tensor:
        return classifier.probabilities(pictures).gather(1, targets.view(-1, 1)).squeeze(1)

    deleted = Deletion().curve(case, rng=scene.rng)
    inserted = Insertion(fill=MEAN).curve(case, rng=scene.rng)
    assert deleted.shape == inserted.shape == (3, 29)
    whole, nothing = chance(inputs), chance(torch.zeros_like(inputs))
    for curve, first, last in [(deleted, whole, nothing), (inserted, nothing, whole)]:
        torch.testing.assert_close(curve[:, 0], first)
        torch.testing.assert_close(curve[:, -1], last)


def test_the_area_does_not_grow_with_the_number_of_steps():
    scene, case = scene_and_case("gradient")
    coarse, fine = (Deletion(steps=steps)(case, rng=scene.rng) for steps in (28, 288))
    torch.testing.assert_close(coarse, fine, atol=0.02, rtol=0)


def test_all_channels_of_a_pixel_go_at_once():
    """576 pixels in 576 steps, not 3 · 576."""
    scene, case = scene_and_case("gradient", count=1)
    assert Deletion(steps=10_000).curve(case, rng=scene.rng).shape == (1, 577)


@pytest.mark.parametrize("metric", [PointingGame(), PointingGame(tolerance=15), EnergyPointingGame()])
def test_an_empty_mask_is_no_hit(metric):
    scene = planted_batch(2)
    truth = torch.zeros_like(scene.truth)
    method = METHODS.build("gradient")
    case = case_of(method, scene.classifier, scene.inputs, scene.targets, rng=scene.rng, truth=truth)
    assert metric(case, rng=scene.rng).isnan().all()


@pytest.mark.parametrize("metric", [Complexity(), Sparseness()])
def test_the_callers_array_stays_as_it_was_and_no_batch_is_normalised(metric):
    scene = planted_batch(3)
    array = scene.rng.normal("map", (24, 24)).numpy() * [[[1]], [[1000]], [[0]]]
    before = array.copy()
    maps = torch.from_numpy(array).float()
    case = case_of(METHODS.build("gradient"), scene.classifier, scene.inputs, scene.targets, rng=scene.rng, maps=maps)
    values = metric(case, rng=scene.rng)
    assert (array == before).all()
    assert torch.equal(maps, torch.from_numpy(before).float())
    assert values.isnan().tolist() == [False, False, True]
    alone = case_of(METHODS.build("gradient"), scene.classifier, scene.inputs[:1], scene.targets[:1], rng=scene.rng[:1],
                    maps=maps[:1])  # fmt: skip
    assert metric(alone, rng=scene.rng[:1])[0] == values[0]


def test_ranks_follow_the_sign_and_count_every_pixel_once():
    rng = Rng(0, ("a", "b"))
    maps = torch.tensor([[[0.0, -3.0], [2.0, 1e-30]], [[-1.0, -2.0], [-4.0, float("inf")]]])
    assert pixel_ranks(maps, rng=rng).tolist() == [[[2, 3], [0, 1]], [[1, 2], [3, 0]]]


def test_ties_run_neither_forwards_nor_backwards():
    """Half of a constant map's first half lies in the upper half of the picture, in every sample in another way."""
    rng = Rng(0, tuple(f"sample-{i}" for i in range(8)))
    # Zero has two signs in floating point, which must not sort apart.
    maps = torch.zeros(8, 32, 32)
    maps[:, ::2] = -0.0
    order = pixel_ranks(maps, rng=rng)
    assert torch.equal(order.flatten(1).sort(dim=1).values, torch.arange(1024).expand(8, -1))
    above = (order[:, :16] < 512).float().mean(dim=(1, 2))
    even = (order[:, ::2] < 512).float().mean(dim=(1, 2))
    assert bool(((above - 0.5).abs() < 0.1).all())
    assert bool(((even - 0.5).abs() < 0.1).all())
    assert len({tuple(ranks.flatten().tolist()) for ranks in order}) == 8


def test_a_map_with_nan_gets_no_score():
    scene, case = scene_and_case("gradient")
    case.maps[1, 0, 0] = torch.nan
    for metric in (Deletion(), Insertion(), AverageDrop(), AverageIncrease(), AverageGain(), PointingGame(), Complexity(),
                   Sparseness(), MaxSensitivity(), EnergyPointingGame()):  # fmt: skip
        assert metric(case, rng=scene.rng).isnan().tolist() == [False, True, False], metric


def test_a_certain_classifier_gives_numbers_not_nan():
    """Probabilities that round to 0 and 1 must not divide by zero."""
    scene = planted_batch(3)
    sure = Classifier(lambda inputs: torch.tensor([[200.0, 0.0, -200.0]]).expand(len(inputs), 3))
    for target in (0, 2):
        targets = torch.full((3,), target)
        case = case_of(METHODS.build("edge"), sure, scene.inputs, targets, rng=scene.rng)
        for metric in (AverageDrop(), AverageIncrease(), AverageGain()):
            assert metric(case, rng=scene.rng).tolist() == [0.0, 0.0, 0.0]


def test_a_shared_pass_is_not_mistaken_for_another_output():
    scene, case = scene_and_case("gradient")
    logits = scene.classifier.logits(scene.inputs).gather(1, scene.targets.view(-1, 1)).squeeze(1)
    Deletion()(case, rng=scene.rng)
    torch.testing.assert_close(Deletion(of="logit").curve(case, rng=scene.rng)[:, 0], logits)
