"""A run as one HTML page that opens offline: what was run, what was measured, and how certain that is."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from snellen.charts import curves, numbers, pictures
from snellen.charts.html_page import render_page, write_page
from snellen.charts.scale import Scale, scale_of
from snellen.charts.strips import Estimate, strip, strip_axis
from snellen.charts.verdict_marks import MARKS, colour_of
from snellen.plugins.citations import CITATIONS
from snellen.report.attributes import CATEGORIES
from snellen.report.photographs import cover, photographs_of
from snellen.report.readable import Readable
from snellen.runs.record import MetricSpec, Spec
from snellen.verdicts import MARGIN, MINIMUM_IMAGES, Judgement, PairedDifference, fooled, run_certainty


def write_report(run: Readable, path: str | Path) -> Path:
    """Writes the page of a run."""
    return write_page(page(run), path)


def page(run: Readable) -> str:
    """The whole page as text."""
    return render_page("report/page.html", ["charts/page.css"], _facts(run))


def _facts(run: Readable) -> dict[str, Any]:
    record, spec = run.record, run.record.spec
    verdicts, samples = run.verdicts(), run.samples()
    summary = verdicts.summary
    controls = [method.label for method in spec.methods if method.control]
    sure = run_certainty(run)
    blocks = _blocks(spec, summary, verdicts.judgements, sure.enough, run.problems())
    categories = [
        {"name": name, "attributes": [
            {"name": title, "question": question, "blocks": [block for block in blocks if block["attribute"] == key]}
            for key, (title, question) in attributes.items() if any(block["attribute"] == key for block in blocks)
        ]}
        for name, attributes in CATEGORIES.items()
    ]  # fmt: skip
    photographs = photographs_of(run, samples, spec.methods)
    return {
        **subject_facts(run),
        "totals": record.totals,
        "spec": spec,
        "n": len(samples),
        "margin": MARGIN,
        "methods": [method for method in spec.methods if not method.control],
        "controls": controls,
        "cover": cover(photographs),
        "categories": [category for category in categories if category["attributes"]],
        "table": _table(spec, summary, categories),
        "photographs": photographs,
        "hidden": len(samples) - len(photographs),
        "signed": sorted({bool(method.signed) for method in spec.methods}),
        "bars": {side: pictures.data_uri(pictures.scale_bar(side), longest=256, quality=92) for side in (False, True)},
        "legend": pictures.LEGEND,
        "charts": _charts(run, spec, controls),
        "traces": _traces(run, spec),
        "costs": _costs(run, spec),
        "citations": _citations(spec),
        "text": _text,
        "number": _number,
        "span": numbers.duration,
        "count": numbers.count,
    }


def subject_facts(run: Readable) -> dict[str, Any]:
    """What every page of a run shows: its record, accuracy, target class, number of images, and how certain results are."""
    images, target = len(run.samples()), str(run.record.spec.target)
    targets = {
        "predicted": "the class that the model finds most likely",
        "label": "the class that the label names",
        "least-likely": "the class that the model finds least likely",
    }
    return {
        "record": run.record,
        "accuracy": run.record.accuracy(),
        "target": targets.get(target, f"class {target}"),
        "images": numbers.count(images, "image"),
        "sure": run_certainty(run),
        "minimum": MINIMUM_IMAGES,
    }


# Strips ------------------------------------------------------------------------------------------------------------------


def _blocks(
    spec: Spec,
    summary: pd.DataFrame,
    judged: Sequence[Judgement],
    enough: bool,
    problems: Mapping[tuple[str, str], str],
) -> list[dict[str, Any]]:
    fooling_controls = fooled(summary)
    verdicts = {(judgement.method, judgement.metric): judgement for judgement in judged}
    blocks: list[dict[str, Any]] = []
    for metric in spec.metrics:
        label, higher = metric.label, metric.higher_is_better
        rows: Any = summary[summary["metric"] == label]
        controls = {row.method: float(row.mean) for row in rows[rows["control"]].itertuples()}
        plotted = [*rows["mean"], *rows.loc[~rows["control"], "low"], *rows.loc[~rows["control"], "high"]]
        scale = scale_of([float(value) for value in plotted], bounds_of(metric))
        own = [judgement for judgement in judged if judgement.metric == label]
        axiom = metric.tolerance is not None
        columns = [] if axiom else list(controls)
        block: dict[str, Any] = {
            "label": label,
            "summary": metric.summary,
            "tolerance": metric.tolerance,
            "id": f"metric-{len(blocks)}",
            "attribute": metric.attribute,
            "arrow": "↑" if higher else "↓",
            "direction": "higher is better" if higher else "lower is better",
            "fooled": fooling_controls.get(label, []),
            "undefined": _undefined_scores(rows),
            "rows": [],
            "footer": None,
            "columns": columns,
            "pairs": _pairs(own, columns, enough) if columns or (enough and axiom) else [],
            "rule": own[0].rule if own and enough else "",
            "outright": any(cell.reason.startswith("fooled") for cell in own),
            "nothing": scale is None,
            "refused": _refused(label, problems),
            "judged": enough and (bool(controls) or axiom) and not rows["control"].all(),
        }
        if scale is not None:
            block["footer"] = strip_axis(scale, controls, higher_is_better=higher)
            for row in rows[~rows["control"]].itertuples():
                block["rows"].append(_strip_row(row, scale, controls, verdicts if enough else None, block["judged"]))
            if not block["rows"]:
                block["rows"] = [_strip_row(row, scale, controls, None, False) for row in rows.itertuples()]
        blocks.append(block)
    return blocks


def bounds_of(metric: MetricSpec) -> tuple[float, float]:
    """The metric's bounds; an open end is infinite."""
    low, high = metric.bounds
    return (-math.inf if low is None else low, math.inf if high is None else high)


