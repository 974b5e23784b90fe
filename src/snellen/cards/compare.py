"""A comparison of several cards, attribute by attribute and test by test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from snellen.cards.card_set import CardSet
from snellen.cards.reasons import because, plain
from snellen.cards.schema import Card, Evidence, Priority
from snellen.errors import SnellenError
from snellen.verdicts import run_certainty


@dataclass(frozen=True, kw_only=True)
class TestRow:
    """One test of the run: what is the same for all methods."""

    metric: str
    title: str
    """Name of the test."""
    arrow: str
    summary: str
    marks: tuple[str, ...]
    """Doubts about the metric."""

    def of(self, card: Card) -> Evidence | None:
        """The evidence of one method; none where the metric was not run on it."""
        matching = [evidence for evidence in card.evidence if evidence.metric == self.metric and evidence.own]
        return next((evidence for evidence in matching if evidence.n or evidence.undefined), None)


@dataclass(frozen=True)
class AttributeRow:
    """One attribute, and the tests that measured it."""

    attribute: Priority
    tests: tuple[TestRow, ...]


@dataclass(frozen=True)
class AttributeGap:
    """How far apart the best and the worst of the compared methods are in one attribute."""

    attribute: Priority
    best: Card
    worst: Card
    """The cards with the highest and the lowest grade."""

    @property
    def size(self) -> float:
        """The difference of the two grades."""
        return self.best.grades[self.attribute].share - self.worst.grades[self.attribute].share

    @property
    def ends(self) -> tuple[tuple[Card, str], ...]:
        """The best and the worst, each with the reason for its grade."""
        return tuple((card, because(card, self.attribute)) for card in (self.best, self.worst))

    @property
    def words(self) -> str:
        """The difference with its reasons."""
        parts = [f"{card.method} {card.grades[self.attribute].share:.2f}: {why}" for card, why in self.ends]
        return f"{plain(self.attribute)}: {'; but '.join(parts)}"


@dataclass(frozen=True)
class CardComparison:
    """The compared cards, in the order of the request, and the set that they are from."""

    card_set: CardSet
    cards: tuple[Card, ...]

    @staticmethod
    def of(card_set: CardSet, names: Sequence[str]) -> CardComparison:
        """The cards with these names or labels."""
        cards = {card.method: card for card in map(card_set.find, names)}
        if len(cards) < 2:
            raise SnellenError(
                f"compare needs two different methods or more, not only {', '.join(cards) or 'none'}; name another"
            )
        return CardComparison(card_set, tuple(cards.values()))

    @property
    def rows(self) -> tuple[AttributeRow, ...]:
        """The ten attributes, and use to people if that was studied, each with its tests."""
        rows = []
        for attribute in self.cards[0].grades:
            tests: dict[str, TestRow] = {}
            for evidence in (evidence for card in self.cards for evidence in card.measured(attribute)):
                marks = evidence.trust.marks if evidence.trust else ()
                tests.setdefault(
                    str(evidence.metric),
                    TestRow(
                        metric=str(evidence.metric),
                        title=evidence.test,
                        arrow=evidence.arrow,
                        summary=evidence.summary,
                        marks=marks,
                    ),
                )
            rows.append(AttributeRow(attribute, tuple(tests.values())))
        return tuple(rows)

    @property
    def differences(self) -> tuple[AttributeGap, ...]:
        """Attributes in which the methods differ, the largest difference first."""
        gaps = []
        for attribute in self.cards[0].grades:
            graded = [card for card in self.cards if not math.isnan(card.grades[attribute].share)]
            if len(graded) > 1:
                order = sorted(graded, key=lambda card: -card.grades[attribute].share)
                gaps.append(AttributeGap(attribute, order[0], order[-1]))
        return tuple(sorted((gap for gap in gaps if gap.size > 1e-9), key=lambda gap: -gap.size))

    @property
    def disagreements(self) -> tuple[str, ...]:
        """Where a verdict here is the opposite of one in the literature."""
        return tuple(
            f"{card.method}, {measured.test}: {measured.verdict} here, "
            f"{other.verdict} in {other.source.name} on {other.source.data}"
            for card in self.cards
            for measured, other in card.disagreements
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings about the runs, and how certain verdicts on these images are."""
        return (*self.card_set.notes, run_certainty(self.card_set.run).words)
