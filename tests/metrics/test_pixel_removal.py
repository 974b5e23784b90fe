"""Metrics that remove pixels: caching, order of methods, and known faults of other implementations."""

from __future__ import annotations

import pytest
import torch
from tests.metric_twins.pixel_removal import filled

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.maps.explainer import case_of
from snellen.maps.fills import MEAN
from snellen.metrics.deletion import Deletion
from snellen.metrics.insertion import Insertion
from snellen.metrics.monotonicity import Monotonicity, MonotonicityCorrelation
from snellen.metrics.perturbation import LeRF, MoRF
from snellen.metrics.region_perturbation import RegionPerturbation
from snellen.metrics.road import Road, impute
from snellen.metrics.sparsity import Sparsity
from snellen.metrics.sufficiency import EffectiveComplexity, EffectiveComplexityCount, Minimality, Sufficiency
from snellen.plugins.checks.planted import patches, planted_batch
from snellen.plugins.checks.planted_methods import MarksPatch, planted_case, take
from snellen.plugins.registry import METHODS, METRICS, traits
from snellen.types import Rng

SWEEPING = [MoRF(), LeRF(), RegionPerturbation(), Road(of="probability"), Sufficiency(), Minimality(),
            EffectiveComplexity(), Monotonicity(), MonotonicityCorrelation()]  # fmt: skip


def costs(scene, case, metrics):
    passes = []
    for metric in metrics:
        with scene.classifier.counting() as ledger:
            metric(case, rng=scene.rng)
        passes.append((ledger.passes.forward, ledger.cached.forward))
    return passes


def named(method: str, count: int = 3):
    scene = planted_batch(count)
    return scene, case_of(METHODS.parse(method), scene.classifier, scene.inputs, scene.targets, rng=scene.rng)


def test_metrics_that_remove_the_top_pixels_share_one_sweep():
    scene, case = named("gradient")
    metrics = [Deletion(), MoRF(), MoRF(of="probability"), Monotonicity(), RegionPerturbation(region=1, fill=MEAN)]
    assert costs(scene, case, metrics) == [(3 * 29, 0)] + [(0, 3 * 29)] * 4


def test_metrics_that_keep_the_top_pixels_share_the_other_sweep():
    scene, case = named("gradient")
    metrics = [Insertion(fill=MEAN), LeRF(), Sufficiency(), Sufficiency(share=0.5), Minimality(), EffectiveComplexity()]
    assert costs(scene, case, metrics) == [(3 * 29, 0)] + [(0, 3 * 29)] * 5


def test_the_untouched_picture_is_the_only_thing_both_sweeps_share():
    scene, case = named("gradient")
    paid = costs(scene, case, [MoRF(), LeRF(), RegionPerturbation(), MonotonicityCorrelation()])
    assert paid == [(3 * 29, 0), (3 * 28, 3), (3 * 9, 3), (3 * 70, 3)]


def test_regions_of_one_pixel_are_the_deletion_sweep():
    scene, case = named("gradient")
    regions = RegionPerturbation(region=1, fill=MEAN).curve(case, rng=scene.rng)
    assert torch.equal(regions, Deletion().curve(case, rng=scene.rng))


@pytest.mark.parametrize(
    "metric", [metric for metric in SWEEPING if metric != Monotonicity()], ids=lambda metric: traits(metric).name
)
def test_oracle_beats_random_beats_anti_oracle(metric):
    """The oracle's map is the occlusion effect of the planted classifier: its own patch, and nothing else."""
    scene = planted_batch(6)
    noise = 1e-3 * scene.rng.uniform("map", (24, 24))
    oracle = patches(scene.targets) + noise
    dice = scene.rng.uniform("dice", (24, 24))
    sign = 1 if traits(metric).higher_is_better else -1
    good, even = (
        sign * metric(planted_case(scene, MarksPatch(), maps=maps), rng=scene.rng).mean() for maps in (oracle, dice)
    )
    if not isinstance(metric, MonotonicityCorrelation):  # there a negative map has the same magnitudes
        bad = sign * metric(planted_case(scene, MarksPatch(), maps=-oracle), rng=scene.rng).nanmean()
        assert even > bad
    assert good > even


