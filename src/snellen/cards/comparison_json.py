"""A comparison as JSON, for `snellen compare --json`; its schema in docs/schema/ is generated from these classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from snellen.cards.card_json import plain
from snellen.cards.compare import CardComparison, TestRow
from snellen.cards.schema import Card, Evidence, Priority
from snellen.verdicts import Verdict

SCHEMA = 1
"""Version of the document. It grows when a field changes its meaning."""

Figure = float | Literal["inf", "-inf"] | None
"""A number as `plain` writes it: null if undefined, in letters if infinite."""


@dataclass(frozen=True, kw_only=True)
class ComparedGrade:
    """The grade of one method in one attribute."""

    share: float | None
    """From 0 to 1; null where it is not known."""
    word: str
    """good, mixed, poor or not known."""
    reason: str
    """Why."""


@dataclass(frozen=True, kw_only=True)
class ComparedResult:
    """The result of one method in one test."""

    verdict: Verdict
    """Against the controls."""
    reason: str
    """Why this verdict."""
    mean: Figure
    """Over the images with a defined score."""
    low: Figure
    """Lower end of the 95 % interval of the mean."""
    high: Figure
    """Upper end of the 95 % interval of the mean."""
    n: int
    """Images, or people, with a defined score."""
    undefined: int
    """Images whose score is undefined."""
    weight: float
    """Its weight in the grade."""


@dataclass(frozen=True, kw_only=True)
class ComparedTest:
    """One test, and what it measured of each method."""

    metric: str
    """Label of the metric."""
    test: str
    """Its name on the saliency card, or the label of the metric."""
    higher_is_better: bool | None
    """null where it was not measured."""
    summary: str
    """What the metric's number means."""
    marks: tuple[str, ...]
    """Doubts about the metric."""
    results: Mapping[str, ComparedResult | None]
    """By method; null where the metric was not run on it."""


@dataclass(frozen=True, kw_only=True)
class ComparedAttribute:
    """One attribute of the card, with the tests that measured it."""

    attribute: Priority
    """Its name."""
    grades: Mapping[str, ComparedGrade]
    """By method."""
    tests: tuple[ComparedTest, ...]
    """In the order of the run."""


@dataclass(frozen=True, kw_only=True)
class ComparedGap:
    """An attribute in which the methods differ."""

    attribute: Priority
    """Its name."""
    size: float
    """The difference of the best and the worst grade."""
    best: str
    """The method with the highest grade."""
    worst: str
    """The method with the lowest grade."""
    words: str
    """Both with their reasons."""


@dataclass(frozen=True, kw_only=True)
class ComparisonDocument:
    """Some methods of a run side by side; a number that is not known is null."""

    schema: int
    """Version of the document."""
    model: str
    """The classifier."""
    fingerprint: str
    """Of the classifier's weights."""
    images: int
    """How many were explained."""
    methods: tuple[str, ...]
    """Their labels, in the order of the request."""
    attributes: tuple[ComparedAttribute, ...]
    """In the order of the card."""
    differences: tuple[ComparedGap, ...]
    """The largest first."""
    disagreements: tuple[str, ...]
    """Where a verdict here is the opposite of one in the literature."""
    notes: tuple[str, ...]
    """Warnings about the runs, and how certain verdicts on these images are."""


def as_json(comparison: CardComparison) -> dict[str, Any]:
    """The comparison as plain values; unknown ones are null."""
    record = comparison.card_set.run.record
    document = ComparisonDocument(
        schema=SCHEMA,
        model=record.classifier.name,
        fingerprint=record.classifier.fingerprint,
        images=record.samples.count,
        methods=tuple(card.method for card in comparison.cards),
        attributes=tuple(
            ComparedAttribute(
                attribute=row.attribute,
                grades={card.method: _grade(card, row.attribute) for card in comparison.cards},
                tests=tuple(_test(test, comparison.cards) for test in row.tests),
            )
            for row in comparison.rows
        ),
        differences=tuple(
            ComparedGap(
                attribute=gap.attribute, size=gap.size, best=gap.best.method, worst=gap.worst.method, words=gap.words
            )
            for gap in comparison.differences
        ),
        disagreements=comparison.disagreements,
        notes=comparison.notes,
    )
    values: dict[str, Any] = plain(document)
    return values


def _grade(card: Card, attribute: Priority) -> ComparedGrade:
    grade = card.grades[attribute]
    return ComparedGrade(share=grade.share, word=grade.word, reason=grade.reason)


def _test(test: TestRow, cards: tuple[Card, ...]) -> ComparedTest:
    measured = {card.method: test.of(card) for card in cards}
    directions = [evidence.higher_is_better for evidence in measured.values() if evidence is not None]
    return ComparedTest(
        metric=test.metric,
        test=test.title,
        higher_is_better=directions[0] if directions else None,
        summary=test.summary,
        marks=test.marks,
        results={method: None if evidence is None else _result(evidence) for method, evidence in measured.items()},
    )


def _result(evidence: Evidence) -> ComparedResult:
    return ComparedResult(
        verdict=evidence.verdict,
        reason=evidence.reason,
        mean=evidence.mean,
        low=evidence.low,
        high=evidence.high,
        n=evidence.n,
        undefined=evidence.undefined,
        weight=evidence.weight,
    )
