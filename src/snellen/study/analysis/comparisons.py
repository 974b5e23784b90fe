"""Whether the arms of a study between subjects differ, and which. Welch's test decides; other tests are shown too."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd
import statsmodels.formula.api as formulas
from jaxtyping import Float
from scipy import stats
from statsmodels.stats.anova import anova_lm
from statsmodels.stats.meta_analysis import effectsize_smd
from statsmodels.stats.oneway import anova_oneway, confint_effectsize_oneway
from statsmodels.stats.weightstats import CompareMeans

from snellen.study.protocol import NONE
from snellen.verdicts.statistics import holm

MINIMUM_FOR_TESTS = 5
"""An arm with fewer participants is in no test; its numbers are shown, and the page says so."""

MAXIMUM_FOR_SHAPIRO = 5000
"""With more residuals the p-value of the Shapiro–Wilk test is not reliable."""

ArmScores = Mapping[str, Float[np.ndarray, " _"]]
"""By arm, a score per participant."""


@dataclass(frozen=True, kw_only=True)
class StatisticalTest:
    """The result of one test, or in `why` the reason that there is none."""

    name: str
    symbol: str
    """Of the statistic: F, H, W or χ²."""
    value: float = math.nan
    """Of the statistic."""
    df: tuple[float, ...] = ()
    """Degrees of freedom."""
    p: float = math.nan
    """The p-value, uncorrected."""
    why: str = ""
    """Why there is no result; empty where there is."""

    @property
    def defined(self) -> bool:
        """Whether there is a p-value."""
        return math.isfinite(self.p)


@dataclass(frozen=True, kw_only=True)
class EffectSize:
    """How much of the variance between participants the arms account for."""

    eta_squared: float
    """Share of the variance, from 0 to 1."""
    low: float
    high: float
    """The 90 % interval of eta squared, which contains 0 exactly where the classical test at 5 % is not significant."""
    omega_squared: float
    """Eta squared corrected for chance; NaN within subjects."""
    partial: bool = False
    """Within subjects: the share of the variance without differences between participants."""


@dataclass(frozen=True, kw_only=True)
class ArmDifference:
    """The difference between two arms: first minus second, with 95 % intervals."""

    first: str
    second: str
    n: tuple[int, int]
    """Participants of both arms."""
    difference: float
    """Of the means, in units of the outcome."""
    low: float = math.nan
    high: float = math.nan
    """The ends of its interval."""
    t: float = math.nan
    """The statistic of the t-test: Welch's between subjects, paired within subjects."""
    df: float = math.nan
    """Its degrees of freedom."""
    p: float = math.nan
    """Its p-value, uncorrected."""
    p_holm: float = math.nan
    """After Holm's correction over the pairs of this outcome."""
    g: float = math.nan
    """Hedges' g: the difference in standard deviations, corrected for small samples."""
    g_low: float = math.nan
    g_high: float = math.nan
    """The ends of the interval of g."""
    why: str = ""
    """Why the pair is not tested, if so."""

    @property
    def against_none(self) -> bool:
        """Whether the second arm is that without explanation."""
        return self.second == NONE


@dataclass(frozen=True, kw_only=True)
class ArmComparison:
    """All tests of one outcome."""

    arms: tuple[str, ...]
    """The arms that are tested."""
    left_out: Mapping[str, str]
    """Arms that are in no test, and why."""
    decision: StatisticalTest
    """The test that decides whether the arms differ."""
    alternatives: tuple[StatisticalTest, ...] = ()
    """Other tests of the same question."""
    checks: tuple[StatisticalTest, ...] = ()
    """Tests of assumptions."""
    effect_size: EffectSize | None = None
    contrasts: tuple[ArmDifference, ...] = ()
    """Every pair of arms."""
    factors: tuple[StatisticalTest, ...] = ()
    """Where presentation is a factor: arm, presentation and their interaction, over the arms with maps."""
    quantiles: tuple[tuple[float, float], ...] = ()
    """Points of a quantile plot of the residuals: expected of a normal distribution, observed."""
    dropped: int = 0
    """Within subjects: participants without a score in every arm."""


WELCH = StatisticalTest(name="Welch's one-way ANOVA", symbol="F")


