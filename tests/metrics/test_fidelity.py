"""Metrics of fidelity: expected scores of oracle, anti-oracle, noise and fake-cam."""

from __future__ import annotations

import math

import pytest
import torch

from snellen.classifier import Classifier
from snellen.maps.explainer import case_of
from snellen.maps.fills import BLACK, MEAN
from snellen.maps.similarity import spearman
from snellen.maps.superpixels import squares
from snellen.metrics.adcc import Adcc, Coherency
from snellen.metrics.completeness import Completeness
from snellen.metrics.confidence import AverageDrop, LocalAccuracy
from snellen.metrics.faithfulness import Faithfulness, LuminosityCalibration
from snellen.metrics.infidelity import Infidelity
from snellen.metrics.sensitivity import AvgSensitivity, MaxSensitivity, Robustness, perturb_inputs
from snellen.metrics.stability import Stability
from snellen.metrics.targets import RandomLogit, TargetSensitivity
from snellen.plugins.checks.planted import planted_batch
from snellen.plugins.checks.planted_methods import InputTimesGradient, MarksPatch, planted_case
from snellen.plugins.registry import METHODS, METRICS
from snellen.types import Passes


def scene_and_case(method: str = "gradient", count: int = 3, net: str = "cnn"):
    scene = planted_batch(count, kind=net)
    return scene, case_of(
        METHODS.parse(method), scene.classifier, scene.inputs, scene.targets, rng=scene.rng, truth=scene.truth
    )


def values(metric, method: str, net: str = "cnn") -> torch.Tensor:
    scene, case = scene_and_case(method, net=net)
    return metric(case, rng=scene.rng)


# Rows whose value is known -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("max-sensitivity", 0),
        ("avg-sensitivity", 0),
        ("robustness", 0),
        ("coherency", 1),
        ("random-logit", 1),
        ("target-sensitivity", 0),
        ("stability", 1),
    ],
)
def test_scores_of_a_map_that_never_changes(metric, expected):
    for method in ("fake-cam", "centre"):
        assert values(METRICS.build(metric), method).tolist() == pytest.approx([expected] * 3, abs=1e-6)


def test_fake_cam_is_caught_by_what_looks_at_size():
    scene, case = scene_and_case("fake-cam")
    assert bool((LocalAccuracy()(case, rng=scene.rng) < 1e-2).all()), "showing everything changes nothing"
    assert bool((Adcc()(case, rng=scene.rng) < 0.01).all()), "its complexity is 575 / 576"
    assert bool((Completeness()(case, rng=scene.rng) > 100).all()), "575 ones are no logit"


@pytest.mark.parametrize("name", ["coherency", "adcc", "local-accuracy", "random-logit", "target-sensitivity", "stability"])
def test_a_constant_map_is_undefined(name):
    assert values(METRICS.build(name), "constant").isnan().all()


def test_a_random_method_is_unrelated_to_its_second_draw():
    """A method that draws anew every time: correlation 0 in the middle of the scale, and no order that survives."""
    assert values(Coherency(), "random").tolist() == pytest.approx([0.5] * 3, abs=0.1)
    assert bool((values(Stability(), "random").abs() < 0.2).all())


# Completeness ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("net", ["cnn", "resnet", "vit"])
def test_a_complete_method_keeps_the_axiom_and_a_gradient_does_not(net):
    tolerance = Completeness.traits.tolerance
    assert bool((values(Completeness(), "integrated-gradients(steps=256)", net) < tolerance).all())
    assert bool((values(Completeness(), "gradient", net) > tolerance).any())


def test_completeness_needs_the_baseline_of_the_method():
    black = METHODS.parse("integrated-gradients(steps=256, baseline=black)")
    scene = planted_batch(3, kind="resnet")
    case = case_of(black, scene.classifier, scene.inputs, scene.targets, rng=scene.rng)
    assert bool((Completeness(baseline=BLACK)(case, rng=scene.rng) < 0.05).all())
    assert bool((Completeness(baseline=MEAN)(case, rng=scene.rng) > 0.05).any())


def test_completeness_is_not_a_comparison_of_floats():
    """A gap of rounding is no gap, and the score says how large it is."""
    scene, case = scene_and_case("integrated-gradients(steps=256)")
    scene.classifier.rows = 1
    gaps = Completeness()(case, rng=scene.rng)
    assert bool((gaps > 0).any())
    assert bool((gaps < 0.05).all())


