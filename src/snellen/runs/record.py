"""The typed records of a run folder: what `run.json`, its units and the other JSON files hold.

No other module but those of its parts knows the keys on disk. A field whose stored key is an older word is listed in
`json_record.STORED_KEYS`.
Fields that an older version did not write have a default here; keys that a newer version added are kept and written back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pyarrow as pa
from pydantic import Field, PrivateAttr

from snellen.errors import SnellenError
from snellen.files.documents import PlainName, parse_as
from snellen.files.folder import Folder
from snellen.files.integrity import DamagedError, damage, dump_record, parse_record, read_named
from snellen.plugins.notation import read_plugin
from snellen.plugins.traits import Attribute
from snellen.runs.accuracy import Accuracy, accuracy
from snellen.runs.json_record import Count, R, Record, Seconds
from snellen.runs.kept_maps import KEPT_WORDS, KeepMaps
from snellen.runs.number_error import NumberError, number_error
from snellen.runs.planned_units import PlannedUnit, PlannedUnits
from snellen.runs.sample_table import SampleRow, SampleTable

RUN = "run.json"
"""The name of the record of a run in its folder."""

SCHEMA = 2
"""The version of the records that this code writes, and the newest that it reads. Version 1 listed samples and units in
run.json, and had three files per unit."""

TABLES = "tables"
"""The folder of the tables that run.json names: the samples, and the units that are planned."""


class Cost(Record):
    """What was spent on the maps of a unit, on one metric of them, or on fitting or training."""

    seconds: Seconds
    forward: Count
    backward: Count
    """Counted passes of one image each."""
    model_seconds: Seconds
    """Seconds inside the model."""
    shared_forward: Count
    shared_backward: Count
    shared_seconds: Seconds
    """Passes, and their seconds, that the cache saved."""


class Refusal(Record):
    """Why a metric cannot be scored on the maps of a method."""

    key: str
    """A hash of the metric and its settings."""
    problem: str
    """The reason in words."""


class UnitRecord(Record):
    """A finished unit: one method on one shard of the samples."""

    map_key: str
    """A hash of all that the maps depend on."""
    method: str
    """Its label."""
    samples: tuple[str, ...]
    """Their ids."""
    maps: PlainName
    """The file of the maps."""
    scores: PlainName
    """The file of the scores."""
    metrics: dict[str, str]
    """The key of each metric that was computed, by label."""
    refused: dict[str, Refusal] = Field(default_factory=dict)
    """By label of the metric."""
    metric_costs: dict[str, Cost]
    """By label of the metric."""
    cost: Cost | None = None
    """Of the maps; None where an earlier unit computed them."""


class MapsRecord(Record):
    """Maps made elsewhere, which a run scores in place of a method's."""

    source: str
    """Where they were read from."""
    count: Count
    """How many maps."""
    digest: str
    """Of all maps, each with its picture and target."""


class MethodSpec(Record):
    """A method of the run with its settings and the traits that pages need."""

    label: str
    """The name with all settings that are not the defaults."""
    name: str
    """The registered name."""
    params: dict[str, Any]
    """All settings, as JSON."""
    control: bool
    """Whether its maps contain no information about the model."""
    signed: bool | None = None
    """Whether a negative value means evidence against the target."""
    summary: str
    """What its number means, in one sentence."""
    cite: str
    """The key of its reference."""
    version: int
    """Of its code."""
    maps: MapsRecord | None = None
    """The maps made elsewhere that stand in place of a method."""


class MetricSpec(Record):
    """A metric of the run with its settings and the traits that verdicts and pages need."""

    label: str
    """The name with all settings that are not the defaults."""
    name: str
    """The registered name."""
    params: dict[str, Any]
    """All settings, as JSON."""
    attribute: Attribute
    """Of the saliency card."""
    higher_is_better: bool
    bounds: tuple[float | None, float | None]
    """The lowest and the highest possible score; None where there is no such end."""
    undefined: str
    """When the score is NaN, in words."""
    test: str | None = None
    """The test of the saliency card that it answers."""
    formula: str = ""
    tolerance: float | None = None
    """For an axiom: how far from the best value still passes."""
    points: tuple[str, ...] | None = None
    """The names of the points of its curve, where these are not evenly spaced on one axis."""
    summary: str
    """What its number means, in one sentence."""
    cite: str
    """The key of its reference."""
    version: int
    """Of its code."""


