"""Whether two arms are equal within a margin: two one-sided tests against the margin that the protocol states.

A difference that was not detected is no proof of equality: with few participants nothing is detected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd
from jaxtyping import Float
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW, ttost_ind, ttost_paired

from snellen.study.analysis.comparisons import ArmDifference, ArmScores, is_constant
from snellen.verdicts.statistics import holm

EquivalenceConclusion = Literal["equal", "different", "different but close", "neither", "not tested"]


@dataclass(frozen=True, kw_only=True)
class Equivalence:
    """Two arms on one scale: whether their difference is shown to be smaller than the margin."""

    first: str
    second: str
    margin: float
    """In points of the scale, like the difference and its interval."""
    difference: float
    """Of the means, first minus second."""
    low: float
    high: float
    """The interval at 1 − 2·alpha: it lies within the margin exactly where the uncorrected test says equal."""
    p: float
    """The larger of the two one-sided p-values."""
    p_holm: float = math.nan
    """After Holm's correction over the pairs of this scale."""
    conclusion: EquivalenceConclusion = "not tested"
    """After the correction."""


def equivalences(
    scores: ArmScores | pd.DataFrame, contrasts: Sequence[ArmDifference], margin: float, *, alpha: float = 0.05
) -> tuple[Equivalence, ...]:
    """Tests every contrast against the margin.

    Args:
        scores: By arm, a score per participant; within subjects a table with a column per arm.
        contrasts: The pairs of arms.
        margin: Differences smaller than this count as equal, in points of the scale.
        alpha: The level of the test.
    """
    paired = isinstance(scores, pd.DataFrame)
    pairs = []
    for contrast in contrasts:
        first, second = (np.asarray(scores[arm], dtype=np.float64) for arm in (contrast.first, contrast.second))
        p, low, high = (math.nan,) * 3 if contrast.why else _two_one_sided_tests(first, second, margin, alpha, paired=paired)
        pairs.append(
            Equivalence(
                first=contrast.first, second=contrast.second, margin=margin, difference=contrast.difference,
                low=low, high=high, p=p,
            )
        )  # fmt: skip
    corrected = holm(np.array([pair.p for pair in pairs], dtype=np.float64))
    return tuple(
        replace(pair, p_holm=float(p), conclusion=_conclusion(float(p), different=False, alpha=alpha))
        for pair, p in zip(pairs, corrected, strict=True)
    )


def with_differences(
    pairs: Sequence[Equivalence], different: Sequence[bool], *, alpha: float = 0.05
) -> tuple[Equivalence, ...]:
    """The same pairs, with the conclusion that also uses the test of difference.

    Args:
        pairs: The tests of equality.
        different: Per pair, whether its arms are called different.
        alpha: The level of the test of equality.
    """
    return tuple(
        replace(pair, conclusion=_conclusion(pair.p_holm, different=differs, alpha=alpha))
        for pair, differs in zip(pairs, different, strict=True)
    )


def _two_one_sided_tests(
    first: Float[np.ndarray, " first"], second: Float[np.ndarray, " second"], margin: float, alpha: float, *, paired: bool
) -> tuple[float, float, float]:
    """P-value, and the ends of the interval at 1 − 2·alpha."""
    if paired:
        if is_constant(first - second):
            return (math.nan,) * 3
        p = ttost_paired(first, second, -margin, margin)[0]
        low, high = DescrStatsW(first - second).tconfint_mean(alpha=2 * alpha)
    else:
        p = ttost_ind(first, second, -margin, margin, usevar="unequal")[0]
        low, high = CompareMeans.from_data(first, second).tconfint_diff(alpha=2 * alpha, usevar="unequal")
    return float(p), float(low), float(high)


def _conclusion(p_equal: float, *, different: bool, alpha: float) -> EquivalenceConclusion:
    if not math.isfinite(p_equal):
        return "not tested"
    if p_equal < alpha:
        return "different but close" if different else "equal"
    return "different" if different else "neither"
