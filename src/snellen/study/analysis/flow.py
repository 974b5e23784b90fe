"""Who came, who left where, who does not count and by which rule, and whose answers are analysed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import pandas as pd

from snellen.study.protocol import Protocol

RULES = ("attention", "too fast")
"""The pre-stated rules that exclude somebody who finished."""

PAGES = {
    "instructions": "instructions",
    "change": "change of condition",
    "task": "explanation of a task",
    "trial": "trial",
    "feedback": "feedback",
    "attention": "attention check",
    "scale": "questionnaire",
}


@dataclass(frozen=True)
class Group:
    """The participants of one group, counted at every station."""

    name: str
    arrived: int
    left: dict[str, int] = field(default_factory=dict)
    """Those who gave no sign that they leave, by the kind of page that they did not answer."""
    withdrawn: int = 0
    finished: int = 0
    excluded: dict[str, int] = field(default_factory=dict)
    """Of those who finished, by the rule of the protocol."""
    analysed: int = 0


@dataclass(frozen=True)
class Flow:
    """All participants, group by group; those who asked to be forgotten are only counted."""

    groups: tuple[Group, ...]
    erased: int = 0

    @property
    def total(self) -> Group:
        """All groups together."""
        left: Counter[str] = Counter()
        excluded: Counter[str] = Counter()
        for one in self.groups:
            left.update(one.left)
            excluded.update(one.excluded)
        arrived, withdrawn, finished, analysed = (
            sum(getattr(one, name) for one in self.groups) for name in ("arrived", "withdrawn", "finished", "analysed")
        )
        return Group("everybody", arrived, dict(left), withdrawn, finished, dict(excluded), analysed)


def flow(protocol: Protocol, participants: pd.DataFrame, erased: int = 0) -> Flow:
    """The flow of all participants of a study."""
    return Flow(
        tuple(
            _group(group_name(protocol, place), participants[participants["group"] == place])
            for place in range(len(protocol.groups))
        ),
        erased,
    )


def group_name(protocol: Protocol, place: int) -> str:
    """What a group is called: its condition, or the order of its conditions."""
    conditions = protocol.groups[place]
    names = [one.name if len(protocol.presentation) > 1 else one.arm for one in conditions]
    return names[0] if len(names) == 1 else " → ".join(names)


def _group(name: str, people: pd.DataFrame) -> Group:
    states, rules = people["state"], people["excluded"]
    left = Counter(PAGES.get(str(one), str(one)) for one in people.loc[states == "started", "last_page"])
    excluded = {rule: int(((states == "finished") & (rules == rule)).sum()) for rule in RULES}
    return Group(
        name,
        len(people),
        dict(sorted(left.items(), key=lambda one: -one[1])),
        int((states == "withdrawn").sum()),
        int((states == "finished").sum()),
        {rule: count for rule, count in excluded.items() if count},
        int((rules == "").sum()),
    )
