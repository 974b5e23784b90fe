"""Run: a finished or unfinished run folder, to read."""

from __future__ import annotations

import io
import shutil
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from PIL import Image

from snellen.errors import SnellenError, nearest
from snellen.files.integrity import DamagedError
from snellen.runs import recording
from snellen.runs.accuracy import Accuracy
from snellen.runs.number_error import NumberError
from snellen.runs.people import StudyResult, read_people
from snellen.runs.record import Cost, RunRecord, SampleRow, UnitRecord
from snellen.runs.store import Store

if TYPE_CHECKING:
    from snellen.verdicts import Verdicts


class Run:
    """A run folder, opened for reading: scores, maps, curves, costs, verdicts, and the record of how it was made."""

    def __init__(self, folder: str | Path, *, temporary: bool = False) -> None:
        self.folder = Path(folder)
        self._store = Store(self.folder)
        if temporary:
            weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)
        record = self._store.record()
        if record is None:
            raise SnellenError(f"'{folder}' is not a run folder: it has no run.json")
        self.record: RunRecord = record
        self._verdicts: Verdicts | None = None
        self._units = self._store.units(planned.unit for planned in record.units)
        absent = [planned.unit for planned in record.units if planned.unit not in self._units]
        if record.finished is not None and absent:
            path = self.folder / "units" / f"{absent[0]}.json"
            raise DamagedError(path, "it is missing", self._store.remedy)

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
        frame = self._store.scores(self.score_files(), ["sample", "method", "metric", "value"]).to_pandas()
        order = {"sample": self._ids(), "method": methods, "metric": self.metrics}
        for column, names in order.items():
            frame = frame[frame[column].isin(names)].copy()
            frame[column] = pd.Categorical(frame[column], categories=names, ordered=True)
        ordered = frame.sort_values(["method", "metric", "sample"], kind="stable")
        tidy: pd.DataFrame = ordered.astype(dict.fromkeys(order, object)).reset_index(drop=True)
        return tidy

    def table(self) -> pd.DataFrame:
        """The mean of each metric for each method: methods down, positive controls last, metrics across."""
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
        frame = pd.DataFrame({name: [getattr(row, name) for row in rows] for name in columns})
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
        files = [(name, (metric,)) for name, metrics in self.score_files() if metric in metrics]
        frame = self._store.scores(files, ["sample", "method", "metric", "curve"]).to_pandas()
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
        samples = self._ids() if samples is None else samples
        by_sample: dict[str, np.ndarray] = {}
        for unit in self._planned_units():
            if unit.method == method and set(unit.samples) & set(samples):
                maps = self._store.maps(unit.maps)
                by_sample |= {sample: maps[index] for index, sample in enumerate(unit.samples) if sample in samples}
        missing = [sample for sample in samples if sample not in by_sample]
        if missing:
            raise SnellenError(f"'{self.folder}' has no map of '{method}' for '{missing[0]}'")
        return np.stack([by_sample[sample] for sample in samples])

    @property
    def explained(self) -> list[str]:
        """Labels of the methods with a map of every sample."""
        samples: dict[str, set[str]] = {}
        for unit in self._planned_units():
            samples.setdefault(unit.method, set()).update(unit.samples)
        return [method for method in self.methods if len(samples.get(method, ())) == len(self._ids())]

    def map_files(self, method: str) -> tuple[str, ...]:
        """The files that hold the maps of a method, each named by its content: other maps have other names."""
        return tuple(sorted({unit.maps for unit in self._planned_units() if unit.method == method}))

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
                row["images"] += len(unit.samples)
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

    def report(self, path: str | Path | None = None) -> Path:
        """Writes one HTML page that opens offline, by default as report.html in the run folder."""
        from snellen.report import write_report

        return write_report(self, Path(path) if path else self.folder / "report.html")

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
        return [row.sample for row in self.record.samples.rows]

    def _planned_units(self) -> list[UnitRecord]:
        return recording.planned_units(self.record, self._units)

    def score_files(self) -> list[tuple[str, tuple[str, ...]]]:
        """The score files, each named by its content, with the metrics that are read from it."""
        return recording.score_files(self.record, self._units)


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
