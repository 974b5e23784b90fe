"""Whether participants know when they are right: certainty and stakes against the share of right answers, by arm."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from snellen.study.analysis.comparisons import is_constant
from snellen.study.analysis.distributions import mean_interval
from snellen.study.tasks import Assurance, find_task


@dataclass(frozen=True, kw_only=True)
class ParticipantMean:
    """A mean over participants with its 95 % interval."""

    mean: float
    low: float
    high: float
    """Ends of the interval."""
    n: int
    """Participants with a value."""
    undefined: int = 0
    """Participants without a value."""


@dataclass(frozen=True, kw_only=True)
class CalibrationBin:
    """Answers given with about the same certainty or stake."""

    low: int
    high: int
    """The least and the greatest certainty (per cent) or stake (points) of the bin."""
    n: int
    """How many answers."""
    stated: float
    """The mean certainty, or stake, of these answers."""
    right: float
    right_low: float
    right_high: float
    """The share of right answers with Wilson's 95 % interval, as if the answers were independent of each other."""


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """One arm of a task with certainties, each taken as a probability of being right."""

    task: str
    arm: str
    answers: int
    bins: tuple[CalibrationBin, ...]
    """From low to high certainty."""
    right: ParticipantMean
    """The share of right answers."""
    certainty: ParticipantMean
    """From 0 to 1."""
    brier: ParticipantMean
    """The mean square of certainty less rightness: 0 is perfect, 0.25 is guessing at 50 %."""
    overconfidence: ParticipantMean
    """Certainty less the share of right answers, both from 0 to 1."""


@dataclass(frozen=True, kw_only=True)
class BettingResults:
    """One arm of a task with stakes."""

    task: str
    arm: str
    answers: int
    bins: tuple[CalibrationBin, ...]
    """From low to high stakes."""
    right: ParticipantMean
    """The share of right answers."""
    stake: ParticipantMean
    """In points."""
    points: ParticipantMean
    """Won or lost per bet."""
    insight: ParticipantMean
    """The rank correlation of stake and rightness within a participant; undefined where either never varies."""


def calibrations(answers: pd.DataFrame, tasks: Sequence[str], arms: Sequence[str]) -> tuple[Calibration, ...]:
    """The calibration of every task with certainties, by arm; arms without answers are left out.

    Args:
        answers: A row per answer; practice is not counted.
        tasks: The names of the tasks of the study; those without certainties are passed over.
        arms: In the order of the protocol.
    """
    results = []
    for task, assurance, arm, rows in _answers_by_arm(answers, "certainty", tasks, arms):
        stated, right = rows["beside"] / 100, rows["right"]
        rated = rows.assign(stated=stated, brier=(stated - right) ** 2, over=stated - right)
        means = rated.groupby("participant")[["right", "stated", "brier", "over"]].mean()
        results.append(
            Calibration(
                task=task,
                arm=arm,
                answers=len(rows),
                bins=_bins(rows, assurance.bins),
                right=_participant_mean(means["right"]),
                certainty=_participant_mean(means["stated"]),
                brier=_participant_mean(means["brier"]),
                overconfidence=_participant_mean(means["over"]),
            )
        )
    return tuple(results)


def betting_results(answers: pd.DataFrame, tasks: Sequence[str], arms: Sequence[str]) -> tuple[BettingResults, ...]:
    """The bets of every task with stakes, by arm; arms without answers are left out. Arguments as for `calibrations`."""
    results = []
    for task, assurance, arm, rows in _answers_by_arm(answers, "stake", tasks, arms):
        participants = rows.groupby("participant")
        means = participants[["right", "beside", "score"]].mean()
        insight = pd.Series({str(name): _insight(bets) for name, bets in participants}, dtype=np.float64)
        results.append(
            BettingResults(
                task=task,
                arm=arm,
                answers=len(rows),
                bins=_bins(rows, assurance.bins),
                right=_participant_mean(means["right"]),
                stake=_participant_mean(means["beside"]),
                points=_participant_mean(means["score"]),
                insight=_participant_mean(insight),
            )
        )
    return tuple(results)


def _answers_by_arm(
    answers: pd.DataFrame, kind: str, tasks: Sequence[str], arms: Sequence[str]
) -> Iterator[tuple[str, Assurance, str, pd.DataFrame]]:
    """Task, assurance, arm and answers, of the tasks with this kind of assurance."""
    for task in tasks:
        assurance = find_task(task).form.assurance
        if assurance is None or assurance.kind != kind:
            continue
        rows = answers[(answers["task"] == task) & ~answers["practice"].astype(bool)]
        columns = {name: pd.to_numeric(rows[name]).astype(np.float64) for name in ("value", "beside", "truth", "score")}
        rows = rows.assign(**columns).dropna(subset=list(columns))
        rows = rows.assign(right=(rows["value"] == rows["truth"]).astype(np.float64))
        yield from ((task, assurance, arm, rows[rows["arm"] == arm]) for arm in arms if (rows["arm"] == arm).any())


def _bins(rows: pd.DataFrame, edges: Sequence[tuple[int, int]]) -> tuple[CalibrationBin, ...]:
    bins = []
    for low, high in edges:
        inside = rows[(rows["beside"] >= low) & (rows["beside"] <= high)]
        if not len(inside):
            continue
        right_low, right_high = proportion_confint(int(inside["right"].sum()), len(inside), method="wilson")
        bins.append(
            CalibrationBin(
                low=low,
                high=high,
                n=len(inside),
                stated=float(inside["beside"].mean()),
                right=float(inside["right"].mean()),
                right_low=float(right_low),
                right_high=float(right_high),
            )
        )
    return tuple(bins)


def _participant_mean(values: pd.Series) -> ParticipantMean:
    defined = values.dropna().to_numpy(dtype=np.float64)
    mean, low, high = mean_interval(defined)
    return ParticipantMean(mean=mean, low=low, high=high, n=len(defined), undefined=len(values) - len(defined))


def _insight(bets: pd.DataFrame) -> float:
    stake, right = bets["beside"].to_numpy(), bets["right"].to_numpy()
    if len(bets) < 3 or is_constant(stake) or is_constant(right):
        return math.nan
    return float(stats.spearmanr(stake, right).statistic)
