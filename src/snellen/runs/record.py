"""What the records in a run folder look like. What an older version did not write is not required."""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from snellen.errors import SnellenError
from snellen.files.documents import OPEN, PlainName
from snellen.plugins.traits import Attribute

Count = Annotated[int, Field(ge=0)]
Seconds = Annotated[float, Field(ge=0)]
Key = Annotated[str, Field(pattern="^[0-9a-f]{20}$")]


class Named(TypedDict):
    """A record that names a file beside it."""

    __pydantic_config__ = OPEN  # type: ignore[misc]

    file: PlainName


class PeopleRecord(TypedDict):
    """What a study says of the methods of a run; `people.Outcome` and `people.Link` say what its lists hold."""

    __pydantic_config__ = OPEN  # type: ignore[misc]

    schema: int
    file: PlainName
    title: str
    digest: str
    source: Literal["human", "simulated"]
    begun: str
    ended: str
    design: str
    people: Count
    left_out: Count
    outcomes: list[dict[str, Any]]
    links: list[dict[str, Any]]


class Cost(TypedDict):
    """What was paid for the maps of a unit, or for one metric on them."""

    __pydantic_config__ = OPEN  # type: ignore[misc]

    seconds: Seconds
    forward: Count
    backward: Count
    model_seconds: Seconds
    shared_forward: Count
    shared_backward: Count
    shared_seconds: Seconds


class Refusal(TypedDict):
    """Why a metric cannot be scored on the maps of a method."""

    key: str
    problem: str


class UnitRecord(TypedDict):
    """A finished unit: one method on one shard."""

    __pydantic_config__ = OPEN  # type: ignore[misc]

    map_key: str
    method: str
    samples: list[str]
    maps: PlainName
    scores: PlainName
    metrics: dict[str, str]
    metric_costs: dict[str, Cost]
    refused: NotRequired[dict[str, Refusal]]
    cost: NotRequired[Cost]


class MethodRecord(TypedDict):
    """A method that was asked for."""

    __pydantic_config__ = OPEN  # type: ignore[misc]

    label: str
    name: str
    params: dict[str, Any]
    control: bool
    signed: NotRequired[bool]
    summary: str
    cite: str
    version: int


class MetricRecord(TypedDict):
    """A metric that was asked for."""

    __pydantic_config__ = OPEN  # type: ignore[misc]

    label: str
    name: str
    params: dict[str, Any]
    attribute: Attribute
    higher_is_better: bool
    bounds: Annotated[list[float | None], Field(min_length=2, max_length=2)]
    undefined: str
    test: NotRequired[str | None]
    formula: NotRequired[str]
    tolerance: NotRequired[float | None]
    points: NotRequired[list[str] | None]
    summary: str
    cite: str
    version: int


class Spec(TypedDict):
    """What was asked for."""

    __pydantic_config__ = OPEN  # type: ignore[misc]

    methods: list[MethodRecord]
    metrics: list[MetricRecord]
    target: str | int
    condition: NotRequired[str | None]
    seed: Count
    shard: Annotated[int, Field(ge=1)]
    precision: str
    compiled: NotRequired[bool]


class ClassifierRecord(TypedDict):
    """What was explained."""

    __pydantic_config__ = OPEN  # type: ignore[misc]

    name: str
    fingerprint: str
    mean: list[float]
    std: list[float]
    outputs: str
    device: str
    names: NotRequired[list[str] | None]
    classes: Count
    rows: Count


class SampleRow(TypedDict):
    """One sample, and what the classifier makes of it."""

    __pydantic_config__ = OPEN  # type: ignore[misc]

    sample: str
    label: Count | None
    prediction: Count
    probability: float
    target: Count
    truth: NotRequired[str | None]


class SamplesRecord(TypedDict):
    """The samples of a run."""

    __pydantic_config__ = OPEN  # type: ignore[misc]

    count: Count
    digest: str
    source: str
    rows: list[SampleRow]
    pictures: dict[str, PlainName]


class UnitOfPlan(TypedDict):
    """A unit that the run consists of, and the metrics that count in it."""

    __pydantic_config__ = OPEN  # type: ignore[misc]

    unit: Key
    metrics: list[str]


class Failure(TypedDict):
    """A unit, or a metric on it, that failed."""

    __pydantic_config__ = OPEN  # type: ignore[misc]

    method: str
    metric: NotRequired[str]
    sample: str
    problem: str


class Totals(TypedDict):
    """What a run cost in all."""

    __pydantic_config__ = OPEN  # type: ignore[misc]

    forward: Count
    backward: Count
    shared_forward: Count
    shared_backward: Count
    model_seconds: Seconds
    seconds: Seconds
    wall_seconds: Seconds


class RunRecord(TypedDict):
    """What `run.json` holds."""

    __pydantic_config__ = OPEN  # type: ignore[misc]

    schema: int
    snellen: str | None
    created: str
    finished: str | None
    request: dict[str, Any] | None
    spec: Spec
    classifier: ClassifierRecord
    samples: SamplesRecord
    units: list[UnitOfPlan]
    machine: dict[str, str | int | float | None]
    versions: dict[str, str | None]
    git: str | None
    notes: list[str]
    lessons: NotRequired[dict[str, Any]]
    relatives: NotRequired[dict[str, Any]]
    planned: NotRequired[dict[str, float]]
    errors: NotRequired[list[Failure]]
    totals: NotRequired[Totals]


def check_agrees(record: dict[str, Any]) -> None:
    """Refuses a record whose parts contradict each other, in words that follow 'it'."""
    rows, names = record["samples"]["rows"], record["classifier"].get("names")
    if len({row["sample"] for row in rows}) < len(rows) or len(rows) != record["samples"]["count"]:
        raise SnellenError("it does not have one row per sample")
    for kind in ("methods", "metrics"):
        labels = [one["label"] for one in record["spec"][kind]]
        if len(set(labels)) < len(labels):
            raise SnellenError(f"it names one of its {kind} twice")
    highest = max((row[key] or 0 for row in rows for key in ("label", "prediction", "target")), default=0)
    if names is not None and highest >= len(names):
        raise SnellenError(f"it speaks of class {highest} and names {len(names)}")
