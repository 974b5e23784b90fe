"""Reads the form that a participant sent: the reply to a page, or which of its fields are refused and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from snellen.study.folder import Study
from snellen.study.schedule import CHOICES, Page
from snellen.study.tasks import AnswerError, SentAnswer, Task, find_task
from snellen.study.web.security import FormFields, first

LONGEST_TIME = 86_400_000
"""The longest time on a page that is taken from a browser, in milliseconds: a day. More is a broken clock."""


@dataclass(frozen=True)
class FormReply:
    """A form that was read."""

    content: dict[str, Any] = field(default_factory=dict)
    """What to store (see `Reply.content`)."""
    refused: dict[str, str] = field(default_factory=dict)
    """By field that was refused, the name of the sentence that is shown beside it."""


def read_reply(study: Study, page: Page, form: FormFields) -> FormReply:
    """The reply to a page; where a field is missing or impossible, nothing is stored."""
    if page.kind == "trial":
        return _trial(find_task(page.task), form)
    if page.kind == "attention":
        value = _number(form, "value", CHOICES)
        return FormReply({"value": value}) if value else FormReply(refused={"value": _why(form, "value", "missing")})
    if page.kind == "scale":
        scale = study.scales[page.scale]
        answers = {f"s{number}": _number(form, f"s{number}", scale.points) for number in range(1, scale.items + 1)}
        refused = {name: _why(form, name, "line") for name, value in answers.items() if not value}
        return FormReply(refused=refused) if refused else FormReply({"answers": list(answers.values())})
    return FormReply()


def _trial(task: Task, form: FormFields) -> FormReply:
    sent = SentAnswer(first(form, "value"), first(form, "beside"), tuple(form.get("chosen", ())))
    try:
        return FormReply(task.form.read(sent).as_values())
    except AnswerError as problem:
        return FormReply(refused=dict(problem.refused))


def _number(form: FormFields, name: str, most: int) -> int | None:
    text = first(form, name) or ""
    return int(text) if len(text) <= 2 and text.isascii() and text.isdigit() and 1 <= int(text) <= most else None


def _why(form: FormFields, name: str, missing: str) -> str:
    return "impossible" if first(form, name) else missing


def seconds(form: FormFields, since: float) -> float:
    """Time on the page as the browser measured it or, where it did not, `since`: the time since the server sent the page."""
    text = first(form, "ms") or ""
    if text.isascii() and text.isdigit() and len(text) <= 9 and int(text) <= LONGEST_TIME:
        return int(text) / 1000
    return round(since, 3)
