"""The flow of participants: who began, who left at which page, who is excluded by which rule, who is analysed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pandas as pd

from snellen.study.protocol import Protocol

RULES = ("attention", "too fast")
"""The rules, stated in advance, that exclude participants who finished."""

PAGES = {
    "instructions": "instructions",
    "change": "change of condition",
    "task": "explanation of a task",
    "trial": "trial",
    "feedback": "feedback",
    "attention": "attention check",
    "scale": "questionnaire",
}
"""By kind of page, its name on the page of results."""


@dataclass(frozen=True, kw_only=True)
class GroupFlow:
    """How many participants of one group reached each stage."""

    name: str
    arrived: int
    """Gave consent and were assigned to the group."""
    left: dict[str, int] = field(default_factory=dict)
    """Participants who left without withdrawing, by the kind of page that they did not answer."""
    withdrawn: int = 0
    finished: int = 0
    excluded: dict[str, int] = field(default_factory=dict)
    """Of those who finished, by the rule of the protocol."""
    analysed: int = 0
    """Finished and not excluded."""


@dataclass(frozen=True)
class Flow:
    """All participants, group by group; `erased` is how many had their data erased, of whom only the count is stored."""

    groups: tuple[GroupFlow, ...]
    erased: int = 0

    @property
    def total(self) -> GroupFlow:
        """All groups together."""
        left: Counter[str] = Counter()
        excluded: Counter[str] = Counter()
        for group in self.groups:
            left.update(group.left)
            excluded.update(group.excluded)
        return GroupFlow(
            name="everybody",
            arrived=sum(group.arrived for group in self.groups),
            left=dict(left),
            withdrawn=sum(group.withdrawn for group in self.groups),
            finished=sum(group.finished for group in self.groups),
            excluded=dict(excluded),
            analysed=sum(group.analysed for group in self.groups),
        )


def participant_flow(protocol: Protocol, participants: pd.DataFrame, erased: int = 0) -> Flow:
    """The flow of all participants of a study; `erased` is how many were erased."""
    groups = range(len(protocol.groups))
    return Flow(
        tuple(_group_flow(group_name(protocol, group), participants[participants["group"] == group]) for group in groups),
        erased,
    )


def group_name(protocol: Protocol, group: int) -> str:
    """The name of a group: its condition, or the order of its conditions."""
    conditions = protocol.groups[group]
    names = [condition.name if len(protocol.presentation) > 1 else condition.arm for condition in conditions]
    return names[0] if len(names) == 1 else " → ".join(names)


def _group_flow(name: str, participants: pd.DataFrame) -> GroupFlow:
    states, rules = participants["state"], participants["excluded"]
    left = Counter(PAGES.get(str(page), str(page)) for page in participants.loc[states == "started", "last_page"])
    excluded = {rule: int(((states == "finished") & (rules == rule)).sum()) for rule in RULES}
    return GroupFlow(
        name=name,
        arrived=len(participants),
        left=dict(sorted(left.items(), key=lambda item: -item[1])),
        withdrawn=int((states == "withdrawn").sum()),
        finished=int((states == "finished").sum()),
        excluded={rule: count for rule, count in excluded.items() if count},
        analysed=int((rules == "").sum()),
    )
