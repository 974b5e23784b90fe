"""The progress of a study: participants per group, drop-out, answer times and remarks on data quality."""

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
"""Length of the list of latest participants."""

STRAIGHT = 4
"""The same answer to all statements is remarked on from this number of statements on."""

Progress = Literal["finished", "active", "dropped"]


@dataclass(frozen=True, kw_only=True)
class GroupCount:
    """Numbers of participants in a group."""

    name: str
    begun: int
    finished: int
    active: int
    """Begun, not finished, with an answer lately."""
    dropped: int
    """Begun, not finished, and without an answer lately, or withdrawn."""
    excluded: int
    """Of those who finished, how many the protocol excludes."""


@dataclass(frozen=True)
class DropoutPage:
    """How many participants dropped out at one kind of page."""

    kind: str
    """Of the page, such as `trial`."""
    about: str
    """The task or questionnaire of the page; empty for others."""
    people: int
    share: float
    """Of all who dropped out."""


@dataclass(frozen=True)
class AnswerTimes:
    """Seconds per trial of one task under one condition."""

    task: str
    condition: str
    answers: int
    low: float
    median: float
    high: float
    """Quartiles and median, in seconds."""


@dataclass(frozen=True)
class QualityFlag:
    """A remark on a participant's data."""

    participant: str
    kind: Literal["attention", "fast", "twice", "straight"]
    words: Mapping[str, Any]
    """What the sentence is filled with."""


@dataclass(frozen=True, kw_only=True)
class LatestParticipant:
    """A row of the list of latest participants."""

    participant: str
    group: str
    progress: Progress
    started: str
    done: int
    """Pages answered."""
    pages: int
    """All pages of the participant."""
    language: str


@dataclass(frozen=True, kw_only=True)
class Overview:
    """The progress of all real or of all simulated participants."""

    simulated: bool
    groups: tuple[GroupCount, ...]
    total: GroupCount
    withdrawn: int
    erased: int
    """How many were erased; in no other number."""
    dropout_pages: tuple[DropoutPage, ...]
    answer_times: tuple[AnswerTimes, ...]
    flags: tuple[QualityFlag, ...]
    latest: tuple[LatestParticipant, ...]
    """The last to arrive, the latest first."""


def group_names(protocol: Protocol) -> list[str]:
    """The conditions of each group; within subjects, in their order."""
    return [" → ".join(condition.name for condition in group) for group in protocol.groups]


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
    """The progress of these participants.

    Args:
        study: The study.
        participations: All real or all simulated participants.
        recruited: By participant, the recruiting ids.
        simulated: Whether they are simulated.
        erased: How many were erased.
        pages: The schedule by group and number.
        now: The present time.
    """
    since = (now or datetime.now(UTC)) - timedelta(minutes=study.protocol.abandoned)
    progress = {participation.participant: _progress(participation, since.isoformat()) for participation in participations}
    tables = collect_data(study, participations, simulated=simulated)
    excluded = {str(name) for name in tables.participants.loc[tables.participants["excluded"] != "", "participant"].tolist()}
    names = group_names(study.protocol)

    def count(name: str, members: Sequence[Participation]) -> GroupCount:
        places = Counter(progress[member.participant] for member in members)
        out = sum(progress[member.participant] == "finished" and member.participant in excluded for member in members)
        return GroupCount(
            name=name,
            begun=len(members),
            finished=places["finished"],
            active=places["active"],
            dropped=places["dropped"],
            excluded=out,
        )

    return Overview(
        simulated=simulated,
        groups=tuple(
            count(name, [participation for participation in participations if participation.group == group])
            for group, name in enumerate(names)
        ),
        total=count("", participations),
        withdrawn=sum(participation.state == "withdrawn" for participation in participations),
        erased=erased,
        dropout_pages=_dropout_pages(
            [participation for participation in participations if progress[participation.participant] == "dropped"], pages
        ),
        answer_times=_answer_times(tables.answers),
        flags=(*_rules(study, tables.participants), *_twice(recruited), *_straight(tables.ratings)),
        latest=tuple(
            LatestParticipant(
                participant=participation.participant,
                group=names[participation.group],
                progress=progress[participation.participant],
                started=participation.started,
                done=len(participation.replies),
                pages=len(pages(participation.group, participation.number)),
                language=participation.language,
            )
            for participation in reversed(participations[-LATEST:])
        ),
    )


