"""The distribution of participants' scores in each arm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from statsmodels.stats.weightstats import DescrStatsW

MINIMUM_FOR_INTERVALS = 2
"""An arm with fewer participants has no standard deviation and no interval."""


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """The participants of one arm; what cannot be computed for so few is NaN."""

    arm: str
    n: int
    """How many participants."""
    mean: float = math.nan
    deviation: float = math.nan
    """Standard deviation."""
    median: float = math.nan
    quartiles: tuple[float, float] = (math.nan, math.nan)
    low: float = math.nan
    high: float = math.nan
    """The ends of Student's 95 % interval of the mean."""
    values: tuple[float, ...] = ()
    """The scores of the participants, ascending."""


def distribution(arm: str, scores: Float[np.ndarray, " participants"]) -> Distribution:
    """The distribution of one arm.

    >>> arm = distribution("a", np.array([1.0, 2.0, 3.0]))
    >>> arm.n, arm.mean, arm.deviation, arm.median, round(arm.low, 3), round(arm.high, 3)
    (3, 2.0, 1.0, 2.0, -0.484, 4.484)
    """
    if not len(scores):
        return Distribution(arm=arm, n=0)
    quartiles = np.percentile(scores, [25, 75])
    mean, low, high = mean_interval(scores)
    return Distribution(
        arm=arm,
        n=len(scores),
        mean=mean,
        deviation=float(scores.std(ddof=1)) if len(scores) >= MINIMUM_FOR_INTERVALS else math.nan,
        median=float(np.median(scores)),
        quartiles=(float(quartiles[0]), float(quartiles[1])),
        low=low,
        high=high,
        values=tuple(sorted(map(float, scores))),
    )


def distributions(scores: Mapping[str, Float[np.ndarray, " _"]]) -> tuple[Distribution, ...]:
    """The distribution of every arm."""
    return tuple(distribution(arm, values) for arm, values in scores.items())


def mean_interval(values: Float[np.ndarray, " participants"], level: float = 0.95) -> tuple[float, float, float]:
    """Mean and Student's interval of it; the interval is NaN for fewer than two, and has no width if all are equal."""
    if not len(values):
        return math.nan, math.nan, math.nan
    mean = float(values.mean())
    if len(values) < MINIMUM_FOR_INTERVALS:
        return mean, math.nan, math.nan
    if np.ptp(values) == 0:
        return mean, mean, mean
    low, high = DescrStatsW(values).tconfint_mean(alpha=1 - level)
    return mean, float(low), float(high)
