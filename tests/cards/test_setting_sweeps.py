from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.cards.planted_loaded_run import small_bench

from snellen.cards.sweeps import SettingTrial, afford, place, remaining, trials_of
from snellen.plugins.registry import METHODS, label

GRADIENT = METHODS.build("gradient")


def trial(setting: str, value: str, weight: int) -> SettingTrial:
    return SettingTrial(setting=setting, value=value, method=GRADIENT, weight=float(weight))


def values(trials: list[SettingTrial]) -> set[str]:
    return {f"{trial.setting}={trial.value}" for trial in trials}


def test_every_declared_value_is_a_trial_and_its_price_follows_the_passes() -> None:
    method = METHODS.build("integrated-gradients", {"steps": 8})
    trials, left = trials_of(method, small_bench(), 0.5)
    assert not left
    steps = {trial.value: trial.weight for trial in trials if trial.setting == "steps"}
    assert steps == {"32": 96.5, "100": 300.5, "null": 1539.5}  # the default comes last, for the run has another
    assert {trial.value for trial in trials if trial.setting == "baseline"} == {"black", "blur", "gaussian"}
    assert all(label(trial.method) != label(method) for trial in trials)
    assert all(trial.method.steps == 8 for trial in trials if trial.setting != "steps")  # type: ignore[attr-defined]


def test_settings_of_a_wrapped_method_stay_as_they_are() -> None:
    method = METHODS.parse("smoothgrad(of=input-x-gradient, samples=4)")
    trials, _ = trials_of(method, small_bench(), 0.0)
    assert {label(trial.method.of) for trial in trials if trial.setting == "samples"} == {"input-x-gradient"}  # type: ignore[attr-defined]
    assert {trial.value for trial in trials if trial.setting == "of"} == {"gradient", "gradient(fold=sum)", "grad-cam"}


def test_a_layer_that_the_method_cannot_use_is_left_out_with_the_reason() -> None:
    trials, left = trials_of(METHODS.build("cam"), small_bench(), 0.0)
    assert values(trials) == {"layer=second"}  # a mean and one linear layer follow there, and nowhere before
    (only,) = left
    assert only[:2] == ("layer", "first")
    assert "cam cannot pass through conv2d at features" in only[2]


SOME = [trial("a", "1", 10), trial("a", "2", 300), trial("b", "1", 60), trial("a", "3", 20)]


@pytest.mark.parametrize(
    ("budget", "tried", "images"),
    [
        (4 * 390, {"a=1", "a=2", "b=1", "a=3"}, 4),
        (2 * 390, {"a=1", "a=2", "b=1", "a=3"}, 2),
        (389, {"a=1", "b=1", "a=3"}, 4),  # 4 × 90 = 360
        (359, {"a=1", "b=1", "a=3"}, 3),
        (89, {"a=1", "b=1"}, 1),
        (0, {"a=1", "b=1"}, 1),  # of every setting something is tried
    ],
)
def test_every_setting_comes_first_then_values_then_images(budget: int, tried: set[str], images: int) -> None:
    kept, count, left = afford(SOME, 4, float(budget))
    assert (values(kept), count) == (tried, images)
    assert {f"{setting}={value}" for setting, value, _ in left} == values(SOME) - tried


def test_what_is_left_out_says_what_it_would_cost() -> None:
    assert afford(SOME, 4, 100.0)[2] == [("a", "2", "a map would cost about as much as 300 forward passes")]


def test_what_costs_nothing_is_tried_on_all_images() -> None:
    free = [trial("a", "1", 0), trial("a", "2", 0)]
    assert afford(free, 4, 0.0) == (free, 4, [])


@pytest.mark.parametrize(
    ("correlation", "chance", "expected"),
    [
        (0.3, 1.0, 0.3),  # no luck: as it is
        (0.3, 0.6, 0.5),  # half of the likeness that luck leaves
        (0.6, 0.6, 1.0),  # a setting that does nothing
        (0.66, 0.6, 1.0),  # by luck above
        (-0.1, 0.6, 0.0),
        (0.25, 0.25, 1.0),
        (0.2, 0.2, math.nan),  # nearly all is luck
        (0.3, math.nan, 0.3),  # luck was not measured
    ],
)
def test_what_a_setting_leaves_is_measured_by_what_luck_leaves(correlation: float, chance: float, expected: float) -> None:
    assert remaining(correlation, chance) == pytest.approx(expected, nan_ok=True)


def test_luck_is_divided_out_of_maps_of_known_make() -> None:
    """Half of a map is steady and half luck, so it has 1/2 in common with itself; the setting turns the steady half by 60°.

    So maps with the setting have 1/2 · cos 60° = 1/4 in common with those without, and 1/4 : 1/2 = cos 60°, without luck.
    """
    steady, other, *lucks = torch.randn(4, 200_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    turned = 0.5 * steady + math.sqrt(0.75) * other
    own, again, tried = steady + lucks[0], steady + lucks[1], turned + lucks[1]
    chance, moved = (float(np.corrcoef(own, values)[0, 1]) for values in (again, tried))
    assert (chance, moved) == (pytest.approx(0.5, abs=0.01), pytest.approx(0.25, abs=0.01))
    assert remaining(moved, chance) == pytest.approx(0.5, abs=0.02)
    shared = float(np.corrcoef(own, turned + lucks[0])[0, 1])  # under one seed luck looks like likeness
    assert shared == pytest.approx(0.75, abs=0.01)


def test_places_count_what_is_better() -> None:
    assert place(0.5, [0.1, 0.9, 0.5], higher=True) == 2
    assert place(0.5, [0.1, 0.9, 0.5], higher=False) == 2
    assert place(1.0, [0.1, 0.9], higher=True) == 1
    assert place(1.0, [], higher=True) == 1
    assert place(math.nan, [0.1], higher=True) is None
    assert place(0.5, [math.nan, 0.9], higher=True) == 2