class Spec(Record):
    """What a run computes."""

    methods: tuple[MethodSpec, ...]
    positive_controls: tuple[MethodSpec, ...] = ()
    """Maps made of the truth, shown beside the methods and never judged."""
    metrics: tuple[MetricSpec, ...]
    target: str | int
    """What maps explain."""
    condition: str | None = None
    """How all images were changed first."""
    seed: Count
    """Of every random draw."""
    shard: Annotated[int, Field(ge=1)]
    """Images per unit."""
    precision: str
    """Of the numbers inside the model."""
    engine: str | None = None
    """How forward-only passes are computed; None in runs of older versions."""
    fold_norms: bool = False
    """Whether gradients come from a copy of the model with batch normalisations folded into convolutions."""
    compiled: bool = False
    """Of runs of older versions: whether the forward pass was compiled."""

    @property
    def engine_name(self) -> str:
        """How forward-only passes are computed."""
        return self.engine or ("compiled" if self.compiled else "eager")

    until: str | None = None
    """When a comparison has enough images, such as settled; None where all are computed, or the budget decides."""
    budget: str | None = None
    """What the last call could spend at most, such as 10m."""
    order: Literal["seeded"] | None = None
    """Whether the seed drew the order of the samples; None for the order of their folder."""
    keep_maps: KeepMaps = "all"
    """Which maps are kept after they were scored: all, some or none."""
    keep_maps_before: tuple[KeepMaps, ...] = ()
    """Other such settings that units of the run were computed with."""

    @property
    def keeps_all_maps(self) -> bool:
        """Whether the run keeps every map that it computes, and always did."""
        return self.keep_maps == "all" and not self.keep_maps_before

    @property
    def kept_words(self) -> str:
        """Which maps are stored."""
        return "; earlier: ".join(KEPT_WORDS[setting] for setting in (self.keep_maps, *self.keep_maps_before))

    @property
    def stops_early(self) -> bool:
        """Whether the run computes only what decides verdicts, so that numbers of images differ."""
        return self.until is not None or self.budget is not None

    @property
    def versions(self) -> dict[str, int]:
        """The version of each method and metric, by label."""
        methods = {method.label: method.version for method in (*self.methods, *self.positive_controls)}
        return methods | {metric.label: metric.version for metric in self.metrics}


class ModelRecord(Record):
    """What is known about the model of a classifier that was named by a text."""

    spec: str
    """The text."""
    source: str
    """The source that loaded it, such as hf."""
    processor: dict[str, Any] | None = None
    """How its source prepares images."""
    versions: dict[str, str] = Field(default_factory=dict)
    """Of the packages that loaded it."""


class ClassifierRecord(Record):
    """The classifier that was explained."""

    name: str
    fingerprint: str
    """A hash of weights, structure and normalisation."""
    mean: tuple[float, ...]
    std: tuple[float, ...]
    """Of the normalisation, per channel."""
    outputs: str
    """`logits` or `probabilities`."""
    device: str
    head: str | None = None
    """What the outputs mean, where they are not exclusive classes."""
    class_names: tuple[str, ...] | None = None
    """None where classes have no names."""
    classes: Count
    """How many classes it has."""
    rows: Count
    """Images per pass."""
    model: ModelRecord | None = None
    """None for a model that was a Python object."""

    @property
    def exclusive(self) -> bool:
        """Whether exactly one class is right per image."""
        return self.head is None or not self.head.startswith(("independent-labels", "number"))

    @property
    def is_number(self) -> bool:
        """Whether the model estimates a number."""
        return self.head is not None and self.head.startswith("number")

    @property
    def labels_may_be_several(self) -> bool:
        """Whether labels are independent, so that several may be right for an image."""
        return not self.exclusive and not self.is_number

    @property
    def unit(self) -> str:
        """The unit of the number that the model estimates, where it is stated."""
        if self.head is None or not self.is_number:
            return ""
        _, settings = read_plugin(self.head.partition(" with ")[0])
        return str(settings.get("unit", ""))

    @property
    def further_target(self) -> str | None:
        """The name of a target that is no output of the model, such as a contrast."""
        names = self.class_names or ()
        return names[-1] if len(names) > self.classes else None

    @property
    def head_words(self) -> str:
        """What the outputs are, with their number."""
        if self.is_number:
            return f"a number in {self.unit}" if self.unit else "a number"
        return f"{self.classes} {'classes' if self.exclusive else 'independent labels'}"


