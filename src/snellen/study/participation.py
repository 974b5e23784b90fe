"""One participant's replies, page by page, and the tables that are made of the replies of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

from snellen.study.data import StudyData
from snellen.study.folder import Study
from snellen.study.protocol import Exclusion
from snellen.study.schedule import Page
from snellen.study.tasks import Answer, find_task

ParticipationState = Literal["started", "finished", "withdrawn"]


@dataclass(frozen=True)
class Reply:
    """The reply to one page."""

    content: Mapping[str, Any]
    """The answer of a trial; {"answers": [4, 2, …]} of a scale; {"value": 3} of an attention check; else empty."""
    seconds: float
    """Time on the page."""
    at: str
    """When it arrived, ISO 8601."""


@dataclass(frozen=True)
class Participation:
    """One participant with group, state and replies by page."""

    participant: str
    """A random name."""
    number: int
    """In the order of arrival, from 0."""
    group: int
    """Index of the group (see `Protocol.groups`)."""
    language: str
    simulated: bool
    state: ParticipationState
    started: str
    """When consent was given, ISO 8601."""
    finished: str
    """When, ISO 8601; empty where not finished."""
    replies: Mapping[str, Reply] = field(default_factory=dict)
    """By the name of the page."""


def collect_data(study: Study, participations: Iterable[Participation], *, simulated: bool) -> StudyData:
    """The tables of these participants, who must be all simulated or all real, as `simulated` says."""
    participants: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    ratings: list[dict[str, Any]] = []
    for visit in participations:
        if visit.simulated != simulated:
            raise ValueError("real and simulated participants are never put into one table")
        pages = study.pages(visit.group, visit.number)
        own_answers, own_ratings, checks = _replies(study, visit, pages)
        participants.append(_participant_row(study, visit, pages, own_answers, checks))
        answers += own_answers
        ratings += own_ratings
    return StudyData.of(participants, answers, ratings, simulated=simulated)


def _replies(
    study: Study, visit: Participation, pages: tuple[Page, ...]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[bool]]:
    """Rows of answers, rows of ratings, and per attention check whether it was answered as asked."""
    answers: list[dict[str, Any]] = []
    ratings: list[dict[str, Any]] = []
    checks: list[bool] = []
    for position, page in enumerate(pages):
        reply = visit.replies.get(page.id)
        if reply is None:
            continue
        common = {
            "participant": visit.participant,
            "arm": page.condition.arm,
            "presentation": page.condition.presentation,
            "seconds": reply.seconds,
            "at": reply.at,
        }
        if page.kind == "trial":
            answers.append(common | _answer_row(page, reply, position))
        elif page.kind == "attention":
            checks.append(reply.content.get("value") == page.requested)
        elif page.kind == "scale":
            scale = study.scales[page.scale]
            ratings += [
                common | {"scale": page.scale, "item": item, "answer": answer, "score": scale.score(item, answer)}
                for item, answer in enumerate(reply.content["answers"], 1)
            ]
    return answers, ratings, checks


def _answer_row(page: Page, reply: Reply, position: int) -> dict[str, Any]:
    assert page.item is not None
    item, task, answer = page.item, find_task(page.item.task), Answer.of(reply.content)
    return {
        "task": item.task,
        "item": item.id,
        "samples": ";".join(item.samples),
        "practice": item.practice,
        "position": position,
        "value": answer.value,
        "beside": answer.beside,
        "chosen": ";".join(map(str, answer.chosen)),
        "truth": None if isinstance(item.truth, tuple) else item.truth,
        "score": task.score_answer(item.truth, answer),
        "higher_is_better": task.traits.higher_is_better,
    }


def _participant_row(
    study: Study, visit: Participation, pages: tuple[Page, ...], answers: list[dict[str, Any]], checks: list[bool]
) -> dict[str, Any]:
    between = study.protocol.design == "between"
    times = [answer["seconds"] for answer in answers if not answer["practice"]]
    missing = next((page.kind for page in pages if page.id not in visit.replies), "")
    missed, median_seconds = checks.count(False), median(times) if times else float("nan")
    return {
        "participant": visit.participant,
        "number": visit.number,
        "group": visit.group,
        "arm": pages[0].condition.arm if between else "",
        "presentation": pages[0].condition.presentation if between else "",
        "language": visit.language,
        "simulated": visit.simulated,
        "state": visit.state,
        "started": visit.started,
        "finished": visit.finished,
        "pages": len(visit.replies),
        "last_page": missing,
        "attention_shown": len(checks),
        "attention_missed": missed,
        "median_seconds": median_seconds,
        "excluded": _excluded(study.protocol.exclude, visit.state, missed, median_seconds),
    }


def _excluded(rule: Exclusion, state: ParticipationState, missed: int, median_seconds: float) -> str:
    """The first rule that excludes the participant; empty where none does."""
    if state != "finished":
        return "withdrawn" if state == "withdrawn" else "unfinished"
    if missed > rule.missed:
        return "attention"
    return "too fast" if median_seconds < rule.seconds else ""
