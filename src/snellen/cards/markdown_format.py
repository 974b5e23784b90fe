"""A card as the public collection writes it: headings, fields and result lines, before they are Markdown or after."""

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
"""The headings of a card, in its order."""

PEOPLE = "People"
"""The chapter of what people could do; only a card of Snellen with a study has it."""

ENTITIES: dict[Verdict, str] = {"pass": "&#128994;", "inconclusive": "&#129000;", "fail": "&#128997;"}
"""A green circle, a yellow square, a red square. A result that is not counted has none."""

MEASURED = "**Measured:**"
"""What stands before a measurement, below the prose of its section."""

NOT_TESTED = "Not tested."


@dataclass(frozen=True)
class CardLink:
    """A work or a program: what it is to the method, its name, and where it is found (empty: nowhere online)."""

    role: str
    name: str
    url: str


@dataclass(frozen=True, kw_only=True)
class CardResult:
    """One line of results."""

    attribute: Priority
    test: str
    verdict: Verdict
    sentence: str
    url: str = ""


@dataclass(frozen=True, kw_only=True)
class MarkdownCard:
    """What a Markdown card says. Fields that it does not have are empty."""

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
    """What the picture shows, for those who do not see it."""
    sections: Mapping[Priority, str] = field(default_factory=dict)
    """The prose of each attribute that has some; of a tested one, what stands before its results."""
    measured: Mapping[Attribute, str] = field(default_factory=dict)
    """What was measured of it, a sentence or two; only cards of Snellen have it."""
    results: tuple[CardResult, ...] = ()
    citation: str = ""
    """BibTeX, or whatever stands there instead."""
    chapters: Mapping[str, str] = field(default_factory=dict)
    """What stands below the heading of a chapter of tests, before its first attribute."""

    def of(self, attribute: Priority) -> tuple[CardResult, ...]:
        """The results of one attribute."""
        return tuple(result for result in self.results if result.attribute == attribute)