class SamplesRecord(Record):
    """The samples of a run."""

    count: Count
    digest: str
    """A hash of the content of all samples."""
    source: str
    """Where they come from, in words."""
    listed: tuple[SampleRow, ...] | None = None
    """One row per sample, in records of version 1."""
    table: PlainName | None = None
    """The file with one row per sample: see `SampleTable`."""
    pictures: dict[str, PlainName]
    """Files of the first samples as the classifier sees them, by sample."""
    accuracy: Accuracy | None = None
    """Of a model with classes, on labelled samples."""
    error: NumberError | None = None
    """Of a model that estimates a number."""

    _rows: SampleTable | None = PrivateAttr(default=None)

    @property
    def rows(self) -> SampleTable:
        """One row per sample, read when it is first used."""
        if self._rows is None:
            self._rows = SampleTable.of_rows(self.listed or ())
        return self._rows

    def with_rows(self, rows: SampleTable) -> SamplesRecord:
        """The same with these rows, in memory."""
        changed = self.changed()
        changed._rows = rows
        return changed


class PlanRecord(Record):
    """Where the units of a run are listed."""

    units: Count
    """How many."""
    table: PlainName
    """The file that lists them: see `PlannedUnits`."""


class FittedRecord(Record):
    """The fitted state of a method."""

    images: Count | None
    """How many images it was fitted on; None where the classifier had it already."""
    digest: str
    """A hash of its tensors."""
    cost: Cost | None = None


class FittedFile(FittedRecord):
    """The same beside the file that holds it."""

    file: PlainName


class VariantRecord(Record):
    """A trained variant of the classifier, or a saved state of it."""

    digest: str
    """A hash of its weights."""
    accuracy: float | None
    """On the labelled samples of the run; None where it has other classes, or no sample has a label."""
    cost: Cost | None = None
    file: PlainName | None = None
    """None for a saved state, which the run folder does not hold."""


class VariantFile(Record):
    """A trained variant beside the file that holds it."""

    name: str
    accuracy: float | None
    cost: Cost
    file: PlainName
    seal: str | None = None
    """Shows that the file was made here, where opening it could execute code."""


class EngineTrial(Record):
    """What came of trying an engine on pictures of the run."""

    name: str
    picture_seconds: Seconds | None = None
    """Per picture of a full pass; None where it was not measured."""
    preparation_seconds: Seconds | None = None
    """What preparing it took."""
    difference: float | None = None
    """The largest difference from an eager output, as a share of the largest output."""
    reason: str | None = None
    """Why it cannot be used, or was not tried."""


class EngineRecord(Record):
    """How the engine of forward-only passes was chosen."""

    stated: bool
    """Whether the user named it; it was measured otherwise."""
    trials: tuple[EngineTrial, ...]
    """The engine that is used comes first."""
    variant_rows: Count | None = None
    """How many rows each variant computes eagerly before the engine is prepared for it; None where all are."""

    @property
    def words(self) -> str:
        """The choice as a sentence part."""
        used, *others = self.trials
        return "; ".join([_in_words(used), *(_in_words(trial) for trial in others)])


def _in_words(trial: EngineTrial) -> str:
    """Such as `onnxruntime, 2.8 ms per picture, prepared in 0.4 s, outputs within 1e-06 of eager ones`."""
    if trial.reason is not None:
        return f"{trial.name}: {trial.reason}"
    facts = [trial.name]
    if trial.picture_seconds is not None:
        facts.append(f"{1e3 * trial.picture_seconds:.3g} ms per picture")
    if trial.name != "eager" and trial.preparation_seconds is not None:
        facts.append(f"prepared in {trial.preparation_seconds:.1f} s")
    if trial.difference is not None:
        facts.append(f"outputs within {trial.difference:.0e} of eager ones")
    return ", ".join(facts)


class Planned(Record):
    """What the run was expected to cost before anything was saved by the cache."""

    seconds: Seconds = 0.0
    preparation_seconds: Seconds = 0.0
    """Seconds that choosing and preparing the engine took, which is done before."""
    forward: Count = 0
    backward: Count = 0


