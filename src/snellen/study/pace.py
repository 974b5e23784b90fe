"""How long taking part takes: estimates, until people have been timed."""

from __future__ import annotations

from collections.abc import Iterable

from snellen.study.schedule import Kind, Page

SPENT: dict[Kind, int] = {
    "instructions": 40, "task": 20, "change": 15, "trial": 15, "feedback": 6, "attention": 5, "scale": 60
}  # fmt: skip
"""Seconds for a page of each kind, a trial with one picture."""
MORE = 5
"""Seconds for every further picture of a trial."""


def minutes(pages: Iterable[Page]) -> float:
    """About how long somebody takes for these pages."""
    return sum(SPENT[one.kind] + MORE * _further(one) for one in pages) / 60


def _further(page: Page) -> int:
    if page.kind != "trial" or page.item is None:
        return 0
    return len(page.item.samples) - 1 + len(page.item.choices)
