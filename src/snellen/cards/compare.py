"""Some cards side by side, attribute by attribute, test by test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from snellen.cards.card_set import CardSet
from snellen.cards.reasons import because, plain
from snellen.cards.schema import Card, Evidence, Priority
from snellen.errors import SnellenError
from snellen.verdicts import run_certainty


@dataclass(frozen=True)
class TestRow:
    """One test of the run, for all methods alike."""

    metric: str
    title: str
    arrow: str
    summary: str
    marks: tuple[str, ...]

    def of(self, card: Card) -> Evidence | None:
        """The evidence of one method; none where the metric was not run on it."""
        mine = [one for one in card.evidence if one.metric == self.metric and one.own]
        return next((one for one in mine if one.n or one.undefined), None)


@dataclass(frozen=True)
class AttributeRow:
    """One attribute, and the tests that measured it."""

    attribute: Priority
    tests: tuple[TestRow, ...]


@dataclass(frozen=True)
class Gap:
    """How far apart the best and the worst of the compared methods are in one attribute."""

    attribute: Priority
    best: Card
    worst: Card

    @property
    def size(self) -> float:
        """The difference of the two grades."""
        return self.best.grades[self.attribute].share - self.worst.grades[self.attribute].share

    @property
    def ends(self) -> tuple[tuple[Card, str], ...]:
        """The best and the worst, each with the reason for its grade."""
        return tuple((one, because(one, self.attribute)) for one in (self.best, self.worst))

    @property
    def words(self) -> str:
        """The difference with its reasons."""
        parts = [f"{one.method} {one.grades[self.attribute].share:.2f}: {why}" for one, why in self.ends]
        return f"{plain(self.attribute)}: {'; but '.join(parts)}"


@dataclass(frozen=True)
class CardComparison:
    """The cards that were asked for, in that order, and the card_set that they are from."""

    card_set: CardSet
    cards: tuple[Card, ...]

    @staticmethod
    def of(card_set: CardSet, names: Sequence[str]) -> CardComparison:
        """The cards with these names or labels."""
        cards = {one.method: one for one in map(card_set.find, names)}
        if len(cards) < 2:
            raise SnellenError(
                f"compare needs two different methods or more, not only {', '.join(cards) or 'none'}; name another"
            )
        return CardComparison(card_set, tuple(cards.values()))

    @property
    def rows(self) -> tuple[AttributeRow, ...]:
        """All ten attributes, and use to people where that was studied, each with the tests that were made of it."""
        found = []
        for attribute in self.cards[0].grades:
            tests: dict[str, TestRow] = {}
            for one in (each for card in self.cards for each in card.measured(attribute)):
                marks = one.trust.marks if one.trust else ()
                tests.setdefault(str(one.metric), TestRow(str(one.metric), one.test, one.arrow, one.summary, marks))
            found.append(AttributeRow(attribute, tuple(tests.values())))
        return tuple(found)

    @property
    def differences(self) -> tuple[Gap, ...]:
        """Attributes in which the methods differ, most first."""
        found = []
        for attribute in self.cards[0].grades:
            known = [card for card in self.cards if not math.isnan(card.grades[attribute].share)]
            if len(known) > 1:
                order = sorted(known, key=lambda one: -one.grades[attribute].share)
                found.append(Gap(attribute, order[0], order[-1]))
        return tuple(sorted((one for one in found if one.size > 1e-9), key=lambda one: -one.size))

    @property
    def disagreements(self) -> tuple[str, ...]:
        """Where a verdict here is the opposite of one in the literature."""
        return tuple(
            f"{card.method}, {mine.test}: {mine.verdict} here, {other.verdict} in {other.source.name} on {other.source.data}"
            for card in self.cards
            for mine, other in card.disagreements
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know: unfinished runs, and how much these images can show."""
        return (*self.card_set.notes, run_certainty(self.card_set.run).words)
