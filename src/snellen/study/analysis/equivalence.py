"""Are two arms the same, for all that matters? Two one-sided tests against the margin that the protocol states.

That no difference was found does not show that there is none: with few participants nothing is ever found.
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

from snellen.study.analysis.comparisons import Contrast, Values, still
from snellen.verdicts.statistics import holm

Found = Literal["equal", "different", "different but close", "neither", "not tested"]


@dataclass(frozen=True)
class Equivalence:
    """Two arms on one scale: whether their difference is shown to be smaller than the margin."""

    first: str
    second: str
    margin: float
    difference: float
    low: float
    high: float
    """The interval at 1 − 2·alpha: it lies within the margin exactly where the uncorrected test says equal."""
    p: float
    """The larger of the two one-sided p-values."""
    holm: float
    found: Found


def equivalences(
    values: Values | pd.DataFrame, contrasts: Sequence[Contrast], margin: float, *, alpha: float = 0.05
) -> tuple[Equivalence, ...]:
    """Every contrast again, against the margin; `values` by arm, or a table of participants by arm within subjects."""
    paired = isinstance(values, pd.DataFrame)
    found = []
    for one in contrasts:
        first, second = (np.asarray(values[arm], dtype=np.float64) for arm in (one.first, one.second))
        p, low, high = _tost(first, second, margin, alpha, paired) if not one.why else (math.nan,) * 3
        found.append(Equivalence(one.first, one.second, margin, one.difference, low, high, p, math.nan, "not tested"))
    after = holm(np.array([one.p for one in found], dtype=np.float64))
    return tuple(
        replace(one, holm=float(p), found=_found(float(p), False, alpha)) for one, p in zip(found, after, strict=True)
    )


def with_differences(
    found: Sequence[Equivalence], different: Sequence[bool], *, alpha: float = 0.05
) -> tuple[Equivalence, ...]:
    """The same pairs, once it is known which of them are different."""
    return tuple(replace(one, found=_found(one.holm, other, alpha)) for one, other in zip(found, different, strict=True))


def _tost(
    one: Float[np.ndarray, " first"], other: Float[np.ndarray, " second"], margin: float, alpha: float, paired: bool
) -> tuple[float, float, float]:
    if paired:
        if still(one - other):
            return (math.nan,) * 3
        p = ttost_paired(one, other, -margin, margin)[0]
        low, high = DescrStatsW(one - other).tconfint_mean(alpha=2 * alpha)
    else:
        p = ttost_ind(one, other, -margin, margin, usevar="unequal")[0]
        low, high = CompareMeans.from_data(one, other).tconfint_diff(alpha=2 * alpha, usevar="unequal")
    return float(p), float(low), float(high)


def _found(same: float, different: bool, alpha: float) -> Found:
    """What the corrected p of equality and the test of difference say together."""
    if not math.isfinite(same):
        return "not tested"
    if same < alpha:
        return "different but close" if different else "equal"
    return "different" if different else "neither"
