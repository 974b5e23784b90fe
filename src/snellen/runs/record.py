"""The typed records of a run folder: what `run.json`, its units and the other JSON files hold.

This is the only module that knows the keys on disk. A field whose stored key is an older word is listed in `STORED_KEYS`.
Fields that an older version did not write have a default here; keys that a newer version added are kept and written back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from snellen.errors import SnellenError
from snellen.files.documents import PlainName, parse_as
from snellen.files.integrity import DamagedError, dump_record, read_record
from snellen.plugins.notation import read_plugin
from snellen.plugins.traits import Attribute
from snellen.runs.accuracy import Accuracy, accuracy
from snellen.runs.number_error import NumberError, number_error

SCHEMA = 1
"""The version of the records that this code writes, and the newest that it reads."""

STORED_KEYS = {"schema_version": "schema", "fitted": "lessons", "variants": "relatives", "class_names": "names"}
"""The key on disk of each field that has another name in code."""

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]
UnitKey = Annotated[str, Field(pattern="^[0-9a-f]{20}$")]


R = TypeVar("R", bound="Record")


class Record(BaseModel):
    """A JSON object of the run folder, read strictly; keys of other versions are kept."""

    model_config = ConfigDict(
        extra="allow",
        allow_inf_nan=False,
        frozen=True,
        populate_by_name=True,
        protected_namespaces=(),
        alias_generator=lambda field: STORED_KEYS.get(field, field),
    )

    def changed(self: R, **values: Any) -> R:
        """A copy with other values of these fields."""
        return self.model_copy(update=values)

    def as_json(self) -> dict[str, Any]:
        """The plain values that are stored: what was read or set, without defaults."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


class FileRecord(Record):
    """A record that names a file in its own folder."""

    file: PlainName


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
    refused: dict[str, Refusal] = {}
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
    compiled: bool = False
    """Whether the forward pass was compiled."""

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
    versions: dict[str, str] = {}
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


class SampleRow(Record):
    """One sample, and what the classifier predicts for it."""

    sample: str
    """Its id."""
    label: Count | None
    """The class that is right; None where it is unknown, or several are."""
    prediction: Count
    """The most likely class."""
    probability: float
    """Of the predicted class."""
    target: Count
    """The class that its maps explain."""
    truth: str | None = None
    """Whether a mask says where the evidence is: some, empty or none."""
    group: str | None = None
    """Such as a patient; None without one."""
    number: float | None = None
    """The true number, where the model estimates one."""
    estimate: float | None = None
    """The number that the model estimates."""


class SamplesRecord(Record):
    """The samples of a run."""

    count: Count
    digest: str
    """A hash of the content of all samples."""
    source: str
    """Where they come from, in words."""
    rows: tuple[SampleRow, ...]
    pictures: dict[str, PlainName]
    """Files of the first samples as the classifier sees them, by sample."""
    accuracy: Accuracy | None = None
    """Of a model with classes, on labelled samples."""
    error: NumberError | None = None
    """Of a model that estimates a number."""


class PlannedUnit(Record):
    """A unit that the run consists of, and the metrics that are read from it."""

    unit: UnitKey
    """Its key."""
    metrics: tuple[str, ...]
    """Their labels."""


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


class Planned(Record):
    """What the run was expected to cost before anything was saved by the cache."""

    seconds: Seconds = 0.0
    compile_seconds: Seconds = 0.0
    """Seconds that compiling took, which is done before."""
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
    fitted: dict[str, FittedRecord] = {}
    """By name of the fitted state."""
    variants: dict[str, VariantRecord] = {}
    """By name of the variant."""
    units: tuple[PlannedUnit, ...]
    planned: Planned = Planned()
    errors: tuple[Failure, ...] = ()
    totals: Totals | None = None
    merged: str | None = None
    """The digest of scores.parquet, which holds all scores."""

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
            [row.label for row in rows],
            [row.prediction for row in rows],
            self.classifier.classes,
            self.classifier.class_names,
            self.spec.condition,
        )

    def number_error(self) -> NumberError | None:
        """How far the model is from the true numbers of the samples; None where it estimates none, or no sample has one."""
        rows = self.samples.rows
        if not self.classifier.is_number:
            return None
        return number_error(
            [row.number for row in rows], [row.estimate for row in rows], self.classifier.unit, self.spec.condition
        )

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


def read(path: Path, kind: type[R], remedy: str) -> R:
    """The record in a file; one that was changed, or is not of this kind, is refused with the remedy."""
    return _typed(path, read_record(path, remedy), kind, remedy)


def read_run(path: Path, remedy: str) -> RunRecord:
    """The record in `run.json`; one of a newer schema, or whose parts contradict each other, is refused."""
    values = read_record(path, remedy)
    _check_schema(values, str(path.parent))
    record = _typed(path, values, RunRecord, remedy)
    try:
        _check_consistent(record)
    except SnellenError as problem:
        raise DamagedError(path, str(problem), remedy) from None
    return record


def read_study(path: Path, remedy: str) -> StudyRecord:
    """The result of a study; a record of a newer schema is refused."""
    values = read_record(path, remedy)
    _check_schema(values, str(path))
    return _typed(path, values, StudyRecord, remedy)


def dump(record: Record) -> bytes:
    """The record as it is written, with its checksum."""
    return dump_record(record.as_json())


def _typed(path: Path, values: dict[str, Any], kind: type[R], remedy: str) -> R:
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
    rows, names = record.samples.rows, record.classifier.class_names
    if len({row.sample for row in rows}) < len(rows) or len(rows) != record.samples.count:
        raise SnellenError("it does not have one row per sample")
    methods = [method.label for method in (*record.spec.methods, *record.spec.positive_controls)]
    metrics = [metric.label for metric in record.spec.metrics]
    for kind, labels in {"methods": methods, "metrics": metrics}.items():
        if len(set(labels)) < len(labels):
            raise SnellenError(f"it names one of its {kind} twice")
    highest = max((number or 0 for row in rows for number in (row.label, row.prediction, row.target)), default=0)
    if names is not None and highest >= len(names):
        raise SnellenError(f"it has samples of class {highest}, but names only {len(names)} classes")
