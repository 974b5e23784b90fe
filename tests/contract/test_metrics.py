"""Every registered metric against the promises that all metrics make, on a classifier whose reasons are known."""

from __future__ import annotations

import itertools
import json
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import ndimage

from planted import PATCH, Planted, planted, truth_of
from snellen.citations import CITATIONS
from snellen.errors import SnellenError
from snellen.explainer import Explainer
from snellen.registry import METRICS, label, spec
from snellen.types import Case, Passes, Rng, Traced

NAMES = list(METRICS)

EXEMPT: dict[tuple[str, str], str] = {
    ("pointing-game", "ties"): "equal maxima are averaged, so no order among them is ever needed",
    ("average-increase", "not-rank-only"): "it has two values only, and the planted ones happen to agree",
}


def names(check: str, *, where: Any = lambda traits: True) -> list[str]:
    return [name for name in NAMES if (name, check) not in EXEMPT and where(METRICS[name].traits)]


# Two methods with known quality ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Knowing:
    """Marks the target's patch, a little more to the right and below so that no two pixels are equal; never wavers."""

    def __call__(self, classifier, inputs, targets, *, rng):
        ramp = torch.arange(inputs.shape[2] * inputs.shape[3]).view(1, *inputs.shape[2:]) / 2**12
        return truth_of(targets).float() + ramp

    def passes(self, size, classifier):
        return Passes()


@dataclass(frozen=True)
class Misled:
    """Random weights on everything but the target's patch, drawn anew at every call."""

    def __call__(self, classifier, inputs, targets, *, rng):
        return (0.5 + rng.uniform("misled", tuple(inputs.shape[2:]))) * ~truth_of(targets)

    def passes(self, size, classifier):
        return Passes()


@dataclass(frozen=True)
class Slope:
    """The plain gradient: reads the inputs and costs one pass each way."""

    def __call__(self, classifier, inputs, targets, *, rng):
        gradient, _ = classifier.gradient(inputs, targets)
        return (gradient * inputs).sum(dim=1)

    def passes(self, size, classifier):
        return Passes(1, 1)


def case(of: Planted, method: Any, *, maps: torch.Tensor | None = None) -> Case:
    if maps is None:
        maps = method(of.classifier, of.inputs, of.targets, rng=of.rng)
    explain = Explainer(method, of.classifier, of.targets)
    return Case(of.classifier, of.inputs, of.targets, maps, explain, of.truth)


def rows(of: Planted, order: list[int]) -> Planted:
    """The same samples in another order, or only some of them."""
    rng = replace(of.rng, ids=tuple(of.rng.ids[one] for one in order))
    return replace(
        of, pixels=of.pixels[order], inputs=of.inputs[order], targets=of.targets[order], truth=of.truth[order], rng=rng
    )


def assert_inside(values: torch.Tensor, bounds: tuple[float, float]) -> None:
    defined = values[~values.isnan()]
    assert bool(((defined >= bounds[0] - 1e-6) & (defined <= bounds[1] + 1e-6)).all()), values


# The checks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names("bounds"))
@pytest.mark.parametrize("method", [Knowing(), Misled(), Slope()], ids=lambda one: type(one).__name__)
def test_one_float_per_sample_inside_the_bounds(name, method):
    scene = planted(4)
    values = METRICS.build(name)(case(scene, method), rng=scene.rng)
    assert values.shape == (4,)
    assert values.dtype == torch.float32
    assert bool(values.isfinite().all())
    assert_inside(values, METRICS[name].traits.bounds)


@pytest.mark.parametrize("name", names("direction"))
def test_good_beats_bad_in_the_declared_direction(name):
    scene = planted(6)
    metric = METRICS.build(name)
    good, bad = (metric(case(scene, method), rng=scene.rng) for method in (Knowing(), Misled()))
    sign = 1 if metric.traits.higher_is_better else -1
    assert bool((sign * (good - bad) > 0).all()), (good, bad)


