"""How arms stand: Welch by a twin, a person as one value, and verdicts that are careful."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from tests.study.planted_study import plant

from snellen.runs.people import MethodStanding, TaskOutcome
from snellen.study.data import ANSWERS, PARTICIPANTS, RATINGS, StudyData
from snellen.study.folder import Study
from snellen.study.joining.standing import MINIMUM_PEOPLE, SCALE, contrast, outcomes

NUMBERS = np.random.default_rng(4)


def study_of(folder: Path, **changes: Any) -> Study:
    settings = {
        "arms": ["grad-cam", "lime", "random", "none"],
        "tasks": [{"task": "error-detection", "items": 4}],
        "scales": [],
    }
    return plant(folder, **(settings | changes))[0]


def collected(values: dict[str, Any], task: str = "error-detection", items: int = 4, spread: float = 0.3) -> StudyData:
    """By arm, one level per person; a person's answers scatter about it and have it as their mean."""
    people, rows = [], []
    for arm, levels in values.items():
        for at, level in enumerate(levels):
            name = f"{arm}-{at}"
            people.append(dict.fromkeys(PARTICIPANTS, "") | {"participant": name, "arm": arm})
            noise = np.linspace(-spread, spread, items)
            rows += [
                dict.fromkeys(ANSWERS, "") | {
                    "participant": name, "arm": arm, "task": task, "item": f"{task}-{place}", "practice": False,
                    "presentation": "photograph" if arm == "none" else "overlay", "score": float(level + noise[place]),
                } for place in range(items)
            ]  # fmt: skip
    return StudyData.of(people, rows, [], simulated=False)


def levels(mean: float, people: int, deviation: float = 1.0) -> np.ndarray:
    """Exactly this mean and deviation."""
    raw = scipy.stats.norm.ppf((np.arange(people) + 0.5) / people)
    return mean + deviation * raw / raw.std(ddof=1)


def standing(outcome: TaskOutcome, method: str) -> MethodStanding:
    return next(row for row in outcome.standings if row.method == method)


def test_the_comparison_is_welch_s_with_people_as_values(tmp_path):
    mine, theirs = levels(1.0, 20, 1.0), levels(0.2, 30, 2.0)
    study = study_of(tmp_path / "s", arms=["lime", "none"])
    outcome = outcomes(study, collected({"lime": mine, "none": theirs}), ())[0]
    difference = standing(outcome, "lime").against[0]
    t_test = scipy.stats.ttest_ind(mine, theirs, equal_var=False)
    low, high = t_test.confidence_interval(0.95)
    assert (difference.mean, difference.low, difference.high, difference.p) == pytest.approx((0.8, low, high, t_test.pvalue))
    assert difference.people == 20
    assert difference.margin == pytest.approx(0.2 * math.sqrt((1.0 + 4.0) / 2))
    arm = next(arm for arm in outcome.arms if arm.method == "lime")
    assert (arm.mean, arm.people) == (pytest.approx(1.0), 20)
    assert (arm.low, arm.high) == pytest.approx(scipy.stats.t.interval(0.95, 19, 1.0, 1 / math.sqrt(20)))


def test_more_answers_of_the_same_people_are_no_more_people(tmp_path):
    values = {"lime": levels(1.0, 15), "none": levels(0.0, 15)}
    few, many = (
        study_of(tmp_path / str(n), arms=["lime", "none"], tasks=[{"task": "error-detection", "items": n}]) for n in (4, 40)
    )
    differences = [
        standing(outcomes(study, collected(values, items=n), ())[0], "lime").against[0]
        for study, n in ((few, 4), (many, 40))
    ]
    assert differences[0].p == pytest.approx(differences[1].p)
    assert differences[0].people == differences[1].people == 15