def _progress(participation: Participation, since: str) -> Progress:
    if participation.state == "finished":
        return "finished"
    seen = max((participation.started, *(reply.at for reply in participation.replies.values())))
    return "active" if participation.state == "started" and seen >= since else "dropped"


def _dropout_pages(gone: Sequence[Participation], pages: Callable[[int, int], tuple[Page, ...]]) -> tuple[DropoutPage, ...]:
    last: Counter[tuple[str, str]] = Counter()
    for participation in gone:
        page = next(
            (page for page in pages(participation.group, participation.number) if page.id not in participation.replies), None
        )
        if page is not None:
            last[page.kind, page.scale or page.task] += 1
    return tuple(
        DropoutPage(kind=kind, about=about, people=people, share=people / len(gone))
        for (kind, about), people in last.most_common()
    )


def _answer_times(answers: Any) -> tuple[AnswerTimes, ...]:
    counted = answers[~answers["practice"].astype(bool)]
    rows = []
    for (task, arm, presentation), seconds in counted.groupby(["task", "arm", "presentation"], sort=False)["seconds"]:
        low, middle, high = (float(value) for value in seconds.astype(float).quantile([0.25, 0.5, 0.75]))
        name = arm if presentation == "photograph" else f"{arm}/{presentation}"
        rows.append(AnswerTimes(task=task, condition=name, answers=len(seconds), low=low, median=middle, high=high))
    return tuple(sorted(rows, key=lambda times: (times.task, times.condition)))


def _rules(study: Study, people: Any) -> list[QualityFlag]:
    """Participants who miss attention checks or are too fast, by the limits of the protocol."""
    flags = []
    for row in people.to_dict("records"):
        if row["attention_missed"] > study.protocol.exclude.missed:
            words = {"count": row["attention_missed"], "shown": row["attention_shown"]}
            flags.append(QualityFlag(row["participant"], "attention", words))
        if row["median_seconds"] < study.protocol.exclude.seconds:
            flags.append(QualityFlag(row["participant"], "fast", {"seconds": round(row["median_seconds"], 2)}))
    return flags


def _twice(recruited: Mapping[str, Mapping[str, str]]) -> list[QualityFlag]:
    """Participants whose recruiting id another participant has, too."""
    by_id: dict[tuple[str, str], list[str]] = {}
    for participant, ids in recruited.items():
        for pair in ids.items():
            by_id.setdefault(pair, []).append(participant)
    # All participants share the id of the study itself, which says nothing about taking part twice.
    common = {name for name in {pair[0] for pair in by_id} if _is_same_for_all(name, recruited)}
    others: dict[str, set[str]] = {}
    for (name, _), people in by_id.items():
        if len(people) > 1 and name not in common:
            for person in people:
                others.setdefault(person, set()).update(set(people) - {person})
    return [QualityFlag(name, "twice", {"others": ", ".join(sorted(same))}) for name, same in others.items()]


def _is_same_for_all(name: str, recruited: Mapping[str, Mapping[str, str]]) -> bool:
    values = [ids[name] for ids in recruited.values() if name in ids]
    return len(values) > 2 and len(set(values)) == 1


def _straight(ratings: Any) -> list[QualityFlag]:
    flags = []
    for (participant, scale, _), answers in ratings.groupby(["participant", "scale", "at"], sort=False)["answer"]:
        if len(answers) >= STRAIGHT and answers.nunique() == 1:
            flags.append(QualityFlag(participant, "straight", {"scale": scale}))
    return flags