def compare(scores: ArmScores, cells: pd.DataFrame | None = None) -> ArmComparison:
    """Compares the arms of a study between subjects.

    Args:
        scores: By arm, a score per participant.
        cells: Columns participant, arm, presentation and score, where presentation varies.
    """
    tested, left_out = split_by_size(scores)
    arms = tuple(tested)
    if reason := _reason_not_to_test(tested, left_out):
        decision = replace(WELCH, why=reason)
        return ArmComparison(arms=arms, left_out=left_out, decision=decision, contrasts=contrasts(tested))
    groups = list(tested.values())
    residuals = np.concatenate([group - group.mean() for group in groups])
    anova = anova_oneway(groups, use_var="equal", welch_correction=False)
    classical = StatisticalTest(
        name="Classical one-way ANOVA",
        symbol="F",
        value=float(anova.statistic),
        df=_float_pair(anova.df),
        p=float(anova.pvalue),
    )
    kruskal = stats.kruskal(*groups)
    by_rank = StatisticalTest(
        name="Kruskal–Wallis",
        symbol="H",
        value=float(kruskal.statistic),
        df=(float(len(groups) - 1),),
        p=float(kruskal.pvalue),
    )
    return ArmComparison(
        arms=arms,
        left_out=left_out,
        decision=_welch(tested),
        alternatives=(classical, by_rank),
        checks=(_brown_forsythe(groups), shapiro(residuals)),
        effect_size=effect_size(classical.value, _float_pair(anova.df)),
        contrasts=contrasts(tested),
        factors=factors(cells) if cells is not None else (),
        quantiles=quantiles(residuals),
    )


def split_by_size(scores: ArmScores) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """The arms that have enough participants for a test, and for each other arm why it has not."""
    tested = {arm: values for arm, values in scores.items() if len(values) >= MINIMUM_FOR_TESTS}
    left_out = {
        arm: f"{len(values)} of at least {MINIMUM_FOR_TESTS} participants"
        for arm, values in scores.items()
        if arm not in tested
    }
    return tested, left_out


def _reason_not_to_test(tested: Mapping[str, np.ndarray], left_out: Mapping[str, str]) -> str:
    if len(tested) < 2:
        counts = {"no explanation" if arm == NONE else arm: why.split()[0] for arm, why in left_out.items()}
        few = f"; too few: {', '.join(f'{arm} {count}' for arm, count in counts.items())}" if counts else ""
        return f"a comparison needs two arms with at least {MINIMUM_FOR_TESTS} participants each{few}"
    everyone = np.concatenate(list(tested.values()))
    if is_constant(everyone):
        return f"everybody has the same score, {everyone[0]:g}"
    return "all participants of an arm have the same score" if all(map(is_constant, tested.values())) else ""


def is_constant(values: Float[np.ndarray, " participants"]) -> bool:
    """Whether all values are equal, up to rounding errors of sums."""
    return bool(np.ptp(values) <= 1e-9 * (1 + np.abs(values).max()))


