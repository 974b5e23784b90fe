"""The card's table as one HTML page that opens offline, in the style of the report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from snellen.charts import numbers
from snellen.charts.html_page import TemplateValues, render_page, write_page
from snellen.charts.verdict_marks import DIRECTIONS, MARKS
from snellen.report.attributes import CATEGORIES
from snellen.report.page import subject_facts
from snellen.report.positive_controls import MEANING, SURPRISE
from snellen.suite.grid import Grid, GridCell, GridRow
from snellen.verdicts import MARGIN


def write_suite(grid: Grid, path: Path) -> Path:
    """Writes the page to a file."""
    return write_page(page(grid), path)


def page(grid: Grid) -> str:
    """The whole page as text."""
    return render_page("suite/suite.html", ["charts/page.css", "suite/suite.css"], _facts(grid))


def _facts(grid: Grid) -> TemplateValues:
    record = grid.run.record
    run = [row for row in grid.tests if row.cells]
    own = [cell for row in run for cell in row.cells if not cell.control]
    return {
        **subject_facts(grid.run),
        "margin": MARGIN,
        "methods": grid.methods,
        "controls": grid.controls,
        "positive": grid.positive,
        "meaning": f"{MEANING} A line beneath a test says where they do not clearly beat a control. If they are no better: "
        f"{SURPRISE[0].lower()}{SURPRISE[1:]}",
        "left_out": grid.left_out,
        "ran": len(run),
        "tests": len(grid.tests),
        "others": len(grid.others),
        "verdict_counts": [(MARKS[name], name, sum(cell.verdict == name for cell in own)) for name in MARKS],
        "totals": record.totals,
        "span": numbers.duration,
        "number": numbers.amount,
        "tables": [
            {"title": "The card's tests", "groups": _groups(grid.tests)},
            *([{"title": "Beside the card", "groups": _groups(grid.others)}] if grid.others else []),
        ],
    }


def _groups(rows: Sequence[GridRow]) -> list[TemplateValues]:
    groups: list[TemplateValues] = []
    for category, attributes in CATEGORIES.items():
        for key, (title, question) in attributes.items():
            group_rows = [_row(row) for row in rows if row.attribute == key]
            if group_rows:
                groups.append({"category": category, "title": title, "question": question, "rows": group_rows})
    return groups


def _row(row: GridRow) -> TemplateValues:
    own = [cell for cell in row.cells if not cell.control]
    reasons = {cell.reason for cell in own}
    shared = len(reasons) == 1 and all(cell.verdict in ("", "not counted") for cell in own) and len(own) > 1
    return {
        "title": row.title,
        "metric": row.metric if row.test else None,
        "arrow": row.arrow,
        "direction": DIRECTIONS[row.higher_is_better],
        "summary": row.summary,
        "reason": row.reason or (reasons.pop() if shared else ""),
        "cells": [_cell(cell, reason_shared=shared) for cell in row.cells],
        "positive": [_cell(cell, reason_shared=True) for cell in row.positive],
        "positive_reason": _shared_reason(row.positive),
        "positive_note": row.positive_note,
    }


def _shared_reason(cells: Sequence[GridCell]) -> str:
    """Why none of these cells has a number, where all give the same reason."""
    reasons = {"" if cell.n else cell.reason for cell in cells}
    return reasons.pop() if len(reasons) == 1 else ""


def _cell(cell: GridCell, *, reason_shared: bool) -> TemplateValues:
    verdict = cell.verdict or ("" if cell.control else "not run")
    return {
        "control": cell.control,
        "verdict": verdict,
        "kind": verdict.replace(" ", "-") if verdict != "not run" else "not-counted",
        "mark": MARKS.get(cell.verdict, "○" if verdict else ""),
        "mean": "" if math.isnan(cell.mean) else numbers.short(cell.mean),
        "interval": numbers.interval(cell.low, cell.high, cell.n) if cell.n else "",
        "missing": f"{cell.undefined} undefined" if cell.undefined and cell.n else "",
        "reason": cell.note if reason_shared or cell.control or verdict in ("pass", "fail") else cell.advice or cell.reason,
        "words": cell.reason,
    }