def test_completeness_removes_every_channel():
    """A one-channel map accounts for all three channels of the baseline."""
    scene = planted_batch(2)
    grey = Classifier(lambda inputs: torch.stack([inputs.sum(dim=(1, 2, 3)), inputs[:, 0, 0, 0]], dim=1))
    targets = torch.zeros(2, dtype=torch.long)
    case = case_of(METHODS.build("edge"), grey, scene.inputs, targets, rng=scene.rng, maps=scene.inputs.sum(dim=1))
    assert Completeness()(case, rng=scene.rng).tolist() == pytest.approx([0, 0], abs=1e-4)


# What is shared ----------------------------------------------------------------------------------------------------------


def cost(scene, case, *metrics) -> list[tuple[Passes, Passes]]:
    costs = []
    for metric in metrics:
        with scene.classifier.counting() as ledger:
            metric(case, rng=scene.rng)
        costs.append((ledger.passes, ledger.cached))
    return costs


def test_three_sensitivities_pay_for_one_set_of_maps():
    scene, case = scene_and_case()
    first, *others = cost(scene, case, MaxSensitivity(), Robustness(), AvgSensitivity())
    assert first == (Passes(30, 30), Passes())
    assert others == [(Passes(), Passes(30, 30))] * 2
    assert cost(scene, case, Robustness(radius=0.1)) == [(Passes(30, 30), Passes())]


def test_adcc_pays_for_nothing_that_coherency_and_average_drop_paid():
    scene, case = scene_and_case()
    paid = cost(scene, case, Coherency(), AverageDrop(fill=MEAN), Adcc(), LocalAccuracy(fill=MEAN))
    assert [passes for passes, _ in paid] == [Passes(3, 3), Passes(6), Passes(), Passes()]
    assert paid[2][1] == Passes(9, 3)


def test_other_targets_ask_the_classifier_once_for_all_methods():
    scene = planted_batch(3)
    spent = []
    for method in (InputTimesGradient(), MarksPatch()):
        case = planted_case(scene, method)
        spent += cost(scene, case, RandomLogit(), TargetSensitivity())
    assert [paid.forward for paid, _ in spent] == [3 + 3, 3, 0, 0]


def test_the_right_class_is_explained_only_where_it_is_another():
    scene = planted_batch(3)
    case = planted_case(scene, InputTimesGradient())
    assert case.labels is not None
    case.labels[:] = torch.tensor([-1, 2, 2])  # unknown, another, the target
    with scene.classifier.counting() as ledger:
        curve = TargetSensitivity().curve(case, rng=scene.rng)
    assert ledger.passes == Passes(forward=3 + 3 + 1, backward=3 + 1)
    assert curve[:, 1].isnan().tolist() == [True, False, True]
    assert curve[1, 1].item() > 0.05


# Other targets -----------------------------------------------------------------------------------------------------------


def test_another_class_gives_another_map_only_for_class_specific_methods():
    assert bool((values(TargetSensitivity(), "gradient") > 0.05).all())
    assert values(TargetSensitivity(), "edge").tolist() == pytest.approx([0] * 3, abs=1e-6)
    assert bool((values(RandomLogit(), "gradient") < 0.95).all())
    assert values(RandomLogit(), "edge").tolist() == pytest.approx([1] * 3, abs=1e-6)


def test_the_other_class_is_drawn_evenly_and_is_never_the_target():
    drawn = []

    class Watching:
        def __call__(self, classifier, inputs, targets, *, rng):
            drawn.append(targets)
            return inputs[:, 0]

        def passes(self, size, classifier):
            return Passes()

    scene = planted_batch(90)
    case = planted_case(scene, Watching())
    drawn.clear()
    RandomLogit()(case, rng=scene.rng)
    assert not bool((drawn[0] == scene.targets).any())
    for target in range(3):
        counts = drawn[0][scene.targets == target].bincount(minlength=3)
        assert all(8 <= counts[other] <= 22 for other in range(3) if other != target), counts


def test_a_classifier_of_one_class_has_no_score():
    scene = planted_batch(2)
    lone = Classifier(lambda inputs: inputs.mean(dim=(1, 2, 3)).unsqueeze(1))
    case = case_of(METHODS.build("edge"), lone, scene.inputs, torch.zeros(2, dtype=torch.long), rng=scene.rng)
    for metric in (RandomLogit(), TargetSensitivity()):
        assert metric(case, rng=scene.rng).isnan().all()


# Scale and sign ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["robustness", "coherency", "adcc", "local-accuracy"])
def test_a_brighter_map_of_the_same_shape_scores_the_same(name):
    """All of these compare with the map's own size."""

    class Brighter:
        def __init__(self, factor: float) -> None:
            self.factor = factor

        def __call__(self, classifier, inputs, targets, *, rng):
            return self.factor * InputTimesGradient()(classifier, inputs, targets, rng=rng)

        def passes(self, size, classifier):
            return Passes(1, 1)

    scene, metric = planted_batch(3), METRICS.build(name)
    plain, bright = (metric(planted_case(scene, Brighter(factor)), rng=scene.rng) for factor in (1.0, 1000.0))
    torch.testing.assert_close(plain, bright, rtol=1e-4, atol=1e-5)


