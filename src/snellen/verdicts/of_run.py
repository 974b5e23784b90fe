"""The verdicts of a run, for whoever shows them: one way from its scores and samples to all that is said of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pandas as pd

from snellen.runs.record import RunRecord
from snellen.verdicts.rule import Judgement, judge
from snellen.verdicts.sampling import Sampling, sampling_of
from snellen.verdicts.statistics import Certainty, certainty, summarise


@runtime_checkable
class Scored(Protocol):
    """What is asked of a run."""

    @property
    def record(self) -> RunRecord:
        """The run's own record."""
        ...

    def scores(self) -> pd.DataFrame:
        """Columns sample, method, metric, value."""
        ...

    def samples(self) -> pd.DataFrame:
        """Columns sample, label and, in newer runs, group."""
        ...


@dataclass(frozen=True)
class Verdicts:
    """The scores of a run, the mean and interval of each method and metric, and the verdicts."""

    scores: pd.DataFrame
    summary: pd.DataFrame
    judged: tuple[Judgement, ...]


def verdicts_of(run: Scored) -> Verdicts:
    """What the scores of a run say."""
    spec, scores, drawn = run.record.spec, run.scores(), drawn_in(run)
    summary = summarise(scores, spec.methods, spec.metrics, seed=spec.seed, sampling=drawn)
    judged = judge(scores, spec.methods, spec.metrics, seed=spec.seed, summary=summary, sampling=drawn)
    return Verdicts(scores, summary, tuple(judged))


def summary_of(run: Scored) -> pd.DataFrame:
    """The mean and interval of each method and metric of a run."""
    spec = run.record.spec
    return summarise(run.scores(), spec.methods, spec.metrics, seed=spec.seed, sampling=drawn_in(run))


def certainty_of(run: Scored) -> Certainty:
    """How much the images of a run allow to be said."""
    return certainty(len(run.samples()), drawn_in(run))


def drawn_in(run: Scored) -> Sampling:
    """What the verdicts of a run take as drawn at random."""
    return sampling_of(run.samples(), run.record.classifier.classes)
