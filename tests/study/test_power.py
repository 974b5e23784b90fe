from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console
from statsmodels.stats.power import FTestAnovaPower
from tests.study.planted_study import plant

from snellen.errors import SnellenError
from snellen.study.analysis.comparisons import compare
from snellen.study.analysis.within_subjects import compare_within
from snellen.study.folder import Study
from snellen.study.simulation.behaviour import Behaviour, simulate_answers
from snellen.study.simulation.effect import Effect, ParticipantMix
from snellen.study.simulation.power import MINIMUM_SIZE, SimulatedStudies, _repeated, _welch, p_values, power
from snellen.study.simulation.power_table import PowerTable

EARNEST = ParticipantMix(leaving=0.0, inattentive=0.0, hasty=0.0)
TASKS = [{"task": "class-accuracy", "items": 12, "practice": 0}]
ARMS = ["grad-cam", "guided-backprop", "lime"]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return plant(tmp_path_factory.mktemp("power") / "s", arms=ARMS, tasks=TASKS, scales=["trust"])[0]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study of one outcome, which nothing has to be corrected for."""
    return plant(tmp_path_factory.mktemp("power") / "one", arms=ARMS, tasks=TASKS, scales=[])[0]


def _analytic(d: float, each: int) -> float:
    # One of three arms lies d above the others: the spread of the three means is d·√2/3.
    return float(FTestAnovaPower().power(d * np.sqrt(2) / 3, 3 * each, 0.05, k_groups=3))


@pytest.mark.parametrize(("d", "each"), [(0.5, 55), (0.8, 20), (0.3, 40)])
def test_power_is_what_the_textbook_says_where_everybody_counts(alone: Study, d: float, each: int) -> None:
    behaviour = Behaviour.of(alone, Effect({"all": {"grad-cam": d}}, mix=EARNEST))
    trials = SimulatedStudies(behaviour, alpha=0.05, studies=600, seed=1)
    for trial in (trials(name, each) for name in behaviour.outcomes):
        # Three and a half standard errors of a share, and a little for spreads that are not quite equal.
        assert trial.share == pytest.approx(_analytic(d, each), abs=3.5 * np.sqrt(0.25 / 600) + 0.01)


def test_the_number_needed_is_that_of_the_textbook_and_more_are_recruited(alone: Study) -> None:
    estimate = power(alone, Effect.of("0.8", alone.protocol), studies=300, sizes=[20])
    (need,) = estimate.outcomes
    assert need.size is not None
    assert need.low is not None
    assert need.high is not None
    textbook = next(n for n in range(5, 99) if _analytic(0.8, n) >= 0.8)
    # Some of those who count have guessed: a few more are needed than in the textbook.
    assert 0 <= need.size - textbook <= 5
    assert need.low <= need.size <= need.high
    assert need.high - need.low <= 8
    assert estimate.counted_share == pytest.approx(0.92 * (1 - 0.06), abs=0.01)
    assert estimate.recruited(need.size) == pytest.approx(3 * need.size / estimate.counted_share, abs=3)
    assert set(need.power) == {20, 55}
    assert need.power[20].share < 0.8 < need.power[55].share


def test_a_study_without_a_difference_finds_one_as_often_as_alpha_says(alone: Study) -> None:
    behaviour = Behaviour.of(alone, Effect())
    trials = SimulatedStudies(behaviour, alpha=0.05, studies=1000, seed=2)
    for trial in (trials(name, 30) for name in behaviour.outcomes):
        low, high = trial.interval
        assert low - 0.01 < 0.05 < high + 0.01


def test_what_is_corrected_for_costs_power_as_it_does_in_the_analysis(alone: Study, study: Study) -> None:
    effect = Effect({"abilities": {"grad-cam": 0.6}}, mix=EARNEST)
    single, double = (
        SimulatedStudies(Behaviour.of(planned, effect), alpha=0.05, studies=600, seed=4)("class-accuracy", 40).share
        for planned in (alone, study)
    )
    assert single == pytest.approx(_analytic(0.6, 40), abs=0.07)
    # Beside an outcome that does not differ, Holm asks the first of two for half of alpha.
    halved = float(FTestAnovaPower().power(0.6 * np.sqrt(2) / 3, 120, 0.025, k_groups=3))
    assert double == pytest.approx(halved, abs=0.07)
    assert double < single


def test_where_nothing_is_assumed_no_number_is_told_and_where_too_much_is_the_least(study: Study) -> None:
    estimate = power(study, Effect.of("abilities:grad-cam=2.5", study.protocol), studies=100)
    needs = {outcome.outcome: outcome for outcome in estimate.outcomes}
    assert needs["trust"].size is None
    assert needs["class-accuracy"].size in (MINIMUM_SIZE, MINIMUM_SIZE + 1)
    with (console := Console(width=100)).capture() as shown:
        console.print(PowerTable(estimate))
    assert "per arm" in shown.get()
    assert "Welch" in shown.get()
    assert "166 people" in shown.get()


def test_both_tests_are_those_of_the_analysis() -> None:
    draw = np.random.default_rng(0)
    scores = [draw.normal(place / 4, 1 + place / 3, (7, 20)) for place in range(3)]
    counted = [draw.random((7, 20)) < 0.8 for _ in scores]
    for study, p in enumerate(_welch(scores, counted)):
        kept = {str(arm): own[study][there[study]] for arm, (own, there) in enumerate(zip(scores, counted, strict=True))}
        assert p == pytest.approx(compare(kept).decision.p)
    wide = np.stack(scores, axis=-1)
    for study, p in enumerate(_repeated(wide, counted[0])):
        own = wide[study][counted[0][study]]
        assert p == pytest.approx(compare_within(pd.DataFrame(own, columns=list("abc")), len(own)).decision.p)


@pytest.mark.parametrize("design", ["between", "within"])
def test_means_are_those_of_the_study_in_memory(tmp_path: Path, design: str, monkeypatch: pytest.MonkeyPatch) -> None:
    own, _ = plant(tmp_path / "s", arms=ARMS, tasks=TASKS, scales=["trust"], design=design)
    effect, people = Effect.of("0.7", own.protocol), 48
    # Both deal people out to the groups in turn.
    monkeypatch.setattr(
        "snellen.study.simulation.behaviour.assign_groups", lambda groups, people, _: np.arange(people) % groups
    )
    tables = simulate_answers(own, people, effect, seed=3).counted
    same = Behaviour.of(own, effect).participants(people, 3)
    for name, table in (("class-accuracy", tables.answers), ("trust", tables.ratings)):
        means = table.groupby(["participant", "arm"])["score"].mean().unstack("arm")
        if design == "within":
            expected = compare_within(means, len(means)).decision.p
        else:
            expected = compare({arm: means[arm].dropna().to_numpy(dtype=np.float64) for arm in ARMS}).decision.p
        assert p_values(same, 1)[0, list(same.behaviour.outcomes).index(name)] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"goal": 1.0}, "cannot be planned for"),
        ({"studies": 10}, "at least 100"),
        ({"sizes": [2]}, "never tested"),
        ({"outcomes": ["thrust"]}, "did you mean 'trust'"),
    ],
)
def test_what_cannot_be_planned_is_refused(study: Study, settings: dict[str, object], words: str) -> None:
    with pytest.raises(SnellenError, match=words):
        power(study, Effect(), **settings)  # type: ignore[arg-type]