def test_robustness_without_a_norm_grows_with_the_map():
    scene, case = scene_and_case("gradient")
    plain = Robustness(relative=False)(case, rng=scene.rng)
    relative = Robustness()(case, rng=scene.rng)
    sizes = case.maps.flatten(1).norm(dim=1)
    torch.testing.assert_close(plain, relative * sizes, rtol=1e-5, atol=1e-7)
    with pytest.raises(ValueError, match="radius must be above 0"):
        Robustness(radius=0.0)


def test_a_map_with_nan_gets_no_score():
    scene, case = scene_and_case("gradient")
    case.maps[1, 0, 0] = math.nan
    for name in ("completeness", "local-accuracy", "robustness", "coherency", "adcc", "random-logit", "target-sensitivity",
                 "faithfulness", "luminosity-calibration", "infidelity", "stability"):  # fmt: skip
        assert METRICS.build(name)(case, rng=scene.rng).isnan().tolist() == [False, True, False], name


# Faithfulness and calibration --------------------------------------------------------------------------------------------


def drops_of(scene, cells: int = 7) -> torch.Tensor:
    """A map that gives each pixel its share of what the classifier misses without its cell: the best there is."""
    number = squares(24, 24, cells)
    full = scene.classifier.output(scene.inputs, scene.targets, "probability")
    maps = torch.zeros(len(scene.targets), 24, 24)
    for cell in range(cells**2):
        holed = torch.where(number == cell, 0.0, scene.inputs)
        lost = full - scene.classifier.scores([(holed, scene.targets)], "probability")
        maps += (number == cell) * lost.view(-1, 1, 1) / (number == cell).sum()
    return maps


def test_an_oracle_is_faithful_and_calibrated_and_its_negative_is_not():
    scene = planted_batch(3)
    maps = drops_of(scene)
    for metric, good, bad in [(Faithfulness(), 1, -1), (LuminosityCalibration(), 1, None)]:
        oracle = metric(planted_case(scene, InputTimesGradient(), maps=maps), rng=scene.rng)
        assert oracle.tolist() == pytest.approx([good] * 3, abs=1e-5)
        against = metric(planted_case(scene, InputTimesGradient(), maps=-maps), rng=scene.rng)
        assert bool((against < 0.5).logical_or(against.isnan()).all())
        if bad is not None:
            assert against.tolist() == pytest.approx([bad] * 3, abs=1e-5)


def test_calibration_sees_more_than_proportion():
    """A constant added to every cell leaves the correlation as it is, but makes dark cells as bright as none should be."""
    scene = planted_batch(3)
    maps = drops_of(scene, cells=6)  # all cells of one size
    lifted = maps + maps.mean(dim=(1, 2), keepdim=True).abs()
    cases = [planted_case(scene, InputTimesGradient(), maps=values) for values in (maps, lifted)]
    faithful = [Faithfulness(cells=6)(case, rng=scene.rng) for case in cases]
    torch.testing.assert_close(faithful[0], faithful[1], rtol=1e-4, atol=1e-4)
    calibrated = [LuminosityCalibration(cells=6)(case, rng=scene.rng) for case in cases]
    assert bool((calibrated[1] < calibrated[0] - 0.1).all())


def test_fake_cam_is_neither_faithful_nor_calibrated():
    assert bool((values(Faithfulness(cells=6), "fake-cam").abs() < 0.3).all())
    assert bool((values(LuminosityCalibration(), "fake-cam") < 0.5).all())
    assert bool((values(LuminosityCalibration(), "input-x-gradient") > 0.6).all())


def test_a_size_that_cells_do_not_divide_leaves_no_pixel_out():
    number = squares(24, 10, 7)
    assert number.unique().tolist() == list(range(49))
    sizes = number.flatten().bincount()
    assert (sizes.min().item(), sizes.max().item()) == (3 * 1, 4 * 2)
    assert squares(3, 2, 7).tolist() == [[0, 1], [2, 3], [4, 5]]


def test_removals_are_paid_once_for_both_metrics_and_all_methods():
    scene = planted_batch(3)
    spent = []
    for method in (InputTimesGradient(), MarksPatch()):
        spent += cost(scene, planted_case(scene, method), LuminosityCalibration(), Faithfulness())
    assert [paid.forward for paid, _ in spent] == [3 * 50, 0, 0, 0]
    assert all(shared == Passes(3 * 50) for _, shared in spent[1:])


