"""Where the metrics of COSE could go wrong: what they share, what they leave out, and rows whose answer is known."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch

from metric_scenes import Deaf, Knowing, Misled, Slope, case
from planted import Planted, classifier, planted
from snellen.classifier import Classifier
from snellen.explainer import case_of
from snellen.metrics.consistency import Consistency, InputConsistency
from snellen.registry import METHODS, METRICS
from snellen.types import Passes, Rng

ONCE = {"magnitudes": 2}


@dataclass(frozen=True)
class Picture:
    """The picture itself as a map: it moves with every pixel."""

    def __call__(self, classifier, inputs, targets, *, rng):
        return inputs.mean(dim=1)

    def passes(self, size, classifier):
        return Passes()


def smooth_scene(channels: int = 3) -> Planted:
    """Pictures without fine grain, on which nearest and linear interpolation nearly agree; every answer is class 0."""
    place = torch.linspace(0, 3, 24)
    waves = torch.stack([(place.view(-1, 1) * (1 + k)).sin() + (place * (1.5 - k / 2)).cos() for k in range(2)])
    pixels = (waves / 5 + 0.5).unsqueeze(1).repeat(1, channels, 1, 1)
    model = Classifier(
        lambda inputs: torch.tensor([[1.0, 0.0]]).repeat(len(inputs), 1), channels=channels, mean=0.5, std=0.2
    )
    rng = Rng(0, ("first", "second"))
    return Planted(model, pixels, model.to_inputs(pixels), torch.zeros(2).long(), torch.ones(2, 24, 24).bool(), rng)


@pytest.mark.parametrize("channels", [3, 1])
def test_a_map_that_moves_with_the_picture_is_consistent_under_every_geometric_change(channels):
    scene = smooth_scene(channels)
    metric = Consistency()
    one = case(scene, Picture())
    curve = metric.curve(one, rng=scene.rng)
    moved = [name.startswith("geometric") for name in metric.points((24, 24), scene.classifier)]
    assert float(curve[:, torch.tensor(moved)].min()) > 0.9
    still = metric.curve(case(scene, Deaf()), rng=scene.rng)[:, torch.tensor(moved)]
    assert float(still.amin(dim=1).max()) < 0  # a map that ignores the picture does not move with it


def test_what_ignores_the_picture_is_perfectly_consistent_in_light_and_colour():
    """Hence the card's test says nothing about a control such as this one; sensitivity does."""
    scene = planted(3)
    for metric in (InputConsistency(**ONCE), InputConsistency(likeness="pearson", **ONCE)):
        torch.testing.assert_close(metric(case(scene, Deaf()), rng=scene.rng), torch.ones(3))


def test_random_maps_are_not_consistent():
    scene = planted(3)
    for likeness, most in (("ssim", 0.2), ("pearson", 0.1)):
        for name in ("consistency", "input-consistency"):
            metric = METRICS.build(name, {"likeness": likeness})
            one = case_of(METHODS.build("random"), scene.classifier, scene.inputs, scene.targets, rng=scene.rng)
            assert float(metric(one, rng=scene.rng).abs().max()) < most


@pytest.mark.parametrize("likeness", ["ssim", "pearson"])
def test_a_map_that_is_always_constant_is_undefined_even_where_moving_puts_zeros_around_it(likeness):
    @dataclass(frozen=True)
    class Flat:
        def __call__(self, classifier, inputs, targets, *, rng):
            return torch.full((len(inputs), 24, 24), 0.7)

        def passes(self, size, classifier):
            return Passes()

    scene = planted(2)
    metric = Consistency(likeness=likeness, **ONCE)
    assert bool(metric.curve(case(scene, Flat()), rng=scene.rng).isnan().all())
    assert bool(metric(case(scene, Flat()), rng=scene.rng).isnan().all())


def test_a_constant_map_among_others_is_unlike_them_but_has_no_correlation():
    scene = planted(2)
    flat = case(scene, Slope(), maps=torch.full((2, 24, 24), 0.7))
    assert bool(Consistency(**ONCE)(flat, rng=scene.rng).isfinite().all())
    assert bool(Consistency(likeness="pearson", **ONCE)(flat, rng=scene.rng).isnan().all())


def test_scale_and_sign_of_a_map():
    """Both likenesses stay when all maps grow alike, and neither is blind to the sign."""

    @dataclass(frozen=True)
    class Scaled:
        factor: float

        def __call__(self, classifier, inputs, targets, *, rng):
            return self.factor * Slope()(classifier, inputs, targets, rng=rng)

        def passes(self, size, classifier):
            return Passes(1, 1)

    scene = planted(2)
    for likeness in ("ssim", "pearson"):
        metric = InputConsistency(likeness=likeness, **ONCE)
        plain = metric(case(scene, Slope()), rng=scene.rng)
        torch.testing.assert_close(metric(case(scene, Scaled(1000.0)), rng=scene.rng), plain, rtol=1e-4, atol=1e-4)
        turned = replace(case(scene, Slope()), maps=-case(scene, Slope()).maps)
        # Outside the patch both maps are blank, which structural similarity finds alike and a correlation does not.
        assert bool((metric(turned, rng=scene.rng) < (plain if likeness == "ssim" else -0.5 * plain)).all())


def test_two_metrics_share_maps_and_all_methods_share_predictions():
    scene = planted(3)
    first = case(scene, Slope())
    with scene.classifier.counting() as ledger:
        InputConsistency(**ONCE)(first, rng=scene.rng)
    rows = 4 * 2 + 4
    assert ledger.passes == Passes(3 * (2 * rows + 1), 3 * rows)
    with scene.classifier.counting() as ledger:
        Consistency(**ONCE)(first, rng=scene.rng)
    geometric = 3 * 2 + 2
    assert ledger.passes == Passes(3 * 2 * geometric, 3 * geometric)
    assert ledger.shared == Passes(3 * (2 * rows + 1), 3 * rows)
    with scene.classifier.counting() as ledger:  # the other likeness looks at the same maps
        Consistency(likeness="pearson", **ONCE)(first, rng=scene.rng)
    assert ledger.passes == Passes()
    with scene.classifier.counting() as ledger:  # another method needs its own maps, and no prediction
        Consistency(**ONCE)(case(scene, Knowing()), rng=scene.rng)
    assert ledger.passes == Passes()
    assert ledger.shared == Passes(forward=3 * (rows + geometric + 1))


def test_fewer_magnitudes_are_some_of_more():
    scene = planted(2)
    many, few = (Consistency(magnitudes=count) for count in (3, 1))
    one = case(scene, Slope())
    curves = [
        dict(zip(metric.points((24, 24), scene.classifier), metric.curve(one, rng=scene.rng).T.tolist(), strict=True))
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
    scene = planted(1)
    seen = []

    @dataclass(frozen=True)
    class Noting:
        def __call__(self, classifier, inputs, targets, *, rng):
            seen.append(rng.path)
            return Misled()(classifier, inputs, targets, rng=rng)

        def passes(self, size, classifier):
            return Passes()

    Consistency(**ONCE)(case(scene, Noting()), rng=scene.rng)
    assert len(set(seen)) == len(seen) == 1 + 7 * 2 + 6


def test_a_network_without_gradients_is_enough():
    scene = planted(2)
    model = classifier()
    box = Classifier(lambda inputs: model.logits(inputs), mean=0.5, std=0.25)
    one = case_of(METHODS.build("edge"), box, scene.inputs, scene.targets, rng=scene.rng)
    assert bool(Consistency(**ONCE)(one, rng=scene.rng).isfinite().all())
