"""Figures of a run for papers: the strips of a metric, or its curves, as one chart that can be saved.

>>> score_figure(run, "insertion").save("insertion.pdf")  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence

from snellen.charts.chart import Chart
from snellen.charts.curves import curve_panels
from snellen.charts.layout import grid, stack
from snellen.charts.verdict_marks import ARROWS
from snellen.errors import SnellenError, nearest
from snellen.report.metric_blocks import metric_blocks
from snellen.report.readable import Readable
from snellen.runs.record import MetricSpec


def score_figure(run: Readable, metric: str, *, width: float | int = 360) -> Chart:
    """The strips of all methods by one metric, with their verdicts, over the names of the controls; positive controls last.

    Args:
        run: The run.
        metric: A metric of the run by its label, such as "insertion".
        width: Of a strip, in pixels; 96 pixels are an inch in a PDF.
    """
    spec = _metric(run, metric)
    block = next(block for block in metric_blocks(run) if block.label == spec.label)
    if block.nothing:
        raise SnellenError(f"'{run.folder}' has no score by {spec.label}, so there is nothing to draw")
    rows = {f"{row.mark} {row.name}".strip(): row.strip for row in (*block.rows, *block.positive)}
    return stack(rows, title=f"{spec.label} {block.arrow}", axis=block.footer, width=width)


def curve_figure(run: Readable, metric: str, *, columns: int = 3) -> Chart:
    """The mean curves of all methods by one metric, a panel each; behind them controls in grey, positive ones in green.

    Args:
        run: The run.
        metric: A metric of the run with curves, by its label, such as "deletion".
        columns: Panels in a row.
    """
    spec = _metric(run, metric)
    controls = [method.label for method in run.record.spec.methods if method.control]
    oracles = [control.label for control in run.record.spec.positive_controls]
    panels = None if spec.points else curve_panels(run.curves(spec.label), controls, oracles)
    if panels is None:
        raise SnellenError(f"{spec.label} has no curves in '{run.folder}'; score_figure draws its means")
    title = f"{spec.label} {ARROWS[spec.higher_is_better]}, from {panels.low} to {panels.high}"
    return grid(panels.panels, title=title, columns=columns)


def _metric(run: Readable, name: str) -> MetricSpec:
    metrics: Sequence[MetricSpec] = run.record.spec.metrics
    labels = [metric.label for metric in metrics]
    if name not in labels:
        raise SnellenError(f"'{run.folder}' has no metric '{name}'{nearest(name, labels)} (it has: {', '.join(labels)})")
    return metrics[labels.index(name)]
