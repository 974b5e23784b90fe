from __future__ import annotations

import math

import pytest
from planted_bench import small_bench

from snellen.cards.sweeps import Trial, afford, place, trials_of
from snellen.registry import METHODS, label

GRADIENT = METHODS.build("gradient")


def trial(setting: str, value: str, seconds: float) -> Trial:
    return Trial(setting, value, GRADIENT, seconds)


def values(trials: list[Trial]) -> set[str]:
    return {f"{one.setting}={one.value}" for one in trials}


def test_every_declared_value_is_a_trial_and_its_price_follows_the_passes() -> None:
    method = METHODS.build("integrated-gradients", {"steps": 8})
    trials, left = trials_of(method, small_bench(), 2.0, 0.5)
    assert not left
    steps = {one.value: one.seconds for one in trials if one.setting == "steps"}
    assert steps == {"16": 4.5, "64": 16.5, "100": 25.5, "32": 8.5}  # the default comes last, for the run has another
    assert {one.value for one in trials if one.setting == "baseline"} == {"black", "blur", "gaussian"}
    assert all(label(one.method) != label(method) for one in trials)
    assert all(one.method.steps == 8 for one in trials if one.setting != "steps")  # type: ignore[attr-defined]


def test_settings_of_a_wrapped_method_stay_as_they_are() -> None:
    method = METHODS.parse("smoothgrad(of=input-x-gradient, samples=4)")
    trials, _ = trials_of(method, small_bench(), 1.0, 0.0)
    assert {label(one.method.of) for one in trials if one.setting == "samples"} == {"input-x-gradient"}  # type: ignore[attr-defined]
    assert {one.value for one in trials if one.setting == "of"} == {"gradient", "gradient(fold=sum)", "grad-cam"}


def test_a_layer_that_the_method_cannot_use_is_left_out_with_the_reason() -> None:
    trials, left = trials_of(METHODS.build("cam"), small_bench(), 1.0, 0.0)
    assert values(trials) == {"layer=second"}  # a mean and one linear layer follow there, and nowhere before
    (only,) = left
    assert only[:2] == ("layer", "first")
    assert "cam cannot pass through conv2d at features" in only[2]


SOME = {
    "quick": [trial("a", "1", 0.1), trial("a", "2", 0.1), trial("b", "1", 0.2)],
    "slow": [trial("a", "1", 5.0), trial("a", "2", 30.0), trial("b", "1", 6.0)],
}


def test_with_time_enough_all_is_tried_on_all_images() -> None:
    kept, images, left = afford(SOME, 4, 1e3)
    assert kept == SOME
    assert images == {"quick": 4, "slow": 4}
    assert left == {"quick": [], "slow": []}


def test_with_little_time_every_setting_is_tried_once_and_the_cheap_ones_on_all_images() -> None:
    kept, images, left = afford(SOME, 4, 15.0)
    assert values(kept["quick"]) == {"a=1", "a=2", "b=1"}
    assert values(kept["slow"]) == {"a=1", "b=1"}
    assert images == {"quick": 4, "slow": 1}
    assert left["slow"] == [("a", "2", "a map would take about 30 s")]


@pytest.mark.parametrize("seconds", [0.0, 0.15, 1.0, 7.0, 20.0, 60.0, 200.0])
def test_the_budget_is_exceeded_only_by_the_first_trial_of_a_method(seconds: float) -> None:
    kept, images, left = afford(SOME, 4, seconds)
    spent = sum(images[owner] * one.seconds for owner, trials in kept.items() for one in trials)
    assert spent <= seconds + 1e-9 or len(kept["slow"]) == images["slow"] == 1
    for owner, trials in SOME.items():
        assert len(kept[owner]) + len(left[owner]) == len(trials)


def test_of_every_method_something_is_tried_that_can_be_done_in_the_time() -> None:
    crowd = {str(one): [trial("a", "1", 3.0), trial("b", "1", 4.0)] for one in range(4)}
    kept, images, _ = afford(crowd, 4, 5.0)
    assert {owner: values(one) for owner, one in kept.items()} == {owner: {"a=1"} for owner in crowd}
    assert set(images.values()) == {1}
    assert not any(afford(crowd, 4, 2.0)[0].values())


def test_places_count_what_is_better() -> None:
    assert place(0.5, [0.1, 0.9, 0.5], higher=True) == 2
    assert place(0.5, [0.1, 0.9, 0.5], higher=False) == 2
    assert place(1.0, [0.1, 0.9], higher=True) == 1
    assert place(1.0, [], higher=True) == 1
    assert place(math.nan, [0.1], higher=True) is None
    assert place(0.5, [math.nan, 0.9], higher=True) == 2