@pytest.mark.parametrize(
    ("shift", "people", "verdict", "words"),
    [
        (1.2, 40, "pass", "better than people without a map"),
        (-1.2, 40, "fail", "worse than people without a map"),
        (0.0, 700, "fail", "no better than people without a map, within the margin"),
        (0.12, 4000, "fail", "within the margin"),
        (0.0, 40, "inconclusive", "not clear of people without a map"),
        (2.0, MINIMUM_PEOPLE - 1, "not counted", f"{MINIMUM_PEOPLE - 1} people in an arm, where a verdict needs"),
    ],
)
def test_a_verdict_is_for_a_difference_that_is_sure_and_large_enough(tmp_path, shift, people, verdict, words):
    study = study_of(tmp_path / "s", arms=["lime", "none"], tasks=[{"task": "error-detection", "items": 2}])
    answers = collected({"lime": levels(shift, people), "none": levels(0.0, people)}, items=2)
    method_standing = standing(outcomes(study, answers, ())[0], "lime")
    assert method_standing.verdict == verdict
    assert words in method_standing.reason
    assert bool(method_standing.advice) == (verdict == "inconclusive")


def test_a_small_score_is_good_where_the_task_measures_a_distance(tmp_path):
    study = study_of(tmp_path / "s", arms=["lime", "none"], tasks=[{"task": "confidence", "items": 4}])
    answers = collected({"lime": levels(5.0, 20), "none": levels(8.0, 20)}, "confidence")
    outcome = outcomes(study, answers, ())[0]
    assert not outcome.higher_is_better
    assert standing(outcome, "lime").verdict == "pass"
    assert standing(outcome, "lime").against[0].mean == pytest.approx(3.0)


def test_p_values_are_corrected_for_the_methods_of_the_task(tmp_path):
    study = study_of(tmp_path / "s")
    values = {"grad-cam": levels(0.75, 20), "lime": levels(0.0, 20), "random": levels(0.0, 20), "none": levels(0.0, 20)}
    outcome = outcomes(study, collected(values), ["random"])[0]
    method_standing = standing(outcome, "grad-cam")
    alone = scipy.stats.ttest_ind(values["grad-cam"], values["none"], equal_var=False).pvalue
    assert method_standing.against[0].p == pytest.approx(3 * alone)
    assert alone < 0.05 < 3 * alone
    assert method_standing.verdict == "inconclusive"
    assert "after correction over 3 comparisons" in method_standing.reason
    more = int(method_standing.advice.split()[1])
    assert 5 < more < 40
    # The other methods are a family of their own: three pairs.
    others = {other.other: other.p for other in method_standing.others}
    assert set(others) == {"lime", "random"}
    assert others["lime"] == pytest.approx(min(1.0, 3 * alone))


def test_without_an_arm_without_maps_nothing_counts_and_methods_are_still_compared(tmp_path):
    study = study_of(tmp_path / "s", arms=["grad-cam", "lime"])
    outcome = outcomes(study, collected({"grad-cam": levels(3.0, 20), "lime": levels(0.0, 20)}), ())[0]
    method_standing = standing(outcome, "grad-cam")
    assert (method_standing.verdict, method_standing.reason) == ("not counted", "no arm without maps to compare with")
    assert method_standing.others[0].mean == pytest.approx(3.0)
    assert standing(outcome, "lime").others[0].mean == pytest.approx(-3.0)


@pytest.mark.parametrize(
    ("sharp", "verdict", "words"),
    [
        (6.0, "pass", "sharper than every control"),
        (2.0, "fail", "worse than edge, random"),
        (4.1, "inconclusive", "not clear of"),
    ],
)
def test_sharpness_is_judged_by_controls(tmp_path, sharp, verdict, words):
    study = study_of(tmp_path / "s", arms=["lime", "random", "edge"], tasks=[{"task": "sharpness", "items": 4}])
    values = {"lime": levels(sharp, 20), "random": levels(4.0, 20), "edge": levels(3.0, 20)}
    outcome = outcomes(study, collected(values, "sharpness"), ["random", "edge"])[0]
    method_standing = standing(outcome, "lime")
    assert (outcome.kind, method_standing.verdict) == ("sharpness", verdict)
    assert words in method_standing.reason
    assert {contrast.other for contrast in method_standing.against} == {"random", "edge"}
    assert standing(outcome, "edge").reason == "a control, which knows nothing about the model"
    alone = outcomes(study_of(tmp_path / "t", arms=["lime"], tasks=[{"task": "sharpness", "items": 4}]),
                     collected({"lime": values["lime"]}, "sharpness"), ["random"])[0]  # fmt: skip
    assert standing(alone, "lime").reason == "no control among the arms"


