"""The verdicts of a run: computed once from its scores, stored in its folder, and read by everything that shows them."""

from __future__ import annotations

import dataclasses
import math
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pandas as pd

from snellen.errors import SnellenError
from snellen.files.documents import parse_as
from snellen.files.folder import Folder, folder_at
from snellen.files.integrity import dump_record, parse_record
from snellen.runs.record import RunRecord
from snellen.runs.schedule import PRECISION
from snellen.runs.store import VERDICTS, key_of
from snellen.verdicts.positive_control import PositiveControl, positive_control_rows
from snellen.verdicts.rule import RULE_VERSION, Judgement, judge
from snellen.verdicts.run_looks import take_looks
from snellen.verdicts.sampling import Sampling, sampling_of
from snellen.verdicts.sequential import LOOKS_VERSION, Looks
from snellen.verdicts.statistics import Certainty, SummaryRow, certainty, summarise


@runtime_checkable
class Scored(Protocol):
    """What verdicts need of a run."""

    @property
    def record(self) -> RunRecord:
        """The run's own record."""
        ...

    def scores(self) -> pd.DataFrame:
        """Columns sample, method, metric, value."""
        ...

    def positive_scores(self) -> pd.DataFrame:
        """The same columns for the positive controls."""
        ...

    def samples(self) -> pd.DataFrame:
        """Columns sample, label and, in newer runs, group."""
        ...

    def problems(self) -> dict[tuple[str, str], str]:
        """By method and metric, why scores are missing."""
        ...


@runtime_checkable
class Stored(Scored, Protocol):
    """A run with a folder, whose scores are files named by their content."""

    @property
    def folder(self) -> str | Path:
        """The path, or the URL, of the run's folder."""
        ...

    def score_files(self) -> list[tuple[str, tuple[str, ...]]]:
        """The score files, each with the metrics that are read from it."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Verdicts:
    """The mean and interval of each method and metric of a run, and the verdict of each method in each test."""

    summary: pd.DataFrame
    """One row per method and metric, controls included; see `SummaryRow` for the columns."""
    judgements: tuple[Judgement, ...]
    """One per method and metric; controls have none."""
    positive_controls: tuple[PositiveControl, ...] = ()
    """One per positive control and metric; they are part of neither `summary` nor any verdict."""

    @property
    def shown(self) -> pd.DataFrame:
        """What pages show: `summary`, and the rows of the positive controls after it."""
        if not self.positive_controls:
            return self.summary
        return SummaryRow.table([*SummaryRow.rows(self.summary), *(control.row for control in self.positive_controls)])

    def find(self, method: str, metric: str) -> Judgement:
        """The verdict on a method (not a control) in the test of a metric, both by label."""
        for judgement in self.judgements:
            if (judgement.method, judgement.metric) == (method, metric):
                return judgement
        raise SnellenError(f"there is no verdict of '{method}' by '{metric}'")


def judge_run(run: Scored) -> Verdicts:
    """Computes the verdicts of a run, without reading stored ones."""
    spec, scores, sampling = run.record.spec, run.scores(), run_sampling(run)
    looked = None
    if spec.stops_early:
        samples = [str(sample) for sample in run.samples()["sample"]]
        looked = take_looks(spec, samples, sampling, scores, run.problems())
    summary = summarise(scores, spec.methods, spec.metrics, seed=spec.seed, sampling=sampling)
    judgements = judge(scores, spec.methods, spec.metrics, seed=spec.seed, summary=summary, sampling=sampling, looked=looked)
    positive: tuple[PositiveControl, ...] = ()
    if spec.positive_controls:
        positive = positive_control_rows(
            scores,
            run.positive_scores(),
            spec.methods,
            spec.positive_controls,
            spec.metrics,
            seed=spec.seed,
            sampling=sampling,
        )
    return Verdicts(summary=summary, judgements=tuple(judgements), positive_controls=positive)


def stored_verdicts(run: Stored) -> Verdicts:
    """The verdicts in the run's folder, where they belong to its scores and to this rule; otherwise computed and stored.

    In a folder that cannot be written they are computed each time.
    """
    folder, key = folder_at(run.folder), verdicts_key(run)
    if (verdicts := _read(folder, key)) is None:
        verdicts = judge_run(run)
        with suppress(OSError, SnellenError):
            folder.write_whole(VERDICTS, dump_record(_as_json(verdicts, key)))
    return verdicts


def verdicts_key(run: Stored) -> str:
    """A hash of all that the verdicts of a run depend on: scores, methods, metrics, what was drawn, and the rule."""
    spec, sampling = run.record.spec, run_sampling(run)
    return key_of(
        {
            "rule": RULE_VERSION,
            "scores": [[file, list(metrics)] for file, metrics in run.score_files()],
            "methods": [[method.label, method.control] for method in spec.methods],
            **({"positive": [control.label for control in spec.positive_controls]} if spec.positive_controls else {}),
            "metrics": [
                [metric.label, metric.higher_is_better, list(metric.bounds), metric.tolerance, metric.undefined]
                for metric in spec.metrics
            ],
            "seed": spec.seed,
            **({"looks": [LOOKS_VERSION, spec.until, spec.shard, len(run.samples())]} if spec.stops_early else {}),
            "sampling": [sampling.unit, dict(sampling.cluster_of), sampling.words],
        }
    )


def run_certainty(run: Scored) -> Certainty:
    """Whether the images of a run allow a verdict, and how small a difference they show."""
    whole = certainty(len(run.samples()), run_sampling(run))
    spec = run.record.spec
    if not spec.stops_early or not whole.enough:
        return whole
    first = Looks.plan(whole.n, spec.shard).sizes[0]
    stopped = "had the stated precision" if spec.until and spec.until.startswith(PRECISION) else "were settled"
    ended = " or the budget ended" if spec.budget else ""
    words = (
        f"numbers of images differ, from {first} to {whole.n}: the run looked at its verdicts on the way, and stopped each "
        f"comparison where verdicts {stopped}{ended}"
    )
    return replace(whole, words="; ".join(filter(None, [words, run_sampling(run).words])))


def run_sampling(run: Scored) -> Sampling:
    """What the verdicts of a run take as drawn at random."""
    classifier = run.record.classifier
    return sampling_of(run.samples(), None if classifier.is_number else classifier.classes, number=classifier.is_number)


@dataclass(frozen=True, kw_only=True)
class _VerdictFile:
    """What `verdicts.json` holds."""

    key: str
    summary: tuple[SummaryRow, ...]
    judgements: tuple[Judgement, ...]
    positive: tuple[PositiveControl, ...] = ()


def _read(folder: Folder, key: str) -> Verdicts | None:
    """The stored verdicts, or None where there are none, they are damaged, or they are of other scores or another rule."""
    try:
        values = parse_record(folder.read(VERDICTS), VERDICTS, "delete it")
        if values.get("key") != key:
            return None
        file = parse_as(_VerdictFile, values, "it")
    except (OSError, SnellenError):
        return None
    return Verdicts(summary=SummaryRow.table(file.summary), judgements=file.judgements, positive_controls=file.positive)


def _as_json(verdicts: Verdicts, key: str) -> dict[str, Any]:
    rows = verdicts.summary.to_dict("records")
    judgements = [dataclasses.asdict(judgement) for judgement in verdicts.judgements]
    positive = [dataclasses.asdict(control) for control in verdicts.positive_controls]
    return {
        "key": key,
        "summary": _plain(rows),
        "judgements": _plain(judgements),
        **({"positive": _plain(positive)} if positive else {}),
    }


def _plain(value: Any) -> Any:
    """A value as JSON: undefined numbers are null, infinite ones are words."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