def test_fake_cam_is_worth_a_random_map():
    """One dark pixel and ties: what it scores must not come from the order of pixels in memory."""
    scene, case = named("fake-cam", 6)
    _, dice = named("random", 6)
    for metric in (MoRF(), LeRF(), Sufficiency()):
        fake, random = (metric(each, rng=scene.rng).mean().item() for each in (case, dice))
        again = metric(case, rng=Rng(1, scene.rng.ids)).mean().item()
        assert fake == pytest.approx(random, abs=0.15 * abs(random))
        assert fake != again
    assert EffectiveComplexityCount()(case, rng=scene.rng).tolist() == [575.0] * 6
    assert Sparsity()(case, rng=scene.rng).tolist() == pytest.approx([576 / 575] * 6)


def test_monotonicity_is_not_always_true():
    """A known implementation exchanges the fill for the fill, and so finds every map and its opposite monotonic."""
    scene = planted_batch(4)
    maps = patches(scene.targets) + 0.1 * scene.rng.uniform("map", (24, 24))
    good, bad = (Monotonicity()(planted_case(scene, MarksPatch(), maps=values), rng=scene.rng) for values in (maps, -maps))
    assert bool((good > bad + 0.1).all())


def test_monotonicity_takes_a_random_map_for_a_good_one():
    """By its definition: with every random chunk a little more of the patch enters, and saliency rises as evenly."""
    scene = planted_batch(4)
    dice = Monotonicity()(planted_case(scene, MarksPatch(), maps=scene.rng.uniform("dice", (24, 24))), rng=scene.rng)
    assert bool((dice > 0.9).all())


@pytest.mark.parametrize("metric", [Monotonicity(), MonotonicityCorrelation()])
@pytest.mark.parametrize("value", [0.1, -0.3])
def test_no_correlation_with_a_constant_map(metric, value):
    """576 pixels do not fall into 7 or 28 equal chunks; rounding must not make ranks of equal values."""
    scene = planted_batch(3)
    maps = torch.full((3, 24, 24), value)
    maps[1] = scene.rng.uniform("map", (24, 24))[1]
    values = metric(planted_case(scene, MarksPatch(), maps=maps), rng=scene.rng)
    assert values.isnan().tolist() == [True, False, True]


def test_some_chunks_without_effect_raise_nothing():
    """A known implementation fails when only some of the chunks move the output."""
    scene = planted_batch(2)
    blind = Classifier(lambda inputs: inputs[:, :, :2].flatten(1)[:, :3], channels=3)
    case = case_of(METHODS.build("edge"), blind, scene.inputs, scene.targets, rng=scene.rng)
    assert bool(MonotonicityCorrelation()(case, rng=scene.rng).isfinite().all())


@pytest.mark.parametrize(
    "metric", [*SWEEPING, Sparsity(), EffectiveComplexityCount()], ids=lambda metric: traits(metric).name
)
def test_a_map_with_nan_gets_no_score(metric):
    scene, case = named("gradient")
    case.maps[1, 0, 0] = torch.nan
    assert metric(case, rng=scene.rng).isnan().tolist() == [False, True, False]


@pytest.mark.parametrize("metric", SWEEPING, ids=lambda metric: traits(metric).name)
def test_one_channel_is_enough(metric):
    scene = planted_batch(3)
    grey = Classifier(lambda inputs: inputs[:, 0, ::8, ::8].flatten(1)[:, :3], channels=1)
    inputs = scene.inputs.mean(dim=1, keepdim=True)
    case = case_of(METHODS.build("random"), grey, inputs, scene.targets, rng=scene.rng)
    assert metric(case, rng=scene.rng).shape == (3,)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", [(7, 7), (5, 40), (33, 20)])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_filling_in_solves_the_dense_system(channels, size, share):
    rng = Rng(0, ("a", "b"))
    pictures = rng.normal("pictures", (channels, *size))
    removed = rng.uniform("removed", size) < share
    ours = impute(pictures, removed)
    for picture, missing, solution in zip(pictures, removed, ours, strict=True):
        theirs = torch.from_numpy(filled(picture.double().numpy(), missing.numpy()))
        torch.testing.assert_close(solution.double(), theirs, rtol=1e-5, atol=1e-6)
        assert torch.equal(solution[:, ~missing], picture[:, ~missing])


