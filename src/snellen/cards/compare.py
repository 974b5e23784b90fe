"""Some cards side by side, attribute by attribute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions
from rich.table import Table

from snellen.cards.deck import Deck
from snellen.cards.schema import ATTRIBUTES, Card
from snellen.errors import SnellenError


@dataclass(frozen=True)
class Comparison:
    """The cards that were asked for, in that order, and the deck that they are from."""

    deck: Deck
    cards: tuple[Card, ...]

    @staticmethod
    def of(deck: Deck, names: Sequence[str]) -> Comparison:
        """The cards with these names or labels."""
        cards = tuple(dict.fromkeys(deck.find(one).method for one in names))
        if len(cards) < 2:
            raise SnellenError(
                f"compare needs at least two different methods, not {len(cards)}; add one to {', '.join(names)}"
            )
        return Comparison(deck, tuple(deck.find(one) for one in cards))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Table]:
        """Attributes down, methods across."""
        table = Table(box=None, pad_edge=False)
        table.add_column("")
        for one in self.cards:
            table.add_column(one.method)
        for attribute in ATTRIBUTES:
            table.add_row(attribute, *(one.grades[attribute].word for one in self.cards))
        yield table
