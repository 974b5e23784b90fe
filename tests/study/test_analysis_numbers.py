"""Numbers of the analysis, worked by hand or by a naive twin."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from snellen.study.analysis.calibration import betting_results, calibrations
from snellen.study.analysis.comparisons import arm_pairs, compare, contrasts, effect_size, factors
from snellen.study.analysis.distributions import distribution, mean_interval
from snellen.study.analysis.equivalence import equivalences, with_differences
from snellen.study.analysis.mixed_model import fit_mixed_model
from snellen.study.analysis.reliability import reliability
from snellen.study.analysis.within_subjects import compare_within
from snellen.study.scales import Questionnaire
from snellen.verdicts.statistics import holm

ARMS = {
    "a": np.array([1.0, 2.0, 3.0, 4.0, 5.0]),
    "b": np.array([2.0, 3.0, 4.0, 5.0, 6.0]),
    "none": np.array([4.0, 5.0, 6.0, 7.0, 8.0]),
}
"""Means 3, 4 and 6, variance 2.5 in each: between 23⅓ with 2 degrees of freedom, within 30 with 12."""


def drawn(seed: int, sizes: tuple[int, ...], spreads: tuple[float, ...]) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {f"arm{at}": rng.normal(at * 0.3, spread, n) for at, (n, spread) in enumerate(zip(sizes, spreads, strict=True))}


def welch(groups: list[np.ndarray]) -> tuple[float, float, float]:
    """Welch (1951), written down again."""
    k = len(groups)
    weights = [len(group) / group.var(ddof=1) for group in groups]
    whole = sum(weights)
    centre = sum(w * group.mean() for w, group in zip(weights, groups, strict=True)) / whole
    top = sum(w * (group.mean() - centre) ** 2 for w, group in zip(weights, groups, strict=True)) / (k - 1)
    loss = sum((1 - w / whole) ** 2 / (len(group) - 1) for w, group in zip(weights, groups, strict=True))
    value = top / (1 + 2 * (k - 2) / (k**2 - 1) * loss)
    rest = (k**2 - 1) / (3 * loss)
    return value, rest, float(stats.f.sf(value, k - 1, rest))


def test_the_classical_anova_by_hand() -> None:
    comparison = compare(ARMS)
    classical, kruskal = comparison.alternatives
    assert classical.value == pytest.approx(14 / 3)
    assert classical.df == (2, 12)
    assert comparison.effect_size is not None
    assert comparison.effect_size.eta_squared == pytest.approx(23.3333 / 53.3333, abs=1e-5)
    assert comparison.effect_size.omega_squared == pytest.approx((23.3333 - 2 * 2.5) / (53.3333 + 2.5), abs=1e-5)
    assert kruskal.value == pytest.approx(stats.kruskal(*ARMS.values()).statistic)


@pytest.mark.parametrize("seed", range(4))
def test_the_decision_is_welchs(seed: int) -> None:
    values = drawn(seed, (12, 7, 30, 9), (1.0, 3.0, 0.4, 2.0))
    value, rest, p = welch(list(values.values()))
    decision = compare(values).decision
    assert (decision.value, decision.df[0], decision.df[1], decision.p) == pytest.approx((value, 3, rest, p))


def test_the_interval_of_eta_holds_zero_where_the_classical_test_finds_nothing() -> None:
    for value in (0.4, 2.0, 3.1, 3.4, 9.0):
        df = (2.0, 60.0)
        size = effect_size(value, df)
        assert (size.low == 0) == (stats.f.sf(value, *df) > 0.05)
        assert size.low <= size.eta_squared <= size.high


def test_contrasts_by_hand() -> None:
    pairs = {(contrast.first, contrast.second): contrast for contrast in contrasts(ARMS)}
    first_pair = pairs["a", "b"]
    # Both variances are 2.5, so the error of the difference is √(2.5/5 + 2.5/5) = 1, with 8 degrees of freedom.
    assert (first_pair.difference, first_pair.t, first_pair.df) == pytest.approx((-1, -1, 8))
    assert (first_pair.low, first_pair.high) == pytest.approx((-1 - 2.306004, -1 + 2.306004), abs=1e-5)
    assert first_pair.g == pytest.approx(-1 / math.sqrt(2.5) * (1 - 3 / 31))
    assert first_pair.g_low < first_pair.g < first_pair.g_high
    assert [pair for pair, some in pairs.items() if some.against_none] == [("a", "none"), ("b", "none")]
    after = multipletests([some.p for some in pairs.values()], method="holm")[1]
    assert [some.p_holm for some in pairs.values()] == pytest.approx(after)


def test_no_explanation_stands_second_wherever_the_protocol_names_it() -> None:
    assert arm_pairs(["none", "a", "b"]) == [("a", "b"), ("a", "none"), ("b", "none")]


@pytest.mark.slow
def test_holms_correction_is_that_of_statsmodels_and_skips_what_has_no_p() -> None:
    rng = np.random.default_rng(0)
    for size in (1, 2, 5, 9):
        p = rng.random(size) ** 3
        assert holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    corrected = holm(np.array([0.01, math.nan, 0.04]))
    assert corrected[0] == pytest.approx(0.02)
    assert math.isnan(corrected[1])


def test_an_arm_with_too_few_takes_part_in_no_test_and_says_so() -> None:
    comparison = compare(ARMS | {"few": np.array([9.0, 8.0, 7.0, 6.0])})
    assert comparison.arms == ("a", "b", "none")
    assert comparison.left_out == {"few": "4 of at least 5 participants"}
    assert comparison.decision.p == compare(ARMS).decision.p


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({}, "needs two arms"),
        ({"a": np.ones(9)}, "needs two arms"),
        ({"a": np.ones(9), "b": np.zeros(2)}, "at least 5 participants each; too few: b 2"),
        ({"a": np.ones(9), "b": np.ones(9)}, "everybody has the same score"),
        ({"a": np.full(9, 0.1 + 0.2), "b": np.full(9, 0.3)}, "everybody has the same score"),
        ({"a": np.ones(9), "b": np.zeros(9)}, "all participants of an arm have the same score"),
        ({"a": np.ones(9), "b": np.arange(9.0)}, "everybody in a has the same score"),
    ],
)
def test_where_nothing_can_be_tested_it_says_why(values: dict[str, np.ndarray], why: str) -> None:
    decision = compare(values).decision
    assert not decision.defined
    assert why in decision.why


def test_presentation_is_a_factor_over_the_arms_with_maps() -> None:
    rng = np.random.default_rng(3)
    rows = [
        {"participant": f"{arm}{shown}{at}", "arm": arm, "presentation": shown, "score": rng.normal(3 * (shown == "map"))}
        for arm in ("a", "b")
        for shown in ("overlay", "map")
        for at in range(12)
    ]
    rows += [{"participant": f"n{at}", "arm": "none", "presentation": "photograph", "score": 99.0} for at in range(12)]
    tests = {factor.name: factor for factor in factors(pd.DataFrame(rows))}
    assert tests["Presentation"].p < 1e-4
    assert tests["Arm"].p > 0.01
    assert tests["Arm × presentation"].df == (1.0, 44.0)
    assert factors(pd.DataFrame(rows[:24])) == ()  # one arm alone has nothing to cross


def test_equality_by_hand() -> None:
    values_a = np.array([3.0, 3.2, 2.8, 3.1, 2.9])
    values = {"a": values_a, "b": values_a + 0.1}
    equivalence = equivalences(values, contrasts(values), 0.5)[0]
    # The error of the difference is √(0.025/5 · 2) = 0.1: t = (0.5 − 0.1)/0.1 = 4 on the nearer side, 8 degrees of freedom.
    assert equivalence.p == pytest.approx(stats.t.sf(4, 8))
    assert (equivalence.low, equivalence.high) == pytest.approx((-0.1 - 0.1 * 1.859548, -0.1 + 0.1 * 1.859548), abs=1e-6)
    assert equivalence.conclusion == "equal"
    assert with_differences([equivalence], [True])[0].conclusion == "different but close"


@pytest.mark.parametrize(
    ("shift", "noise", "conclusion"), [(0.0, 3.0, "neither"), (2.0, 0.5, "different"), (0.0, 0.2, "equal")]
)
def test_not_found_is_not_the_same_as_equal(shift: float, noise: float, conclusion: str) -> None:
    rng = np.random.default_rng(5)
    values = {"a": rng.normal(shift, noise, 30), "b": rng.normal(0, noise, 30)}
    some = contrasts(values)
    judged = with_differences(equivalences(values, some, 0.5), [contrast.p_holm < 0.05 for contrast in some])
    assert judged[0].conclusion == conclusion


def test_intervals_of_means() -> None:
    assert mean_interval(np.array([2.0, 2.0, 2.0])) == (2.0, 2.0, 2.0)
    assert mean_interval(np.array([2.0]))[0] == 2
    assert math.isnan(mean_interval(np.array([2.0]))[1])
    summary = distribution("a", np.zeros(0))
    assert summary.n == 0
    assert math.isnan(summary.mean)


# Within subjects ---------------------------------------------------------------------------------------------------------


def test_two_arms_within_subjects_are_a_paired_t_test() -> None:
    rng = np.random.default_rng(2)
    wide = pd.DataFrame({"a": rng.normal(size=14), "none": rng.normal(size=14)})
    comparison = compare_within(wide, 15)
    t = stats.ttest_rel(wide["a"], wide["none"])
    assert comparison.decision.value == pytest.approx(t.statistic**2)
    assert comparison.decision.p == pytest.approx(t.pvalue)
    assert comparison.contrasts[0].p == pytest.approx(t.pvalue)
    assert comparison.dropped == 1
    assert comparison.alternatives[1].p == pytest.approx(stats.wilcoxon(wide["a"], wide["none"]).pvalue)


def test_repeated_measures_by_a_naive_twin() -> None:
    rng = np.random.default_rng(4)
    values = rng.normal(size=(11, 4)) + rng.normal(size=(11, 1)) + np.array([0, 0.2, 0.6, 0.0])
    values[:, 3] *= 3  # sphericity does not hold
    comparison = compare_within(pd.DataFrame(values, columns=list("abcd")), 11)
    people, arms = values.mean(axis=1, keepdims=True), values.mean(axis=0)
    between = 11 * ((arms - values.mean()) ** 2).sum() / 3
    rest = ((values - people - arms + values.mean()) ** 2).sum() / 30
    assert comparison.alternatives[0].value == pytest.approx(between / rest)
    # Greenhouse and Geisser: how evenly the variance of contrasts is spread, by the eigenvalues of their covariance.
    centred = np.eye(4) - 0.25
    powers = np.linalg.eigvalsh(centred @ np.cov(values.T) @ centred)
    epsilon = powers.sum() ** 2 / (3 * (powers**2).sum())
    assert comparison.decision.df == pytest.approx((3 * epsilon, 30 * epsilon))
    assert comparison.decision.p == pytest.approx(stats.f.sf(between / rest, 3 * epsilon, 30 * epsilon))
    assert comparison.alternatives[1].p == pytest.approx(stats.friedmanchisquare(*values.T).pvalue)


@pytest.mark.parametrize(
    ("wide", "why"),
    [
        (pd.DataFrame({"a": [1.0] * 4, "b": [2.0] * 4}), "at least 5"),
        (pd.DataFrame({"a": [1.0, 2, 3, 4, 5, 6]}), "two arms"),
        (pd.DataFrame({"a": [1.0, 2, 3, 4, 5, 6], "b": [1.0, 2, 3, 4, 5, 6]}), "nobody's scores differ"),
        (pd.DataFrame({"a": [1.0, 2, 3, 4, 5, 6], "b": [2.0, 3, 4, 5, 6, 7]}), "by the same"),
    ],
)
def test_within_subjects_too_it_says_why_nothing_is_tested(wide: pd.DataFrame, why: str) -> None:
    decision = compare_within(wide, len(wide)).decision
    assert not decision.defined
    assert why in decision.why


# Mixed models ------------------------------------------------------------------------------------------------------------


def trials(seed: int, *, people: int = 24, items: int = 8, shift: float = 0.5, binary: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    who, what = np.repeat(np.arange(people), items), np.tile(np.arange(items), people)
    arm = np.array(["lime(x='a')", "grad-cam", "none"])[who % 3]
    score = rng.normal(0, 0.6, people)[who] + rng.normal(0, 0.8, items)[what] + rng.normal(size=people * items)
    score = score + shift * (arm == "grad-cam")
    score = (score > 0.2).astype(float) if binary else score
    return pd.DataFrame(
        {"participant": [f"p{at}" for at in who], "item": [f"i{at}" for at in what], "arm": arm, "score": score}
    )


def test_in_a_balanced_study_the_mixed_model_is_the_anova_of_means() -> None:
    table = trials(1)
    arms = ("lime(x='a')", "grad-cam", "none")
    model = fit_mixed_model(table, arms, within=False, binary=False)
    means = table.groupby(["arm", "participant"])["score"].mean()
    groups = {arm: means[arm].to_numpy() for arm in arms}
    classical = compare(groups).alternatives[0]
    assert model.overall.value == pytest.approx(classical.value, rel=1e-3)
    assert model.overall.df == classical.df
    assert model.reference == "none"
    assert {coefficient.arm: coefficient.value for coefficient in model.coefficients} == pytest.approx(
        {arm: groups[arm].mean() - groups["none"].mean() for arm in arms[:2]}, abs=1e-6
    )
    # By hand: mean squares of participants in arms, of items, and of what is left.
    wide = table.pivot(index="participant", columns="item", values="score")
    level = wide.mean(axis=1)
    arm_of = table.groupby("participant")["arm"].first()
    people = 8 * ((level - level.groupby(arm_of).transform("mean")) ** 2).sum() / (24 - 3)
    rest = wide.sub(level, axis=0).sub(wide.mean(), axis=1).add(wide.to_numpy().mean())
    residual = float((rest**2).to_numpy().sum()) / (23 * 7)
    items = 24 * ((wide.mean() - wide.to_numpy().mean()) ** 2).sum() / 7
    assert model.variances == pytest.approx(
        {"participant": (people - residual) / 8, "item": (items - residual) / 24, "rest": residual}, rel=0.01
    )
    assert sum((model.shares or {}).values()) == pytest.approx(1)
    assert model.problems == ()


def test_the_mixed_model_does_not_care_for_the_unit() -> None:
    table = trials(2)
    model = fit_mixed_model(table, ("grad-cam", "none"), within=False, binary=False)
    other = fit_mixed_model(table.assign(score=1000 * table["score"]), ("grad-cam", "none"), within=False, binary=False)
    assert other.overall.value == pytest.approx(model.overall.value, rel=1e-6)
    assert other.coefficients[0].high == pytest.approx(1000 * model.coefficients[0].high, rel=1e-6)


def test_odds_are_those_of_the_shares() -> None:
    table = trials(3, people=36, binary=True)
    arms = ("lime(x='a')", "grad-cam", "none")
    odds_model = fit_mixed_model(table, arms, within=False, binary=True).odds
    assert odds_model is not None
    odds = table.groupby("arm")["score"].mean().pipe(lambda share: share / (1 - share))
    assert [coefficient.value for coefficient in odds_model.coefficients] == pytest.approx(
        [odds[arm] / odds["none"] for arm in arms[:2]]
    )
    assert all(coefficient.low < coefficient.value < coefficient.high for coefficient in odds_model.coefficients)


def test_a_variance_of_zero_is_told_and_not_hidden() -> None:
    rng = np.random.default_rng(0)
    table = trials(4).assign(score=rng.normal(size=24 * 8))
    table["score"] -= table.groupby("participant")["score"].transform("mean")  # nobody differs from anybody
    model = fit_mixed_model(table, ("grad-cam", "none"), within=False, binary=False)
    assert "the variance of participant is estimated as zero" in model.problems


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda table: table.assign(score=1.0), "same score"),
        (lambda table: table[table["arm"] == "none"], "two arms"),
        (lambda table: table[table["item"] == "i0"], "one answer"),
        (lambda table: table[table["participant"].isin(["p1", "p2"])], "two arms"),
    ],
)
def test_where_there_is_no_model_it_says_why(change: object, why: str) -> None:
    model = fit_mixed_model(change(trials(5)), ("grad-cam", "none"), within=False, binary=True)  # type: ignore[operator]
    assert why in model.overall.why


def test_all_right_in_an_arm_has_no_odds() -> None:
    table = trials(7, binary=True)
    table.loc[table["arm"] == "grad-cam", "score"] = 1.0
    model = fit_mixed_model(table, ("grad-cam", "none"), within=False, binary=True)
    assert model.odds is not None
    assert "infinite" in model.odds.overall.why
    assert model.overall.defined


def test_within_subjects_arms_may_act_differently_on_everybody() -> None:
    rng = np.random.default_rng(8)
    who, what = np.repeat(np.arange(20), 12), np.tile(np.arange(12), 20)
    arm = (who + what) % 3
    score = rng.normal(size=20)[who] + rng.normal(size=(20, 3))[who, arm] + rng.normal(size=240) * 0.5 + (arm == 0)
    table = pd.DataFrame({
        "participant": who.astype(str), "item": what.astype(str), "arm": np.array(["a", "b", "none"])[arm], "score": score
    })  # fmt: skip
    model = fit_mixed_model(table, ("a", "b", "none"), within=True, binary=False)
    assert model.overall.df == (2.0, 38.0)
    assert model.variances is not None
    assert model.variances["participant × arm"] == pytest.approx(1.0, rel=0.5)
    without = fit_mixed_model(table, ("a", "b", "none"), within=False, binary=False)
    assert model.overall.value < without.overall.value  # who forgets it is too sure


# Calibration and scales --------------------------------------------------------------------------------------------------


def answers(task: str, rows: list[tuple[str, int, int, int]]) -> pd.DataFrame:
    """Participant, answer, certainty or stake, truth."""
    return pd.DataFrame([
        {"participant": who, "arm": "a", "task": task, "practice": False, "value": value, "beside": beside, "truth": truth,
         "score": beside * (1 if value == truth else -1)}
        for who, value, beside, truth in rows
    ])  # fmt: skip


def test_calibration_by_hand() -> None:
    table = answers("error-detection", [("p", 1, 80, 1), ("p", 0, 60, 1), ("p", 1, 100, 1), ("p", 0, 50, 1)])
    calibration = calibrations(table, ["error-detection"], ("a", "none"))[0]
    assert calibration.brier.mean == pytest.approx((0.2**2 + 0.6**2 + 0 + 0.5**2) / 4)
    assert calibration.overconfidence.mean == pytest.approx(0.725 - 0.5)
    assert math.isnan(calibration.overconfidence.low)
    assert [(part.low, part.n, part.right) for part in calibration.bins] == [
        (50, 1, 0.0),
        (60, 1, 0.0),
        (80, 1, 1.0),
        (90, 1, 1.0),
    ]
    everyone = answers("error-detection", [*(("p", 1, 80, 1),) * 4, *(("q", 1, 80, 0),) * 8])
    # A participant with twice as many answers counts no more than another.
    assert calibrations(everyone, ["error-detection"], ("a",))[0].right.mean == pytest.approx(0.5)


def test_bets_by_hand() -> None:
    rows = [("p", 1, 9, 1), ("p", 1, 1, 0), ("p", 1, 8, 1), ("q", 1, 5, 1), ("q", 1, 5, 0), ("q", 0, 5, 1)]
    result = betting_results(answers("betting", rows), ["betting"], ("a",))[0]
    assert result.points.mean == pytest.approx(((9 - 1 + 8) / 3 + (5 - 5 - 5) / 3) / 2)
    assert result.insight.mean == pytest.approx(stats.spearmanr([9, 1, 8], [1, 0, 1]).statistic)
    assert (result.insight.n, result.insight.undefined) == (1, 1)
    assert [(part.low, part.high, part.n) for part in result.bins] == [(1, 3, 1), (4, 6, 3), (7, 9, 2)]


def scale(items: int) -> Questionnaire:
    texts = {"en": tuple(f"statement {at}" for at in range(items))}
    return Questionnaire(
        name="trust", points=5, reverse=(2,), needs_map=False, source="here", licence="free", titles={"en": "T"},
        introductions={"en": "I"}, answers={"en": ("1", "2", "3", "4", "5")}, statements=texts,
    )  # fmt: skip


def ratings(columns: list[list[int]]) -> pd.DataFrame:
    return pd.DataFrame([
        {"participant": f"p{who}", "arm": "a", "presentation": "overlay", "scale": "trust", "item": item, "score": score}
        for item, column in enumerate(columns, 1)
        for who, score in enumerate(column)
    ])  # fmt: skip


def test_alpha_by_hand() -> None:
    result = reliability(scale(2), ratings([[1, 2, 3, 4, 5], [2, 1, 4, 3, 5]]))
    # Both variances are 2.5, that of the sums 3, 3, 7, 7, 10 is 9: 2 · (1 − 5/9).
    assert result.alpha == pytest.approx(8 / 9)
    assert result.low < result.alpha < result.high
    assert [statement.reversed for statement in result.statements] == [False, True]
    assert result.statements[0].rest_correlation == pytest.approx(0.8)
    assert math.isnan(result.statements[0].alpha_without)


def test_alpha_of_a_published_formula_in_another_form() -> None:
    rng = np.random.default_rng(9)
    table = (rng.normal(size=(40, 1)) + rng.normal(size=(40, 5)) > 0).astype(int) + 1
    result = reliability(scale(5), ratings(table.T.tolist()))
    covariances = np.cov(table.T)
    mean, diagonal = covariances[~np.eye(5, dtype=bool)].mean(), np.diag(covariances).mean()
    assert result.alpha == pytest.approx(5 * mean / (diagonal + 4 * mean))
    without = np.cov(np.delete(table, 1, axis=1).T)
    mean, diagonal = without[~np.eye(4, dtype=bool)].mean(), np.diag(without).mean()
    assert result.statements[1].alpha_without == pytest.approx(4 * mean / (diagonal + 3 * mean))


@pytest.mark.parametrize(
    ("columns", "why"),
    [([[1, 2, 3], [1, 2, 3]], "3 of at least 5"), ([[3] * 6, [3] * 6], "same sum"), ([[1, 2, 3, 4, 5, 1]], "one statement")],
)
def test_where_there_is_no_alpha_it_says_why(columns: list[list[int]], why: str) -> None:
    result = reliability(scale(len(columns)), ratings(columns)) if len(columns) > 1 else None
    if result is None:
        single = Questionnaire(
            name="trust", points=5, reverse=(), needs_map=False, source="", licence="", titles={}, introductions={},
            answers={"en": ("1",) * 5}, statements={"en": ("s",)},
        )  # fmt: skip
        result = reliability(single, ratings(columns))
    assert math.isnan(result.alpha)
    assert why in result.why


def test_dots_never_cover_each_other_more_than_they_must() -> None:
    from snellen.study.analysis.charts import _swarm_rows

    rng = np.random.default_rng(1)
    places = sorted(rng.integers(0, 300, 200).tolist())
    rows_of_dots = _swarm_rows([float(place) for place in places])
    for row in set(rows_of_dots):
        own = [place for place, at in zip(places, rows_of_dots, strict=True) if at == row]
        assert all(later - sooner >= 6 for sooner, later in pairwise(own))
