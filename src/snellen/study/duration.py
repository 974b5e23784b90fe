"""How long taking part takes: estimates, until people have been timed."""

from __future__ import annotations

from collections.abc import Iterable

from snellen.study.schedule import Page, PageKind
from snellen.study.tasks import find_task
from snellen.study.tasks.task import FURTHER_SECONDS, TRIAL_SECONDS

SECONDS: dict[PageKind, int] = {
    "instructions": 40, "task": 20, "change": 15, "trial": TRIAL_SECONDS, "feedback": 6, "attention": 5, "scale": 60
}  # fmt: skip
"""Estimated time for a page of each kind."""


def minutes(pages: Iterable[Page]) -> float:
    """Estimated time that a participant takes for these pages, in minutes."""
    return sum(map(_seconds, pages)) / 60


def _seconds(page: Page) -> int:
    if page.kind != "trial" or page.item is None:
        return SECONDS[page.kind]
    further = len(page.item.samples) - 1 + len(page.item.choices)
    return find_task(page.item.task).traits.seconds + FURTHER_SECONDS * further
