"""A comparison as one HTML page that opens offline, in the style of the report."""

from __future__ import annotations

from pathlib import Path

from snellen.cards.card_view import MetricScale, grade_view, metric_scales, score_text, title, verdict
from snellen.cards.compare import AttributeRow, CardComparison, TestRow
from snellen.cards.people import STYLE, categories
from snellen.cards.reasons import because, plain
from snellen.cards.schema import METHODOLOGY, Card
from snellen.charts.html_page import TemplateValues, render_page, write_page
from snellen.charts.verdict_marks import DIRECTIONS
from snellen.report.page import subject_facts
from snellen.verdicts import MINIMUM_IMAGES


def write_comparison(comparison: CardComparison, path: str | Path) -> Path:
    """Writes the page atomically."""
    return write_page(page(comparison), path)


def page(comparison: CardComparison) -> str:
    """The whole page as text."""
    styles = ["charts/page.css", "cards/compare.css", *([STYLE] if "people" in comparison.cards[0].grades else [])]
    return render_page("cards/compare.html", styles, _facts(comparison))


def _facts(comparison: CardComparison) -> TemplateValues:
    scales = metric_scales(comparison.card_set)
    rows = {row.attribute: row for row in comparison.rows}
    return {
        **subject_facts(comparison.card_set.run),
        "notes": comparison.card_set.notes,
        "methods": [{"label": card.method, "title": title(card), "control": card.control} for card in comparison.cards],
        "categories": [
            {
                "name": name,
                "attributes": [
                    {"key": key, "title": label, "question": question, **_attribute(comparison, rows[key], scales)}  # type: ignore[index]
                    for key, (label, question) in attributes.items()
                ],
            }
            for name, attributes in categories(comparison.cards[0].grades).items()
        ],
        "differences": [
            {"title": plain(gap.attribute).capitalize(),
             "ends": [
                 {**grade_view(card.grades[gap.attribute]), "method": card.method, "because": why} for card, why in gap.ends
             ]}
            for gap in comparison.differences[:3]
        ],
        "disagreements": comparison.disagreements,
    }  # fmt: skip


def _attribute(comparison: CardComparison, row: AttributeRow, scales: dict[str, MetricScale]) -> TemplateValues:
    return {
        "methodology": row.attribute in METHODOLOGY,
        "cells": [
            {**grade_view(card.grades[row.attribute]), "method": card.method, "because": because(card, row.attribute)}
            for card in comparison.cards
        ],
        "tests": [_test(comparison.cards, test, scales[test.metric]) for test in row.tests],
    }


def _test(cards: tuple[Card, ...], row: TestRow, metric_scale: MetricScale) -> TemplateValues:
    rows: list[TemplateValues] = []
    for card in cards:
        evidence = row.of(card)
        if evidence is None:
            rows.append({"method": card.method, **verdict("not counted"), "word": "not run", "strip": "", "value": ("", "")})
            continue
        chart = metric_scale.strip(card, evidence)
        mark = verdict(evidence.verdict, MINIMUM_IMAGES if evidence.by_people else evidence.n)
        rows.append({"method": card.method, **mark, "strip": chart or "", "value": score_text(evidence)})
    return {
        "title": row.title,
        "metric": row.metric,
        "arrow": row.arrow,
        "direction": DIRECTIONS[metric_scale.higher_is_better] if row.arrow else "",
        "summary": row.summary,
        "marks": row.marks,
        "rows": rows,
        "footer": metric_scale.axis() or "",
    }
