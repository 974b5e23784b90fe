"""Within subjects: everybody met every arm, so that each participant is compared with himself or herself."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pingouin
from scipy import stats
from statsmodels.stats.anova import AnovaRM
from statsmodels.stats.weightstats import DescrStatsW

from snellen.study.analysis.comparisons import (
    LEAST_FOR_TESTS,
    Comparison,
    Contrast,
    Statistic,
    corrected,
    pairs,
    quantiles,
    shapiro,
    size_of,
    still,
)
from snellen.study.protocol import NONE

GREENHOUSE = Statistic("Repeated-measures ANOVA, corrected by Greenhouse and Geisser", "F")


def compare_within(wide: pd.DataFrame, people: int, cells: pd.DataFrame | None = None) -> Comparison:
    """A study within subjects: `wide` has a row per participant with a number in every arm, of so many `people`."""
    arms = tuple(map(str, wide.columns))
    dropped = people - len(wide)
    if reason := _refused(wide):
        return Comparison(arms, {}, replace(GREENHOUSE, why=reason), dropped=dropped)
    values = wide.to_numpy(dtype=np.float64)
    long = wide.melt(ignore_index=False, var_name="arm", value_name="score").reset_index(names="participant")
    found = AnovaRM(long, "score", "participant", within=["arm"]).fit().anova_table.iloc[0]
    value, df = float(found["F Value"]), (float(found["Num DF"]), float(found["Den DF"]))
    epsilon = float(pingouin.epsilon(wide, correction="gg")) if len(arms) > 2 else 1.0
    narrowed = (epsilon * df[0], epsilon * df[1])
    friedman = stats.friedmanchisquare(*values.T) if len(arms) > 2 else None
    residuals = (values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()).ravel()
    beside = [Statistic("The same without correction", "F", value, df, float(found["Pr > F"]))]
    if friedman is not None:
        by_rank = Statistic("Friedman", "χ²", float(friedman.statistic), (float(len(arms) - 1),), float(friedman.pvalue))
    else:
        signed = stats.wilcoxon(values[:, 0], values[:, 1])
        by_rank = Statistic("Wilcoxon's signed ranks", "W", float(signed.statistic), (), float(signed.pvalue))
    return Comparison(
        arms,
        {},
        replace(GREENHOUSE, value=value, df=narrowed, p=float(stats.f.sf(value, *narrowed))),
        (*beside, by_rank),
        (_sphericity(wide, epsilon), shapiro(residuals)),
        size_of(value, df, partial=True),
        contrasts_within(wide),
        _factors(cells) if cells is not None else (),
        quantiles(residuals),
        dropped,
    )


def _refused(wide: pd.DataFrame) -> str:
    if wide.shape[1] < 2 or len(wide) < LEAST_FOR_TESTS:
        return (
            f"a comparison needs two arms and at least {LEAST_FOR_TESTS} participants with a number in each; "
            f"there are {len(wide)} with {wide.shape[1]}"
        )
    values = wide.to_numpy(dtype=np.float64)
    if still((values - values.mean(axis=1, keepdims=True)).ravel()):
        return "nobody's scores differ between arms"
    spreads = values[:, 1:] - values[:, :1]
    return "all participants differ between arms by the same" if all(map(still, spreads.T)) else ""


def _sphericity(wide: pd.DataFrame, epsilon: float) -> Statistic:
    name = f"Sphericity (Mauchly; epsilon of Greenhouse and Geisser {epsilon:.2f})"
    if wide.shape[1] < 3:
        return Statistic("Sphericity", "W", why="two arms have one difference, which cannot be unequal")
    found = pingouin.sphericity(wide)
    if found.pval is None or not math.isfinite(found.pval):
        return Statistic(name, "W", why="undefined on these numbers")
    return Statistic(name, "W", float(found.W), (float(found.dof),), float(found.pval))


def contrasts_within(wide: pd.DataFrame) -> tuple[Contrast, ...]:
    """Every pair of arms by the paired t, corrected by Holm over the pairs; Hedges' g by the mean spread of both arms."""
    found = []
    for first, second in pairs([str(arm) for arm in wide.columns]):
        one, other = (wide[arm].to_numpy(dtype=np.float64) for arm in (first, second))
        gaps, n, nothing = one - other, len(wide), math.nan
        if n < LEAST_FOR_TESTS or still(gaps):
            why = "everybody differs by the same" if n >= LEAST_FOR_TESTS else "too few participants"
            mean = float(gaps.mean()) if n else nothing
            found.append(Contrast(first, second, (n, n), mean, *(nothing,) * 9, why=why))
            continue
        paired = stats.ttest_rel(one, other)
        low, high = DescrStatsW(gaps).tconfint_mean(alpha=0.05)
        g = float(pingouin.compute_effsize(one, other, paired=True, eftype="hedges"))
        ends = pingouin.compute_esci(g, n, n, paired=True, eftype="hedges", confidence=0.95, decimals=6)
        found.append(
            Contrast(
                first, second, (n, n), float(gaps.mean()), float(low), float(high), float(paired.statistic),
                float(paired.df), float(paired.pvalue), nothing, g, float(ends[0]), float(ends[1]),
            )
        )  # fmt: skip
    return corrected(found)


def _factors(cells: pd.DataFrame) -> tuple[Statistic, ...]:
    """Arm × presentation over the arms with maps, for participants who met all of them."""
    name = "Arm × presentation"
    table = cells[cells["arm"] != NONE]
    kinds = table.groupby(["arm", "presentation"]).ngroups
    if table["presentation"].nunique() < 2 or table["arm"].nunique() < 2:
        return ()
    whole = table.groupby("participant")["score"].transform("size") == kinds
    table = table[whole]
    people = table["participant"].nunique()
    if people < LEAST_FOR_TESTS or still(table["score"].to_numpy()):
        return (
            Statistic(name, "F", why=f"{people} participants met every arm in every presentation, or all scores are equal"),
        )
    found = AnovaRM(table, "score", "participant", within=["arm", "presentation"]).fit().anova_table
    names = {"arm": "Arm", "presentation": "Presentation", "arm:presentation": name}
    return tuple(
        Statistic(title, "F", float(row["F Value"]), (float(row["Num DF"]), float(row["Den DF"])), float(row["Pr > F"]))
        for title, row in ((names[str(key)], one) for key, one in found.iterrows())
    )
