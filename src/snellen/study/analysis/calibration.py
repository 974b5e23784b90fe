"""Do people know when they are right? Certainty and stakes against the share of right answers, arm by arm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from snellen.study.analysis.comparisons import still
from snellen.study.analysis.distributions import mean_interval

CERTAINTIES = ((50, 59), (60, 69), (70, 79), (80, 89), (90, 100))
STAKES = ((0, 0), (1, 3), (4, 6), (7, 9), (10, 10))


@dataclass(frozen=True)
class Measure:
    """A mean over participants with its 95 % interval; some participants may have no number of their own."""

    mean: float
    low: float
    high: float
    n: int
    undefined: int = 0


@dataclass(frozen=True)
class Bin:
    """Answers given with about the same certainty or stake."""

    low: int
    high: int
    n: int
    stated: float
    """The mean certainty, or stake, of these answers."""
    right: float
    right_low: float
    right_high: float
    """Wilson's interval at 95 %, as if the answers were independent of each other."""


@dataclass(frozen=True)
class Calibration:
    """One arm of error detection: certainty as a probability of being right."""

    arm: str
    answers: int
    bins: tuple[Bin, ...]
    right: Measure
    certainty: Measure
    brier: Measure
    """The mean square of certainty less rightness: 0 is perfect, 0.25 what guessing at 50 % gives."""
    over: Measure
    """Certainty less the share of right answers, both from 0 to 1: above 0 is overconfident."""


@dataclass(frozen=True)
class Bets:
    """One arm of betting: what was staked, and whether more on right answers."""

    arm: str
    answers: int
    bins: tuple[Bin, ...]
    right: Measure
    stake: Measure
    points: Measure
    insight: Measure
    """The rank correlation of stake and rightness within a participant; undefined where either never varies."""


def calibrations(answers: pd.DataFrame, arms: Sequence[str]) -> tuple[Calibration, ...]:
    """Error detection, arm by arm."""
    found = []
    for arm, given in _by_arm(answers, "error-detection", arms):
        stated, right = given["beside"] / 100, given["right"]
        rows = given.assign(stated=stated, brier=(stated - right) ** 2, over=stated - right)
        means = rows.groupby("participant")[["right", "stated", "brier", "over"]].mean()
        found.append(
            Calibration(
                arm,
                len(rows),
                _bins(rows, CERTAINTIES),
                _measure(means["right"]),
                _measure(means["stated"]),
                _measure(means["brier"]),
                _measure(means["over"]),
            )
        )
    return tuple(found)


def bets(answers: pd.DataFrame, arms: Sequence[str]) -> tuple[Bets, ...]:
    """Betting, arm by arm."""
    found = []
    for arm, rows in _by_arm(answers, "betting", arms):
        means = rows.groupby("participant")[["right", "beside", "score"]].mean()
        insight = pd.Series({str(who): _insight(own) for who, own in rows.groupby("participant")}, dtype=np.float64)
        found.append(
            Bets(
                arm,
                len(rows),
                _bins(rows, STAKES),
                _measure(means["right"]),
                _measure(means["beside"]),
                _measure(means["score"]),
                _measure(insight),
            )
        )
    return tuple(found)


def _by_arm(answers: pd.DataFrame, task: str, arms: Sequence[str]) -> list[tuple[str, pd.DataFrame]]:
    rows = answers[(answers["task"] == task) & ~answers["practice"].astype(bool)]
    columns = {name: pd.to_numeric(rows[name]).astype(np.float64) for name in ("value", "beside", "truth", "score")}
    rows = rows.assign(**columns).dropna(subset=list(columns))
    rows = rows.assign(right=(rows["value"] == rows["truth"]).astype(np.float64))
    return [(arm, rows[rows["arm"] == arm]) for arm in arms if (rows["arm"] == arm).any()]


def _bins(rows: pd.DataFrame, edges: Sequence[tuple[int, int]]) -> tuple[Bin, ...]:
    found = []
    for low, high in edges:
        own = rows[(rows["beside"] >= low) & (rows["beside"] <= high)]
        if not len(own):
            continue
        ends = proportion_confint(int(own["right"].sum()), len(own), method="wilson")
        share = float(own["right"].mean())
        found.append(Bin(low, high, len(own), float(own["beside"].mean()), share, float(ends[0]), float(ends[1])))
    return tuple(found)


def _measure(values: pd.Series) -> Measure:
    known = values.dropna().to_numpy(dtype=np.float64)
    return Measure(*mean_interval(known), len(known), len(values) - len(known))


def _insight(rows: pd.DataFrame) -> float:
    stake, right = rows["beside"].to_numpy(), rows["right"].to_numpy()
    if len(rows) < 3 or still(stake) or still(right):
        return math.nan
    return float(stats.spearmanr(stake, right).statistic)
