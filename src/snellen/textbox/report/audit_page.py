"""An audit as one HTML page that opens offline: a forest of intervals, simple against complex, and the tables behind it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup

import snellen
from snellen.charts import numbers
from snellen.charts.html_page import render_page, write_page
from snellen.charts.scale import Scale
from snellen.report.attributes import CATEGORIES
from snellen.textbox.audit.agreement import DIFFERENCE
from snellen.textbox.audit.audit import GUESSING, Audit
from snellen.textbox.audit.audit_scores import AuditedMetric
from snellen.textbox.exam.summaries import BAR
from snellen.textbox.report.audit_text import (
    LIMITS,
    MARKS,
    changed,
    legend,
    percent,
    plain,
    signed,
    summary,
    title,
    with_ends,
)

KINDS = {
    "sees": "pass",
    "faint": "pass",
    "shape": "inconclusive",
    "blind": "not-counted",
    "misleads": "fail",
    "unclear": "inconclusive",
}
SCALE = Scale(0.0, 1.0)
ROWS = {"all": 11, "simple": 23, "complex": 35}
"""How far down each group of settings stands on a line of the forest."""


def write_audit(found: Audit, path: Path) -> Path:
    """Writes the page whole or not at all."""
    return write_page(page(found), path)


def page(found: Audit) -> str:
    """The whole page as text."""
    return render_page("textbox/report/audit.html", ["charts/page.css", "textbox/report/audit.css"], _facts(found))


def _facts(found: Audit) -> dict[str, Any]:
    tried = [one for one in found.order if one.role == "on trial"]
    return {
        "record": {"snellen": snellen.__version__},
        "summary": summary(found),
        "legend": [(mark, word, KINDS.get(word, "not-counted"), meaning) for mark, word, meaning in legend()],
        "tallies": {group: _tally(found, tried, group) for group in found.groups},
        "groups": found.groups,
        "settings": found.settings,
        "titles": {group: title(found, group) for group in found.groups},
        "images": {name: int((found.table.loc[found.table["group"] == name, "images"]).iloc[0]) for name in
                   found.settings},
        "forest": [_strip(found, one) for one in found.order],
        "axis": axis(),
        "rows": {group: [_row(found, one, group) for one in found.order] for group in found.groups},
        "by_setting": [
            {"label": one.label, "role": one.role, "cells": [_setting(found, one, name) for name in found.settings]}
            for one in found.order
        ],
        "field": [
            {
                "method": row["method"],
                "kind": row["kind"],
                "cells": [(plain(row[group]), percent(row[f"{group}_success"])) for group in found.groups],
            }
            for row in found.field().to_dict("records")
        ],
        "changed": changed(found),
        "left_out": found.left_out,
        "limits": LIMITS,
        "success": BAR,
        "difference": DIFFERENCE,
        "time": numbers.duration(found.seconds),
    }  # fmt: skip


def _tally(found: Audit, tried: list[AuditedMetric], group: str) -> list[tuple[str, str, str, int]]:
    words = [found.cell(one.label, group)["verdict"] for one in tried]
    return [(mark, word, KINDS.get(word, "not-counted"), words.count(word)) for mark, word, _ in legend() if word in words]


def _strip(found: Audit, metric: AuditedMetric) -> dict[str, Any]:
    cells = {group: found.cell(metric.label, group) for group in found.groups}
    return {
        "label": metric.label,
        "arrow": "↑" if metric.higher_is_better else "↓",
        "role": metric.role,
        "svg": forest_line(metric.label, cells),
        "verdicts": [_verdict(cell) | {"group": group} for group, cell in cells.items()],
    }


def _verdict(cell: Mapping[str, Any], name: str = "verdict") -> dict[str, str]:
    word = cell[name]
    return {"mark": MARKS[word], "word": word, "kind": KINDS.get(word, "not-counted")}


def forest_line(label: str, cells: Mapping[str, Mapping[str, Any]]) -> Markup:
    """One metric: a grey dot for all settings, a ring for simple and a full dot for complex ones, each with its interval."""
    parts = [
        Markup('<rect class="guess" x="{:.2f}%" width="{:.2f}%" y="0" height="46"/>').format(
            SCALE.at(GUESSING[0]), SCALE.at(GUESSING[1]) - SCALE.at(GUESSING[0])
        ),
        Markup('<line class="tick" x1="{0:.2f}%" x2="{0:.2f}%" y1="0" y2="46"/>').format(SCALE.at(0.5)),
    ]
    words = []
    for group, cell in cells.items():
        if math.isnan(cell["auc"]):
            continue
        y = ROWS[group]
        if not math.isnan(cell["auc_low"]):
            parts.append(
                Markup('<line class="bar {}" x1="{:.2f}%" x2="{:.2f}%" y1="{}" y2="{}"/>').format(
                    group, SCALE.at(cell["auc_low"]), SCALE.at(cell["auc_high"]), y, y
                )
            )
        parts.append(Markup('<circle class="{}" cx="{:.2f}%" cy="{}" r="4.5"/>').format(group, SCALE.at(cell["auc"]), y))
        words.append(f"{group} {with_ends(cell, 'auc')}, {cell['verdict']}")
    return Markup('<svg class="strip" height="46" role="img" aria-label="{}">{}</svg>').format(
        f"{label}: AUC {'; '.join(words) or 'undefined'}", Markup("").join(parts)
    )


def axis() -> Markup:
    """The scale under the forest."""
    marks = Markup("").join(
        Markup('<text x="{:.2f}%" y="12" text-anchor="middle">{}</text>').format(SCALE.at(value), text)
        for value, text in ((0.0, "0"), (0.25, ".25"), (0.5, "guessing"), (0.75, ".75"), (1.0, "1"))
    )
    return Markup(
        '<svg class="axis" height="34" role="img" aria-label="AUC from 0 to 1; guessing is one half, higher is better">{}'
        '<text class="better" x="97%" y="28" text-anchor="end">sees the truth →</text>'
        '<text class="better" x="3%" y="28">← misleads</text></svg>'
    ).format(marks)


def _row(found: Audit, metric: AuditedMetric, group: str) -> dict[str, Any]:
    cell = found.cell(metric.label, group)
    titles = {key: title for part in CATEGORIES.values() for key, (title, _) in part.items()}
    return {
        "label": metric.label,
        "arrow": "↑" if metric.higher_is_better else "↓",
        "role": metric.role,
        "attribute": titles.get(metric.attribute, ""),
        "verdict": _verdict(cell),
        "auc": _ends(cell, "auc"),
        "clear": _ends(cell, "clear"),
        "own": _ends(cell, "own"),
        "own_verdict": _verdict(cell, "own_verdict"),
        "decoy": _ends(cell, "decoy"),
        "tau": _ends(cell, "tau"),
        "n": cell["auc_n"],
        "undefined": cell["undefined"],
        "scores": cell["scores"],
        "oracle_top": percent(cell["oracle_top"]),
        "oracle_above": percent(cell["oracle_above"]),
        "fooled": percent(cell["fooled"]),
        "fooled_by": cell["fooled_by"],
    }


def _ends(cell: Mapping[str, Any], measure: str) -> tuple[str, str]:
    one = signed if measure == "tau" else plain
    if math.isnan(cell[f"{measure}_low"]):
        return one(cell[measure]), ""
    return one(cell[measure]), f"[{one(cell[f'{measure}_low'])}, {one(cell[f'{measure}_high'])}]"


def _setting(found: Audit, metric: AuditedMetric, name: str) -> dict[str, Any]:
    cell = found.cell(metric.label, name)
    low, high = cell["auc_low"], cell["auc_high"]
    tint = "above" if low > 0.5 else "below" if high < 0.5 else ""
    return {"auc": _ends(cell, "auc"), "tint": tint}