def _strip_row(
    row: Any,
    scale: Scale,
    controls: Mapping[str, float],
    verdicts: Mapping[tuple[str, str], Judgement] | None,
    judged: bool,
) -> dict[str, Any]:
    verdict = verdicts[(row.method, row.metric)].verdict if verdicts is not None else None
    missing = f"{row.n} of {row.n + row.undefined} defined" if row.undefined and row.n else ""
    if missing and judged and row.n < MINIMUM_IMAGES:
        missing += ", too few"
    span = numbers.interval(row.low, row.high, row.n)
    mean = numbers.short(row.mean) if row.n or row.undefined else "not run"
    words = f"{row.method}: mean {mean}, {span}, {numbers.count(row.n, 'image')}"
    if controls:
        words += "; controls: " + ", ".join(f"{name} {numbers.short(value)}" for name, value in controls.items())
    estimate = Estimate(mean=row.mean, low=row.low, high=row.high, colour=colour_of(verdict) if verdict else "ink")
    return {
        "name": row.method,
        "strip": strip(scale, estimate, description=words, ticks=list(controls.values())),
        "mean": mean,
        "interval": span if row.n else "",
        "missing": missing,
        "verdict": verdict,
        "mark": MARKS[verdict] if verdict else "",
        "kind": (verdict or "").replace(" ", "-"),
    }


def _undefined_scores(rows: pd.DataFrame) -> str:
    """The undefined scores of a metric in words."""
    missing = int(rows["undefined"].sum())
    if not missing:
        return "" if rows["n"].any() else "not run yet"
    reason = next(iter(rows.loc[rows["undefined"] > 0, "reason"]), "")
    why = f": {reason}" if reason and reason != "never" else ""
    if not rows["n"].any():
        return f"undefined on every image{why}"
    return f"{missing} of {int((rows['undefined'] + rows['n']).sum())} scores undefined{why}"


def _refused(metric: str, problems: Mapping[tuple[str, str], str]) -> list[str]:
    """Why methods have no score by this metric, a sentence each."""
    own = {method: problem for (method, label), problem in problems.items() if label == metric}
    return [
        f"{', '.join(method for method, reason in own.items() if reason == problem)}: {problem}"
        for problem in dict.fromkeys(own.values())
    ]


def _pairs(judged: Sequence[Judgement], controls: Sequence[str], enough: bool) -> list[dict[str, Any]]:
    """Rows of the paired comparison: one per method, one cell per control, and the verdict that follows."""
    rows: list[dict[str, Any]] = []
    for judgement in judged:
        against = {pair.control: pair for pair in judgement.against}
        cells = [_pair(against.get(control)) for control in controls]
        rows.append({"name": judgement.method, "cells": cells, "verdict": None})
        if enough:
            rows[-1] |= {
                "verdict": judgement.verdict,
                "reason": judgement.reason,
                "advice": judgement.advice,
                "note": judgement.note,
                "mark": MARKS[judgement.verdict],
                "kind": judgement.verdict.replace(" ", "-"),
            }
    return rows


def _pair(pair: PairedDifference | None) -> dict[str, Any]:
    if pair is None:
        return {"mean": "no pair", "interval": "", "n": 0, "margin": ""}
    span = numbers.interval(pair.low, pair.high, pair.n, signs=True)
    return {"mean": numbers.signed(pair.mean), "interval": span, "n": pair.n, "margin": numbers.short(pair.margin)}


# The table ---------------------------------------------------------------------------------------------------------------


