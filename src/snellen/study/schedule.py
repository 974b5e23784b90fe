"""The pages of one participant, in order: a pure function of the study and the participant's place in it.

Nothing of this is stored. What a participant has answered is stored, and the first page without an answer is the next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from snellen.study.protocol import NONE, Condition, Protocol, TaskPlan
from snellen.study.stimuli import Item
from snellen.study.tasks import find_task
from snellen.types import Rng

Kind = Literal["instructions", "change", "task", "trial", "feedback", "attention", "scale"]
CHOICES = 5
"""Answers to choose from in an attention check."""


@dataclass(frozen=True)
class Page:
    """One page; every page is answered exactly once, also where the answer is only to go on."""

    id: str
    kind: Kind
    condition: Condition
    task: str = ""
    item: Item | None = None
    scale: str = ""
    wanted: int = 0
    """In an attention check, the answer (from 1) that the page asks for."""

    @property
    def practice(self) -> bool:
        """Whether the answer does not count."""
        return self.item is not None and self.item.practice


def schedule(
    protocol: Protocol, items: Sequence[Item], mapless: Collection[str], group: int, number: int
) -> tuple[Page, ...]:
    """The pages of the participant with this number in this group (see `Protocol.groups`).

    `mapless` are the scales that those are asked too who see no maps.
    """
    found = list(_pages(protocol, items, mapless, group, number))
    trials = [place for place, one in enumerate(found) if one.kind == "trial" and not one.practice]
    draw = Rng(protocol.seed, ()).shared(f"study/{number}/attention")
    # Checks stand behind trials that count, one in each of as many stretches of equal length.
    for stretch in reversed(np.array_split(np.array(trials, dtype=int), protocol.attention)) if protocol.attention else ():
        if len(stretch):
            place = int(stretch[draw.integers(len(stretch))])
            found.insert(place + 1, Page("", "attention", found[place].condition, wanted=int(draw.integers(1, CHOICES + 1))))
    return tuple(
        Page(f"p{place:03d}", one.kind, one.condition, one.task, one.item, one.scale, one.wanted)
        for place, one in enumerate(found)
    )


def _pages(protocol: Protocol, items: Sequence[Item], mapless: Collection[str], group: int, number: int) -> Iterator[Page]:
    conditions = protocol.groups[group]
    explained: set[str] = set()
    yield Page("", "instructions", conditions[0])
    for turn, condition in enumerate(conditions):
        if turn:
            yield Page("", "change", condition)
        for plan in protocol.tasks:
            if condition.arm == NONE and find_task(plan.task).traits.needs_map:
                continue
            own = [one for one in items if one.task == plan.task]
            if plan.task not in explained:
                yield Page("", "task", condition, plan.task)
                for item in (one for one in own if one.practice):
                    yield Page("", "trial", condition, plan.task, item)
                    yield Page("", "feedback", condition, plan.task, item)
                explained.add(plan.task)
            for item in _turn(protocol, plan, [one for one in own if not one.practice], condition, group, number):
                yield Page("", "trial", condition, plan.task, item)
        for scale in protocol.scales:
            if condition.arm != NONE or scale in mapless:
                yield Page("", "scale", condition, scale=scale)


def _turn(
    protocol: Protocol, plan: TaskPlan, items: Sequence[Item], condition: Condition, group: int, number: int
) -> list[Item]:
    """The items of a task under one condition: all of them, or the share of one condition among several.

    Within subjects, shares go round with the group, so that over all groups every item is met under every condition.
    """
    some = list(items)
    if protocol.design == "within":
        count = len(protocol.conditions)
        share = (protocol.conditions.index(condition) + group) % count
        some = [item for place, item in enumerate(items) if place % count == share]
    if plan.order == "fixed":
        return some
    draw = Rng(protocol.seed, ()).shared(f"study/{number}/{plan.task}/{condition.name}")
    return [some[place] for place in draw.permutation(len(some))]
