"""What the people of a study could do with the maps of a run, kept in the run's folder beside what metrics say.

`RUN/people/` holds one record per study, named by the study's digest, and the file that it names: the score of every image
and method, in Parquet, named by its content. The record is written last and takes the place of an earlier one of the same
study. Nothing else in the folder is touched.
"""

from __future__ import annotations

import dataclasses
import io
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import torch

from snellen.errors import SnellenError
from snellen.files.documents import Number, parse_as
from snellen.runs.record import SCHEMA, StudyRecord
from snellen.runs.store import Store
from snellen.types import Scores

NO_MAP = "none"
"""How a study names the arm that sees no explanation."""

COLUMNS = ("sample", "method", "presentation", "metric", "value", "n", "error", "source")
"""Of the file of scores: `n` answers by as many people, and the standard error of their mean."""


_APART = ("outcomes", "links", "images")
"""Fields of `People` that are not plain values."""


def arm_name(arm: str) -> str:
    """An arm in a sentence."""
    return "no map" if arm == NO_MAP else arm


@dataclass(frozen=True)
class ArmMean:
    """How those did, or what those said, who saw the maps of one method in one presentation; one value per person."""

    method: str
    """A method's label, or `none`."""
    presentation: str
    people: int
    mean: Number
    low: Number
    high: Number
    """Ends of the 95 % interval of the mean."""


@dataclass(frozen=True)
class ArmContrast:
    """By how much the people of one arm did better than those of another (positive is better, whatever the score)."""

    other: str
    mean: Number
    low: Number
    high: Number
    margin: Number
    error: Number
    p: Number
    """Corrected for all comparisons of the same kind in the task."""
    people: int
    """In the smaller of the two arms."""


@dataclass(frozen=True)
class MethodStanding:
    """What one arm's answers say of its method: a verdict, by the rule of the outcome, and what it rests on."""

    method: str
    presentation: str
    verdict: str
    reason: str
    against: tuple[ArmContrast, ...]
    """What the verdict was judged by."""
    others: tuple[ArmContrast, ...] = ()
    """Beside it, other methods of the study."""
    advice: str = ""


@dataclass(frozen=True)
class TaskOutcome:
    """One task or questionnaire of a study."""

    name: str
    kind: Literal["ability", "sharpness", "scale"]
    score: str
    """What the number is, in words."""
    higher_is_better: bool
    rule: str
    arms: tuple[ArmMean, ...]
    standings: tuple[MethodStanding, ...]
    """Of every arm with maps."""

    @property
    def title(self) -> str:
        """Its name for people."""
        return self.name.replace("-", " ").capitalize()

    def mean_of(self, method: str) -> float:
        """The mean of an arm over its presentations; NaN where there is no such arm."""
        means = [arm.mean for arm in self.arms if arm.method == method]
        return sum(means) / len(means) if means else math.nan


@dataclass(frozen=True)
class MetricLink:
    """Whether a metric goes with what people could do in a task, image by image (see `study.agreement`)."""

    task: str
    metric: str
    word: str
    """predicts, opposite, no sign or too few."""
    estimate: Number
    low: Number
    high: Number
    p: Number
    items: int
    methods: int


@dataclass(frozen=True, eq=False)
class StudyResult:
    """What one study says of the methods of a run."""

    title: str
    digest: str
    """Of the study: protocol, stimuli and questionnaires."""
    source: Literal["human", "simulated"]
    begun: str
    ended: str
    """Days of the first and the last answer, empty where nobody answered."""
    design: str
    people: int
    """Who counts."""
    left_out: int
    """Who does not, by the rule that the study stated beforehand."""
    outcomes: tuple[TaskOutcome, ...]
    links: tuple[MetricLink, ...]
    images: pd.DataFrame
    """The columns of `COLUMNS`: per image, method and task, people's mean score."""

    @property
    def presentations(self) -> tuple[str, ...]:
        """How maps were shown."""
        shown = (arm.presentation for outcome in self.outcomes for arm in outcome.arms if arm.method != NO_MAP)
        return tuple(dict.fromkeys(shown))

    @property
    def scores(self) -> tuple[Scores, ...]:
        """The same image by image, in the form of a metric's scores."""
        return tuple(
            Scores(
                str(method),
                str(metric),
                tuple(map(str, rows["sample"])),
                torch.tensor(rows["value"].to_numpy(dtype="float64")),
                source=self.source,
            )
            for (method, metric), rows in self.images.groupby(["method", "metric"], sort=False)
        )


def write_people(folder: Path, people: StudyResult) -> None:
    """Keeps what a study says in a run's folder, in the place of what the same study said before.

    What simulated people answered never takes the place of what people did.
    """
    store = Store(folder)
    table = io.BytesIO()
    people.images.loc[:, list(COLUMNS)].to_parquet(table, index=False)
    with store.writing():
        before = store.people().get(people.digest)
        if before is not None and before.source == "human" and people.source == "simulated":
            raise SnellenError(
                f"'{folder}' has what people answered in '{people.title}', and simulated people never take their place; "
                "join the rehearsal to a copy of the run"
            )
        facts = {"schema": SCHEMA, **_plain(people), "file": store.put_people_table(table.getvalue())}
        store.put_people(StudyRecord.model_validate(facts))


def read_people(folder: Path) -> tuple[StudyResult, ...]:
    """What studies say of the run in this folder, in the order in which they ended."""
    store, found = Store(folder), []
    for key, record in store.people().items():
        owner = f"'{folder}/people/{key}.json'"
        found.append(
            StudyResult(
                **{
                    field.name: getattr(record, field.name)
                    for field in dataclasses.fields(StudyResult)
                    if field.name not in _APART
                },
                outcomes=tuple(parse_as(TaskOutcome, outcome, f"{owner}, outcomes") for outcome in record.outcomes),
                links=tuple(parse_as(MetricLink, link, f"{owner}, links") for link in record.links),
                images=store.people_table(record.file).to_pandas(),
            )
        )
    return merge_studies([tuple(found)])


def merge_studies(several: Iterable[tuple[StudyResult, ...]]) -> tuple[StudyResult, ...]:
    """The studies of several runs; where two hold the same one, people come before simulated people, then the first."""
    found: dict[str, StudyResult] = {}
    for one in (one for some in several for one in some):
        if one.digest not in found or (one.source == "human" and found[one.digest].source == "simulated"):
            found[one.digest] = one
    return tuple(sorted(found.values(), key=lambda one: (one.ended, one.digest)))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = (field.name for field in dataclasses.fields(value) if field.name != "images")
        return {name: _plain(getattr(value, name)) for name in fields}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