class Failure(Record):
    """A unit that failed or, with `metric`, a metric that failed on it."""

    method: str
    """Its label."""
    metric: str | None = None
    sample: str
    """The first sample of the unit."""
    problem: str
    """The error, in words."""


class Totals(Record):
    """What a run cost in all: passes, and seconds summed over processes."""

    forward: Count
    backward: Count
    shared_forward: Count
    shared_backward: Count
    """Passes that the cache saved."""
    model_seconds: Seconds
    """Seconds inside the model."""
    seconds: Seconds
    """Seconds of maps and metrics."""
    wall_seconds: Seconds
    """Seconds from the beginning to the end, summed over all calls that continued the run."""


class RunRecord(Record):
    """What `run.json` holds."""

    schema_version: int
    snellen: str | None
    """The version of Snellen that wrote it."""
    created: str
    """When, ISO 8601."""
    finished: str | None
    """When, ISO 8601, like `created`; None while some unit is missing."""
    request: dict[str, Any] | None
    """The settings of `snellen run`; None for a run made from Python objects."""
    seal: str | None = None
    """Shows that the request was made on this machine, where it names code."""
    spec: Spec
    classifier: ClassifierRecord
    samples: SamplesRecord
    machine: dict[str, str | int | float | None]
    """Processor, memory and the like."""
    versions: dict[str, str | None]
    """Of packages that can change a score."""
    git: str | None
    """The revision of a source checkout of Snellen."""
    notes: tuple[str, ...]
    """Sentences for the report."""
    fitted: dict[str, FittedRecord] = Field(default_factory=dict)
    """By name of the fitted state."""
    variants: dict[str, VariantRecord] = Field(default_factory=dict)
    """By name of the variant."""
    listed_units: tuple[PlannedUnit, ...] | None = None
    """The units that the run consists of, in records of version 1."""
    plan: PlanRecord | None = None
    """The same, in newer records."""
    planned: Planned = Planned()
    engine: EngineRecord | None = None
    """How the engine was chosen; None in runs of older versions."""
    errors: tuple[Failure, ...] = ()
    totals: Totals | None = None
    merged: str | None = None
    """The digest of scores.parquet, which holds all scores."""

    _units: PlannedUnits | None = PrivateAttr(default=None)

    @property
    def units(self) -> PlannedUnits:
        """The units that the run consists of, read when they are first used."""
        if self._units is None:
            self._units = PlannedUnits.of((planned.unit, planned.metrics) for planned in self.listed_units or ())
        return self._units

    def with_units(self, units: PlannedUnits) -> RunRecord:
        """The same with these units, in memory."""
        changed = self.changed()
        changed._units = units
        return changed

    @property
    def method_failures(self) -> dict[str, str]:
        """By method, why its maps could not be computed."""
        return {failure.method: failure.problem for failure in self.errors if failure.metric is None}

    def accuracy(self) -> Accuracy | None:
        """How often the classifier is right about the labelled samples, computed also for records of older versions."""
        rows = self.samples.rows
        if not self.classifier.exclusive:
            return None
        return accuracy(
            rows.values("label"),
            rows.values("prediction"),
            self.classifier.classes,
            self.classifier.class_names,
            self.spec.condition,
        )

    def number_error(self) -> NumberError | None:
        """How far the model is from the true numbers of the samples; None where it estimates none, or no sample has one."""
        rows = self.samples.rows
        if not self.classifier.is_number:
            return None
        return number_error(rows.values("number"), rows.values("estimate"), self.classifier.unit, self.spec.condition)

    def agreement(self) -> Accuracy | NumberError | None:
        """How well the outputs agree with the labels: the accuracy, or the error of a number."""
        return self.number_error() if self.classifier.is_number else self.accuracy()


class StudyRecord(Record):
    """The result of a study about the methods of a run; its lists hold `people.TaskOutcome` and `people.MetricLink`."""

    schema_version: int
    title: str
    digest: str
    """Of the study: protocol, stimuli and questionnaires."""
    source: Literal["human", "simulated"]
    begun: str
    ended: str
    design: str
    people: Count
    left_out: Count
    outcomes: tuple[dict[str, Any], ...]
    links: tuple[dict[str, Any], ...]
    file: PlainName
    """The table of scores per image."""


