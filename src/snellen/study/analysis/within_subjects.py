"""Whether arms differ in a study within subjects, where every participant saw every arm."""

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
    MINIMUM_FOR_TESTS,
    ArmComparison,
    ArmDifference,
    StatisticalTest,
    arm_pairs,
    effect_size,
    holm_corrected,
    is_constant,
    quantiles,
    shapiro,
)
from snellen.study.protocol import NONE

GREENHOUSE = StatisticalTest(name="Repeated-measures ANOVA, corrected by Greenhouse and Geisser", symbol="F")


def compare_within(scores: pd.DataFrame, participants: int, cells: pd.DataFrame | None = None) -> ArmComparison:
    """Compares the arms of a study within subjects.

    Args:
        scores: A row per participant with a score in every arm, a column per arm.
        participants: How many took part, with or without a score in every arm.
        cells: Columns participant, arm, presentation and score, where presentation varies.
    """
    arms = tuple(map(str, scores.columns))
    dropped = participants - len(scores)
    if reason := _reason_not_to_test(scores):
        return ArmComparison(arms=arms, left_out={}, decision=replace(GREENHOUSE, why=reason), dropped=dropped)
    values = scores.to_numpy(dtype=np.float64)
    long = scores.melt(ignore_index=False, var_name="arm", value_name="score").reset_index(names="participant")
    anova = AnovaRM(long, "score", "participant", within=["arm"]).fit().anova_table.iloc[0]
    f, df = float(anova["F Value"]), (float(anova["Num DF"]), float(anova["Den DF"]))
    epsilon = float(pingouin.epsilon(scores, correction="gg")) if len(arms) > 2 else 1.0
    corrected_df = (epsilon * df[0], epsilon * df[1])
    uncorrected = StatisticalTest(name="The same without correction", symbol="F", value=f, df=df, p=float(anova["Pr > F"]))
    residuals = (values - values.mean(axis=0) - values.mean(axis=1, keepdims=True) + values.mean()).ravel()
    return ArmComparison(
        arms=arms,
        left_out={},
        decision=replace(GREENHOUSE, value=f, df=corrected_df, p=float(stats.f.sf(f, *corrected_df))),
        alternatives=(uncorrected, _test_by_rank(values)),
        checks=(_sphericity(scores, epsilon), shapiro(residuals)),
        effect_size=effect_size(f, df, partial=True),
        contrasts=contrasts_within(scores),
        factors=_factors(cells) if cells is not None else (),
        quantiles=quantiles(residuals),
        dropped=dropped,
    )


def _reason_not_to_test(scores: pd.DataFrame) -> str:
    if scores.shape[1] < 2 or len(scores) < MINIMUM_FOR_TESTS:
        return (
            f"a comparison needs two arms and at least {MINIMUM_FOR_TESTS} participants with a score in each; "
            f"there are {len(scores)} with {scores.shape[1]}"
        )
    values = scores.to_numpy(dtype=np.float64)
    if is_constant((values - values.mean(axis=1, keepdims=True)).ravel()):
        return "nobody's scores differ between arms"
    differences = values[:, 1:] - values[:, :1]
    return "all participants differ between arms by the same amount" if all(map(is_constant, differences.T)) else ""


def _test_by_rank(values: np.ndarray) -> StatisticalTest:
    arms = values.shape[1]
    if arms > 2:
        friedman = stats.friedmanchisquare(*values.T)
        return StatisticalTest(
            name="Friedman", symbol="χ²", value=float(friedman.statistic), df=(float(arms - 1),), p=float(friedman.pvalue)
        )
    wilcoxon = stats.wilcoxon(values[:, 0], values[:, 1])
    return StatisticalTest(
        name="Wilcoxon's signed ranks", symbol="W", value=float(wilcoxon.statistic), p=float(wilcoxon.pvalue)
    )


def _sphericity(scores: pd.DataFrame, epsilon: float) -> StatisticalTest:
    if scores.shape[1] < 3:
        why = "two arms have one difference, which cannot be unequal"
        return StatisticalTest(name="Sphericity", symbol="W", why=why)
    test = StatisticalTest(name=f"Sphericity (Mauchly; epsilon of Greenhouse and Geisser {epsilon:.2f})", symbol="W")
    mauchly = pingouin.sphericity(scores)
    if mauchly.pval is None or not math.isfinite(mauchly.pval):
        return replace(test, why="undefined on these numbers")
    return replace(test, value=float(mauchly.W), df=(float(mauchly.dof),), p=float(mauchly.pval))


def contrasts_within(scores: pd.DataFrame) -> tuple[ArmDifference, ...]:
    """Every pair of arms by the paired t-test, with Holm's correction over the pairs.

    Hedges' g is in units of the mean standard deviation of both arms.
    """
    n, pairs = len(scores), []
    for first, second in arm_pairs([str(arm) for arm in scores.columns]):
        a, b = (scores[arm].to_numpy(dtype=np.float64) for arm in (first, second))
        gaps = a - b
        pair = ArmDifference(first=first, second=second, n=(n, n), difference=float(gaps.mean()) if n else math.nan)
        if n < MINIMUM_FOR_TESTS or is_constant(gaps):
            why = "all participants differ by the same amount" if n >= MINIMUM_FOR_TESTS else "too few participants"
            pairs.append(replace(pair, why=why))
            continue
        paired = stats.ttest_rel(a, b)
        low, high = DescrStatsW(gaps).tconfint_mean(alpha=0.05)
        g = float(pingouin.compute_effsize(a, b, paired=True, eftype="hedges"))
        g_low, g_high = pingouin.compute_esci(g, n, n, paired=True, eftype="hedges", confidence=0.95, decimals=6)
        pairs.append(
            replace(
                pair, low=float(low), high=float(high), t=float(paired.statistic), df=float(paired.df),
                p=float(paired.pvalue), g=g, g_low=float(g_low), g_high=float(g_high),
            )
        )  # fmt: skip
    return holm_corrected(pairs)


def _factors(cells: pd.DataFrame) -> tuple[StatisticalTest, ...]:
    """Arm × presentation over the arms with maps, for participants who saw all of them."""
    interaction = StatisticalTest(name="Arm × presentation", symbol="F")
    table = cells[cells["arm"] != NONE]
    conditions = table.groupby(["arm", "presentation"]).ngroups
    if table["presentation"].nunique() < 2 or table["arm"].nunique() < 2:
        return ()
    table = table[table.groupby("participant")["score"].transform("size") == conditions]
    participants = table["participant"].nunique()
    if participants < MINIMUM_FOR_TESTS or is_constant(table["score"].to_numpy()):
        why = f"{participants} participants saw every arm in every presentation, or all scores are equal"
        return (replace(interaction, why=why),)
    anova = AnovaRM(table, "score", "participant", within=["arm", "presentation"]).fit().anova_table
    names = {"arm": "Arm", "presentation": "Presentation", "arm:presentation": interaction.name}
    return tuple(
        StatisticalTest(
            name=names[str(factor)],
            symbol="F",
            value=float(row["F Value"]),
            df=(float(row["Num DF"]), float(row["Den DF"])),
            p=float(row["Pr > F"]),
        )
        for factor, row in anova.iterrows()
    )
