"""The metrics of COSE: what they cache, what they leave out, and methods with known scores."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch

from snellen import evaluate
from snellen.classifier import Classifier
from snellen.images.transforms import augmentations, draw_magnitudes
from snellen.maps.explainer import case_of
from snellen.metrics.consistency import Consistency, InputConsistency
from snellen.metrics.cose import Cose, Sensitivity
from snellen.metrics.cose_pooling import drawn_magnitudes, pool
from snellen.plugins.checks.planted import PlantedBatch, planted_batch, planted_classifier
from snellen.plugins.checks.planted_methods import (
    FixedMap,
    InputTimesGradient,
    MarksPatch,
    MarksRest,
    planted_case,
    towards_noise,
)
from snellen.plugins.registry import METHODS, METRICS, label
from snellen.types import Passes, Rng

ONCE = {"magnitudes": 2}


@dataclass(frozen=True)
class Picture:
    """The picture itself as a map: it moves with every pixel."""

    def __call__(self, classifier, inputs, targets, *, rng):
        return inputs.mean(dim=1)

    def passes(self, size, classifier):
        return Passes()


def smooth_scene(channels: int = 3) -> PlantedBatch:
    """Pictures without fine grain, on which nearest and linear interpolation nearly agree; every answer is class 0."""
    place = torch.linspace(0, 3, 24)
    waves = torch.stack([(place.view(-1, 1) * (1 + k)).sin() + (place * (1.5 - k / 2)).cos() for k in range(2)])
    pixels = (waves / 5 + 0.5).unsqueeze(1).repeat(1, channels, 1, 1)
    model = Classifier(
        lambda inputs: torch.tensor([[1.0, 0.0]]).repeat(len(inputs), 1), channels=channels, mean=0.5, std=0.2
    )
    rng = Rng(0, ("first", "second"))
    return PlantedBatch(
        classifier=model,
        pixels=pixels,
        inputs=model.to_inputs(pixels),
        targets=torch.zeros(2).long(),
        truth=torch.ones(2, 24, 24).bool(),
        rng=rng,
    )


@pytest.mark.parametrize("channels", [3, 1])
def test_a_map_that_moves_with_the_picture_is_consistent_under_every_geometric_change(channels):
    scene = smooth_scene(channels)
    metric = Consistency()
    case = planted_case(scene, Picture())
    curve = metric.curve(case, rng=scene.rng)
    moved = [name.startswith("geometric") for name in metric.points((24, 24), scene.classifier)]
    assert float(curve[:, torch.tensor(moved)].min()) > 0.9
    still = metric.curve(planted_case(scene, FixedMap()), rng=scene.rng)[:, torch.tensor(moved)]
    assert float(still.amin(dim=1).max()) < 0  # a map that ignores the picture does not move with it


def test_a_method_that_ignores_the_picture_is_perfectly_consistent_in_light_and_colour():
    """Hence the card's test says nothing about a control such as this one; sensitivity does."""
    scene = planted_batch(3)
    for metric in (InputConsistency(**ONCE), InputConsistency(likeness="pearson", **ONCE)):
        torch.testing.assert_close(metric(planted_case(scene, FixedMap()), rng=scene.rng), torch.ones(3))


def test_random_maps_are_not_consistent():
    scene = planted_batch(3)
    for likeness, most in (("ssim", 0.2), ("pearson", 0.1)):
        for name in ("consistency", "input-consistency"):
            metric = METRICS.build(name, {"likeness": likeness})
            case = case_of(METHODS.build("random"), scene.classifier, scene.inputs, scene.targets, rng=scene.rng)
            assert float(metric(case, rng=scene.rng).abs().max()) < most


@pytest.mark.parametrize("likeness", ["ssim", "pearson"])
def test_a_map_that_is_always_constant_is_undefined_even_where_moving_puts_zeros_around_it(likeness):
    @dataclass(frozen=True)
    class Flat:
        def __call__(self, classifier, inputs, targets, *, rng):
            return torch.full((len(inputs), 24, 24), 0.7)

        def passes(self, size, classifier):
            return Passes()

    scene = planted_batch(2)
    metric = Consistency(likeness=likeness, **ONCE)
    assert bool(metric.curve(planted_case(scene, Flat()), rng=scene.rng).isnan().all())
    assert bool(metric(planted_case(scene, Flat()), rng=scene.rng).isnan().all())