def _table(spec: Spec, summary: pd.DataFrame, categories: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    blocks = [
        (category["name"], block)
        for category in categories
        for attribute in category["attributes"]
        for block in attribute["blocks"]
    ]
    groups: list[dict[str, Any]] = []
    for name, _ in blocks:
        if not groups or groups[-1]["name"] != name:
            groups.append({"name": name, "span": 0})
        groups[-1]["span"] += 1
    cells = summary.set_index(["method", "metric"])
    bodies = []
    for title, control in (("Methods", False), ("Controls, which contain no information about the model", True)):
        rows = [
            {
                "name": method.label,
                "cells": [_cell(cells.loc[(method.label, block["label"])], block) for _, block in blocks],
            }
            for method in spec.methods
            if method.control is control
        ]
        if rows:
            bodies.append({"title": title, "rows": rows, "control": control})
    return {"groups": groups, "metrics": [block for _, block in blocks], "bodies": bodies}


def _cell(row: Any, block: Mapping[str, Any]) -> dict[str, Any]:
    n, undefined = int(row["n"]), int(row["undefined"])
    return {
        "mean": numbers.short(float(row["mean"])) if n or undefined else "not run",
        "interval": numbers.interval(float(row["low"]), float(row["high"]), n) if n else "",
        "missing": f"{undefined} undefined" if undefined and n else "",
        "empty": n == 0,
        "fooled": row.name[0] in block["fooled"],
    }


# Curves ------------------------------------------------------------------------------------------------------------------


def _charts(run: Readable, spec: Spec, controls: Sequence[str]) -> list[dict[str, Any]]:
    charts = []
    for metric in spec.metrics:
        panels = None if metric.points else curves.curve_panels(run.curves(metric.label), controls)
        if panels is not None:
            better = "higher is better" if metric.higher_is_better else "lower is better"
            charts.append({"label": metric.label, "better": better, "summary": metric.summary, "chart": panels})
    return charts


def _traces(run: Readable, spec: Spec) -> list[dict[str, Any]]:
    """For metrics whose trace has named columns, such as layers: the mean of each column for each method."""
    traces = []
    for metric in spec.metrics:
        names = metric.points
        traced = run.curves(metric.label) if names else {}
        means = {method: curves.column_means(rows) for method, rows in traced.items()}
        if not names or not means:
            continue
        methods: list[dict[str, Any]] = [
            {"name": method.label, "control": method.control} for method in spec.methods if method.label in means
        ]
        rows = []
        for place, name in enumerate(names):
            values = [float(means[method["name"]][place]) for method in methods]
            most = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
            shares = [100 * abs(value) / most if most and math.isfinite(value) else 0 for value in values]
            cells = [
                {"mean": numbers.short(value), "share": share, "control": method["control"]}
                for value, share, method in zip(values, shares, methods, strict=True)
            ]
            rows.append({"name": name, "cells": cells})
        better = "higher is better" if metric.higher_is_better else "lower is better"
        summary = metric.summary
        traces.append({"label": metric.label, "better": better, "summary": summary, "methods": methods, "rows": rows})
    return traces


# Cost and provenance -----------------------------------------------------------------------------------------------------


def _costs(run: Readable, spec: Spec) -> list[dict[str, Any]]:
    rows = []
    control = {method.label: method.control for method in spec.methods}
    costs = run.costs()
    most = float((costs["seconds"] / costs["images"].where(costs["images"] > 0)).max()) if len(costs) else math.nan
    for row in costs.to_dict("records"):
        images = int(row["images"])
        each = float(row["seconds"]) / images if images else math.nan
        rows.append({
            "name": row["method"],
            "control": control.get(str(row["method"]), False),
            "forward": numbers.amount(float(row["forward"]) / images) if images else "–",
            "backward": numbers.amount(float(row["backward"]) / images) if images else "–",
            "each": numbers.duration(each),
            "share": 100 * each / most if most > 0 and math.isfinite(each) else 0,
            "model": numbers.duration(float(row["model_seconds"])),
            "metric_passes": numbers.amount(float(row["metric_forward"] + row["metric_backward"])),
            "metric_seconds": numbers.duration(float(row["metric_seconds"])),
        })  # fmt: skip
    return rows


def _citations(spec: Spec) -> list[str]:
    keys = {method.cite for method in spec.methods} | {metric.cite for metric in spec.metrics}
    return sorted(CITATIONS.get(key, key) for key in keys if key)


def _text(value: Any) -> str:
    """A setting as text; lists of floats are rounded, so that the rounding errors of float32 do not show."""
    if isinstance(value, list | tuple) and all(isinstance(item, float) for item in value):
        value = [float(f"{item:.6g}") for item in value]
    if value is None:
        return "none"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _number(value: Any) -> str:
    return "–" if value is None else numbers.amount(float(value))
