"""How a study is going: who is where, where people leave, how long answers take, and what looks odd."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from snellen.study.folder import Study
from snellen.study.participation import Participation, collect_data
from snellen.study.protocol import Protocol
from snellen.study.schedule import Page

LATEST = 25
"""Participants in the list of the latest."""

STRAIGHT = 4
"""Statements of a questionnaire from which on the same answer to all of them is remarkable."""

Where = Literal["finished", "active", "dropped"]


@dataclass(frozen=True)
class GroupCount:
    """How many of a group are where; `excluded` are those of the finished whom a rule of the protocol excludes."""

    name: str
    begun: int
    finished: int
    active: int
    dropped: int
    excluded: int


@dataclass(frozen=True)
class DropoutPage:
    """How many dropped out at one kind of page; `about` is its task or questionnaire."""

    kind: str
    about: str
    people: int
    share: float


@dataclass(frozen=True)
class AnswerTimes:
    """Seconds per trial of one task under one condition."""

    task: str
    condition: str
    answers: int
    low: float
    median: float
    high: float


@dataclass(frozen=True)
class QualityFlag:
    """Something odd about a participant: the name of the remark, and the words that it is filled with."""

    participant: str
    kind: Literal["attention", "fast", "twice", "straight"]
    words: Mapping[str, Any]


@dataclass(frozen=True)
class Latest:
    """One line about a participant."""

    participant: str
    group: str
    where: Where
    started: str
    done: int
    pages: int
    language: str


@dataclass(frozen=True)
class Overview:
    """Everything about real, or about simulated participants."""

    simulated: bool
    groups: tuple[GroupCount, ...]
    total: GroupCount
    withdrawn: int
    erased: int
    leaving: tuple[DropoutPage, ...]
    paces: tuple[AnswerTimes, ...]
    flags: tuple[QualityFlag, ...]
    latest: tuple[Latest, ...]


def group_names(protocol: Protocol) -> list[str]:
    """What each group is shown; within subjects, in this order."""
    return [" → ".join(one.name for one in group) for group in protocol.groups]


def overview(
    study: Study,
    participations: Sequence[Participation],
    recruited: Mapping[str, Mapping[str, str]],
    *,
    simulated: bool,
    erased: int,
    pages: Callable[[int, int], tuple[Page, ...]],
    now: datetime | None = None,
) -> Overview:
    """How things stand; `pages` are the schedules of participants."""
    since = (now or datetime.now(UTC)) - timedelta(minutes=study.protocol.abandoned)
    where = {visit.participant: _where(visit, since.isoformat()) for visit in participations}
    tables = collect_data(study, participations, simulated=simulated)
    excluded = {str(one) for one in tables.participants.loc[tables.participants["excluded"] != "", "participant"].tolist()}
    names = group_names(study.protocol)

    def count(name: str, some: Sequence[Participation]) -> GroupCount:
        places = Counter(where[one.participant] for one in some)
        out = sum(where[one.participant] == "finished" and one.participant in excluded for one in some)
        return GroupCount(name, len(some), places["finished"], places["active"], places["dropped"], out)

    return Overview(
        simulated,
        tuple(count(name, [visit for visit in participations if visit.group == group]) for group, name in enumerate(names)),
        count("", participations),
        sum(visit.state == "withdrawn" for visit in participations),
        erased,
        _leaving([visit for visit in participations if where[visit.participant] == "dropped"], pages),
        _paces(tables.answers),
        (*_rules(study, tables.participants), *_twice(recruited), *_straight(tables.ratings)),
        tuple(
            Latest(
                visit.participant,
                names[visit.group],
                where[visit.participant],
                visit.started,
                len(visit.replies),
                len(pages(visit.group, visit.number)),
                visit.language,
            )
            for visit in reversed(participations[-LATEST:])
        ),
    )


def _where(visit: Participation, since: str) -> Where:
    if visit.state == "finished":
        return "finished"
    seen = max((visit.started, *(reply.at for reply in visit.replies.values())))
    return "active" if visit.state == "started" and seen >= since else "dropped"


def _leaving(gone: Sequence[Participation], pages: Callable[[int, int], tuple[Page, ...]]) -> tuple[DropoutPage, ...]:
    last: Counter[tuple[str, str]] = Counter()
    for visit in gone:
        page = next((one for one in pages(visit.group, visit.number) if one.id not in visit.replies), None)
        if page is not None:
            last[page.kind, page.scale or page.task] += 1
    return tuple(DropoutPage(kind, about, people, people / len(gone)) for (kind, about), people in last.most_common())


def _paces(answers: Any) -> tuple[AnswerTimes, ...]:
    counted = answers[~answers["practice"].astype(bool)]
    found = []
    for (task, arm, shown), some in counted.groupby(["task", "arm", "presentation"], sort=False)["seconds"]:
        low, middle, high = (float(one) for one in some.astype(float).quantile([0.25, 0.5, 0.75]))
        name = arm if shown == "photograph" else f"{arm}/{shown}"
        found.append(AnswerTimes(task, name, len(some), low, middle, high))
    return tuple(sorted(found, key=lambda one: (one.task, one.condition)))


def _rules(study: Study, people: Any) -> list[QualityFlag]:
    """Who misses attention checks or is too fast, by the protocol's own limits."""
    found = []
    for one in people.to_dict("records"):
        if one["attention_missed"] > study.protocol.exclude.missed:
            words = {"count": one["attention_missed"], "shown": one["attention_shown"]}
            found.append(QualityFlag(one["participant"], "attention", words))
        if one["median_seconds"] < study.protocol.exclude.seconds:
            found.append(QualityFlag(one["participant"], "fast", {"seconds": round(one["median_seconds"], 2)}))
    return found


def _twice(recruited: Mapping[str, Mapping[str, str]]) -> list[QualityFlag]:
    """Who came with a recruiting id that another came with."""
    by_id: dict[tuple[str, str], list[str]] = {}
    for participant, ids in recruited.items():
        for pair in ids.items():
            by_id.setdefault(pair, []).append(participant)
    # Everybody has the same id of the study itself; only ids that tell most people apart tell who came twice.
    common = {name for name in {pair[0] for pair in by_id} if _tells_nobody_apart(name, recruited)}
    others: dict[str, set[str]] = {}
    for (name, _), people in by_id.items():
        if len(people) > 1 and name not in common:
            for person in people:
                others.setdefault(person, set()).update(set(people) - {person})
    return [QualityFlag(one, "twice", {"others": ", ".join(sorted(same))}) for one, same in others.items()]


def _tells_nobody_apart(name: str, recruited: Mapping[str, Mapping[str, str]]) -> bool:
    values = [ids[name] for ids in recruited.values() if name in ids]
    return len(values) > 2 and len(set(values)) == 1


def _straight(ratings: Any) -> list[QualityFlag]:
    found = []
    for (participant, scale, _), some in ratings.groupby(["participant", "scale", "at"], sort=False)["answer"]:
        if len(some) >= STRAIGHT and some.nunique() == 1:
            found.append(QualityFlag(participant, "straight", {"scale": scale}))
    return found