@contextmanager
def ignoring_warnings() -> Iterator[None]:
    """For statistics that are undefined on some numbers: their NaN is reported, so the warning is not needed."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _welch(tested: Mapping[str, np.ndarray]) -> StatisticalTest:
    constant = [arm for arm, values in tested.items() if is_constant(values)]
    if constant:
        why = f"everybody in {constant[0]} has the same score, so there is no spread to weigh that arm by"
        return replace(WELCH, why=why)
    anova = anova_oneway(list(tested.values()), use_var="unequal", welch_correction=True)
    return replace(WELCH, value=float(anova.statistic), df=_float_pair(anova.df), p=float(anova.pvalue))


def _float_pair(df: Sequence[float]) -> tuple[float, float]:
    return float(df[0]), float(df[1])


def _brown_forsythe(groups: Sequence[np.ndarray]) -> StatisticalTest:
    test = StatisticalTest(name="Equal spread in all arms (Brown–Forsythe)", symbol="F")
    with ignoring_warnings():
        levene = stats.levene(*groups, center="median")
    if not math.isfinite(levene.pvalue):
        return replace(test, why="undefined on these numbers: all are equally far from their arm's median")
    df = (float(len(groups) - 1), float(sum(map(len, groups)) - len(groups)))
    return replace(test, value=float(levene.statistic), df=df, p=float(levene.pvalue))


def shapiro(residuals: Float[np.ndarray, " participants"]) -> StatisticalTest:
    """Whether residuals look normal."""
    test = StatisticalTest(name="Normal residuals (Shapiro–Wilk)", symbol="W")
    if len(residuals) > MAXIMUM_FOR_SHAPIRO:
        return replace(test, why=f"not meant for more than {MAXIMUM_FOR_SHAPIRO} participants")
    result = stats.shapiro(residuals)
    return replace(test, value=float(result.statistic), p=float(result.pvalue))


def quantiles(residuals: Float[np.ndarray, " participants"]) -> tuple[tuple[float, float], ...]:
    """Points of a quantile plot: expected and observed, both in standard deviations of the residuals."""
    expected, observed = stats.probplot(residuals, dist="norm", fit=False)
    deviation = float(residuals.std(ddof=1)) or 1.0
    return tuple((float(x), float(y) / deviation) for x, y in zip(expected, observed, strict=True))


def effect_size(f: float, df: tuple[float, float], *, partial: bool = False) -> EffectSize:
    """Eta squared with its interval from the noncentral F distribution, and omega squared.

    Args:
        f: The statistic of the classical test.
        df: Its degrees of freedom, between and within.
        partial: Within subjects, where omega squared is not defined.
    """
    eta, n = f * df[0] / (f * df[0] + df[1]), round(df[0] + df[1] + 1)
    omega = math.nan if partial else max(0.0, df[0] * (f - 1) / (df[0] * (f - 1) + n))
    with np.errstate(divide="ignore"):  # statsmodels divides by an end of the interval, which may be zero
        low, high = confint_effectsize_oneway(f, df, alpha=0.1, nobs=n).eta2
    return EffectSize(
        eta_squared=eta, low=max(0.0, float(low)), high=max(0.0, float(high)), omega_squared=omega, partial=partial
    )


def contrasts(scores: ArmScores) -> tuple[ArmDifference, ...]:
    """Every pair of arms by Welch's t-test, with Holm's correction over the pairs."""
    return holm_corrected([_contrast(first, second, scores) for first, second in arm_pairs(list(scores))])


def arm_pairs(arms: Sequence[str]) -> list[tuple[str, str]]:
    """Every two arms; no explanation is always second, so that a difference is the gain of a method."""
    order = [arm for arm in arms if arm != NONE] + [arm for arm in arms if arm == NONE]
    return list(combinations(order, 2))


def holm_corrected(pairs: Sequence[ArmDifference]) -> tuple[ArmDifference, ...]:
    """The pairs with Holm's correction over all that have a p-value."""
    corrected = holm(np.array([pair.p for pair in pairs], dtype=np.float64))
    return tuple(replace(pair, p_holm=float(p)) for pair, p in zip(pairs, corrected, strict=True))


def _contrast(first: str, second: str, scores: ArmScores) -> ArmDifference:
    a, b = scores[first], scores[second]
    n = (len(a), len(b))
    untested = ArmDifference(first=first, second=second, n=n, difference=float(a.mean() - b.mean()))
    if is_constant(a) and is_constant(b):
        return replace(untested, why="all participants of an arm have the same score")
    means = CompareMeans.from_data(a, b)
    low, high = means.tconfint_diff(alpha=0.05, usevar="unequal")
    t, p, df = means.ttest_ind(usevar="unequal")
    g, variance = effectsize_smd(a.mean(), a.std(ddof=1), n[0], b.mean(), b.std(ddof=1), n[1])
    half_width = float(stats.norm.isf(0.025)) * math.sqrt(float(variance))
    return replace(
        untested, low=float(low), high=float(high), t=float(t), df=float(df), p=float(p),
        g=float(g), g_low=float(g) - half_width, g_high=float(g) + half_width,
    )  # fmt: skip


def factors(cells: pd.DataFrame) -> tuple[StatisticalTest, ...]:
    """Arm × presentation over the arms with maps: three tests that allow for unequal variances (HC3)."""
    table = cells[cells["arm"] != NONE]
    counts = table.groupby(["arm", "presentation"]).size().unstack(fill_value=0)
    if min(counts.shape) < 2:
        return ()
    interaction = StatisticalTest(name="Arm × presentation", symbol="F")
    if counts.to_numpy().min() < MINIMUM_FOR_TESTS:
        why = f"some arm in some presentation has fewer than {MINIMUM_FOR_TESTS} participants"
        return (replace(interaction, why=why),)
    if is_constant(table["score"].to_numpy()):
        return (replace(interaction, why="everybody has the same score"),)
    fitted = formulas.ols("score ~ C(arm, Sum) * C(presentation, Sum)", table).fit()
    anova = anova_lm(fitted, typ=3, robust="hc3")
    residual_df = float(anova.loc["Residual", "df"])
    names = {
        "C(arm, Sum)": "Arm",
        "C(presentation, Sum)": "Presentation",
        "C(arm, Sum):C(presentation, Sum)": interaction.name,
    }
    return tuple(
        StatisticalTest(
            name=name,
            symbol="F",
            value=float(anova.loc[row, "F"]),
            df=(float(anova.loc[row, "df"]), residual_df),
            p=float(anova.loc[row, "PR(>F)"]),
        )
        for row, name in names.items()
    )
