"""Several runs of one model on the same images, read as one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from snellen.errors import SnellenError
from snellen.report.readable import Readable
from snellen.runs.people import StudyResult, merge_studies
from snellen.runs.record import MethodSpec, MetricSpec, RunRecord
from snellen.verdicts import Verdicts, judge_run


class JoinedRuns:
    """The union of several runs. Later runs add methods and metrics; if two have the same score, the earlier one is used."""

    def __init__(self, runs: Sequence[Readable]) -> None:
        self._runs = tuple(runs)
        for run in runs[1:]:
            _check_joinable(runs[0], run)

    @property
    def folder(self) -> str | Path:
        """The folder of the first run."""
        return self._runs[0].folder

    @cached_property
    def record(self) -> RunRecord:
        """The record of the first run, with the methods and metrics of all."""
        records = [run.record for run in self._runs]
        first = records[0]
        methods: dict[str, MethodSpec] = {}
        metrics: dict[str, MetricSpec] = {}
        for record in records:
            for method in record.spec.methods:
                methods.setdefault(method.label, method)
            for metric in record.spec.metrics:
                metrics.setdefault(metric.label, metric)
        spec = first.spec.changed(methods=tuple(methods.values()), metrics=tuple(metrics.values()), positive_controls=())
        finished = records[-1].finished if all(record.finished for record in records) else None
        notes = tuple(dict.fromkeys(note for record in records for note in record.notes))
        return first.changed(spec=spec, finished=finished, notes=notes)

    def scores(self) -> pd.DataFrame:
        """The scores of all runs."""
        table = pd.concat([run.scores() for run in self._runs], ignore_index=True)
        return table.drop_duplicates(["sample", "method", "metric"], ignore_index=True)

    def positive_scores(self) -> pd.DataFrame:
        """None: cards describe methods."""
        return self._runs[0].positive_scores().head(0)

    def samples(self) -> pd.DataFrame:
        """The samples, which are those of every run."""
        return self._runs[0].samples()

    def curves(self, metric: str, /) -> dict[str, np.ndarray]:
        """Per method, one curve per sample."""
        curves: dict[str, np.ndarray] = {}
        for run in reversed(self._runs):
            curves |= run.curves(metric)
        return curves

    def problems(self) -> dict[tuple[str, str], str]:
        """By method and metric, why scores are missing that no run has."""
        problems: dict[tuple[str, str], str] = {}
        for run in reversed(self._runs):
            problems |= run.problems()
        scores = self.scores()
        scored = set(zip(scores["method"], scores["metric"], strict=True))
        return {pair: why for pair, why in problems.items() if pair not in scored}

    def maps(self, method: str, samples: list[str], /) -> np.ndarray:
        """One map per sample, from the first run that has them."""
        holders = [run for run in self._runs if method in [spec.label for spec in run.record.spec.methods]]
        for run in holders[:-1]:
            try:
                return run.maps(method, samples)
            except SnellenError:
                continue  # an unfinished run may lack what a later one has
        return (holders or self._runs)[-1].maps(method, samples)

    def picture(self, sample: str, /) -> np.ndarray | None:
        """The photograph, if some run stored it."""
        return next((picture for run in self._runs if (picture := run.picture(sample)) is not None), None)

    def costs(self) -> pd.DataFrame:
        """Per method: images, passes and seconds, from the first run that has it."""
        table = pd.concat([run.costs() for run in self._runs], ignore_index=True)
        return table.drop_duplicates(["method"], ignore_index=True)

    def verdicts(self) -> Verdicts:
        """The verdicts on the joined scores; no single run stores them."""
        return self._verdicts

    @cached_property
    def _verdicts(self) -> Verdicts:
        return judge_run(self)

    def people(self) -> tuple[StudyResult, ...]:
        """The studies of all runs."""
        return merge_studies(run.people() for run in self._runs)


def _check_joinable(first: Readable, other: Readable) -> None:
    """Refuses runs that cannot be joined."""
    first_record, other_record = first.record, other.record
    both = f"'{first.folder}' and '{other.folder}'"
    models = [(record.classifier.name, record.classifier.fingerprint) for record in (first_record, other_record)]
    if models[0][1] != models[1][1]:
        names = " and ".join(f"{name} ({str(fingerprint)[:8]})" for name, fingerprint in models)
        raise SnellenError(
            f"{both} are runs of different models, {names}, whose cards cannot be mixed; give runs of one model"
        )
    if first_record.samples.digest != other_record.samples.digest:
        counts = " and ".join(
            f"{record.samples.count} of {record.samples.source}" for record in (first_record, other_record)
        )
        raise SnellenError(
            f"{both} have different images, {counts}, and cannot be compared image by image; give runs of the same images"
        )
    for key, remedy in (
        ("target", "--target"),
        ("seed", "--seed"),
        ("condition", "--condition"),
        ("precision", "--precision"),
    ):
        values = [getattr(record.spec, key) for record in (first_record, other_record)]
        if values[0] != values[1]:
            raise SnellenError(
                f"{both} differ in {remedy}, {values[0]} and {values[1]}; run one of them again with the other's"
            )
    for own, others in (
        (first_record.spec.methods, other_record.spec.methods),
        (first_record.spec.metrics, other_record.spec.metrics),
    ):
        versions = {plugin.label: plugin.version for plugin in own}
        for plugin in others:
            if versions.get(plugin.label, plugin.version) != plugin.version:
                raise SnellenError(
                    f"{both} have {plugin.label} in versions {versions[plugin.label]} and {plugin.version}; "
                    "run the older one again"
                )
