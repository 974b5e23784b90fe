"""How the participants of an arm are spread: their number, mean, spread, median and the mean's interval."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from statsmodels.stats.weightstats import DescrStatsW

LEAST_FOR_MEANS = 2
"""Participants below which an arm has no spread, and so no interval."""


@dataclass(frozen=True)
class Distribution:
    """The participants of one arm; what cannot be said of so few is NaN."""

    arm: str
    n: int
    mean: float
    deviation: float
    median: float
    quartiles: tuple[float, float]
    low: float
    high: float
    """The ends of Student's interval of the mean at 95 %."""
    values: tuple[float, ...]


def distribution(arm: str, values: Float[np.ndarray, " people"]) -> Distribution:
    """The numbers of one arm.

    >>> found = distribution("a", np.array([1.0, 2.0, 3.0]))
    >>> found.n, found.mean, found.deviation, found.median, round(found.low, 3), round(found.high, 3)
    (3, 2.0, 1.0, 2.0, -0.484, 4.484)
    """
    nothing = math.nan
    if not len(values):
        return Distribution(arm, 0, nothing, nothing, nothing, (nothing, nothing), nothing, nothing, ())
    ends = np.percentile(values, [25, 75])
    mean, low, high = mean_interval(values)
    deviation = float(values.std(ddof=1)) if len(values) >= LEAST_FOR_MEANS else nothing
    every = tuple(sorted(map(float, values)))
    return Distribution(
        arm, len(values), mean, deviation, float(np.median(values)), (float(ends[0]), float(ends[1])), low, high, every
    )


def distributions(values: Mapping[str, Float[np.ndarray, " _"]]) -> tuple[Distribution, ...]:
    """Every arm."""
    return tuple(distribution(arm, numbers) for arm, numbers in values.items())


def mean_interval(values: Float[np.ndarray, " people"], level: float = 0.95) -> tuple[float, float, float]:
    """A mean with Student's interval; the interval is NaN for fewer than two, and has no width where all are equal."""
    if not len(values):
        return math.nan, math.nan, math.nan
    mean = float(values.mean())
    if len(values) < LEAST_FOR_MEANS:
        return mean, math.nan, math.nan
    if np.ptp(values) == 0:
        return mean, mean, mean
    low, high = DescrStatsW(values).tconfint_mean(alpha=1 - level)
    return mean, float(low), float(high)