def test_a_constant_map_among_others_is_unlike_them_but_has_no_correlation():
    scene = planted_batch(2)
    flat = planted_case(scene, InputTimesGradient(), maps=torch.full((2, 24, 24), 0.7))
    assert bool(Consistency(**ONCE)(flat, rng=scene.rng).isfinite().all())
    assert bool(Consistency(likeness="pearson", **ONCE)(flat, rng=scene.rng).isnan().all())


def test_scale_and_sign_of_a_map():
    """Both likenesses stay when all maps grow alike, and neither is blind to the sign."""

    @dataclass(frozen=True)
    class Scaled:
        factor: float

        def __call__(self, classifier, inputs, targets, *, rng):
            return self.factor * InputTimesGradient()(classifier, inputs, targets, rng=rng)

        def passes(self, size, classifier):
            return Passes(1, 1)

    scene = planted_batch(2)
    for likeness in ("ssim", "pearson"):
        metric = InputConsistency(likeness=likeness, **ONCE)
        plain = metric(planted_case(scene, InputTimesGradient()), rng=scene.rng)
        torch.testing.assert_close(metric(planted_case(scene, Scaled(1000.0)), rng=scene.rng), plain, rtol=1e-4, atol=1e-4)
        turned = replace(planted_case(scene, InputTimesGradient()), maps=-planted_case(scene, InputTimesGradient()).maps)
        # Outside the patch both maps are blank, which structural similarity finds alike and a correlation does not.
        assert bool((metric(turned, rng=scene.rng) < (plain if likeness == "ssim" else -0.5 * plain)).all())


def test_two_metrics_share_maps_and_all_methods_share_predictions():
    scene = planted_batch(3)
    first = planted_case(scene, InputTimesGradient())
    with scene.classifier.counting() as ledger:
        InputConsistency(**ONCE)(first, rng=scene.rng)
    rows = 4 * 2 + 4
    assert ledger.passes == Passes(3 * (2 * rows + 1), 3 * rows)
    with scene.classifier.counting() as ledger:
        Consistency(**ONCE)(first, rng=scene.rng)
    geometric = 3 * 2 + 2
    assert ledger.passes == Passes(3 * 2 * geometric, 3 * geometric)
    assert ledger.cached == Passes(3 * (2 * rows + 1), 3 * rows)
    with scene.classifier.counting() as ledger:  # the other likeness looks at the same maps
        Consistency(likeness="pearson", **ONCE)(first, rng=scene.rng)
    assert ledger.passes == Passes()
    with scene.classifier.counting() as ledger:  # another method needs its own maps, and no prediction
        Consistency(**ONCE)(planted_case(scene, MarksPatch()), rng=scene.rng)
    assert ledger.passes == Passes()
    assert ledger.cached == Passes(forward=3 * (rows + geometric + 1))


def test_fewer_magnitudes_are_some_of_more():
    scene = planted_batch(2)
    many, few = (Consistency(magnitudes=count) for count in (3, 1))
    case = planted_case(scene, InputTimesGradient())
    curves = [
        dict(zip(metric.points((24, 24), scene.classifier), metric.curve(case, rng=scene.rng).T.tolist(), strict=True))
        for metric in (many, few)
    ]
    for name, values in curves[1].items():
        assert torch.tensor(curves[0][name]).allclose(torch.tensor(values), equal_nan=True)


@pytest.mark.parametrize("count", [0, 61])
def test_magnitudes_that_cannot_be_drawn_are_refused(count):
    with pytest.raises(ValueError, match="magnitudes must be from 1 to 60"):
        Consistency(magnitudes=count)


