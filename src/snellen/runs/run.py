"""Run: a finished or unfinished run folder, to read."""

from __future__ import annotations

import io
import shutil
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from PIL import Image

from snellen.errors import SnellenError, nearest
from snellen.files.remote import is_url
from snellen.images.columns import Names
from snellen.runs import recording
from snellen.runs.accuracy import Accuracy
from snellen.runs.number_error import NumberError
from snellen.runs.people import StudyResult, read_people
from snellen.runs.record import Cost, RunRecord
from snellen.runs.sample_table import SampleRow
from snellen.runs.segments import FinishedUnit
from snellen.runs.store import Store

if TYPE_CHECKING:
    from snellen.runs.schedule import Decider
    from snellen.verdicts import Verdicts


class Run:
    """A run folder, opened for reading: scores, maps, curves, costs, verdicts, and the record of how it was made."""

    def __init__(self, folder: str | Path, *, temporary: bool = False) -> None:
        self.folder: str | Path = folder if is_url(folder) else Path(folder)
        """The path, or the URL, of the run folder."""
        self._store = Store(self.folder)
        if temporary:
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        record = self._store.record()
        if record is None:
            raise SnellenError(f"'{folder}' is not a run folder: it has no run.json")
        self.record: RunRecord = record
        self._verdicts: Verdicts | None = None
        self._place_of: dict[str, int] | None = None
        if temporary:  # the tables may be needed longer than the folder
            assert record.samples.rows.table is not None
            assert record.units.table is not None
        if record.finished is not None:
            self._store.check_units(record.units.keys)

    @property
    def methods(self) -> list[str]:
        """Labels of the methods, in the order of the run."""
        return [method.label for method in self.record.spec.methods]

    @property
    def positive_controls(self) -> list[str]:
        """Labels of the positive controls, whose maps are made of the truth: truth, blurred-truth."""
        return [control.label for control in self.record.spec.positive_controls]

    @property
    def metrics(self) -> list[str]:
        """Labels of the metrics, in the order of the run."""
        return [metric.label for metric in self.record.spec.metrics]

    @property
    def complete(self) -> bool:
        """Whether every unit of the record's plan has finished."""
        return self.record.finished is not None

    def scores(self) -> pd.DataFrame:
        """One row per sample, method and metric; NaN where the metric is undefined. Positive controls are left out."""
        return self._scores(self.methods)

    def positive_scores(self) -> pd.DataFrame:
        """The same of the positive controls."""
        return self._scores(self.positive_controls)

    def _scores(self, methods: list[str]) -> pd.DataFrame:
        units = recording.scored_units(self.record, self._store)
        frame = self._store.scores(units, self._names(), ["sample", "method", "metric", "value"]).to_pandas()
        order = {"sample": self._ids(), "method": methods, "metric": self.metrics}
        for column, names in order.items():
            frame = frame[frame[column].isin(names)].copy()
            frame[column] = pd.Categorical(frame[column], categories=names, ordered=True)
        ordered = frame.sort_values(["method", "metric", "sample"], kind="stable")
        tidy: pd.DataFrame = ordered.astype(dict.fromkeys(order, object)).reset_index(drop=True)
        return tidy

    def table(self) -> pd.DataFrame:
        """The mean of each metric for each method: methods down, positive controls last, metrics across.

        Each is the mean over the samples that its cell has: numbers of samples differ where the run stops as soon as it can
        (`scores()` says which they are).
        """
        methods = [*self.methods, *self.positive_controls]
        scores = self._scores(methods)
        means = scores.pivot_table(index="method", columns="metric", values="value", aggfunc="mean", dropna=False)
        return means.reindex(index=methods, columns=self.metrics)

    def samples(self) -> pd.DataFrame:
        """One row per sample: its label, the prediction and its probability, and the class that was explained.

        Where the model estimates a number, also the true number and the estimate.
        """
        rows = self.record.samples.rows
        numbers = () if self.record.classifier.is_number else ("number", "estimate")
        columns = [name for name in SampleRow.model_fields if name not in numbers]
        frame = pd.DataFrame({name: rows.values(name) for name in columns})
        names = self.record.classifier.class_names
        for column in ("label", "prediction", "target"):
            frame[column] = frame[column].astype("Int64")
            frame[f"{column}_name"] = [names[number] if names and not pd.isna(number) else None for number in frame[column]]
        return frame

    def accuracy(self) -> Accuracy | None:
        """How often the classifier is right about the labelled samples; None where no sample has a label."""
        return self.record.accuracy()

    def number_error(self) -> NumberError | None:
        """How far a model that estimates a number is from the true numbers; None where no sample has one."""
        return self.record.number_error()

    def curves(self, metric: str) -> dict[str, np.ndarray]:
        """For a metric that summarises a curve: method to (samples, points), in sample order; positive controls last."""
        units = (
            (unit, (metric,)) for unit, metrics in recording.scored_units(self.record, self._store) if metric in metrics
        )
        frame = self._store.scores(units, self._names(), ["sample", "method", "metric", "curve"]).to_pandas()
        frame = frame[frame["curve"].notna()]
        index_of = {sample_id: index for index, sample_id in enumerate(self._ids())}
        curves = {}
        for method in (*self.methods, *self.positive_controls):
            rows = frame[frame["method"] == method]
            if len(rows):
                ordered = rows.iloc[np.argsort([index_of[sample] for sample in rows["sample"]], kind="stable")]
                curves[method] = np.stack(list(ordered["curve"]))
        return curves

    def problems(self) -> dict[tuple[str, str], str]:
        """By method and metric, a sentence that says why scores are missing: the metric refused the method, or failed."""
        problems: dict[tuple[str, str], str] = {}
        for failure in self.record.errors:
            for metric in self.metrics if failure.metric is None else [failure.metric]:
                problems.setdefault((failure.method, metric), failure.problem)
        for unit in self._planned_units():
            for metric, refusal in unit.refused.items():
                problems.setdefault((unit.method, metric), refusal.problem)
        return problems

    def maps(self, method: str, samples: Sequence[str] | None = None) -> np.ndarray:
        """The maps of a method or positive control for these samples, by default all, as (samples, height, width)."""
        labels = [*self.methods, *self.positive_controls]
        if method not in labels:
            raise SnellenError(
                f"'{self.folder}' has no method '{method}'{nearest(method, labels)} (it has: {', '.join(labels)})"
            )
        ids = self._ids()
        chosen = ids if samples is None else list(samples)
        places = {sample: place for place, sample in enumerate(ids)} if samples is None else dict.fromkeys(chosen, -1)
        if samples is not None:
            places |= {sample: place for place, sample in enumerate(ids) if sample in places}
        by_place: dict[int, np.ndarray] = {}
        needed = np.unique(list(places.values()))
        for unit in self._planned_units():
            if unit.method == method and (within := self._kept_in(unit, needed)):
                maps = self._store.maps(unit)
                by_place |= {place: maps[index] for index, place in within}
        missing = [sample for sample in chosen if places[sample] not in by_place]
        if missing and not self.record.spec.keeps_all_maps and missing[0] in self._covered(method):
            raise SnellenError(
                f"the map of '{method}' for '{missing[0]}' was not kept: '{self.folder}' keeps "
                f"{self.record.spec.keep_maps}, see kept_maps(); for all, make the run again with --keep-maps all "
                "and another --out"
            )
        if missing:
            raise SnellenError(f"'{self.folder}' has no map of '{method}' for '{missing[0]}'")
        return np.stack([by_place[places[sample]] for sample in chosen])

    def kept_maps(self, method: str) -> list[str]:
        """The samples whose maps of this method or positive control are stored, in the order of the run."""
        ids, kept = self._ids(), set[int]()
        every = np.arange(len(ids))
        for unit in self._planned_units():
            if unit.method == method:
                kept |= {place for _, place in self._kept_in(unit, every)}
        return [ids[place] for place in sorted(kept)]

    def _covered(self, method: str) -> set[str]:
        """The samples that the method explained."""
        ids = self._ids()
        return {ids[place] for unit in self._planned_units() if unit.method == method for place in self._places(unit)}

    def _kept_in(self, unit: FinishedUnit, needed: np.ndarray) -> list[tuple[int, int]]:
        """The maps of a unit that are needed and were kept: their index among those that it stores, and their sample."""
        if unit.maps is None:
            return []
        places = self._places(unit)
        kept = range(len(places)) if unit.kept is None else unit.kept
        within = np.isin([places[index] for index in kept], needed)
        return [(number, places[index]) for number, index in enumerate(kept) if within[number]]

    def _places(self, unit: FinishedUnit) -> Sequence[int]:
        """The indices of the samples of a unit."""
        if unit.names is None:
            return range(unit.start, unit.start + unit.count)
        if self._place_of is None:
            self._place_of = {sample: place for place, sample in enumerate(self._ids())}
        return [self._place_of[name] for name in unit.names if name in self._place_of]

    @property
    def explained(self) -> list[str]:
        """Labels of the methods with a map of every sample; with a map of some, where the run stops as soon as it can."""
        count = len(self.record.samples.rows)
        covered: dict[str, np.ndarray] = {}
        for unit in self._planned_units():
            places = self._places(unit)
            covered.setdefault(unit.method, np.zeros(count, bool))[
                slice(places.start, places.stop) if isinstance(places, range) else list(places)
            ] = True
        suffices = np.any if self.record.spec.stops_early else np.all
        return [method for method in self.methods if method in covered and suffices(covered[method])]

    def map_files(self, method: str) -> tuple[str, ...]:
        """The files that hold the maps of a method, each named by its content: other maps have other names."""
        return tuple(sorted({unit.maps.name for unit in self._planned_units() if unit.method == method and unit.maps}))

    def picture(self, sample: str) -> np.ndarray | None:
        """The image as the classifier sees it, as (height, width, 3) bytes; None beyond the first dozen samples."""
        name = self.record.samples.pictures.get(sample)
        if name is None:
            return None
        with Image.open(io.BytesIO(self._store.picture(name)), formats=("PNG",)) as picture:
            return np.asarray(picture.convert("RGB"))

    def costs(self) -> pd.DataFrame:
        """Per method: images, passes (shared ones included), seconds of its maps, and the same for its metrics."""
        rows: dict[str, dict[str, Any]] = {}
        for unit in self._planned_units():
            row = rows.setdefault(unit.method, dict.fromkeys(_COST_COLUMNS, 0))
            if unit.cost is not None:
                row["images"] += unit.count
                _add(row, "", unit.cost)
            for cost in unit.metric_costs.values():
                _add(row, "metric_", cost)
        frame = pd.DataFrame.from_dict(rows, orient="index", columns=_COST_COLUMNS)
        return frame.reindex([method for method in self.methods if method in rows]).rename_axis("method").reset_index()

    def people(self) -> tuple[StudyResult, ...]:
        """Results of studies with participants about its methods; `snellen study join` adds them."""
        return read_people(self.folder)

    def verdicts(self) -> Verdicts:
        """A verdict per method and metric, and why: computed once, then read from the run's folder."""
        from snellen.verdicts import stored_verdicts

        if self._verdicts is None:
            self._verdicts = stored_verdicts(self)
        return self._verdicts

    def report(self, path: str | Path | None = None) -> str | Path:
        """Writes one HTML page that opens offline, by default as report.html in the run folder; returns its path or URL."""
        from snellen.report import write_report

        return write_report(self, path or f"{self.folder}/report.html")

    def summary(self) -> dict[str, Any]:
        """The run as plain values for any experiment tracker.

        `numbers`: floats by "method/metric/mean" (also low, high, n, undefined) and "method/seconds". `verdicts`: words by
        "method/metric". `figures`: SVG documents by metric.
        """
        from snellen.report import run_summary

        return run_summary(self)

    def _repr_html_(self) -> str:
        """The table of means and verdicts that a notebook shows."""
        from snellen.report import run_html

        return run_html(self)

    def _ids(self) -> list[str]:
        return list(self._names())

    def _names(self) -> Names:
        return self.record.samples.rows.names

    def _planned_units(self) -> Iterator[FinishedUnit]:
        return recording.planned_units(self.record, self._store)

    def score_files(self) -> list[tuple[str, tuple[str, ...]]]:
        """The names of scores, each given by their content, with the metrics that count in each."""
        return [
            (unit.scores.name, metrics)
            for unit, metrics in recording.scored_units(self.record, self._store)
            if unit.scores is not None
        ]


def default_decider(record: RunRecord) -> Decider:
    """Who looks at the scores of a run that stops early, where nobody else was named."""
    from snellen.verdicts import RunLooks

    return RunLooks.of_record(record)


_COST_COLUMNS = [
    "images", "forward", "backward", "shared_forward", "shared_backward", "seconds", "model_seconds",
    "metric_forward", "metric_backward", "metric_shared_forward", "metric_shared_backward", "metric_seconds",
    "metric_model_seconds",
]  # fmt: skip


def _add(row: dict[str, Any], prefix: str, cost: Cost) -> None:
    row[f"{prefix}forward"] += cost.forward + cost.shared_forward
    row[f"{prefix}backward"] += cost.backward + cost.shared_backward
    row[f"{prefix}shared_forward"] += cost.shared_forward
    row[f"{prefix}shared_backward"] += cost.shared_backward
    row[f"{prefix}seconds"] += cost.seconds + cost.shared_seconds
    row[f"{prefix}model_seconds"] += cost.model_seconds + cost.shared_seconds
