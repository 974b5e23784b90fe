"""The format of the public collection of cards: headings, fields and result lines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from snellen.cards.prose import HEADINGS
from snellen.cards.schema import Priority
from snellen.plugins.registry import Attribute
from snellen.verdicts import Verdict

SENSITIVITY: dict[str, Attribute] = {
    "Input Sensitivity": "input-sensitivity",
    "Label Sensitivity": "label-sensitivity",
    "Model Sensitivity": "model-sensitivity",
}
PERCEPTIBILITY: dict[str, Attribute] = {
    "Minimality": "minimality",
    "Perceptual Correspondence": "perceptual-correspondence",
}
CHAPTERS: dict[str, dict[str, Attribute]] = {
    "Methodology": HEADINGS,
    "Sensitivity Testing": SENSITIVITY,
    "Perceptibility Testing": PERCEPTIBILITY,
}
"""By chapter, the headings of a card, in order."""

PEOPLE = "People"
"""The chapter on studies with people; only cards of Snellen have it."""

ENTITIES: dict[Verdict, str] = {"pass": "&#128994;", "inconclusive": "&#129000;", "fail": "&#128997;"}
"""A green circle, a yellow square, a red square. A result that is not counted has none."""

MEASURED = "**Measured:**"
"""The words before a measurement, below the prose of its section."""

NOT_TESTED = "Not tested."


@dataclass(frozen=True)
class CardLink:
    """A link to a work or a program."""

    role: str
    """Such as `Original Paper`; may be empty."""
    name: str
    url: str
    """Empty where the work is not online."""


@dataclass(frozen=True, kw_only=True)
class CardResult:
    """One line of results."""

    attribute: Priority
    test: str
    verdict: Verdict
    sentence: str
    url: str = ""
    """Of the work that defines the test."""


@dataclass(frozen=True, kw_only=True)
class MarkdownCard:
    """The content of a Markdown card. Missing fields are empty."""

    title: str
    summary: str = ""
    methodology: str = ""
    developers: str = ""
    shared_by: str = ""
    references: tuple[CardLink, ...] = ()
    implementations: tuple[CardLink, ...] = ()
    aliases: tuple[str, ...] = ()
    example: str = ""
    picture: str = ""
    """The address of the example's picture."""
    caption: str = ""
    """The description of the picture for screen readers."""
    sections: Mapping[Priority, str] = field(default_factory=dict)
    """By attribute, its prose; for a tested attribute, the text before its results."""
    measured: Mapping[Attribute, str] = field(default_factory=dict)
    """By attribute, the measurement in a sentence or two; only cards of Snellen have it."""
    results: tuple[CardResult, ...] = ()
    citation: str = ""
    """BibTeX, or other text in its place."""
    chapters: Mapping[str, str] = field(default_factory=dict)
    """By chapter of tests, the text before its first attribute."""

    def of(self, attribute: Priority) -> tuple[CardResult, ...]:
        """The results of one attribute."""
        return tuple(result for result in self.results if result.attribute == attribute)
