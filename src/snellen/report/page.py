"""A run as one HTML page that opens offline: what was run, what was measured, and how certain that is."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snellen.charts import curves, numbers, pictures
from snellen.charts.html_page import TemplateValues, render_page, write_page
from snellen.charts.verdict_marks import DIRECTIONS
from snellen.files.folder import folder_at
from snellen.files.remote import is_url
from snellen.plugins.citations import CITATIONS
from snellen.plugins.outside import OWN
from snellen.report.attributes import CATEGORIES
from snellen.report.cost_bars import cost_bars
from snellen.report.metric_blocks import MetricBlock, metric_blocks
from snellen.report.photographs import cover, photographs_of
from snellen.report.positive_controls import MEANING
from snellen.report.readable import Readable
from snellen.runs.record import Spec
from snellen.verdicts import MARGIN, MINIMUM_IMAGES, run_certainty


def write_report(run: Readable, path: str | Path) -> str | Path:
    """Writes the page of a run to a file, or to a URL; returns which."""
    if is_url(path):
        folder, _, name = str(path).rpartition("/")
        folder_at(folder).write_whole(name, page(run).encode())
        return path
    return write_page(page(run), path)


def page(run: Readable) -> str:
    """The whole page as text."""
    return render_page("report/page.html", ["charts/page.css"], _facts(run))


@dataclass(frozen=True, kw_only=True)
class AttributeBlocks:
    """The metrics of one attribute."""

    name: str
    question: str
    """That the attribute asks."""
    blocks: list[MetricBlock]


@dataclass(frozen=True, kw_only=True)
class CategoryBlocks:
    """The metrics of one category, by attribute."""

    name: str
    attributes: list[AttributeBlocks]


def _facts(run: Readable) -> TemplateValues:
    record, spec = run.record, run.record.spec
    samples = run.samples()
    controls = [method.label for method in spec.methods if method.control]
    blocks = metric_blocks(run)
    categories = [
        CategoryBlocks(name=name, attributes=[
            AttributeBlocks(name=title, question=question, blocks=[block for block in blocks if block.attribute == key])
            for key, (title, question) in attributes.items() if any(block.attribute == key for block in blocks)
        ])
        for name, attributes in CATEGORIES.items()
    ]  # fmt: skip
    shown = (*spec.methods, *spec.positive_controls)
    photographs = photographs_of(run, samples, shown)
    return {
        **subject_facts(run),
        "totals": record.totals,
        "spec": spec,
        "n": len(samples),
        "margin": MARGIN,
        "methods": [method for method in spec.methods if not method.control],
        "controls": controls,
        "positive": [control.label for control in spec.positive_controls],
        "meaning": MEANING,
        "shown": shown,
        "cover": cover(photographs),
        "categories": [category for category in categories if category.attributes],
        "table": _table(run, categories),
        "photographs": photographs,
        "hidden": len(samples) - len(photographs),
        "signed": sorted({bool(method.signed) for method in shown}),
        "bars": {side: pictures.data_uri(pictures.scale_bar(side), longest=256, quality=92) for side in (False, True)},
        "legend": pictures.LEGEND,
        "charts": _charts(run, spec, controls),
        "traces": _traces(run, spec),
        "cost_bars": cost_bars(run),
        "costs": _costs(run, spec),
        "citations": _citations(spec),
        "text": _text,
        "number": _number,
        "span": numbers.duration,
        "count": numbers.count,
    }


def subject_facts(run: Readable) -> TemplateValues:
    """What every page of a run shows: its record, accuracy, target class, number of images, and how certain results are."""
    images, target = len(run.samples()), str(run.record.spec.target)
    targets = {
        "predicted": "the class that the model finds most likely",
        "label": "the class that the label names",
        "least-likely": "the class that the model finds least likely",
    }
    if not run.record.classifier.exclusive:
        targets |= {
            "predicted": "a label that the model predicts",
            "label": "the label",
            "every-label": "a label that is right",
            "least-likely": "the label that the model finds least likely",
        }
    number = (run.record.classifier.class_names or ("number",))[0]
    if run.record.classifier.is_number:
        targets = dict.fromkeys(("predicted", "up", "0", number), f"the {number}")
    if (further := run.record.classifier.further_target) is not None:
        targets = {target: f"the {further}" if target == "down" else further}
    return {
        "record": run.record,
        "accuracy": run.record.agreement(),
        "target": targets.get(target, f"class {target}"),
        "images": numbers.count(images, "image"),
        "sure": run_certainty(run),
        "minimum": MINIMUM_IMAGES,
    }


# The table ---------------------------------------------------------------------------------------------------------------


def _table(run: Readable, categories: Sequence[CategoryBlocks]) -> TemplateValues:
    spec, problems = run.record.spec, run.problems()
    blocks = [block for category in categories for attribute in category.attributes for block in attribute.blocks]
    groups = [
        {"name": category.name, "span": sum(len(attribute.blocks) for attribute in category.attributes)}
        for category in categories
        if category.attributes
    ]
    cells = run.verdicts().shown.set_index(["method", "metric"])
    controls = [method for method in spec.methods if method.control]
    bodies = []
    for title, kind, members in (
        ("Methods", "", [method for method in spec.methods if not method.control]),
        ("Controls, which contain no information about the model", "control", controls),
        ("Positive controls: the masks themselves as maps", "positive", spec.positive_controls),
    ):
        rows = [
            {
                "name": method.label,
                "cells": [
                    _cell(
                        cells.loc[(method.label, block.label)],
                        block,
                        differ=spec.stops_early,
                        refused=(method.maps is not None or kind == "positive") and (method.label, block.label) in problems,
                    )
                    for block in blocks
                ],
            }
            for method in members
        ]
        if rows:
            bodies.append({"title": title, "rows": rows, "kind": kind})
    return {"groups": groups, "metrics": blocks, "bodies": bodies}


def _cell(row: Any, block: MetricBlock, *, refused: bool, differ: bool) -> TemplateValues:
    n, undefined = int(row["n"]), int(row["undefined"])
    missing = f"{undefined} undefined" if undefined and n else "explains again" if refused and not n else ""
    if differ and n:
        missing = ", ".join(filter(None, [f"n = {n}", missing]))
    return {
        "mean": numbers.short(float(row["mean"])) if n or undefined else "–" if refused else "not run",
        "interval": numbers.interval(float(row["low"]), float(row["high"]), n) if n else "",
        "missing": missing,
        "empty": n == 0,
        "fooled": row.name[0] in block.fooled,
    }


# Curves ------------------------------------------------------------------------------------------------------------------


def _charts(run: Readable, spec: Spec, controls: Sequence[str]) -> list[TemplateValues]:
    charts: list[TemplateValues] = []
    for metric in spec.metrics:
        oracles = [control.label for control in spec.positive_controls]
        panels = None if metric.points else curves.curve_panels(run.curves(metric.label), controls, oracles)
        if panels is not None:
            charts.append(
                {
                    "label": metric.label,
                    "better": DIRECTIONS[metric.higher_is_better],
                    "summary": metric.summary,
                    "chart": panels,
                }
            )
    return charts


def _traces(run: Readable, spec: Spec) -> list[TemplateValues]:
    """For metrics whose trace has named columns, such as layers: the mean of each column for each method."""
    traces: list[TemplateValues] = []
    for metric in spec.metrics:
        names = metric.points
        traced = run.curves(metric.label) if names else {}
        means = {method: curves.column_means(rows) for method, rows in traced.items()}
        if not names or not means:
            continue
        traced_methods = [method for method in (*spec.methods, *spec.positive_controls) if method.label in means]
        controls = [method.control or method in spec.positive_controls for method in traced_methods]
        rows = []
        for place, name in enumerate(names):
            values = [float(means[method.label][place]) for method in traced_methods]
            most = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
            shares = [100 * abs(value) / most if most and math.isfinite(value) else 0 for value in values]
            cells = [
                {"mean": numbers.short(value), "share": share, "control": control}
                for value, share, control in zip(values, shares, controls, strict=True)
            ]
            rows.append({"name": name, "cells": cells})
        traces.append(
            {
                "label": metric.label,
                "better": DIRECTIONS[metric.higher_is_better],
                "summary": metric.summary,
                "methods": [
                    {"name": method.label, "control": control}
                    for method, control in zip(traced_methods, controls, strict=True)
                ],
                "rows": rows,
            }
        )
    return traces


# Cost and provenance -----------------------------------------------------------------------------------------------------


def _costs(run: Readable, spec: Spec) -> list[TemplateValues]:
    rows: list[TemplateValues] = []
    control = {method.label: method.control for method in spec.methods}
    elsewhere = {method.label for method in spec.methods if method.maps is not None}
    for row in run.costs().to_dict("records"):
        images = int(row["images"])
        each = float(row["seconds"]) / images if images else math.nan
        rows.append({
            "name": row["method"],
            "control": control.get(str(row["method"]), False),
            "forward": numbers.amount(float(row["forward"]) / images) if images else "–",
            "backward": numbers.amount(float(row["backward"]) / images) if images else "–",
            "each": numbers.duration(each) if row["method"] not in elsewhere else "made elsewhere",
            "model": numbers.duration(float(row["model_seconds"])) if row["method"] not in elsewhere else "–",
            "metric_passes": numbers.amount(float(row["metric_forward"] + row["metric_backward"])),
            "metric_seconds": numbers.duration(float(row["metric_seconds"])),
        })  # fmt: skip
    return rows


def _citations(spec: Spec) -> list[str]:
    keys = {method.cite for method in (*spec.methods, *spec.positive_controls)} | {metric.cite for metric in spec.metrics}
    return sorted(CITATIONS.get(key, key) for key in keys if key and key != OWN)


def _text(value: Any) -> str:
    """A setting as text; lists of floats are rounded, so that the rounding errors of float32 do not show."""
    if isinstance(value, list | tuple) and all(isinstance(item, float) for item in value):
        value = [float(f"{item:.6g}") for item in value]
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _number(value: Any) -> str:
    return "–" if value is None else numbers.amount(float(value))
