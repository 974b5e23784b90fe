"""The assumptions about simulated participants: how far arms, participants and items differ, and who is careless."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from snellen.errors import SnellenError, nearest
from snellen.plugins.notation import split_names
from snellen.study.protocol import NONE, Protocol

ABILITIES = "abilities"
"""What participants can do with a map: every task but the rating of sharpness."""

EVERYTHING = "all"
"""Abilities, ratings and questionnaires alike."""


@dataclass(frozen=True)
class SkillSpread:
    """How much participants and items differ, in standard deviations of skill."""

    people: float = 1.0
    """The deviation of skill between participants."""
    items: float = 0.7
    """The deviation of difficulty between items."""
    moments: float = 0.7
    """How much the ease of the same item varies for the same participant from one time to the next."""
    bets: float = 0.7
    """How far stakes and certainties follow the probability of being right: 1 fully, 0 they are always in the middle."""
    arms: float = 0.3
    """The share of the variance of skill that is specific to one arm; the less, the more a study within subjects gains."""


@dataclass(frozen=True)
class ParticipantMix:
    """Shares of participants who leave or answer carelessly, and the time of the others."""

    leaving: float = 0.08
    """Share who leave before the end, on any page."""
    inattentive: float = 0.04
    """Share who answer at random, attention checks included."""
    hasty: float = 0.02
    """Share who answer at random within half a second, but answer attention checks rightly."""
    seconds: float = 8.0
    """Median time per page of the others."""

    def __post_init__(self) -> None:
        """Refuses shares outside of 0 to 1."""
        if min(self.leaving, self.inattentive, self.hasty) < 0 or self.leaving > 1 or self.inattentive + self.hasty > 1:
            raise SnellenError("shares of participants who leave, do not look or hurry must lie between 0 and 1")


@dataclass(frozen=True)
class Effect:
    """The assumed shift of each outcome by each arm, as Cohen's d of participants' means; zero where none is named.

    A positive d is a better score: more right answers, a smaller distance, a higher rating.
    """

    shifts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """By outcome (a task, a questionnaire, `abilities` or `all`) and arm."""
    link: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """By arm and item, how much easier the item is in that arm in addition, in standard deviations of skill."""
    spread: SkillSpread = SkillSpread()
    mix: ParticipantMix = ParticipantMix()

    def d(self, outcome: str, arm: str, *, ability: bool) -> float:
        """The assumed difference of an arm in an outcome, as Cohen's d; the most specific name wins.

        >>> Effect({"all": {"lime": 0.2}, "trust": {"lime": 0.0}}).d("trust", "lime", ability=False)
        0.0
        """
        for name in (outcome, *([ABILITIES] if ability else []), EVERYTHING):
            if arm in self.shifts.get(name, {}):
                return self.shifts[name][arm]
        return 0.0

    @staticmethod
    def of(text: str, protocol: Protocol, mix: ParticipantMix | None = None) -> Effect:
        """From a command line: `none`, `0.5` (the first arm differs in everything), or `grad-cam=0.5,trust:lime=-0.2`."""
        shifts: dict[str, dict[str, float]] = {}
        parts = [] if text.strip().lower() == "none" else split_names(text)
        if not parts and text.strip().lower() != "none":
            raise SnellenError("an effect is written as none, 0.5 or grad-cam=0.5,trust:grad-cam=0.2")
        for part in parts:
            label, equals, number = part.rpartition("=")
            if not equals:
                if len(parts) > 1:
                    raise SnellenError(
                        f"cannot read '{part}' in the effect '{text}'; write grad-cam=0.5 or trust:grad-cam=0.2"
                    )
                label = f"{EVERYTHING}:{next(arm for arm in protocol.arms if arm != NONE)}"
            outcome, arm = _outcome_and_arm(label.strip(), protocol)
            shifts.setdefault(outcome, {})[arm] = _number(number, part)
        return Effect(shifts, mix=mix or ParticipantMix())

    def __str__(self) -> str:
        """As it is written on the command line."""
        written = [
            f"{'' if outcome == ABILITIES else f'{outcome}:'}{arm}={d:g}"
            for outcome, by_arm in self.shifts.items()
            for arm, d in by_arm.items()
        ]
        return ",".join(written) or "none"


def _outcome_and_arm(label: str, protocol: Protocol) -> tuple[str, str]:
    outcomes = [ABILITIES, EVERYTHING, *(task.task for task in protocol.tasks), *protocol.scales]
    if label in protocol.arms:
        return ABILITIES, label
    outcome, colon, arm = label.partition(":")
    if colon and outcome not in outcomes:
        raise SnellenError(f"the study has no outcome '{outcome}'{nearest(outcome, outcomes)}; it has {', '.join(outcomes)}")
    if not colon:
        outcome, arm = ABILITIES, label
    if arm not in protocol.arms:
        raise SnellenError(
            f"the study has no arm '{arm}'{nearest(arm, protocol.arms)}; its arms are {', '.join(protocol.arms)}"
        )
    return outcome, arm


def _number(text: str, part: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not abs(number) <= 5:
        raise SnellenError(f"the effect '{part}' needs a number between -5 and 5, in standard deviations, such as 0.5")
    return number