@pytest.mark.parametrize("name", names("rank-only", where=lambda traits: traits.rank_only))
def test_rank_only_survives_another_scale(name):
    scene = planted(4)
    metric = METRICS.build(name)
    # Whole numbers, with ties, stay distinct under 3m + 1; other floats may be rounded into ties.
    maps = (scene.rng.uniform("map", (24, 24)) * 100).round() - 50
    plain = metric(case(scene, Slope(), maps=maps), rng=scene.rng)
    scaled = metric(case(scene, Slope(), maps=3 * maps + 1), rng=scene.rng)
    assert torch.equal(plain, scaled)


@pytest.mark.parametrize("name", names("not-rank-only", where=lambda traits: not traits.rank_only))
def test_what_is_not_rank_only_sees_more_than_ranks(name):
    """The trait would be understated otherwise."""
    scene = planted(4)
    metric = METRICS.build(name)
    seen = []
    for method in (Knowing(), Misled()):
        one = case(scene, method)
        bent = replace(one, maps=one.maps ** (1 / 8))
        seen.append(torch.equal(metric(one, rng=scene.rng), metric(bent, rng=scene.rng)))
    assert not all(seen)


@pytest.mark.parametrize("name", names("constant"))
@pytest.mark.parametrize("value", [0.0, 1.0, -2.5])
def test_a_constant_map_has_a_value_or_is_undefined_in_words(name, value):
    scene = planted(3)
    metric = METRICS.build(name)
    values = metric(case(scene, Slope(), maps=torch.full((3, 24, 24), value)), rng=scene.rng)
    assert values.shape == (3,)
    assert not bool(values.isinf().any())
    assert_inside(values, metric.traits.bounds)
    if bool(values.isnan().any()):
        assert metric.traits.undefined != "never"


@pytest.mark.parametrize("name", names("ties", where=lambda traits: traits.rank_only))
def test_ties_are_broken_by_seeded_order(name):
    scene = planted(3)
    metric = METRICS.build(name)
    flat = case(scene, Slope(), maps=torch.zeros(3, 24, 24))
    once, again = (metric(flat, rng=scene.rng) for _ in range(2))
    other = metric(flat, rng=replace(scene.rng, seed=1))
    assert torch.equal(once, again)
    assert bool((once != other).all())


@pytest.mark.parametrize("name", names("truth", where=lambda traits: "truth" in traits.needs))
def test_empty_truth_is_undefined_and_missing_truth_is_refused(name):
    scene = planted(3)
    metric = METRICS.build(name)
    scene.truth[1] = False
    values = metric(case(scene, Knowing()), rng=scene.rng)
    assert values.isnan().tolist() == [False, True, False]
    with pytest.raises(SnellenError, match=f"{name} needs a truth mask"):
        metric(replace(case(scene, Knowing()), truth=None), rng=scene.rng)