def test_draws_of_a_method_are_fresh_for_every_variant():
    """A method with draws of its own is not made consistent by repeating them."""
    scene = planted_batch(1)
    seen = []

    @dataclass(frozen=True)
    class Noting:
        def __call__(self, classifier, inputs, targets, *, rng):
            seen.append(rng.path)
            return MarksRest()(classifier, inputs, targets, rng=rng)

        def passes(self, size, classifier):
            return Passes()

    Consistency(**ONCE)(planted_case(scene, Noting()), rng=scene.rng)
    assert len(set(seen)) == len(seen) == 1 + 7 * 2 + 6


def test_a_network_without_gradients_is_enough():
    scene = planted_batch(2)
    model = planted_classifier()
    box = Classifier(lambda inputs: model.logits(inputs), mean=0.5, std=0.25)
    case = case_of(METHODS.build("edge"), box, scene.inputs, scene.targets, rng=scene.rng)
    assert bool(Consistency(**ONCE)(case, rng=scene.rng).isfinite().all())


def row(name: str, likeness: str) -> tuple[float, float, float]:
    """Consistency, sensitivity and COSE of a control or method on the planted problem, as means."""
    scene = planted_batch(4)
    case = case_of(METHODS.build(name), scene.classifier, scene.inputs, scene.targets, rng=scene.rng)
    metrics = (METRICS.build(metric, {"likeness": likeness}) for metric in ("consistency", "sensitivity", "cose"))
    steady, moved, both = (float(metric(case, rng=scene.rng).mean()) for metric in metrics)
    return steady, moved, both


@pytest.mark.parametrize("likeness", ["ssim", "pearson"])
def test_no_control_is_both_consistent_and_sensitive(likeness):
    """What never looks keeps still, what is drawn anew never does, and neither comes near a map that follows the model."""
    steady, moved, centred = row("centre", likeness)
    assert steady > 0.9
    assert moved < 0.1
    wild, lively, random = row("random", likeness)
    assert wild < 0.2
    assert lively > 0.8
    steady, moved, best = row("input-x-gradient", likeness)
    assert min(steady, moved) > 0.35
    assert best > max(centred, random) + 0.1


def test_one_dark_pixel_does_not_make_fake_cam_sensitive():
    """All ones but a corner: structural similarity finds it the same whatever happens, as it should."""
    steady, moved, both = row("fake-cam", "ssim")
    assert steady > 0.95
    assert moved < 0.05
    assert both < 0.1


def test_models_are_the_random_one_and_earlier_ones_but_not_the_final_one():
    scene = planted_batch(2)
    plain_case = planted_case(scene, InputTimesGradient())
    states = [scene.classifier.variant(towards_noise(scene.classifier.module, share), "step") for share in (0.1, 0.5)]
    final = scene.classifier.variant(scene.classifier.module, "final")
    checkpoint_case = replace(
        plain_case, variants={"checkpoint/0": states[0], "checkpoint/1": states[1], "checkpoint/2": final, "twin": final}
    )
    metric = Sensitivity(**ONCE)
    columns = dict(
        zip(metric.points((24, 24), scene.classifier), metric.curve(checkpoint_case, rng=scene.rng).T, strict=True)
    )
    assert columns["models"].tolist() == [3, 3]
    assert bool(columns["model/checkpoint/2"].isnan().all())
    fixed_class = Sensitivity(**ONCE, fixed_class=True).curve(checkpoint_case, rng=scene.rng)
    assert fixed_class.shape == (2, len(columns))
    without = dict(zip(columns, metric.curve(plain_case, rng=scene.rng).T, strict=True))
    assert without["models"].tolist() == [1, 1]
    assert torch.equal(without["model/random"].isnan(), columns["model/random"].isnan())


