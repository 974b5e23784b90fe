"""The protocol of a study: the settings in `study.yaml`, checked in one place."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from snellen.errors import SnellenError
from snellen.files.documents import EXACT, MOST_WHOLE, PlainName, parse_as
from snellen.runs.settings import Settings
from snellen.study.tasks import TaskName

Design = Literal["between", "within"]
Presentation = Literal["overlay", "side-by-side", "map"]
Order = Literal["shuffled", "fixed"]
Amount = int | float
"""A number as it was written, because the digest of a study distinguishes `2` from `2.0`."""
Count = Annotated[int, Field(ge=0, le=1000)]
"""A number of things per participant."""

NONE = "none"
"""The arm without explanations: the photograph alone."""


@dataclass(frozen=True, order=True)
class StudyCondition:
    """An arm with the way in which its maps are presented."""

    arm: str
    """The label of a method, or `none`."""
    presentation: str
    """How maps are shown; `photograph` without maps."""

    @property
    def name(self) -> str:
        """The name in files and tables."""
        return self.arm if self.arm == NONE else f"{self.arm}/{self.presentation}"


@dataclass(frozen=True)
class TaskPlan:
    """One task of the protocol."""

    __pydantic_config__ = EXACT

    task: TaskName
    items: Count = 12
    """Items whose answers count."""
    practice: Count = 2
    """Items for practice, which come first."""
    order: Order = "shuffled"
    """Of the items that count."""


@dataclass(frozen=True)
class Exclusion:
    """Which participants are excluded from the analysis; stated before the study begins."""

    __pydantic_config__ = EXACT

    missed: Count = 0
    """Participants who miss more attention checks than this are excluded."""
    seconds: Amount = 1.0
    """Participants whose median time per trial is shorter than this are excluded."""


@dataclass(frozen=True)
class Protocol:
    """Everything about a study that is decided before it begins."""

    __pydantic_config__ = EXACT

    title: str
    """Of the study; participants read it."""
    arms: tuple[str, ...]
    """Labels of methods of the run; `none` is the arm without maps."""
    tasks: tuple[TaskPlan, ...]
    design: Design = "between"
    """`between` subjects: a participant sees one condition; `within`: all of them, one after the other."""
    presentation: tuple[Presentation, ...] = ("overlay",)
    """How maps are shown; with several, each arm is shown in each."""
    languages: tuple[PlainName, ...] = ("en", "de")
    scales: tuple[PlainName, ...] = ("satisfaction", "trust")
    """Names of the questionnaires."""
    attention: Count = 2
    """Attention checks per participant."""
    exclude: Exclusion = Exclusion()
    alpha: Amount = 0.05
    """The level of every test."""
    margin: Amount = 0.5
    """Two arms whose means on a scale differ by less count as equal, in points of the scale."""
    seed: Annotated[int, Field(ge=0, le=MOST_WHOLE)] = 0
    """Of the choice of items and of every random order."""
    people: int | None = None
    """The study closes when so many participants have finished; None: the experimenter closes it."""
    abandoned: Amount = 60.0
    """Minutes without an answer after which a participant no longer counts when groups are filled."""
    recruiting: tuple[str, ...] = ()
    """Names of parameters in the link that are stored, such as PROLIFIC_PID; others are ignored."""
    return_link: str | None = None
    """Where the last page leads to; `{code}` stands for the completion code."""
    run: str = ""
    """The run folder that the study was made from."""

    def __post_init__(self) -> None:
        """Refuses a protocol that cannot be carried out."""
        _check(self)

    @cached_property
    def conditions(self) -> tuple[StudyCondition, ...]:
        """Every arm in every presentation; the arm without explanation has only one."""
        return tuple(
            StudyCondition(arm, presentation)
            for arm in self.arms
            for presentation in (self.presentation if arm != NONE else ("photograph",))
        )

    @cached_property
    def groups(self) -> tuple[tuple[StudyCondition, ...], ...]:
        """The groups of participants: a condition each, or within subjects an order of all conditions."""
        if self.design == "between":
            return tuple((condition,) for condition in self.conditions)
        return tuple(tuple(self.conditions[index] for index in row) for row in latin_square(len(self.conditions)))

    @staticmethod
    def read(path: Path) -> Protocol:
        """The protocol in a YAML file."""
        return Protocol.of(Settings.read(path), str(path))

    @staticmethod
    def of(values: Mapping[str, Any], owner: str) -> Protocol:
        """A protocol from plain values; unknown names and wrong types are refused by name."""
        missing = [name for name in ("title", "arms", "tasks") if not values.get(name)]
        if missing:
            raise SnellenError(f"{owner} has no '{missing[0]}'; see docs/studies.md for an example")
        return parse_as(Protocol, values, owner)

    def as_values(self) -> dict[str, Any]:
        """The protocol as plain values for YAML and JSON."""
        return {name: _plain(value) for name, value in dataclasses.asdict(self).items()}


def latin_square(size: int) -> list[list[int]]:
    """Orders in which every number follows every other equally often: a row per order, twice as many for an odd size.

    >>> latin_square(4)
    [[0, 1, 3, 2], [1, 2, 0, 3], [2, 3, 1, 0], [3, 0, 2, 1]]
    """
    first = [0, *((step + 1) // 2 if step % 2 else size - step // 2 for step in range(1, size))]
    rows = [[(number + row) % size for number in first] for row in range(size)]
    return rows if size % 2 == 0 or size == 1 else rows + [row[::-1] for row in rows]


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(element) for element in value]
    return {key: _plain(element) for key, element in value.items()} if isinstance(value, dict) else value


def _check(protocol: Protocol) -> None:
    for problem in _problems(protocol):
        raise SnellenError(f"the protocol '{protocol.title}' {problem}")


def _problems(protocol: Protocol) -> Iterator[str]:
    if not protocol.title.strip():
        yield "needs a title"
    for what, names in (("arms", protocol.arms), ("languages", protocol.languages), ("scales", protocol.scales)):
        if len(set(names)) < len(names):
            yield f"names one of its {what} twice; leave the second out"
    if len(set(protocol.presentation)) < len(protocol.presentation) or not protocol.presentation:
        yield "needs its presentations, each once: overlay, side-by-side or map"
    if not protocol.languages:
        yield "needs a language, such as en"
    if not [arm for arm in protocol.arms if arm != NONE]:
        yield f"needs an arm with maps beside '{NONE}'"
    if not protocol.tasks:
        yield "needs a task"
    if len({plan.task for plan in protocol.tasks}) < len(protocol.tasks):
        yield "has the same task twice; give it more items instead"
    for plan in protocol.tasks:
        if plan.items < 1 or plan.practice < 0:
            yield f"needs at least one item of '{plan.task}' and no negative number of practice trials"
        if protocol.design == "within" and plan.items < len(protocol.conditions):
            conditions = len(protocol.conditions)
            yield (
                f"has {plan.items} items of '{plan.task}' for {conditions} conditions, but within subjects every "
                f"condition needs at least one; give at least {conditions}"
            )
    if protocol.attention < 0 or protocol.exclude.missed < 0 or protocol.exclude.seconds < 0:
        yield "cannot have negative numbers of attention checks, misses or seconds"
    if not 0 < protocol.alpha < 0.5 or protocol.margin <= 0:
        yield "needs an alpha between 0 and 0.5 and a margin above 0"
    if protocol.abandoned <= 0 or (protocol.people is not None and protocol.people < 1):
        yield "needs `abandoned` above 0 minutes and, where it is given, `people` of at least 1"