@pytest.mark.parametrize("name", names("permutation"))
@pytest.mark.parametrize("method", [Slope(), Misled()], ids=lambda one: type(one).__name__)
def test_permuting_samples_permutes_scores(name, method):
    scene, order = planted(5), [3, 0, 4, 2, 1]
    metric = METRICS.build(name)
    values = metric(case(scene, method), rng=scene.rng)
    turned = rows(scene, order)
    torch.testing.assert_close(metric(case(turned, method), rng=turned.rng), values[order], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", names("batch"))
@pytest.mark.parametrize("at_once", [1, 3, 64])
def test_batch_size_never_moves_a_score(name, at_once):
    scene = planted(4)
    metric = METRICS.build(name)
    whole = metric(case(scene, Misled()), rng=scene.rng)
    scene.classifier.rows = at_once
    parts = [metric(case(part, Misled()), rng=part.rng) for part in (rows(scene, [0]), rows(scene, [1, 2, 3]))]
    torch.testing.assert_close(torch.cat(parts), whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", names("batch"))
def test_a_loud_neighbour_moves_nothing(name):
    """Nothing is ever normalised over the batch: one huge or empty map leaves the other scores alone."""
    scene = planted(3)
    metric = METRICS.build(name)
    maps = Slope()(scene.classifier, scene.inputs, scene.targets, rng=scene.rng)
    plain = metric(case(scene, Slope(), maps=maps), rng=scene.rng)
    for factor in (1e6, 0.0):
        loud = maps * torch.tensor([1.0, factor, 1.0]).view(3, 1, 1)
        values = metric(case(scene, Slope(), maps=loud), rng=scene.rng)
        torch.testing.assert_close(values[[0, 2]], plain[[0, 2]], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", names("json"))
def test_settings_survive_json_and_text(name):
    metric = METRICS.build(name)
    assert METRICS.parse(json.loads(json.dumps(spec(metric)))) == metric
    assert METRICS.parse(label(metric)) == metric


@pytest.mark.parametrize("name", names("passes"))
def test_planned_passes_are_the_counted_ones(name):
    scene = planted(3)
    metric = METRICS.build(name)
    planned = metric.passes((24, 24), Slope().passes((24, 24), scene.classifier)) * 3
    one = case(scene, Slope())
    for _ in range(2):  # the second time some are shared, and the sum stays the same
        with scene.classifier.counting() as ledger:
            metric(one, rng=scene.rng)
        assert ledger.passes + ledger.shared == planned


@pytest.mark.parametrize("name", names("unmodified"))
def test_nothing_that_was_given_is_modified(name):
    scene = planted(3)
    one = case(scene, Misled())
    given = {"inputs": one.inputs, "targets": one.targets, "maps": one.maps, "truth": one.truth}
    before = {key: value.clone() for key, value in given.items()}
    METRICS.build(name)(one, rng=scene.rng)
    for key, value in given.items():
        assert torch.equal(value, before[key]), key


@pytest.mark.parametrize("name", names("curve"))
def test_a_curve_sums_up_to_its_score(name):
    scene = planted(3)
    metric = METRICS.build(name)
    if not isinstance(metric, Traced):
        assert not hasattr(metric, "curve")
        return
    one = case(scene, Slope())
    assert torch.equal(metric.score(metric.curve(one, rng=scene.rng)), metric(one, rng=scene.rng))


@pytest.mark.parametrize("name", NAMES)
def test_it_cites_a_known_work(name):
    assert METRICS[name].traits.cite in CITATIONS


# Slow twins: one image at a time, plain loops ----------------------------------------------------------------------


def probability(scene: Planted, i: int, inputs: np.ndarray) -> float:
    net = scene.classifier.module
    with torch.no_grad():
        logits = net(torch.from_numpy(inputs[None].astype(np.float32)))[0].double().numpy()
    powers = np.exp(logits - logits.max())
    return float(powers[int(scene.targets[i])] / powers.sum())


def blurred(inputs: np.ndarray) -> np.ndarray:
    spike = np.zeros((11, 11))
    spike[5, 5] = 1
    kernel = ndimage.gaussian_filter(spike, 5)
    return np.stack([ndimage.correlate(channel, kernel, mode="constant", cval=0.0) for channel in inputs])


def swept(scene: Planted, i: int, saliency: np.ndarray, start: np.ndarray, end: np.ndarray) -> float:
    places = sorted(((-value, place) for place, value in np.ndenumerate(saliency)))
    picture, curve, done = start.copy(), [probability(scene, i, start)], 0
    for step in range(1, 29):
        until = len(places) * step // 28
        for _, (row, column) in places[done:until]:
            picture[:, row, column] = end[:, row, column]
        done = until
        curve.append(probability(scene, i, picture))
    return sum((left + right) / 2 for left, right in itertools.pairwise(curve)) / 28


def confidence(scene: Planted, i: int, saliency: np.ndarray) -> tuple[float, float]:
    size = np.abs(saliency)
    mask = (size - size.min()) / (size.max() - size.min())
    masked = scene.classifier.to_inputs(torch.from_numpy(mask[None] * scene.pixels[i].double().numpy())[None])[0]
    return probability(scene, i, scene.inputs[i].numpy()), probability(scene, i, masked.numpy())


def drop(before: float, after: float) -> float:
    return (before - after) / before if after < before else 0.0


def increase(before: float, after: float) -> float:
    return 1.0 if after > before else 0.0


def gain(before: float, after: float) -> float:
    return (after - before) / (1 - before) if after > before else 0.0


def changes(scene: Planted, i: int, saliency: np.ndarray) -> list[float]:
    found = []
    for sample in range(10):
        rng = Rng(scene.rng.seed, (f"{scene.rng.ids[i]}#{sample}",), "/sensitivity")
        noise = rng.uniform("perturbation", (3, 24, 24)) * 0.4 - 0.2
        moved = scene.inputs[i : i + 1] + noise
        again = Slope()(scene.classifier, moved, scene.targets[i : i + 1], rng=rng)[0].numpy()
        found.append(math.sqrt(((again - saliency) ** 2).sum()) / math.sqrt((saliency**2).sum()))
    return found


def gini(weights: list[float]) -> float:
    """Half the mean absolute difference between two pixels, relative to the mean: another formula than the metric's."""
    values = np.array(weights)
    return float(np.abs(values[:, None] - values[None]).mean() / (2 * values.mean()))


def entropy(weights: list[float]) -> float:
    return -sum(one / sum(weights) * math.log(one / sum(weights)) for one in weights if one > 0)


def pointed(saliency: np.ndarray, truth: np.ndarray) -> float:
    return float(truth[np.unravel_index(saliency.argmax(), saliency.shape)])


def energy(saliency: np.ndarray, truth: np.ndarray) -> float:
    inside = sum(value for place, value in np.ndenumerate(saliency) if value > 0 and truth[place])
    return inside / sum(value for value in saliency.flat if value > 0)


TWINS = {
    "deletion": lambda s, i, a: swept(s, i, a, s.inputs[i].numpy(), np.zeros((3, 24, 24))),
    "insertion": lambda s, i, a: swept(s, i, a, blurred(s.inputs[i].numpy()), s.inputs[i].numpy()),
    "average-drop": lambda s, i, a: drop(*confidence(s, i, a)),
    "average-increase": lambda s, i, a: increase(*confidence(s, i, a)),
    "average-gain": lambda s, i, a: gain(*confidence(s, i, a)),
    "complexity": lambda s, i, a: entropy(np.abs(a).flatten().tolist()),
    "sparseness": lambda s, i, a: gini(np.abs(a).flatten().tolist()),
    "max-sensitivity": lambda s, i, a: max(changes(s, i, a)),
    "avg-sensitivity": lambda s, i, a: sum(changes(s, i, a)) / 10,
    "pointing-game": lambda s, i, a: pointed(a, s.truth[i].numpy()),
    "energy-pointing-game": lambda s, i, a: energy(a, s.truth[i].numpy()),
}


@pytest.mark.parametrize("name", names("twin"))
def test_it_agrees_with_its_slow_twin(name):
    scene = planted(4)
    slopes = Slope()(scene.classifier, scene.inputs, scene.targets, rng=scene.rng)
    # The gradient is zero outside the patch; a little noise makes every pixel's rank unique.
    maps = slopes + 0.02 * (scene.rng.uniform("map", (24, 24)) - 0.5)
    if METRICS[name].traits.needs & {"explain"}:
        maps = slopes
    elif METRICS[name].traits.needs & {"truth"}:
        maps[1] = maps[1].roll(PATCH, dims=0)  # one that points elsewhere
    values = METRICS.build(name)(case(scene, Slope(), maps=maps), rng=scene.rng)
    twins = torch.tensor([TWINS[name](scene, i, maps[i].double().numpy()) for i in range(4)])
    torch.testing.assert_close(values, twins.float(), rtol=2e-5, atol=2e-6)


def test_every_metric_has_a_slow_twin_and_a_worked_example():
    worked = (Path(__file__).parents[1] / "worked" / "test_metrics_4x4.py").read_text()
    shown = set(re.findall(r"^def test_(\w+?)(?:__\w+)?\(", worked, flags=re.MULTILINE))
    assert set(NAMES) == set(TWINS)
    assert {name.replace("-", "_") for name in NAMES} <= shown
    assert all(key[0] in NAMES for key in EXEMPT)
