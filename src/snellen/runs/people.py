"""Results of studies with participants about the maps of a run, stored in its folder.

`RUN/people/` holds one record per study, named by the study's digest, and the file that it names: the score of every image
and method, in Parquet, named by its content. The record is written last and replaces an earlier one of the same
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
"""Of the table of scores; `n` counts the answers, and `error` is the standard error of their mean."""


_NOT_PLAIN = ("outcomes", "links", "images")
"""Fields of `StudyResult` that are not plain values."""


def arm_name(arm: str) -> str:
    """The name of an arm in a sentence."""
    return "no map" if arm == NO_MAP else arm


@dataclass(frozen=True)
class ArmMean:
    """The mean over the participants of one arm, who saw the maps of one method in one presentation."""

    method: str
    """A method's label, or `none`."""
    presentation: str
    """How the maps were shown, such as `overlay`; `photograph` without maps."""
    people: int
    """How many participants."""
    mean: Number
    low: Number
    high: Number
    """Ends of the 95 % interval of the mean."""


@dataclass(frozen=True)
class ArmContrast:
    """By how much the participants of one arm did better than those of another; positive is better for every score."""

    other: str
    """The method of the other arm, or `none`."""
    mean: Number
    low: Number
    high: Number
    """Ends of the 95 % interval of the mean difference."""
    margin: Number
    """A difference within this margin does not matter."""
    error: Number
    """The standard error of the difference."""
    p: Number
    """Corrected for all comparisons of the same kind in the task."""
    people: int
    """In the smaller of the two arms."""


@dataclass(frozen=True)
class MethodStanding:
    """The verdict on the method of one arm, by the rule of the outcome, and what it rests on."""

    method: str
    """The method's label."""
    presentation: str
    """How the maps were shown."""
    verdict: str
    """pass, fail, inconclusive or not counted."""
    reason: str
    """Why, in words."""
    against: tuple[ArmContrast, ...]
    """The contrasts that decide the verdict."""
    others: tuple[ArmContrast, ...] = ()
    """Contrasts with other methods of the study, for information."""
    advice: str = ""
    """How many more participants would decide an inconclusive verdict, in words."""


@dataclass(frozen=True)
class TaskOutcome:
    """One task or questionnaire of a study."""

    name: str
    """Of the task or questionnaire."""
    kind: Literal["ability", "sharpness", "scale"]
    """What participants can do, how sharp they find maps, or a questionnaire."""
    score: str
    """What the score is, in words."""
    higher_is_better: bool
    rule: str
    """The rule of its verdicts, in words."""
    arms: tuple[ArmMean, ...]
    """One for every arm, with or without maps."""
    standings: tuple[MethodStanding, ...]
    """One for every arm with maps."""

    @property
    def title(self) -> str:
        """Its name as a heading."""
        return self.name.replace("-", " ").capitalize()


@dataclass(frozen=True)
class MetricLink:
    """Whether a metric predicts how well people do in a task, image by image (see `study.joining.agreement`)."""

    task: str
    """Name of the task."""
    metric: str
    """Label of the metric."""
    word: str
    """predicts, opposite, no sign or too few."""
    estimate: Number
    """The link, from -1 to 1."""
    low: Number
    high: Number
    """Ends of its 95 % interval."""
    p: Number
    """Corrected for the number of metrics."""
    items: int
    methods: int
    """How many items and methods it is computed from."""


@dataclass(frozen=True, eq=False)
class StudyResult:
    """The results of one study about the methods of a run."""

    title: str
    digest: str
    """Of the study: protocol, stimuli and questionnaires."""
    source: Literal["human", "simulated"]
    """Whether people answered, or simulated participants."""
    begun: str
    ended: str
    """Days of the first and the last answer; empty where there is none."""
    design: str
    """`between` or `within` subjects."""
    people: int
    """Participants who count."""
    left_out: int
    """Participants who do not, by the rule that the study stated beforehand."""
    outcomes: tuple[TaskOutcome, ...]
    """One per task and questionnaire."""
    links: tuple[MetricLink, ...]
    """One per task and metric."""
    images: pd.DataFrame
    """The columns of `COLUMNS`: per image, method and task, people's mean score."""

    @property
    def presentations(self) -> tuple[str, ...]:
        """The ways in which maps were presented, each once."""
        every = (arm.presentation for outcome in self.outcomes for arm in outcome.arms if arm.method != NO_MAP)
        return tuple(dict.fromkeys(every))

    @property
    def scores(self) -> tuple[Scores, ...]:
        """The mean score of every image, in the form of a metric's scores."""
        return tuple(
            Scores(
                method=str(method),
                metric=str(metric),
                ids=tuple(map(str, rows["sample"])),
                values=torch.tensor(rows["value"].to_numpy(dtype="float64")),
                source=self.source,
            )
            for (method, metric), rows in self.images.groupby(["method", "metric"], sort=False)
        )


def write_people(folder: str | Path, people: StudyResult) -> None:
    """Stores the results of a study in a run folder, in place of earlier results of the same study.

    Results of simulated participants never replace those of people.
    """
    store = Store(folder)
    table = io.BytesIO()
    people.images.loc[:, list(COLUMNS)].to_parquet(table, index=False)
    with store.writing():
        earlier = store.people().get(people.digest)
        if earlier is not None and earlier.source == "human" and people.source == "simulated":
            raise SnellenError(
                f"'{folder}' has answers of participants in '{people.title}', which simulated answers never replace; "
                "join the simulation to a copy of the run"
            )
        facts = {"schema": SCHEMA, **_plain(people), "file": store.put_people_table(table.getvalue())}
        store.put_people(StudyRecord.model_validate(facts))


def read_people(folder: str | Path) -> tuple[StudyResult, ...]:
    """The results of all studies in a run folder, in the order in which they ended."""
    store, studies = Store(folder), []
    for key, record in store.people().items():
        owner = f"'{folder}/people/{key}.json'"
        studies.append(
            StudyResult(
                **{
                    field.name: getattr(record, field.name)
                    for field in dataclasses.fields(StudyResult)
                    if field.name not in _NOT_PLAIN
                },
                outcomes=tuple(parse_as(TaskOutcome, outcome, f"{owner}, outcomes") for outcome in record.outcomes),
                links=tuple(parse_as(MetricLink, link, f"{owner}, links") for link in record.links),
                images=store.people_table(record.file).to_pandas(),
            )
        )
    return merge_studies([tuple(studies)])


def merge_studies(studies_by_run: Iterable[tuple[StudyResult, ...]]) -> tuple[StudyResult, ...]:
    """The studies of several runs, each once; answers of people take precedence over simulated ones of the same study."""
    merged: dict[str, StudyResult] = {}
    for study in (study for studies in studies_by_run for study in studies):
        if study.digest not in merged or (study.source == "human" and merged[study.digest].source == "simulated"):
            merged[study.digest] = study
    return tuple(sorted(merged.values(), key=lambda study: (study.ended, study.digest)))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        fields = (field.name for field in dataclasses.fields(value) if field.name != "images")
        return {name: _plain(getattr(value, name)) for name in fields}
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
