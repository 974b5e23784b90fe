"""Between subjects: do the arms differ, and which? Welch's test decides; the others stand beside it."""

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

LEAST_FOR_TESTS = 5
"""Participants below which an arm takes part in no test: its numbers are shown, and that is said."""

MOST_FOR_SHAPIRO = 5000
"""Residuals beyond which the test's p-value is not known to hold."""

Values = Mapping[str, Float[np.ndarray, " _"]]


@dataclass(frozen=True)
class Statistic:
    """One test: its statistic with degrees of freedom and p, or in words why there is none."""

    name: str
    symbol: str
    value: float = math.nan
    df: tuple[float, ...] = ()
    p: float = math.nan
    why: str = ""

    @property
    def given(self) -> bool:
        """Whether there is a p-value."""
        return math.isfinite(self.p)


@dataclass(frozen=True)
class Size:
    """How much of the spread between participants the arms account for."""

    eta: float
    low: float
    high: float
    """The interval of eta squared at 90 %, which holds 0 exactly where the classical test at 5 % finds nothing."""
    omega: float
    """The same corrected for chance; undefined within subjects."""
    partial: bool = False
    """Within subjects, of what is left of the spread without differences between participants."""


@dataclass(frozen=True)
class Contrast:
    """Two arms: the difference of their means, first minus second, with 95 % intervals of it and of Hedges' g."""

    first: str
    second: str
    n: tuple[int, int]
    difference: float
    low: float
    high: float
    t: float
    df: float
    p: float
    holm: float
    """p after Holm's correction over the pairs of this outcome."""
    g: float
    g_low: float
    g_high: float
    why: str = ""

    @property
    def against_none(self) -> bool:
        """Whether a method is set against no explanation."""
        return self.second == NONE


@dataclass(frozen=True)
class Comparison:
    """All tests of one outcome."""

    arms: tuple[str, ...]
    left_out: Mapping[str, str]
    """Arms that take part in no test, and why."""
    decision: Statistic
    beside: tuple[Statistic, ...] = ()
    checks: tuple[Statistic, ...] = ()
    size: Size | None = None
    contrasts: tuple[Contrast, ...] = ()
    factors: tuple[Statistic, ...] = ()
    """Where presentation is a factor: arm, presentation and how they act together, over the arms with maps."""
    quantiles: tuple[tuple[float, float], ...] = ()
    """Residuals as a normal distribution would have them, and as they are."""
    dropped: int = 0
    """Participants without a number in every arm, where every participant met every arm."""


WELCH = Statistic("Welch's one-way ANOVA", "F")


def compare(values: Values, cells: pd.DataFrame | None = None) -> Comparison:
    """The arms of a study between subjects; `cells` (participant, arm, presentation, score) where presentation varies."""
    kept, left_out = enough(values)
    if reason := _refused(kept, left_out):
        return Comparison(tuple(kept), left_out, replace(WELCH, why=reason), contrasts=contrasts(kept))
    groups = list(kept.values())
    everyone = np.concatenate([one - one.mean() for one in groups])
    classical = anova_oneway(groups, use_var="equal", welch_correction=False)
    kruskal = stats.kruskal(*groups)
    return Comparison(
        tuple(kept),
        left_out,
        _welch(kept),
        (
            Statistic(
                "Classical one-way ANOVA", "F", float(classical.statistic), _pair(classical.df), float(classical.pvalue)
            ),
            Statistic("Kruskal–Wallis", "H", float(kruskal.statistic), (float(len(groups) - 1),), float(kruskal.pvalue)),
        ),
        (_brown_forsythe(groups), shapiro(everyone)),
        size_of(float(classical.statistic), _pair(classical.df)),
        contrasts(kept),
        factors(cells) if cells is not None else (),
        quantiles(everyone),
    )


def enough(values: Values) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Arms that have participants enough to be tested, and why the others have not."""
    kept = {arm: row for arm, row in values.items() if len(row) >= LEAST_FOR_TESTS}
    left_out = {
        arm: f"{len(row)} of at least {LEAST_FOR_TESTS} participants" for arm, row in values.items() if arm not in kept
    }
    return kept, left_out


def _refused(kept: Mapping[str, np.ndarray], left_out: Mapping[str, str]) -> str:
    """Why nothing can be tested, if so."""
    if len(kept) < 2:
        named = {"no explanation" if arm == NONE else arm: why.split()[0] for arm, why in left_out.items()}
        few = f"; too few: {', '.join(f'{arm} {count}' for arm, count in named.items())}" if named else ""
        return f"a comparison needs two arms with at least {LEAST_FOR_TESTS} participants each{few}"
    everyone = np.concatenate(list(kept.values()))
    if still(everyone):
        return f"everybody has the same score, {everyone[0]:g}"
    return "nobody differs from anybody else in the same arm" if all(map(still, kept.values())) else ""


def still(values: Float[np.ndarray, " people"]) -> bool:
    """Whether all are equal, but for the last digits that the order of adding up leaves."""
    return bool(np.ptp(values) <= 1e-9 * (1 + np.abs(values).max()))


@contextmanager
def unwarned() -> Iterator[None]:
    """For statistics that are undefined on some numbers: they come out as NaN, which is said, and without a warning."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _welch(kept: Mapping[str, np.ndarray]) -> Statistic:
    same = [arm for arm, row in kept.items() if still(row)]
    if same:
        return replace(WELCH, why=f"everybody in {same[0]} has the same score, so there is no spread to weigh that arm by")
    found = anova_oneway(list(kept.values()), use_var="unequal", welch_correction=True)
    return replace(WELCH, value=float(found.statistic), df=_pair(found.df), p=float(found.pvalue))


