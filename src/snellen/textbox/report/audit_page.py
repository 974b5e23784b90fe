"""An audit as one HTML page that opens offline: a forest plot of intervals, simple against complex, and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import snellen
from snellen.charts import numbers
from snellen.charts.chart import Chart, Label, MarkerShape
from snellen.charts.html_page import TemplateValues, render_page, write_page
from snellen.charts.legends import estimate_key
from snellen.charts.scale import Scale
from snellen.charts.strips import Estimate, forest_line, number_axis
from snellen.report.attributes import CATEGORIES
from snellen.textbox.audit.agreement import DIFFERENCE
from snellen.textbox.audit.audit import GUESSING, MEASURES, Audit, AuditCell, MetricVerdict
from snellen.textbox.audit.audit_scores import AuditedMetric
from snellen.textbox.exam.summaries import BAR
from snellen.textbox.report.audit_text import (
    LIMITS,
    MARKS,
    changed,
    legend,
    mean_and_ends,
    percent,
    plain,
    summary,
    title,
    with_ends,
)

VERDICT_CLASSES = {
    "sees": "pass",
    "faint": "pass",
    "shape": "inconclusive",
    "blind": "not-counted",
    "misleads": "fail",
    "unclear": "inconclusive",
}
"""CSS classes of verdicts."""

SCALE = Scale(0.0, 1.0)
GROUP_MARKERS: Mapping[str, tuple[MarkerShape, str]] = {
    "all": ("dot", "soft"),
    "simple": ("ring", "methodology"),
    "complex": ("dot", "ink"),
}
"""Shape and colour of each group of settings in the forest plot."""

ROWS = {"all": 11, "simple": 23, "complex": 35}
"""Vertical position of each group of settings in a line of the forest plot, in pixels."""


def write_audit(audit: Audit, path: Path) -> Path:
    """Writes the page whole or not at all."""
    return write_page(page(audit), path)


def page(audit: Audit) -> str:
    """The whole page as text."""
    return render_page("textbox/report/audit.html", ["charts/page.css", "textbox/report/audit.css"], _facts(audit))


def _facts(audit: Audit) -> TemplateValues:
    images = audit.table.drop_duplicates("group").set_index("group")["images"]
    return {
        "record": {"snellen": snellen.__version__},
        "summary": summary(audit),
        "legend": [(mark, word, _verdict_class(word), meaning) for mark, word, meaning in legend()],
        "counts": {group: _counts(audit, group) for group in audit.groups},
        "groups": audit.groups,
        "settings": audit.settings,
        "titles": {group: title(audit, group) for group in audit.groups},
        "images": {name: int(images[name]) for name in audit.settings},
        "keys": [(estimate_key(*GROUP_MARKERS[group]), group) for group in audit.groups],
        "forest": [_forest_row(audit, metric) for metric in audit.order],
        "axis": axis(),
        "rows": {group: [_row(audit, metric, group) for metric in audit.order] for group in audit.groups},
        "by_setting": [
            {
                "label": metric.label,
                "role": metric.role,
                "cells": [_setting(audit, metric, name) for name in audit.settings],
            }
            for metric in audit.order
        ],
        "methods": [
            {
                "method": row["method"],
                "kind": row["kind"],
                "cells": [(plain(row[group]), percent(row[f"{group}_success"])) for group in audit.groups],
            }
            for row in audit.method_table().to_dict("records")
        ],
        "changed": changed(audit),
        "left_out": audit.left_out,
        "limits": LIMITS,
        "success": BAR,
        "difference": DIFFERENCE,
        "time": numbers.duration(audit.seconds),
    }


def _verdict_class(word: str) -> str:
    return VERDICT_CLASSES.get(word, "not-counted")


def _counts(audit: Audit, group: str) -> list[tuple[str, str, str, int]]:
    """How many metrics have each verdict."""
    words = [audit.cell(metric.label, group).verdict for metric in audit.audited]
    return [(mark, word, _verdict_class(word), words.count(word)) for mark, word, _ in legend() if word in words]


def _forest_row(audit: Audit, metric: AuditedMetric) -> TemplateValues:
    cells = {group: audit.cell(metric.label, group) for group in audit.groups}
    return {
        "label": metric.label,
        "arrow": _arrow(metric),
        "role": metric.role,
        "chart": forest_chart(metric.label, cells),
        "verdicts": [_verdict(cell.verdict) | {"group": group} for group, cell in cells.items()],
    }


def _arrow(metric: AuditedMetric) -> str:
    return "↑" if metric.higher_is_better else "↓"


def _verdict(word: MetricVerdict) -> dict[str, str]:
    return {"mark": MARKS[word], "word": word, "kind": _verdict_class(word)}


def forest_chart(label: str, cells: Mapping[str, AuditCell]) -> Chart:
    """One metric: a grey dot for all settings, a ring for simple and a black dot for complex ones, with their intervals."""
    defined = {group: cell for group, cell in cells.items() if not math.isnan(cell.estimates["auc"].mean)}
    estimates = []
    for group, cell in defined.items():
        shape, colour = GROUP_MARKERS[group]
        mean, low, high, _ = cell.estimates["auc"]
        estimate = Estimate(mean=mean, low=low, high=high, colour=colour, shape=shape, radius=4.5)
        estimates.append((ROWS[group], estimate))
    words = "; ".join(f"{group} {with_ends(cell.estimates, 'auc')}, {cell.verdict}" for group, cell in defined.items())
    description = f"{label}: AUC {words or 'undefined'}"
    return forest_line(SCALE, estimates, description=description, height=46, ticks=(0.5,), shaded=GUESSING)


def axis() -> Chart:
    """The scale under the forest plot."""
    ticks = {0.0: "0", 0.25: ".25", 0.5: "guessing", 0.75: ".75", 1.0: "1"}
    below = (
        Label(x=97, y=32, text="sees the truth →", anchor="end", style="better"),
        Label(x=3, y=32, text="← misleads", style="better"),
    )
    description = "AUC from 0 to 1; guessing is one half, higher is better"
    return number_axis(SCALE, ticks, description=description, below=below)


def _row(audit: Audit, metric: AuditedMetric, group: str) -> TemplateValues:
    cell = audit.cell(metric.label, group)
    titles = {key: title for category in CATEGORIES.values() for key, (title, _) in category.items()}
    return {
        "label": metric.label,
        "arrow": _arrow(metric),
        "role": metric.role,
        "attribute": titles.get(metric.attribute, ""),
        "verdict": _verdict(cell.verdict),
        "own_verdict": _verdict(cell.own_verdict),
        **{measure: mean_and_ends(cell.estimates, measure) for measure in MEASURES},
        "n": cell.estimates["auc"].n,
        "undefined": cell.undefined,
        "scores": cell.scores,
        "oracle_top": percent(cell.oracle_top),
        "oracle_above": percent(cell.oracle_above),
        "fooled": percent(cell.fooled),
        "fooled_by": cell.fooled_by,
    }


def _setting(audit: Audit, metric: AuditedMetric, name: str) -> TemplateValues:
    estimates = audit.setting_estimates(metric.label, name)
    _, low, high, _ = estimates["auc"]
    tint = "above" if low > 0.5 else "below" if high < 0.5 else ""
    return {"auc": mean_and_ends(estimates, "auc"), "tint": tint}
