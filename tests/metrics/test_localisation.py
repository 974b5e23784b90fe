"""Localisation beside scikit-learn, under ties, and on maps whose score is known."""

from __future__ import annotations

import itertools

import pytest
import torch
from sklearn.metrics import average_precision_score, roc_auc_score

from snellen.metrics.localisation import LocalisationUtility, MeanIou, Plausibility, RelevanceMass, RelevanceRank
from snellen.plugins.checks.planted import AREA_SHARE, planted_batch
from snellen.plugins.checks.planted_methods import InputTimesGradient, planted_case
from snellen.plugins.registry import METHODS
from snellen.types import Case, Rng

ALL = [LocalisationUtility(), MeanIou(), RelevanceMass(), RelevanceRank(), Plausibility()]
RANKED = [LocalisationUtility(), MeanIou(), RelevanceRank(), Plausibility()]


@pytest.mark.parametrize("levels", [2, 5, 10**6])
@pytest.mark.parametrize(
    ("metric", "theirs"), [(LocalisationUtility(), average_precision_score), (Plausibility(), roc_auc_score)]
)
def test_the_area_is_that_of_scikit_learn_with_and_without_ties(metric, theirs, levels):
    scene = planted_batch(4)
    maps = (scene.rng.normal("map", (24, 24)) + scene.truth) * levels / 8
    maps = maps.round() - 0.0
    values = metric(planted_case(scene, InputTimesGradient(), maps=maps), rng=scene.rng)
    expected = [
        theirs(truth.flatten().numpy(), saliency.flatten().numpy())
        for truth, saliency in zip(scene.truth, maps, strict=True)
    ]
    assert values.tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("metric", [MeanIou(), RelevanceRank()])
def test_ties_give_the_mean_over_every_order(metric):
    """All 720 orders of six pixels, each made strict by a little less for each place."""
    scene = planted_batch(1)
    maps = torch.tensor([[[2.0, 1.0, 1.0], [1.0, 1.0, 0.0]]])
    truth = torch.tensor([[[True, True, False], [False, True, True]]])
    shape = {"inputs": scene.inputs[:, :, :2, :3], "targets": scene.targets, "truth": truth}

    def score(maps: torch.Tensor) -> float:
        case = Case(scene.classifier, maps=maps, explain=planted_case(scene, InputTimesGradient()).explain, **shape)
        return metric(case, rng=scene.rng).item()

    strict = [score(maps - 0.01 * torch.tensor(order).view(1, 2, 3)) for order in itertools.permutations(range(6))]
    assert score(maps) == pytest.approx(sum(strict) / len(strict), abs=1e-6)
    assert len(set(strict)) > 1


@pytest.mark.parametrize("metric", ALL)
def test_scores_of_the_truth_its_complement_and_chance(metric):
    """The truth as a map scores 1, its complement less than chance, noise and a constant map about chance."""
    scene = planted_batch(6)
    truth = scene.truth.float()
    ramp = torch.arange(576.0).view(24, 24) / 1e6
    scores = {
        name: metric(planted_case(scene, InputTimesGradient(), maps=maps), rng=scene.rng)
        for name, maps in {
            "oracle": truth + ramp * truth,
            "anti-oracle": 1 - truth + ramp,
            "noise": scene.rng.uniform("noise", (24, 24)),
            "constant": torch.ones(6, 24, 24),
        }.items()
    }
    chance = {MeanIou: AREA_SHARE / (2 - AREA_SHARE), Plausibility: 0.5}.get(type(metric), AREA_SHARE)
    assert scores["oracle"].tolist() == [1.0] * 6
    assert bool((scores["anti-oracle"] < 0.75 * chance).all())
    assert scores["constant"].tolist() == pytest.approx([chance] * 6, abs=2e-3)
    assert scores["noise"].mean().item() == pytest.approx(chance, abs=0.06)


@pytest.mark.parametrize("metric", ALL)
def test_fake_cam_is_almost_a_constant_map(metric):
    scene = planted_batch(3)
    fake = METHODS.build("fake-cam")(scene.classifier, scene.inputs, scene.targets, rng=scene.rng)
    chance = {MeanIou: AREA_SHARE / (2 - AREA_SHARE), Plausibility: 0.5}.get(type(metric), AREA_SHARE)
    values = metric(planted_case(scene, InputTimesGradient(), maps=fake), rng=scene.rng)
    assert values.tolist() == pytest.approx([chance] * 3, abs=2e-3)


@pytest.mark.parametrize("metric", RANKED)
def test_the_sign_turns_the_order_round(metric):
    scene = planted_batch(3)
    maps = scene.rng.normal("map", (24, 24)) + 2 * scene.truth
    good, bad = (metric(planted_case(scene, InputTimesGradient(), maps=values), rng=scene.rng) for values in (maps, -maps))
    assert bool((good > bad).all())
    if isinstance(metric, Plausibility):
        torch.testing.assert_close(good, 1 - bad)


@pytest.mark.parametrize("metric", [RelevanceMass(), RelevanceRank(magnitude=True)])
def test_magnitudes_have_no_sign(metric):
    scene = planted_batch(3)
    maps = scene.rng.normal("map", (24, 24))
    assert torch.equal(
        *(metric(planted_case(scene, InputTimesGradient(), maps=values), rng=scene.rng) for values in (maps, -maps))
    )


@pytest.mark.parametrize("metric", [*ALL, MeanIou(threshold=0.3)])
def test_a_factor_changes_nothing_and_nan_is_no_score(metric):
    scene = planted_batch(3)
    maps = scene.rng.normal("map", (24, 24))
    plain, tenfold = (
        metric(planted_case(scene, InputTimesGradient(), maps=values), rng=scene.rng) for values in (maps, 8 * maps)
    )
    torch.testing.assert_close(plain, tenfold, rtol=1e-6, atol=0)
    maps[1, 3, 3] = torch.nan
    assert metric(planted_case(scene, InputTimesGradient(), maps=maps), rng=scene.rng).isnan().tolist() == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize("metric", [*ALL, MeanIou(threshold=0.3)])
@pytest.mark.parametrize("size", [(1, 2), (224, 224)])
def test_any_size_of_picture(metric, size):
    """The expectation of equal pixels is worked out in logarithms: the ways to choose from 50 176 overflow."""
    scene = planted_batch(1)
    truth = torch.zeros(1, *size, dtype=torch.bool)
    truth[..., 0] = True
    case = Case(
        scene.classifier,
        torch.zeros(1, 3, *size),
        scene.targets,
        torch.ones(1, *size),
        planted_case(scene, InputTimesGradient()).explain,
        truth,
    )
    share = 1 / size[1]
    chance = 0.5 if isinstance(metric, Plausibility) else share
    if size != (1, 2) and metric == MeanIou():
        chance = share / (2 - share)
    assert metric(case, rng=Rng(0, ("a",))).item() == pytest.approx(chance, rel=0.01)


def test_a_threshold_outside_its_range_is_refused():
    for wrong in (0.0, 1.5):
        with pytest.raises(ValueError, match="threshold must be above 0 and at most 1"):
            MeanIou(threshold=wrong)
