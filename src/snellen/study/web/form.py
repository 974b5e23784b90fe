"""What a participant's form says: the reply to a page, or which of its fields cannot be taken and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from snellen.study.folder import Study
from snellen.study.schedule import CHOICES, Page
from snellen.study.tasks import AnswerError, SentAnswer, Task, find_task
from snellen.study.web.security import Form, first

LONGEST_DAY = 86_400_000
"""Milliseconds on one page that a browser is believed; more is a broken clock."""


@dataclass(frozen=True)
class FormReply:
    """A form that was read: what to keep of it, or the sentence (by name) that belongs beside each refused field."""

    content: dict[str, Any] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


def read_reply(study: Study, page: Page, form: Form) -> FormReply:
    """The reply to a page; where something is missing or impossible, nothing of it is taken."""
    if page.kind == "trial":
        return _trial(find_task(page.task), form)
    if page.kind == "attention":
        value = _number(form, "value", CHOICES)
        return FormReply({"value": value}) if value else FormReply(refused={"value": _why(form, "value", "missing")})
    if page.kind == "scale":
        scale = study.scales[page.scale]
        answers = {f"s{place}": _number(form, f"s{place}", scale.points) for place in range(1, scale.items + 1)}
        refused = {name: _why(form, name, "line") for name, value in answers.items() if not value}
        return FormReply(refused=refused) if refused else FormReply({"answers": list(answers.values())})
    return FormReply()


def _trial(task: Task, form: Form) -> FormReply:
    sent = SentAnswer(first(form, "value"), first(form, "beside"), tuple(form.get("chosen", ())))
    try:
        return FormReply(task.form.read(sent).as_values())
    except AnswerError as problem:
        return FormReply(refused=dict(problem.refused))


def _number(form: Form, name: str, most: int) -> int | None:
    values = first(form, name) or ""
    return int(values) if len(values) <= 2 and values.isascii() and values.isdigit() and 1 <= int(values) <= most else None


def _why(form: Form, name: str, missing: str) -> str:
    return "impossible" if first(form, name) else missing


def seconds(form: Form, since: float) -> float:
    """Time on the page: as the browser measured it, or, where it did not, since the server showed it."""
    values = first(form, "ms") or ""
    if values.isascii() and values.isdigit() and len(values) <= 9 and int(values) <= LONGEST_DAY:
        return int(values) / 1000
    return round(since, 3)
