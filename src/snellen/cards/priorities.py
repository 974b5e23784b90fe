"""Priorities of a user: a level for each attribute, and conditions that a method must meet."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal, get_args

import yaml

from snellen.cards.schema import PRIORITIES, Priority
from snellen.errors import SnellenError, nearest

Level = Literal["essential", "nice", "unimportant", "unwanted"]
LEVELS: tuple[Level, ...] = get_args(Level)

WEIGHTS: Mapping[Level, float] = {"essential": 3.0, "nice": 1.0, "unimportant": 0.0, "unwanted": 1.0}
"""By level, the weight of an attribute in a score; an unwanted attribute counts as 1 − grade."""

_OPTIONS: Mapping[Level, str] = {
    "essential": "--need",
    "nice": "--nice",
    "unimportant": "--unimportant",
    "unwanted": "--unwanted",
}
_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0}


@dataclass(frozen=True, kw_only=True)
class Profile:
    """The priorities of one role, from interviews with people in that role."""

    name: str
    """As on the command line, such as `radiologist`."""
    user: str
    """Their number in the paper, such as U9."""
    role: str
    task: str
    levels: Mapping[Priority, Level]
    """By attribute; those that are missing are unimportant."""
    note: str = ""
    """What a reader should know of the interview."""


@dataclass(frozen=True, kw_only=True)
class Priorities:
    """What a user needs of a method: a level for each attribute, and two conditions.

    `people` has a level like an attribute: whether people could do more with the maps, according to a study.

    """

    levels: Mapping[Priority, Level]
    """By attribute; those that are missing are unimportant."""
    avoid_cost: float | None = None
    """The most seconds that a map may take; None for no limit."""
    black_box: bool = False
    """Whether only the model's outputs are available."""
    profile: Profile | None = None
    """The role that they started from."""

    def __post_init__(self) -> None:
        if not self.weighed and self.avoid_cost is None and not self.black_box:
            raise SnellenError(
                "nothing was asked for; name what you need, as in --need determinism, or take --profile radiologist"
            )

    def level(self, attribute: Priority) -> Level:
        """How much an attribute matters."""
        return self.levels.get(attribute, "unimportant")

    def weight(self, attribute: Priority) -> float:
        """The weight of an attribute in a score."""
        return WEIGHTS[self.level(attribute)]

    def at(self, level: Level) -> tuple[Priority, ...]:
        """The attributes of one level, in the card's order."""
        return tuple(attribute for attribute in PRIORITIES if self.level(attribute) == level)

    @property
    def weighed(self) -> tuple[Priority, ...]:
        """The attributes that count at all, in the card's order."""
        return tuple(attribute for attribute in PRIORITIES if self.weight(attribute))

    @staticmethod
    def read(
        *,
        need: Iterable[str] = (),
        nice: Iterable[str] = (),
        unwanted: Iterable[str] = (),
        unimportant: Iterable[str] = (),
        avoid_cost: str | None = None,
        black_box: bool = False,
        profile: str | None = None,
    ) -> Priorities:
        """Priorities from the command line, as comma-separated names; they override those of the profile."""
        chosen_levels: dict[Priority, Level] = {}
        by_level: dict[Level, Iterable[str]] = {
            "essential": need,
            "nice": nice,
            "unimportant": unimportant,
            "unwanted": unwanted,
        }
        for level, words in by_level.items():
            for name in (part.strip() for word in words for part in word.split(",") if part.strip()):
                attribute = read_attribute(name, _OPTIONS[level])
                before = chosen_levels.setdefault(attribute, level)
                if before != level:
                    raise SnellenError(
                        f"{attribute} cannot be both {_OPTIONS[before]} and {_OPTIONS[level]}; keep one of them"
                    )
        chosen = profile_named(profile) if profile is not None else None
        levels = {**(chosen.levels if chosen else {}), **chosen_levels}
        return Priorities(
            levels=levels,
            avoid_cost=None if avoid_cost is None else read_cost(avoid_cost),
            black_box=black_box,
            profile=chosen,
        )


def read_attribute(name: str, option: str) -> Priority:
    """An attribute, or `people`, by its name in any case, with spaces or hyphens.

    >>> read_attribute("Model sensitivity", "--need")
    'model-sensitivity'
    """
    key = re.sub(r"[\s_]+", "-", name.strip().lower())
    for attribute in PRIORITIES:
        if attribute == key:
            return attribute
    raise SnellenError(
        f"{option} has an unknown attribute '{name}'{nearest(key, PRIORITIES)} (there are: {', '.join(PRIORITIES)})"
    )


def read_cost(text: str) -> float:
    """A time in seconds.

    >>> read_cost("500ms"), read_cost("2 s")
    (0.5, 2.0)
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?|\.\d+)\s*(ms|s|min)", text.strip())
    seconds = float(match[1]) * _UNITS[match[2]] if match else 0.0
    if not seconds:
        raise SnellenError(f"--avoid-cost must be a time per image such as 2s or 500ms, not '{text}'")
    return seconds


def profile_named(name: str) -> Profile:
    """A profile by its name, or by its number in the paper."""
    for profile in profiles():
        if name.strip().lower() in (profile.name, profile.user.lower()):
            return profile
    names = [profile.name for profile in profiles()]
    raise SnellenError(f"there is no profile '{name}'{nearest(name, names)} (there are: {', '.join(names)})")


@cache
def profiles() -> tuple[Profile, ...]:
    """The nine roles, in the order of the paper."""
    text = resources.files("snellen.cards").joinpath("profiles.yaml").read_text(encoding="utf-8")
    return tuple(
        Profile(
            name=entry["name"],
            user=entry["user"],
            role=entry["role"],
            task=entry["task"],
            levels={read_attribute(name, entry["name"]): level for level in LEVELS for name in entry.get(level) or ()},
            note=entry.get("note", ""),
        )
        for entry in yaml.safe_load(text)
    )
