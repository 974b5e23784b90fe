"""A recommendation as JSON, for `snellen recommend --json`; its schema in docs/schema/ is generated from these classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from snellen.cards.card_json import plain
from snellen.cards.priorities import Level
from snellen.cards.recommend import Difference, NeedState, Recommendation
from snellen.cards.schema import Priority

SCHEMA = 1
"""Version of the document. It grows when a field changes its meaning."""


@dataclass(frozen=True, kw_only=True)
class ChoicePriorities:
    """What was asked for."""

    profile: str | None
    """The role that the priorities started from."""
    levels: Mapping[Priority, Level]
    """By attribute, how much it matters."""
    avoid_cost: float | None
    """The most seconds that a map may take; null for no limit."""
    black_box: bool
    """Whether only the model's outputs are available."""


@dataclass(frozen=True, kw_only=True)
class ChoiceNeed:
    """A need, and whether a method meets it."""

    name: str
    """The attribute or condition."""
    state: NeedState
    """Whether it is met."""
    grade: float | None
    """From 0 to 1; null for a condition, and where it is not known."""
    words: str
    """Why it has this state."""


@dataclass(frozen=True, kw_only=True)
class ChoicePlace:
    """A method with its rank, and the reasons for it."""

    place: int
    """The rank, from 1."""
    method: str
    """Its label."""
    state: NeedState
    """The worst state of its needs."""
    score: float | None
    """The weighted mean of its grades; null where no attribute counts."""
    needs: tuple[ChoiceNeed, ...]
    """What must be met."""
    grades: Mapping[Priority, float | None]
    """By attribute that counts, the grade from 0 to 1; null where it is not known."""
    decided: tuple[Difference, ...]
    """The attributes that rank it before the next method, the largest contribution first."""
    sacrifice: Difference | None
    """The attribute in which it is farthest behind the best method."""
    first: float | None
    """The share of rankings with random weights in which it is first; null if it is no contender."""
    pareto: bool
    """Whether no other contender is at least as good in all that counts and better in something."""


@dataclass(frozen=True, kw_only=True)
class ChoiceDocument:
    """The methods of a run, ranked by priorities; a number that is not known is null."""

    schema: int
    """Version of the document."""
    sentence: str
    """The answer."""
    model: str
    """The classifier."""
    fingerprint: str
    """Of the classifier's weights."""
    images: int
    """How many were explained."""
    priorities: ChoicePriorities
    """What was asked for."""
    places: tuple[ChoicePlace, ...]
    """All methods, the best first."""
    first_three_hold: float | None
    """The share of rankings with random weights in which the first three are the same, in the same order."""
    nearest: tuple[str, ...]
    """If no method meets all needs, the closest ones."""
    remedies: tuple[str, ...]
    """What would show more."""
    cautions: tuple[str, ...]
    """What to be careful about."""


def as_json(recommendation: Recommendation) -> dict[str, Any]:
    """The recommendation as plain values; unknown ones are null."""
    priorities, card_set = recommendation.priorities, recommendation.card_set
    record = card_set.run.record
    document = ChoiceDocument(
        schema=SCHEMA,
        sentence=recommendation.sentence,
        model=record.classifier.name,
        fingerprint=record.classifier.fingerprint,
        images=record.samples.count,
        priorities=ChoicePriorities(
            profile=priorities.profile.name if priorities.profile else None,
            levels={priority: priorities.level(priority) for priority in card_set.priorities},
            avoid_cost=priorities.avoid_cost,
            black_box=priorities.black_box,
        ),
        places=tuple(
            ChoicePlace(
                place=ranked.place,
                method=ranked.card.method,
                state=ranked.state,
                score=ranked.score,
                needs=tuple(
                    ChoiceNeed(
                        name=need.name, state=need.state, grade=need.grade.share if need.grade else None, words=need.words
                    )
                    for need in ranked.needs
                ),
                grades={attribute: ranked.card.grades[attribute].share for attribute in priorities.weighed},
                decided=ranked.decided,
                sacrifice=ranked.sacrifice,
                first=ranked.first,
                pareto=ranked.pareto,
            )
            for ranked in recommendation.places
        ),
        first_three_hold=recommendation.holds,
        nearest=tuple(ranked.card.method for ranked in recommendation.nearest),
        remedies=tuple(recommendation.remedies),
        cautions=tuple(recommendation.cautions),
    )
    values: dict[str, Any] = plain(document)
    return values