def read(folder: Folder, name: str, kind: type[R], remedy: str) -> R:
    """The record in a file; one that was changed, or is not of this kind, is refused with the remedy."""
    return _typed(f"{folder}/{name}", _values(folder, name, remedy), kind, remedy)


def read_run(folder: Folder, remedy: str) -> RunRecord:
    """The record in `run.json`; one of a newer schema, or whose parts contradict each other, is refused."""
    path, values = f"{folder}/{RUN}", _values(folder, RUN, remedy)
    _check_schema(values, str(folder))
    record = _typed(path, values, RunRecord, remedy)
    try:
        _check_consistent(record)
    except SnellenError as problem:
        raise DamagedError(path, str(problem), remedy) from None
    if record.samples.table is not None:
        record.samples._rows = SampleTable(
            StoredSamples(folder=folder, file=record.samples.table, remedy=remedy, record=record)
        )
    if record.plan is not None:
        record._units = PlannedUnits(StoredPlan(folder=folder, file=record.plan.table, remedy=remedy))
    return record


@dataclass(frozen=True)
class StoredSamples:
    """Reads the rows of samples when they are first used."""

    folder: Folder
    file: str
    remedy: str
    record: RunRecord

    def __call__(self) -> pa.Table:
        def parse(content: bytes) -> pa.Table:
            table = SampleTable.parse(content)
            _check_rows(SampleTable(table), self.record)
            return table

        return _parsed(self.folder, self.file, self.remedy, parse)


@dataclass(frozen=True)
class StoredPlan:
    """Reads the plan of units when it is first used."""

    folder: Folder
    file: str
    remedy: str

    def __call__(self) -> pa.Table:
        return _parsed(self.folder, self.file, self.remedy, PlannedUnits.parse)


def _parsed(folder: Folder, file: str, remedy: str, parse: Callable[[bytes], pa.Table]) -> pa.Table:
    """A table that run.json names; a damaged one is refused."""
    name = f"{TABLES}/{file}"
    content = read_named(folder, name, remedy)
    try:
        return parse(content)
    except SnellenError as problem:
        raise DamagedError(f"{folder}/{name}", str(problem), remedy) from None


def read_study(folder: Folder, name: str, remedy: str) -> StudyRecord:
    """The result of a study; a record of a newer schema is refused."""
    path, values = f"{folder}/{name}", _values(folder, name, remedy)
    _check_schema(values, path)
    return _typed(path, values, StudyRecord, remedy)


def dump(record: Record) -> bytes:
    """The record as it is written, with its checksum."""
    return dump_record(record.as_json())


def _values(folder: Folder, name: str, remedy: str) -> dict[str, Any]:
    path = f"{folder}/{name}"
    try:
        return parse_record(folder.read(name), path, remedy)
    except OSError as problem:
        raise DamagedError(path, damage(problem), remedy) from None


def _typed(path: str, values: dict[str, Any], kind: type[R], remedy: str) -> R:
    try:
        return parse_as(kind, values, "it")
    except SnellenError as problem:
        raise DamagedError(path, str(problem), remedy) from None


def _check_schema(values: dict[str, Any], owner: str) -> None:
    schema = values.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise SnellenError(f"'{owner}' was written by a newer Snellen (schema {schema}, not {SCHEMA}); upgrade")


def _check_consistent(record: RunRecord) -> None:
    """Refuses a record whose parts contradict each other, in words that follow 'it'."""
    methods = [method.label for method in (*record.spec.methods, *record.spec.positive_controls)]
    metrics = [metric.label for metric in record.spec.metrics]
    for kind, labels in {"methods": methods, "metrics": metrics}.items():
        if len(set(labels)) < len(labels):
            raise SnellenError(f"it names one of its {kind} twice")
    if record.samples.table is None:
        _check_rows(record.samples.rows, record)


def _check_rows(rows: SampleTable, record: RunRecord) -> None:
    """Refuses rows of samples that contradict the record, in words that follow 'it'."""
    names = record.classifier.class_names
    if len(rows) != record.samples.count or rows.names.duplicate() is not None:
        raise SnellenError("it does not have one row per sample")
    highest = max(rows.highest(column) for column in ("label", "prediction", "target"))
    if names is not None and highest >= len(names):
        raise SnellenError(f"it has samples of class {highest}, but names only {len(names)} classes")