def test_within_subjects_a_person_is_compared_with_oneself(tmp_path):
    study = study_of(tmp_path / "s", design="within", arms=["lime", "none"])
    ability = levels(0.0, 20, 2.0)
    noise = NUMBERS.normal(0, 0.2, 20)
    answers = collected({"lime": ability + 1.0 + noise, "none": ability})
    same = answers.answers["participant"].str.replace("none-", "lime-")
    answers = StudyData(answers.participants.iloc[:20], answers.answers.assign(participant=same), answers.ratings)
    method_standing = standing(outcomes(study, answers, ())[0], "lime")
    t_test = scipy.stats.ttest_rel(ability + 1.0 + noise, ability)
    assert method_standing.against[0].p == pytest.approx(t_test.pvalue)
    assert (method_standing.against[0].low, method_standing.against[0].high) == pytest.approx(
        tuple(t_test.confidence_interval(0.95))
    )
    assert method_standing.verdict == "pass"


def test_where_nobody_differs_nothing_is_tested(tmp_path):
    study = study_of(tmp_path / "s", arms=["lime", "none"])
    method_standing = standing(outcomes(study, collected({"lime": np.ones(20), "none": np.zeros(20)}), ())[0], "lime")
    assert method_standing.verdict == "inconclusive"
    assert math.isnan(method_standing.against[0].p)


def test_a_questionnaire_is_shown_and_not_judged(tmp_path):
    study = study_of(tmp_path / "s", arms=["lime", "none"], scales=["trust"])
    answers = collected({"lime": levels(0.0, 20), "none": levels(0.0, 20)})
    ratings = [
        dict.fromkeys(RATINGS, "") | {"participant": f"{arm}-{at}", "arm": arm, "presentation": how, "scale": "trust",
                                      "item": number, "score": 4 - (arm == "none")}
        for arm, how in (("lime", "overlay"), ("none", "photograph")) for at in range(20) for number in range(1, 9)
    ]  # fmt: skip
    answers = StudyData(answers.participants, answers.answers, pd.DataFrame(ratings))
    outcome = outcomes(study, answers, ())[-1]
    assert (outcome.name, outcome.kind) == ("trust", "scale")
    assert [(arm.method, arm.mean) for arm in outcome.arms] == [("lime", 4.0), ("none", 3.0)]
    assert (outcome.standings[0].verdict, outcome.standings[0].reason) == ("not counted", SCALE)


def test_the_order_of_rows_changes_nothing(tmp_path):
    study = study_of(tmp_path / "s")
    answers = collected({arm: NUMBERS.normal(0, 1, 14) for arm in ("grad-cam", "lime", "random", "none")})
    mixed = StudyData(answers.participants, answers.answers.sample(frac=1, random_state=2), answers.ratings)
    first, second = (outcomes(study, table, ["random"])[0] for table in (answers, mixed))
    for mine, other in zip(first.standings, second.standings, strict=True):
        assert (mine.method, mine.verdict) == (other.method, other.verdict)
        assert [contrast.p for contrast in mine.against] == pytest.approx([contrast.p for contrast in other.against])


def test_a_useless_map_is_praised_in_at_most_one_study_of_twenty():
    """Two-sided at 5 %, so a pass by luck alone comes in about one of forty."""
    draw, praised = np.random.default_rng(9), 0
    studies = 600
    for _ in range(studies):
        mine, theirs = (pd.Series(draw.binomial(12, 0.7, 16) / 12) for _ in range(2))
        difference = contrast(mine, theirs, "none", higher=True, paired=False)
        praised += difference.p < 0.05 and difference.mean > 0
    assert 0.008 < praised / studies < 0.05