def test_filling_in_draws_a_straight_ramp():
    """Inside the picture the weights are even, so a ramp with a hole in it is a ramp again."""
    ramp = (torch.arange(24.0).view(1, 1, 24, 1) + 2 * torch.arange(24.0)).expand(1, 3, 24, 24)
    hole = torch.zeros(1, 24, 24, dtype=torch.bool)
    hole[0, 5:20, 4:21] = True
    torch.testing.assert_close(impute(ramp.masked_fill(hole.unsqueeze(1), 99.0), hole), ramp)


def test_nothing_removed_is_nothing_filled_in():
    picture = Rng(0, ("a",)).normal("picture", (3, 6, 6))
    assert torch.equal(impute(picture, torch.zeros(1, 6, 6, dtype=torch.bool)), picture)


def test_road_does_not_depend_on_the_batch():
    """A known implementation scores the first batch only, and fails on pictures with colours."""
    scene = planted_batch(7)
    maps = patches(scene.targets) * torch.tensor([1.0, -1, 1, -1, 1, -1, 1]).view(-1, 1, 1)
    maps = maps + 1e-3 * scene.rng.uniform("map", (24, 24))
    whole = Road()(planted_case(scene, MarksPatch(), maps=maps), rng=scene.rng)
    assert len(whole.unique()) > 1
    for start, end in ((0, 1), (1, 6), (6, 7)):
        part = take(scene, list(range(start, end)))
        assert torch.equal(Road()(planted_case(part, MarksPatch(), maps=maps[start:end]), rng=part.rng), whole[start:end])


def test_road_is_not_fooled_by_the_shape_of_the_mask():
    """A picture of one colour is filled in with that colour: whatever goes, nothing is given away."""
    scene = planted_batch(3)
    flat = scene.classifier.to_inputs(torch.full((3, 3, 24, 24), 0.3))
    case = case_of(METHODS.build("random"), scene.classifier, flat, scene.targets, rng=scene.rng)
    curve = Road(of="probability", noise=0.0).curve(case, rng=scene.rng)
    torch.testing.assert_close(curve, scene.classifier.output(flat, scene.targets, "probability")[:, None].expand(-1, 7))


def test_a_target_that_is_not_on_top_has_no_minimal_set():
    scene = planted_batch(3)
    targets = (scene.targets + 1) % 3
    case = case_of(METHODS.build("gradient"), scene.classifier, scene.inputs, targets, rng=scene.rng)
    assert Minimality()(case, rng=scene.rng).isnan().all()
    assert not Sufficiency()(case, rng=scene.rng).isnan().any()


def test_sufficiency_is_read_at_the_nearest_stop():
    scene, case = named("gradient")
    curve = Sufficiency().curve(case, rng=scene.rng)
    for share, at in ((0.0, 0), (0.25, 7), (0.26, 7), (0.27, 8), (1.0, 28)):
        expected = (curve[:, at] / curve[:, 28]).clamp_max(1)
        assert torch.equal(Sufficiency(share=share).score(curve), expected)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("morf(steps=0)", "metric 'morf': steps must be at least 1, not 0"),
        ("sufficiency(share=1.5)", "metric 'sufficiency': share must be between 0 and 1, not 1.5"),
        ("minimality(confidence=-1)", "metric 'minimality': confidence must be between 0 and 1, not -1.0"),
        ("region-perturbation(region=0)", "metric 'region-perturbation': region must be at least 1, not 0"),
        ("region-perturbation(share=0)", "metric 'region-perturbation': share must be above 0 and at most 1, not 0.0"),
        ("road(fractions=[0.5, 1.0])", "metric 'road': fractions must lie between 0 and 1, not (0.5, 1.0)"),
        ("road(noise=-1)", "metric 'road': noise must not be negative, not -1.0"),
        ("monotonicity-correlation(chunks=1)", "metric 'monotonicity-correlation': chunks must be at least 2, not 1"),
    ],
)
def test_settings_without_meaning_are_refused(text, says):
    with pytest.raises(SnellenError) as caught:
        METRICS.parse(text)
    assert str(caught.value) == says
