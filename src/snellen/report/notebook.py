"""A run as a small HTML table for notebooks, and as plain numbers for an experiment tracker."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import Any

from snellen.charts import numbers
from snellen.charts.verdict_marks import ARROWS, MARKS
from snellen.report.figures import score_figure
from snellen.report.readable import Readable


def run_html(run: Readable) -> str:
    """Means of methods down and metrics across, with the mark of each verdict; no script, no network."""
    spec, verdicts, problems = run.record.spec, run.verdicts(), run.problems()
    marks = {(judgement.method, judgement.metric): judgement.verdict for judgement in verdicts.judgements}
    means = {(row["method"], row["metric"]): row["mean"] for row in verdicts.shown.to_dict("records")}
    heads = "".join(
        f'<th title="{escape(metric.summary)}">{escape(metric.label)} {ARROWS[metric.higher_is_better]}</th>'
        for metric in spec.metrics
    )
    rows = []
    for method in (*spec.methods, *spec.positive_controls):
        cells = []
        for metric in spec.metrics:
            key = (method.label, metric.label)
            verdict = marks.get(key)
            mark = f' <span title="{verdict}">{MARKS[verdict]}</span>' if verdict else ""
            if math.isnan(means[key]) and key in problems:
                cells.append(f'<td title="{escape(problems[key])}">–</td>')
                continue
            cells.append(f"<td>{escape(numbers.short(float(means[key])))}{mark}</td>")
        control = " (control)" if method.control else " (positive control)" if method in spec.positive_controls else ""
        rows.append(f"<tr><th>{escape(method.label)}{control}</th>{''.join(cells)}</tr>")
    count = numbers.count(len(run.record.samples.rows), "image")
    state = "" if run.record.finished is not None else "; unfinished"
    caption = f"{escape(run.record.classifier.name)}, {count}{state}. {escape(_legend(set(marks.values())))}"
    return f"<table><tr><th>method</th>{heads}</tr>{''.join(rows)}</table><p><small>{caption}</small></p>"


def _legend(verdicts: set[str]) -> str:
    words = ", ".join(f"{MARKS[verdict]} {verdict}" for verdict in MARKS if verdict in verdicts)
    return f"Means; {words}." if words else "Means."


def run_summary(run: Readable) -> dict[str, Any]:
    """A run as a dictionary: `numbers` by "method/metric/what", and `figures`, SVG texts by metric."""
    summary = run.verdicts().summary
    values: dict[str, float] = {"images": float(len(run.record.samples.rows))}
    accuracy = run.record.accuracy()
    if accuracy is not None:
        values["accuracy"] = accuracy.share
    if (error := run.record.number_error()) is not None:
        values["mean absolute error"] = error.mean
    for row in run.verdicts().shown.to_dict("records"):
        prefix = f"{row['method']}/{row['metric']}"
        values |= {f"{prefix}/{name}": float(row[name]) for name in ("mean", "low", "high", "n", "undefined")}
    for row in run.costs().to_dict("records"):
        if row["images"]:  # nothing was measured for maps made elsewhere
            values[f"{row['method']}/seconds"] = float(row["seconds"])
    return {"numbers": values, "figures": _figures(run, summary), "verdicts": _verdicts(run)}


def _verdicts(run: Readable) -> dict[str, str]:
    return {f"{judgement.method}/{judgement.metric}": judgement.verdict for judgement in run.verdicts().judgements}


def _figures(run: Readable, summary: Any) -> Mapping[str, str]:
    scored = set(summary[summary["n"] > 0]["metric"])
    return {
        metric.label: str(score_figure(run, metric.label).standalone())
        for metric in run.record.spec.metrics
        if metric.label in scored
    }