# Infidelity --------------------------------------------------------------------------------------------------------------


def test_squares_are_independent_and_of_one_size():
    """Elsewhere they pile up until the whole picture is gone."""
    scene, metric = planted_batch(2), Infidelity(samples=200)
    squares = torch.stack(list(metric.perturbations(scene.inputs, rng=scene.rng)))
    assert squares.sum(dim=(2, 3)).unique().tolist() == [36]
    tops = squares.amax(dim=3).argmax(dim=2)
    assert tops.unique().tolist() == list(range(19)), "every place is possible, and none outside"
    assert squares[:, 0].mean(dim=0)[12, 12] > squares[:, 0].mean(dim=0)[0, 0]


def test_scaled_infidelity_does_not_depend_on_units():
    scene = planted_batch(3)
    maps = InputTimesGradient()(scene.classifier, scene.inputs, scene.targets, rng=scene.rng)
    small, large = (
        Infidelity().curve(planted_case(scene, InputTimesGradient(), maps=scale * maps), rng=scene.rng) for scale in (1, 100)
    )
    torch.testing.assert_close(small[:, 1], large[:, 1], rtol=1e-4, atol=1e-6)
    assert bool((large[:, 0] > 100 * small[:, 0]).all())
    assert bool((small[:, 1] <= small[:, 0] + 1e-7).all()), "the best factor is at least as good as 1"


def test_the_exact_map_of_a_linear_classifier_has_no_infidelity():
    scene = planted_batch(2)
    weights = scene.rng.normal("weights", (3, 24, 24))[0]
    linear = Classifier(lambda inputs: torch.stack([(inputs * weights).sum(dim=(1, 2, 3)), inputs[:, 0, 0, 0]], dim=1))
    targets = torch.zeros(2, dtype=torch.long)
    shares, slopes = (scene.inputs * weights).sum(dim=1), weights.sum(dim=0).expand(2, -1, -1).clone()
    for metric, right, wrong in [(Infidelity(), shares, slopes), (Infidelity(perturb="noise"), slopes, shares)]:
        good, bad = (
            metric(case_of(METHODS.build("edge"), linear, scene.inputs, targets, rng=scene.rng, maps=maps), rng=scene.rng)
            for maps in (right, wrong)
        )
        assert good.tolist() == pytest.approx([0, 0], abs=1e-6)
        assert bool((bad > 0.1).all())


# Stability ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["gradient", "integrated-gradients(steps=4)", "grad-cam"])
@pytest.mark.parametrize("net", ["cnn", "resnet"])
def test_a_search_finds_worse_than_noise_of_the_same_cost(method, net):
    scene, case = scene_and_case(method, count=6, net=net)
    metric = Stability()
    tries = metric.rounds * metric.candidates
    noisy = perturb_inputs(scene.inputs, tries, metric.radius, rng=scene.rng.child("noise"))
    maps = case.explain(noisy, rng=scene.rng.repeat(range(tries)))
    kept = scene.classifier.predictions(noisy) == scene.classifier.predictions(scene.inputs).repeat_interleave(tries)
    by_noise = spearman(case.maps.repeat_interleave(tries, dim=0), maps).masked_fill(~kept, 1.0).view(6, tries).amin(dim=1)
    curve = metric.curve(case, rng=scene.rng)
    assert (curve[:, -1] <= by_noise).sum() >= 5, (curve[:, -1], by_noise)  # a lucky draw may win once
    assert curve[:, -1].mean() < by_noise.mean() - 0.02
    assert bool((curve.diff(dim=1) <= 0).all()), "the worst so far never gets better"
    assert bool((curve[:, -1] < curve[:, 0]).any()), "later rounds find worse than the first"


def test_a_search_stays_in_its_ball_and_keeps_the_class():
    seen = []

    class Watching:
        def __call__(self, classifier, inputs, targets, *, rng):
            seen.append(inputs)
            return InputTimesGradient()(classifier, inputs, targets, rng=rng)

        def passes(self, size, classifier):
            return Passes(1, 1)

    scene = planted_batch(2)
    case = planted_case(scene, Watching())
    seen.clear()
    Stability(radius=0.3)(case, rng=scene.rng)
    moves = torch.cat([inputs.view(2, 4, 3, 24, 24) - scene.inputs.unsqueeze(1) for inputs in seen], dim=1)
    torch.testing.assert_close(moves.abs(), torch.full_like(moves, 0.3))


def test_a_wider_ball_is_no_safer():
    scene, case = scene_and_case("gradient", net="resnet")
    narrow, wide = (Stability(radius=radius)(case, rng=scene.rng) for radius in (0.02, 0.2))
    assert bool((wide < narrow).all())
