"""Every registered metric against the promises that all metrics make, on a classifier whose reasons are known."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.metric_scenes import Knowing, Misled, Slope, case, rows
from tests.metric_twins import EXEMPT, LIGHT, PAIRS, TWINS
from tests.planted import PATCH, planted

from snellen.errors import SnellenError
from snellen.plugins.citations import CITATIONS
from snellen.plugins.registry import METRICS, label, spec
from snellen.types import CurveMetric, HasPoints, Passes, SharedPasses

NAMES = list(METRICS)


def names(check: str, *, where: Any = lambda traits: True) -> list[str]:
    return [name for name in NAMES if (name, check) not in EXEMPT and where(METRICS[name].traits)]


def built(name: str) -> Any:
    """The metric, with lighter settings where its defaults take long."""
    return METRICS.build(name, LIGHT.get(name))


def assert_inside(values: torch.Tensor, bounds: tuple[float, float]) -> None:
    defined = values[~values.isnan()]
    assert bool(((defined >= bounds[0] - 1e-6) & (defined <= bounds[1] + 1e-6)).all()), values


# The checks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", names("bounds"))
@pytest.mark.parametrize("method", [Knowing(), Misled(), Slope()], ids=lambda one: type(one).__name__)
def test_one_float_per_sample_inside_the_bounds(name, method):
    scene = planted(4)
    metric = built(name)
    values = metric(case(scene, method, metric=metric), rng=scene.rng)
    assert values.shape == (4,)
    assert values.dtype == torch.float32
    assert bool(values.isfinite().all())
    assert_inside(values, METRICS[name].traits.bounds)


@pytest.mark.parametrize("name", names("direction"))
def test_good_beats_bad_in_the_declared_direction(name):
    scene = planted(6)
    metric = built(name)
    pair = PAIRS.get(name, (Knowing(), Misled()))
    good, bad = (metric(case(scene, method, metric=metric), rng=scene.rng) for method in pair)
    sign = 1 if metric.traits.higher_is_better else -1
    assert bool((sign * (good - bad) > 0).all()), (good, bad)


@pytest.mark.parametrize("name", names("rank-only", where=lambda traits: traits.rank_only))
def test_rank_only_survives_another_scale(name):
    scene = planted(4)
    metric = built(name)
    # Whole numbers, with ties, stay distinct under 3m + 1; other floats may be rounded into ties.
    maps = (scene.rng.uniform("map", (24, 24)) * 100).round() - 50
    plain = metric(case(scene, Slope(), maps=maps, metric=metric), rng=scene.rng)
    scaled = metric(case(scene, Slope(), maps=3 * maps + 1, metric=metric), rng=scene.rng)
    assert torch.equal(plain, scaled)


@pytest.mark.parametrize("name", names("not-rank-only", where=lambda traits: not traits.rank_only))
def test_what_is_not_rank_only_sees_more_than_ranks(name):
    """The trait would be understated otherwise."""
    scene = planted(4)
    metric = built(name)
    seen = []
    for method in (Knowing(), Misled()):
        one = case(scene, method, metric=metric)
        bent = replace(one, maps=one.maps ** (1 / 8))
        seen.append(torch.equal(metric(one, rng=scene.rng), metric(bent, rng=scene.rng)))
    assert not all(seen)


@pytest.mark.parametrize("name", names("constant"))
@pytest.mark.parametrize("value", [0.0, 1.0, -2.5])
def test_a_constant_map_has_a_value_or_is_undefined_in_words(name, value):
    scene = planted(3)
    metric = built(name)
    values = metric(case(scene, Slope(), maps=torch.full((3, 24, 24), value), metric=metric), rng=scene.rng)
    assert values.shape == (3,)
    assert not bool(values.isinf().any())
    assert_inside(values, metric.traits.bounds)
    if bool(values.isnan().any()):
        assert metric.traits.undefined != "never"


@pytest.mark.parametrize("name", names("ties", where=lambda traits: traits.rank_only))
def test_ties_are_broken_by_seeded_order(name):
    scene = planted(3)
    metric = built(name)
    flat = case(scene, Slope(), maps=torch.zeros(3, 24, 24), metric=metric)
    once, again = (metric(flat, rng=scene.rng) for _ in range(2))
    other = metric(flat, rng=replace(scene.rng, seed=1))
    assert torch.equal(once, again)
    assert bool((once != other).all())


@pytest.mark.parametrize("name", names("truth", where=lambda traits: "truth" in traits.needs))
def test_empty_truth_is_undefined_and_missing_truth_is_refused(name):
    scene = planted(3)
    metric = built(name)
    scene.truth[1] = False
    values = metric(case(scene, Knowing(), metric=metric), rng=scene.rng)
    assert values.isnan().tolist() == [False, True, False]
    with pytest.raises(SnellenError, match=f"{name} needs a truth mask"):
        metric(replace(case(scene, Knowing(), metric=metric), truth=None), rng=scene.rng)


@pytest.mark.parametrize("name", names("permutation"))
@pytest.mark.parametrize("method", [Slope(), Misled()], ids=lambda one: type(one).__name__)
def test_permuting_samples_permutes_scores(name, method):
    scene, order = planted(5), [3, 0, 4, 2, 1]
    metric = built(name)
    values = metric(case(scene, method, metric=metric), rng=scene.rng)
    turned = rows(scene, order)
    torch.testing.assert_close(
        metric(case(turned, method, metric=metric), rng=turned.rng), values[order], rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("name", names("batch"))
@pytest.mark.parametrize("at_once", [1, 3, 64])
def test_batch_size_never_moves_a_score(name, at_once):
    scene = planted(4)
    metric = built(name)
    whole = metric(case(scene, Misled(), metric=metric), rng=scene.rng)
    scene.classifier.rows = at_once
    parts = [
        metric(case(part, Misled(), metric=metric), rng=part.rng) for part in (rows(scene, [0]), rows(scene, [1, 2, 3]))
    ]
    torch.testing.assert_close(torch.cat(parts), whole, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", names("batch"))
def test_a_loud_neighbour_moves_nothing(name):
    """Nothing is ever normalised over the batch: one huge or empty map leaves the other scores alone."""
    scene = planted(3)
    metric = built(name)
    maps = Slope()(scene.classifier, scene.inputs, scene.targets, rng=scene.rng)
    plain = metric(case(scene, Slope(), maps=maps, metric=metric), rng=scene.rng)
    for factor in (1e6, 0.0):
        loud = maps * torch.tensor([1.0, factor, 1.0]).view(3, 1, 1)
        values = metric(case(scene, Slope(), maps=loud, metric=metric), rng=scene.rng)
        torch.testing.assert_close(values[[0, 2]], plain[[0, 2]], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", names("json"))
def test_settings_survive_json_and_text(name):
    metric = built(name)
    assert METRICS.parse(json.loads(json.dumps(spec(metric)))) == metric
    assert METRICS.parse(label(metric)) == metric


@pytest.mark.parametrize("name", names("passes"))
def test_planned_passes_are_the_counted_ones(name):
    scene = planted(3)
    metric = built(name)
    planned = metric.passes((24, 24), Slope().passes((24, 24), scene.classifier), scene.classifier) * 3
    one = case(scene, Slope(), metric=metric)
    for _ in range(2):  # the second time some are shared, and the sum stays the same
        with scene.classifier.counting() as ledger:
            metric(one, rng=scene.rng)
        assert ledger.passes + ledger.cached == planned


@pytest.mark.parametrize("name", names("parts"))
def test_parts_are_within_the_passes(name):
    scene = planted(1)
    metric = METRICS.build(name)
    asked = ((24, 24), Passes(2, 1), scene.classifier)
    whole, parts = metric.passes(*asked), metric.parts(*asked) if isinstance(metric, SharedPasses) else {}
    together = sum(parts.values(), Passes())
    assert together.forward <= whole.forward
    assert together.backward <= whole.backward
    for key, passes in parts.items():
        assert hash(key) is not None
        assert passes != Passes() or whole == Passes()


@pytest.mark.parametrize("name", names("named"))
def test_a_trace_has_a_name_for_every_column(name):
    scene = planted(2)
    metric = built(name)
    if isinstance(metric, HasPoints):
        curve = metric.curve(case(scene, Slope(), metric=metric), rng=scene.rng)
        assert curve.shape == (2, len(metric.points((24, 24), scene.classifier)))
        assert len(set(metric.points((24, 24), scene.classifier))) == curve.shape[1]


@pytest.mark.parametrize("name", names("unmodified"))
def test_nothing_that_was_given_is_modified(name):
    scene = planted(3)
    metric = built(name)
    one = case(scene, Misled(), metric=metric)
    given = {"inputs": one.inputs, "targets": one.targets, "maps": one.maps, "truth": one.truth}
    before = {key: value.clone() for key, value in given.items()}
    metric(one, rng=scene.rng)
    for key, value in given.items():
        assert torch.equal(value, before[key]), key


@pytest.mark.parametrize("name", names("curve"))
def test_a_curve_sums_up_to_its_score(name):
    scene = planted(3)
    metric = built(name)
    if not isinstance(metric, CurveMetric):
        assert not hasattr(metric, "curve")
        return
    one = case(scene, Slope(), metric=metric)
    torch.testing.assert_close(
        metric.score(metric.curve(one, rng=scene.rng)), metric(one, rng=scene.rng), rtol=0, atol=0, equal_nan=True
    )


@pytest.mark.parametrize("name", NAMES)
def test_it_cites_a_known_work(name):
    assert METRICS[name].traits.cite in CITATIONS


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
    metric = METRICS.build(name)
    values = metric(case(scene, Slope(), maps=maps, metric=metric), rng=scene.rng)
    twins = torch.tensor([TWINS[name](scene, i, maps[i].double().numpy()) for i in range(4)])
    torch.testing.assert_close(values, twins.float(), rtol=2e-5, atol=2e-6)


def test_every_metric_has_a_slow_twin_and_a_worked_example():
    worked = "\n".join(one.read_text() for one in (Path(__file__).parents[1] / "worked").glob("test_*.py"))
    shown = set(re.findall(r"^def test_(\w+?)(?:__\w+)?\(", worked, flags=re.MULTILINE))
    assert set(NAMES) == set(TWINS)
    assert {name.replace("-", "_") for name in NAMES} <= shown
    assert all(key[0] in NAMES for key in EXEMPT)