def test_of_many_checkpoints_ten_are_compared_from_the_first_to_the_last():
    scene = planted_batch(1)
    modules = [towards_noise(scene.classifier.module, place / 40) for place in range(23)]
    states = {f"checkpoint/epoch-{place}": scene.classifier.variant(module, "step") for place, module in enumerate(modules)}
    seen = []

    @dataclass(frozen=True)
    class Noting:
        def __call__(self, classifier, inputs, targets, *, rng):
            seen.append(classifier.fingerprint)
            return InputTimesGradient()(classifier, inputs, targets, rng=rng)

        def passes(self, size, classifier):
            return Passes(1, 1)

    Sensitivity(magnitudes=1)(replace(planted_case(scene, Noting()), variants=states), rng=scene.rng)
    epochs = {state.fingerprint: int(name.rpartition("-")[2]) for name, state in states.items()}
    compared = [epochs[name] for name in seen if name in epochs]
    assert compared == sorted(compared)  # epoch-9 comes before epoch-10
    assert (len(compared), compared[0], compared[-1]) == (10, 0, 22)


def test_the_three_metrics_of_the_paper_cost_as_much_as_one():
    scene = planted_batch(3)
    case = planted_case(scene, InputTimesGradient())
    costs = []
    for metric in (Cose(**ONCE), Sensitivity(**ONCE), Consistency(**ONCE), InputConsistency(**ONCE)):
        with scene.classifier.counting() as ledger:
            metric(case, rng=scene.rng)
        costs.append(ledger.passes)
    rows = 7 * 2 + 6 + 1
    assert costs == [Passes(3 * (2 * rows + 1), 3 * rows), Passes(), Passes(), Passes()]


def test_parts_of_cose_are_those_of_its_two_halves():
    scene = planted_batch(4)
    case = planted_case(scene, InputTimesGradient())
    steady, moved = (metric(case, rng=scene.rng) for metric in (Consistency(**ONCE), Sensitivity(**ONCE)))
    metric = Cose(**ONCE)
    torch.testing.assert_close(metric(case, rng=scene.rng), 2 * steady * moved / (steady + moved))
    curve, points = metric.curve(case, rng=scene.rng), metric.points((24, 24), scene.classifier)
    pooled = pool(curve, points)
    rows = 7 * 2 + 6
    assert pooled.consistent + pooled.sensitive <= 4 * (rows + 1)
    assert pooled.consistent + pooled.sensitive >= 4 * rows  # the random model may happen to agree
    assert pooled.sensitivity == pytest.approx(
        float(Sensitivity(**ONCE).curve(case, rng=scene.rng)[:, :-1].nanmean()), abs=1e-6
    )


def test_the_magnitudes_of_a_trace_can_be_drawn_again():
    scene = planted_batch(3)
    points = Cose(**ONCE).points((24, 24), scene.classifier)
    steps = drawn_magnitudes(points, magnitudes=2, rng=scene.rng)
    for change in augmentations("photometric", 2):
        for part in ("consistency", "sensitivity"):
            column = steps[:, points.index(f"{part}/{change.name}")]
            if change.transform.signed:
                assert torch.equal(column.long(), draw_magnitudes(change.transform, 2, rng=scene.rng)[:, change.draw])
            else:
                assert bool(column.isnan().all())


def test_the_published_code_is_a_preset():
    metric = METRICS.parse("cose@cose2023-code")
    assert metric == Cose(likeness="ssim-mirrored", correct_only=True)
    assert label(metric) == "cose@cose2023-code"
    for name in ("consistency", "sensitivity", "cose"):
        assert METRICS.parse(f"{name}@cose2023") == METRICS.build(name, {"likeness": "ssim-mirrored"})


def test_a_run_compares_with_the_checkpoints_that_it_is_given_and_does_without(tmp_path):
    scene = planted_batch(3)
    states = {"epoch-1": towards_noise(scene.classifier.module, 0.1).state_dict()}
    counts = {}
    for checkpoints in (None, states):
        run = evaluate(
            scene.classifier,
            scene.pixels,
            methods=["gradient"],
            metrics=["sensitivity(magnitudes=1)", "consistency(magnitudes=1)"],
            checkpoints=checkpoints,
            out=tmp_path / "run",
        )
        names = Sensitivity(magnitudes=1).points((24, 24), scene.classifier)
        (curve,) = run.curves("sensitivity(magnitudes=1)").values()
        counts[checkpoints is None] = curve[:, names.index("models")].tolist()
    assert counts == {True: [1, 1, 1], False: [2, 2, 2]}  # the second run did not take the first one's numbers for its own
