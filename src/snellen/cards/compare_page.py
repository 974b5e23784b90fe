"""A comparison as one HTML page that opens offline, in the language of the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from snellen.cards.card_view import MetricScale, metric_scales, shown, title, verdict
from snellen.cards.compare import AttributeRow, CardComparison, TestRow
from snellen.cards.people import STYLE, categories
from snellen.cards.reasons import because, plain
from snellen.cards.schema import METHODOLOGY, Card
from snellen.charts import numbers
from snellen.charts.html_page import render_page, write_page
from snellen.charts.strips import Estimate, strip, strip_axis
from snellen.charts.verdict_marks import colour_of
from snellen.report.page import subject_facts
from snellen.verdicts import MINIMUM_IMAGES


def write_comparison(comparison: CardComparison, path: str | Path) -> Path:
    """Writes the page whole or not at all."""
    return write_page(page(comparison), path)


def page(comparison: CardComparison) -> str:
    """The whole page as text."""
    styles = ["charts/page.css", "cards/compare.css", *([STYLE] if "people" in comparison.cards[0].grades else [])]
    return render_page("cards/compare.html", styles, _facts(comparison))


def _facts(comparison: CardComparison) -> dict[str, Any]:
    sticks = metric_scales(comparison.card_set)
    rows = {row.attribute: row for row in comparison.rows}
    return {
        **subject_facts(comparison.card_set.run),
        "notes": comparison.card_set.notes,
        "methods": [{"label": card.method, "title": title(card), "control": card.control} for card in comparison.cards],
        "categories": [
            {
                "name": name,
                "attributes": [
                    {"key": key, "title": named, "question": asks, **_attribute(comparison, rows[key], sticks)}  # type: ignore[index]
                    for key, (named, asks) in attributes.items()
                ],
            }
            for name, attributes in categories(comparison.cards[0].grades).items()
        ],
        "differences": [
            {"title": plain(gap.attribute).capitalize(),
             "ends": [
                 {**shown(card.grades[gap.attribute]), "method": card.method, "because": why} for card, why in gap.ends
             ]}
            for gap in comparison.differences[:3]
        ],
        "disagreements": comparison.disagreements,
    }  # fmt: skip


def _attribute(comparison: CardComparison, row: AttributeRow, sticks: dict[str, MetricScale]) -> dict[str, Any]:
    return {
        "methodology": row.attribute in METHODOLOGY,
        "cells": [
            {**shown(card.grades[row.attribute]), "method": card.method, "because": because(card, row.attribute)}
            for card in comparison.cards
        ],
        "tests": [_test(comparison.cards, test, sticks[test.metric]) for test in row.tests],
    }


def _test(cards: tuple[Card, ...], row: TestRow, stick: MetricScale) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for card in cards:
        evidence = row.of(card)
        if evidence is None:
            rows.append({"method": card.method, **verdict("not counted"), "word": "not run", "strip": "", "value": ("", "")})
            continue
        span = numbers.interval(evidence.low, evidence.high, evidence.n) if evidence.n else ""
        mean = numbers.short(evidence.mean)
        words = f"{card.method}: {evidence.verdict}, mean {mean}, {span or 'no interval'}, {evidence.counted}"
        estimate = Estimate(mean=evidence.mean, low=evidence.low, high=evidence.high, colour=colour_of(evidence.verdict))
        chart = stick.scale and strip(stick.scale, estimate, description=words, ticks=list(stick.controls.values()))
        judged = verdict(evidence.verdict, MINIMUM_IMAGES if evidence.by_people else evidence.n)
        rows.append({"method": card.method, **judged, "strip": chart or "", "value": (mean, span)})
    scale = stick.scale
    return {
        "title": row.title,
        "metric": row.metric,
        "arrow": row.arrow,
        "direction": {"↑": "higher is better", "↓": "lower is better"}.get(row.arrow, ""),
        "summary": row.summary,
        "marks": row.marks,
        "rows": rows,
        "footer": strip_axis(scale, stick.controls, higher_is_better=stick.higher_is_better) if scale else "",
    }
