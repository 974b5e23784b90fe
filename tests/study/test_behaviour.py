from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from tests.study.planted_study import plant

from snellen.errors import SnellenError
from snellen.study.folder import Study
from snellen.study.simulation.behaviour import Behaviour, assign_groups, simulate_answers
from snellen.study.simulation.effect import Effect, ParticipantMix, SkillSpread
from snellen.study.tasks import TASKS
from snellen.types import Rng

EARNEST = ParticipantMix(leaving=0.0, inattentive=0.0, hasty=0.0)
ALL = (*TASKS, "satisfaction", "trust")
MANY = 6000


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study with all six tasks and both questionnaires."""
    tasks = [{"task": name, "items": 12, "practice": 1} for name in TASKS]
    return plant(tmp_path_factory.mktemp("studies") / "everything", tasks=tasks)[0]


@pytest.fixture(scope="module")
def within(tmp_path_factory: pytest.TempPathFactory) -> Study:
    tasks = [{"task": "error-detection", "items": 12, "practice": 0}, {"task": "confidence", "items": 12, "practice": 0}]
    return plant(tmp_path_factory.mktemp("studies") / "within", tasks=tasks, design="within", scales=[])[0]


def _d(first: np.ndarray, other: np.ndarray) -> float:
    return float((first.mean() - other.mean()) / np.sqrt((first.var(ddof=1) + other.var(ddof=1)) / 2))


@pytest.mark.parametrize("outcome", ALL)
@pytest.mark.parametrize("declared", [0.5, -0.8])
def test_a_declared_difference_is_the_difference_of_participants_means(
    everything: Study, outcome: str, declared: float
) -> None:
    behaviour = Behaviour.of(everything, Effect({"all": {"grad-cam": declared}}, mix=EARNEST))
    facts, people = behaviour.outcomes[outcome], behaviour.participants(2 * MANY, 5)

    def means(arm: str, rows: np.ndarray) -> np.ndarray:
        return np.asarray(facts.score(people.simulate(outcome, arm, rows))[:, facts.counts].mean(axis=1))

    d = _d(means("grad-cam", np.arange(MANY)), means("guided-backprop", np.arange(MANY, 2 * MANY)))
    sign = 1 if facts.higher_is_better else -1
    assert d * sign == pytest.approx(declared, abs=3.5 * np.sqrt(2 / MANY))  # three and a half standard errors of d


@pytest.mark.slow
def test_within_subjects_a_declared_difference_holds_between_conditions(within: Study) -> None:
    tables = simulate_answers(within, 400, Effect({"abilities": {"grad-cam": 0.6}}, mix=EARNEST), seed=2)
    for task, sign in (("error-detection", 1), ("confidence", -1)):
        rows = tables.answers[tables.answers["task"] == task]
        means = rows.groupby(["participant", "arm"])["score"].mean().unstack("arm")
        d = sign * _d(means["grad-cam"].to_numpy(), means["none"].to_numpy())
        assert d == pytest.approx(0.6, abs=0.16)
        assert abs(_d(means["guided-backprop"].to_numpy(), means["none"].to_numpy())) < 0.16


@pytest.mark.parametrize("outcome", ALL)
def test_both_readings_of_a_formula_agree(everything: Study, outcome: str) -> None:
    facts = Behaviour.of(everything, Effect()).outcomes[outcome]
    for ease in (-1.5, 0.0, 1.2):
        eases = np.full((8000, len(facts.items)), ease)
        scores = facts.score(facts.simulate(eases, facts.noise(8000, np.random.default_rng(1)), 0.7))
        mean, square = facts.moments(eases[:1], 0.7)
        wrong = np.abs(scores.mean(axis=0) - mean[0]) / np.maximum(scores.std(axis=0), 1e-9) * np.sqrt(8000)
        assert wrong.max() < 4.5
        assert (scores**2).mean(axis=0) == pytest.approx(square[0], rel=0.08)


def test_scores_of_many_at_once_are_the_scores_that_the_tables_hold(everything: Study) -> None:
    effect = Effect({"all": {"grad-cam": 0.4}})
    tables = simulate_answers(everything, 24, effect, seed=9)
    people = Behaviour.of(everything, effect).participants(24, 9)
    compared = 0
    counted = [bool(people.counted(arm, np.array([row]))[0]) for row, arm in enumerate(tables.participants["arm"])]
    assert counted == (tables.participants["excluded"] == "").tolist()
    assert 0 < sum(counted) < 24
    for row, person in tables.participants.iterrows():
        for name, facts in people.behaviour.outcomes.items():
            if person["state"] != "finished" or (person["arm"] == "none" and facts.needs_map):
                continue
            own = facts.score(people.simulate(name, person["arm"], np.array([row])))[0]
            table = tables.ratings if facts.scale else tables.answers
            mine = table[
                (table["participant"] == person["participant"]) & (table["scale" if facts.scale else "task"] == name)
            ]
            score_of = dict(zip(mine["item"], mine["score"], strict=True))
            assert [score_of[place if facts.scale else item] for place, item in enumerate(facts.items, 1)] == own.tolist()
            compared += 1
    assert compared > 100


def test_the_same_seed_draws_the_same_people_and_another_others(everything: Study) -> None:
    first, again, other = (simulate_answers(everything, 12, Effect(), seed=seed).answers for seed in (3, 3, 4))
    assert first.equals(again)
    assert not first["value"].equals(other["value"])


def test_people_who_leave_or_do_not_look_come_in_the_assumed_shares_and_are_excluded_by_the_rule(tmp_path: Path) -> None:
    small, crowd = plant(tmp_path / "s")[0], ParticipantMix(leaving=0.2, inattentive=0.1, hasty=0.1)
    people = simulate_answers(small, 300, Effect(mix=crowd), seed=1).participants
    shares = people["excluded"].value_counts(normalize=True)
    assert shares["unfinished"] == pytest.approx(0.2, abs=0.06)
    # One of 25 who answer two checks at random passes both.
    assert shares["attention"] == pytest.approx(0.8 * 0.1 * 24 / 25, abs=0.04)
    assert shares["too fast"] == pytest.approx(0.8 * 0.1, abs=0.04)
    assert people.loc[people["excluded"] == "", "median_seconds"].median() == pytest.approx(8, rel=0.1)
    assert people["simulated"].all()
    assert people.loc[people["state"] == "started", "last_page"].nunique() > 2


def test_stakes_follow_the_probability_of_being_right_only_as_far_as_assumed(everything: Study) -> None:
    def slope(bets: float) -> float:
        people = Behaviour.of(everything, Effect(spread=SkillSpread(bets=bets), mix=EARNEST)).participants(1000, 6)
        facts, answers = people.behaviour.outcomes["betting"], people.answers("betting", "none")
        assert answers.beside is not None
        return float(np.corrcoef((answers.value == facts.truth).ravel(), answers.beside.ravel())[0, 1])

    assert slope(1.0) > 0.15
    assert abs(slope(0.0)) < 0.04


def test_a_planted_link_makes_items_easier_arm_by_arm(everything: Study) -> None:
    arms = everything.protocol.arms
    items = [item.id for item in everything.items if item.task == "error-detection" and not item.practice]
    draw = np.random.default_rng(0)
    link = {(arm, item): float(draw.normal()) for arm in arms for item in items}
    people = Behaviour.of(everything, Effect(link=link, mix=EARNEST)).participants(2000, 8)
    facts = people.behaviour.outcomes["error-detection"]
    own = np.stack([facts.score(people.answers("error-detection", arm))[:, facts.counts].mean(axis=0) for arm in arms])
    planted = np.array([[link[arm, item] for item in items] for arm in arms])
    # Against what is left when every item's own difficulty is taken away.
    left, centred = (rows - rows.mean(axis=0) for rows in (own, planted))
    assert stats.spearmanr(left.ravel(), centred.ravel()).statistic > 0.9


def test_people_who_trust_are_satisfied_and_statements_hang_together(everything: Study) -> None:
    people = Behaviour.of(everything, Effect(mix=EARNEST)).participants(2000, 4)
    trust, satisfaction = (people.answers(name, "grad-cam").value for name in ("trust", "satisfaction"))
    assert 0.3 < np.corrcoef(trust.mean(axis=1), satisfaction.mean(axis=1))[0, 1] < 0.6
    alpha = 8 / 7 * (1 - trust.var(axis=0).sum() / trust.sum(axis=1).var())
    assert 0.7 < alpha < 0.9


def test_groups_come_in_blocks() -> None:
    groups = assign_groups(3, 11, Rng(0, ()).shared("groups"))
    assert len(groups) == 11
    assert all(sorted(groups[start : start + 3]) == [0, 1, 2] for start in (0, 3, 6))
    assert len(assign_groups(3, 0, Rng(0, ()).shared("groups"))) == 0


def test_effects_are_read_as_they_are_written(everything: Study) -> None:
    protocol = everything.protocol
    assert Effect.of("none", protocol) == Effect()
    effect = Effect.of("grad-cam=0.5, trust:guided-backprop=-0.2,none=0.1", protocol)
    assert effect.shifts == {"abilities": {"grad-cam": 0.5, "none": 0.1}, "trust": {"guided-backprop": -0.2}}
    assert Effect.of(str(effect), protocol) == effect
    assert effect.d("betting", "grad-cam", ability=True) == 0.5
    assert effect.d("sharpness", "grad-cam", ability=False) == 0
    assert Effect.of("0.3", protocol).shifts == {"all": {"grad-cam": 0.3}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gradcam=0.5", "did you mean 'grad-cam'"),
        ("thrust:grad-cam=0.5", "did you mean 'trust'"),
        ("grad-cam=much", "between -5 and 5"),
        ("grad-cam=nan", "between -5 and 5"),
        ("grad-cam=0.5,lime", "cannot read 'lime'"),
        ("", "written as none"),
        ("much", "between -5 and 5"),
    ],
)
def test_an_effect_that_cannot_be_meant_is_refused_in_a_sentence(everything: Study, text: str, words: str) -> None:
    with pytest.raises(SnellenError, match=words):
        Effect.of(text, everything.protocol)


def test_a_difference_beyond_the_ceiling_is_refused_with_the_most_that_can_be(tmp_path: Path) -> None:
    study, _ = plant(tmp_path / "s")
    with pytest.raises(SnellenError, match=r"d = 4 in error-detection.*the most is [12]\.\d"):
        Behaviour.of(study, Effect.of("error-detection:grad-cam=4", study.protocol))
    with pytest.raises(SnellenError, match="between 0 and 1"):
        ParticipantMix(inattentive=0.7, hasty=0.7)