def _pair(df: Sequence[float]) -> tuple[float, float]:
    return float(df[0]), float(df[1])


def _brown_forsythe(groups: Sequence[np.ndarray]) -> Statistic:
    with unwarned():
        found = stats.levene(*groups, center="median")
    df = (float(len(groups) - 1), float(sum(map(len, groups)) - len(groups)))
    name = "Equal spread in all arms (Brown–Forsythe)"
    if not math.isfinite(found.pvalue):
        return Statistic(name, "F", why="undefined on these numbers: all are equally far from their arm's median")
    return Statistic(name, "F", float(found.statistic), df, float(found.pvalue))


def shapiro(residuals: Float[np.ndarray, " people"]) -> Statistic:
    """Whether residuals look normal."""
    name = "Normal residuals (Shapiro–Wilk)"
    if len(residuals) > MOST_FOR_SHAPIRO:
        return Statistic(name, "W", why=f"not meant for more than {MOST_FOR_SHAPIRO} participants")
    found = stats.shapiro(residuals)
    return Statistic(name, "W", float(found.statistic), (), float(found.pvalue))


def quantiles(residuals: Float[np.ndarray, " people"]) -> tuple[tuple[float, float], ...]:
    """Points of a quantile plot, both sides in standard deviations of the residuals."""
    theory, found = stats.probplot(residuals, dist="norm", fit=False)
    spread = float(residuals.std(ddof=1)) or 1.0
    return tuple((float(one), float(other) / spread) for one, other in zip(theory, found, strict=True))


def size_of(value: float, df: tuple[float, float], *, partial: bool = False) -> Size:
    """Eta squared with its interval from the noncentral F distribution, and omega squared."""
    eta, n = value * df[0] / (value * df[0] + df[1]), round(df[0] + df[1] + 1)
    omega = math.nan if partial else max(0.0, df[0] * (value - 1) / (df[0] * (value - 1) + n))
    with np.errstate(divide="ignore"):  # an end at exactly zero is turned over on the way
        ends = confint_effectsize_oneway(value, df, alpha=0.1, nobs=n).eta2
    return Size(eta, max(0.0, float(ends[0])), max(0.0, float(ends[1])), omega, partial)


def contrasts(values: Values) -> tuple[Contrast, ...]:
    """Every pair of arms by Welch's t, corrected by Holm over the pairs."""
    return corrected([_contrast(one, other, values) for one, other in pairs(list(values))])


def pairs(arms: Sequence[str]) -> list[tuple[str, str]]:
    """Every two arms; no explanation always stands second, so that a difference is a method's gain."""
    order = [arm for arm in arms if arm != NONE] + [arm for arm in arms if arm == NONE]
    return list(combinations(order, 2))


def corrected(found: Sequence[Contrast]) -> tuple[Contrast, ...]:
    """The contrasts with Holm's correction over all of them that have a p."""
    after = holm(np.array([one.p for one in found], dtype=np.float64))
    return tuple(replace(one, holm=float(p)) for one, p in zip(found, after, strict=True))


def _contrast(first: str, second: str, values: Values) -> Contrast:
    one, other = values[first], values[second]
    n, nothing = (len(one), len(other)), math.nan
    difference = float(one.mean() - other.mean())
    if still(one) and still(other):
        why = "nobody differs from anybody else in either arm"
        return Contrast(first, second, n, difference, *(nothing,) * 9, why=why)
    both = CompareMeans.from_data(one, other)
    low, high = both.tconfint_diff(alpha=0.05, usevar="unequal")
    t, p, df = both.ttest_ind(usevar="unequal")
    g, variance = effectsize_smd(one.mean(), one.std(ddof=1), n[0], other.mean(), other.std(ddof=1), n[1])
    reach = float(stats.norm.isf(0.025)) * math.sqrt(float(variance))
    return Contrast(
        first, second, n, difference, float(low), float(high), float(t), float(df), float(p), nothing,
        float(g), float(g) - reach, float(g) + reach,
    )  # fmt: skip


def factors(cells: pd.DataFrame) -> tuple[Statistic, ...]:
    """Arm × presentation over the arms with maps: three tests that allow for unequal spreads (HC3)."""
    table = cells[cells["arm"] != NONE]
    counts = table.groupby(["arm", "presentation"]).size().unstack(fill_value=0)
    if min(counts.shape) < 2:
        return ()
    if counts.to_numpy().min() < LEAST_FOR_TESTS:
        why = f"some arm in some presentation has fewer than {LEAST_FOR_TESTS} participants"
        return (Statistic("Arm × presentation", "F", why=why),)
    if still(table["score"].to_numpy()):
        return (Statistic("Arm × presentation", "F", why="everybody has the same score"),)
    fitted = formulas.ols("score ~ C(arm, Sum) * C(presentation, Sum)", table).fit()
    found = anova_lm(fitted, typ=3, robust="hc3")
    rest = float(found.loc["Residual", "df"])
    names = {
        "C(arm, Sum)": "Arm",
        "C(presentation, Sum)": "Presentation",
        "C(arm, Sum):C(presentation, Sum)": "Arm × presentation",
    }
    return tuple(
        Statistic(
            name, "F", float(found.loc[row, "F"]), (float(found.loc[row, "df"]), rest), float(found.loc[row, "PR(>F)"])
        )
        for row, name in names.items()
    )
