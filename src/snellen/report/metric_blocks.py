"""What the report shows of each metric: a strip per method, verdicts with reasons, and what is undefined or missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from snellen.charts import numbers
from snellen.charts.chart import Chart
from snellen.charts.scale import Scale, scale_of
from snellen.charts.strips import Estimate, strip, strip_axis
from snellen.charts.verdict_marks import ARROWS, DIRECTIONS, MARKS, colour_of
from snellen.plugins.registry import Attribute
from snellen.report.positive_controls import SURPRISE, by_metric, is_surprising, note_of
from snellen.report.readable import Readable
from snellen.runs.record import MetricSpec
from snellen.verdicts import MINIMUM_IMAGES, Judgement, PairedDifference, fooled, run_certainty
from snellen.verdicts.statistics import SummaryRow


@dataclass(frozen=True, kw_only=True)
class StripRow:
    """The strip of one method by one metric."""

    name: str
    """The label of the method."""
    strip: Chart
    mean: str
    """Or "not run"."""
    interval: str
    """Empty where no score is defined."""
    missing: str
    """How many scores are defined, where some are not."""
    verdict: str | None
    mark: str
    kind: str
    """The sign of the verdict and its CSS class."""


@dataclass(frozen=True, kw_only=True)
class PairCell:
    """A method minus a control, image by image."""

    mean: str
    """Or "no pair"."""
    interval: str
    n: int
    """Images on which both are defined."""
    margin: str
    """Within which they count as alike."""


@dataclass(frozen=True, kw_only=True)
class PairRow:
    """A method minus each control, and the verdict that follows; without one, if the images are too few."""

    name: str
    """The label of the method."""
    cells: tuple[PairCell, ...]
    verdict: str | None = None
    reason: str = ""
    advice: str = ""
    """What would settle it."""
    note: str = ""
    mark: str = ""
    kind: str = ""
    """The sign of the verdict and its CSS class."""


@dataclass(frozen=True, kw_only=True)
class MetricBlock:
    """What the report shows of one metric."""

    label: str
    summary: str
    tolerance: float | None
    """How far a mean may be from the best value; None unless the metric is an axiom."""
    id: str
    """In the page."""
    attribute: Attribute
    arrow: str
    direction: str
    """Whether higher is better, as a sign and in words."""
    fooled: list[str]
    """Controls among its top two."""
    undefined: str
    """How many scores are undefined, and why."""
    positive_undefined: list[str]
    """The same of each positive control."""
    rows: list[StripRow]
    """Of methods; of controls where there are no methods."""
    positive: list[StripRow]
    """Of positive controls."""
    positive_note: str
    """Whether they beat the controls."""
    surprise: str
    """What it means if they do not."""
    footer: Chart | None
    """The axis; None where no number is defined."""
    columns: list[str]
    """Controls with which methods are compared; none for an axiom."""
    pairs: list[PairRow]
    rule: str
    """Of its verdicts."""
    outright: bool
    """Whether its verdicts are not counted because a control wins against nearly every map."""
    nothing: bool
    """Whether no number is defined."""
    not_run: list[str]
    """Why methods have no score, a sentence each."""
    judged: bool
    """Whether methods have verdicts."""


def metric_blocks(run: Readable) -> list[MetricBlock]:
    """One block per metric of the run: its strips, its verdicts with their reasons, and what is undefined or missing."""
    verdicts, enough, problems = run.verdicts(), run_certainty(run).enough, run.problems()
    summary, judged = verdicts.summary, verdicts.judgements
    fooling_controls = fooled(summary)
    by_pair = {(judgement.method, judgement.metric): judgement for judgement in judged}
    positive, differ = by_metric(run), run.record.spec.stops_early
    blocks: list[MetricBlock] = []
    for metric in run.record.spec.metrics:
        label, higher = metric.label, metric.higher_is_better
        rows: Any = summary[summary["metric"] == label]
        controls = {row.method: float(row.mean) for row in rows[rows["control"]].itertuples()}
        plotted = [*rows["mean"], *rows.loc[~rows["control"], "low"], *rows.loc[~rows["control"], "high"]]
        masks = [control.row for control in positive[label]]
        plotted += [value for row in masks for value in (row.mean, row.low, row.high)]
        oracles = {row.method: float(row.mean) for row in masks if row.n}
        scale = scale_of([float(value) for value in plotted], bounds_of(metric))
        own = [judgement for judgement in judged if judgement.metric == label]
        axiom = metric.tolerance is not None
        columns = [] if axiom else list(controls)
        is_judged = enough and (bool(controls) or axiom) and not rows["control"].all()
        strips: list[StripRow] = []
        positive_strips: list[StripRow] = []
        footer = None
        if scale is not None:
            footer = strip_axis(scale, controls, higher_is_better=higher)
            verdicts_of_rows = by_pair if enough else None
            strips = [
                _strip_row(row, scale, controls, verdicts_of_rows, is_judged, oracles, differ=differ)
                for row in rows[~rows["control"]].itertuples()
            ]
            if not strips:
                strips = [_strip_row(row, scale, controls, None, False, oracles, differ=differ) for row in rows.itertuples()]
            positive_strips = [_strip_row(row, scale, controls, None, False, differ=differ) for row in masks if row.n]
        blocks.append(
            MetricBlock(
                label=label,
                summary=metric.summary,
                tolerance=metric.tolerance,
                id=f"metric-{len(blocks)}",
                attribute=metric.attribute,
                arrow=ARROWS[higher],
                direction=DIRECTIONS[higher],
                fooled=fooling_controls.get(label, []),
                undefined=_undefined_scores(rows),
                positive_undefined=[words for row in masks if (words := _undefined_truth(row))],
                rows=strips,
                positive=positive_strips,
                positive_note=note_of(positive[label]),
                surprise=SURPRISE if is_surprising(positive[label]) else "",
                footer=footer,
                columns=columns,
                pairs=_pairs(own, columns, enough) if columns or (enough and axiom) else [],
                rule=own[0].rule if own and enough else "",
                outright=any(judgement.reason.startswith("fooled") for judgement in own),
                nothing=scale is None,
                not_run=_not_run(label, problems),
                judged=bool(is_judged),
            )
        )
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
    oracles: Mapping[str, float] | None = None,
    *,
    differ: bool = False,
) -> StripRow:
    """A row of strips; `oracles` are the means of positive controls, which have none themselves.

    Where numbers of images `differ`, it has its own.
    """
    verdict = verdicts[(row.method, row.metric)].verdict if verdicts is not None else None
    missing = f"{row.n} of {row.n + row.undefined} defined" if row.undefined and row.n else ""
    if missing and judged and row.n < MINIMUM_IMAGES:
        missing += ", too few"
    if differ:
        missing = ", ".join(filter(None, [f"n = {row.n}", missing]))
    span = numbers.interval(row.low, row.high, row.n)
    mean = numbers.short(row.mean) if row.n or row.undefined else "not run"
    words = f"{row.method}: mean {mean}, {span}, {numbers.count(row.n, 'image')}"
    if controls:
        words += "; controls: " + ", ".join(f"{name} {numbers.short(value)}" for name, value in controls.items())
    if oracles:
        words += "; positive controls: " + ", ".join(f"{name} {numbers.short(value)}" for name, value in oracles.items())
    estimate = Estimate(mean=row.mean, low=row.low, high=row.high, colour=colour_of(verdict) if verdict else "ink")
    if oracles is None:
        estimate = replace(estimate, colour="green", shape="diamond")
    ends = list((oracles or {}).values())
    return StripRow(
        name=row.method,
        strip=strip(scale, estimate, description=words, ticks=list(controls.values()), oracles=ends),
        mean=mean,
        interval=span if row.n else "",
        missing=missing,
        verdict=verdict,
        mark=MARKS[verdict] if verdict else "",
        kind=colour_of(verdict or ""),
    )


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


def _undefined_truth(row: SummaryRow) -> str:
    """The undefined scores of a positive control in words."""
    if not row.undefined:
        return ""
    return f"{row.method}: {row.undefined} of {row.n + row.undefined} scores undefined: {row.reason}"


def _not_run(metric: str, problems: Mapping[tuple[str, str], str]) -> list[str]:
    """Why methods have no score by this metric, a sentence each."""
    own = {method: problem for (method, label), problem in problems.items() if label == metric}
    return [
        f"{', '.join(method for method, reason in own.items() if reason == problem)}: {problem}"
        for problem in dict.fromkeys(own.values())
    ]


def _pairs(judged: Sequence[Judgement], controls: Sequence[str], enough: bool) -> list[PairRow]:
    """Rows of the paired comparison: one per method, one cell per control, and the verdict that follows."""
    rows = []
    for judgement in judged:
        against = {pair.control: pair for pair in judgement.against}
        row = PairRow(name=judgement.method, cells=tuple(_pair(against.get(control)) for control in controls))
        if enough:
            row = replace(
                row,
                verdict=judgement.verdict,
                reason=judgement.reason,
                advice=judgement.advice,
                note=judgement.note,
                mark=MARKS[judgement.verdict],
                kind=judgement.verdict.replace(" ", "-"),
            )
        rows.append(row)
    return rows


def _pair(pair: PairedDifference | None) -> PairCell:
    if pair is None:
        return PairCell(mean="no pair", interval="", n=0, margin="")
    span = numbers.interval(pair.low, pair.high, pair.n, signs=True)
    return PairCell(mean=numbers.signed(pair.mean), interval=span, n=pair.n, margin=numbers.short(pair.margin))
