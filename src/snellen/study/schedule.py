"""The pages of one participant, in order: a pure function of the study, the group and the participant's number.

The schedule is not stored. Answers are stored, and the next page is the first one without an answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from snellen.study.protocol import NONE, Protocol, StudyCondition, TaskPlan
from snellen.study.stimuli import Item
from snellen.study.tasks import find_task
from snellen.types import Rng

PageKind = Literal["instructions", "change", "task", "trial", "feedback", "attention", "scale"]
CHOICES = 5
"""Answers to choose from in an attention check."""


@dataclass(frozen=True)
class Page:
    """One page. Every page is answered exactly once, also where the answer is only to continue."""

    id: str
    """`p` and its position, from 0."""
    kind: PageKind
    condition: StudyCondition
    """What maps are shown, if any."""
    task: str = ""
    """Of pages that explain a task, trials and feedback."""
    item: Item | None = None
    """Of trials and feedback."""
    scale: str = ""
    """The name of the questionnaire."""
    requested: int = 0
    """In an attention check, the answer (from 1) that the page asks for."""

    @property
    def practice(self) -> bool:
        """Whether the answer does not count."""
        return self.item is not None and self.item.practice


def schedule(
    protocol: Protocol, items: Sequence[Item], for_all: Collection[str], group: int, number: int
) -> tuple[Page, ...]:
    """The pages of the participant with this number in this group (see `Protocol.groups`).

    Args:
        protocol: The protocol of the study.
        items: All items of the study.
        for_all: Names of the scales that are also shown to participants without maps.
        group: Index of the group.
        number: The participant's position in the order of arrival, from 0.
    """
    pages = list(_pages(protocol, items, for_all, group, number))
    trials = [position for position, page in enumerate(pages) if page.kind == "trial" and not page.practice]
    draw = Rng(protocol.seed, ()).shared(f"study/{number}/attention")
    # Attention checks follow trials that count, one in each of as many stretches of equal length.
    for stretch in reversed(np.array_split(np.array(trials, dtype=int), protocol.attention)) if protocol.attention else ():
        if len(stretch):
            position = int(stretch[draw.integers(len(stretch))])
            requested = int(draw.integers(1, CHOICES + 1))
            pages.insert(position + 1, Page("", "attention", pages[position].condition, requested=requested))
    return tuple(replace(page, id=f"p{position:03d}") for position, page in enumerate(pages))


def _pages(protocol: Protocol, items: Sequence[Item], for_all: Collection[str], group: int, number: int) -> Iterator[Page]:
    conditions = protocol.groups[group]
    explained: set[str] = set()
    yield Page("", "instructions", conditions[0])
    for turn, condition in enumerate(conditions):
        if turn:
            yield Page("", "change", condition)
        for plan in protocol.tasks:
            if condition.arm == NONE and find_task(plan.task).traits.needs_map:
                continue
            task_items = [item for item in items if item.task == plan.task]
            if plan.task not in explained:
                yield Page(id="", kind="task", condition=condition, task=plan.task)
                for item in (item for item in task_items if item.practice):
                    yield Page(id="", kind="trial", condition=condition, task=plan.task, item=item)
                    yield Page(id="", kind="feedback", condition=condition, task=plan.task, item=item)
                explained.add(plan.task)
            for item in _items_of_condition(protocol, plan, task_items, condition, group, number):
                yield Page(id="", kind="trial", condition=condition, task=plan.task, item=item)
        for scale in protocol.scales:
            if condition.arm != NONE or scale in for_all:
                yield Page("", "scale", condition, scale=scale)


def _items_of_condition(
    protocol: Protocol, plan: TaskPlan, items: Sequence[Item], condition: StudyCondition, group: int, number: int
) -> list[Item]:
    """The items of a task that count under one condition: all of them or, within subjects, the share of the condition.

    Shares rotate with the group, so that over all groups every item is seen under every condition.
    """
    chosen = [item for item in items if not item.practice]
    if protocol.design == "within":
        count = len(protocol.conditions)
        share = (protocol.conditions.index(condition) + group) % count
        chosen = [item for position, item in enumerate(chosen) if position % count == share]
    if plan.order == "fixed":
        return chosen
    draw = Rng(protocol.seed, ()).shared(f"study/{number}/{plan.task}/{condition.name}")
    return [chosen[position] for position in draw.permutation(len(chosen))]
