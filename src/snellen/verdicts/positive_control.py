"""What positive controls score, and whether they beat the controls: a test of the metric, never of a method."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from snellen.runs.record import MethodSpec, MetricSpec
from snellen.verdicts.paired_difference import PairedDifference
from snellen.verdicts.rule import Verdict, against_controls, decide_verdict, metric_tables
from snellen.verdicts.sampling import IMAGES, Sampling
from snellen.verdicts.statistics import SummaryRow, sample_names, summarise

EMPTY = "the truth is empty"
"""Why a positive control has no score on an image."""


@dataclass(frozen=True, kw_only=True)
class PositiveControl:
    """The scores of a positive control by one metric, and how they compare with those of the controls."""

    row: SummaryRow
    against: tuple[PairedDifference, ...] = ()
    """The difference from each control; empty for an axiom."""
    comparison: Verdict = "not counted"
    """What a method with these differences would get. It says something about the metric, and is never a verdict."""


def positive_control_rows(
    scores: pd.DataFrame,
    positive_scores: pd.DataFrame,
    spec_methods: Sequence[MethodSpec],
    positive_controls: Sequence[MethodSpec],
    spec_metrics: Sequence[MetricSpec],
    *,
    seed: int = 0,
    sampling: Sampling = IMAGES,
) -> tuple[PositiveControl, ...]:
    """One per positive control and metric, in this order.

    Differences are paired, and their intervals hold together for all positive controls and controls of a metric, as those of
    verdicts do for methods.

    Args:
        scores: of methods and controls: columns sample, method, metric and value.
        positive_scores: the same of the positive controls.
        spec_methods: the methods, controls included.
        positive_controls: the positive controls.
        spec_metrics: the metrics.
        seed: of the bootstrap draws.
        sampling: what was drawn at random.
    """
    controls = [method for method in spec_methods if method.control]
    both = pd.concat([scores, positive_scores], ignore_index=True)
    table = summarise(both, positive_controls, spec_metrics, seed=seed, sampling=sampling)
    rows = {(row.method, row.metric): row for row in SummaryRow.rows(table)}
    clusters = sampling.clusters(sample_names(both))
    compared: dict[tuple[str, str], PositiveControl] = {}
    for metric, own_scores, control_scores, names, others in metric_tables(
        both, [*positive_controls, *controls], spec_metrics
    ):
        differences: list[tuple[PairedDifference, ...]] = [()] * len(names)
        if controls and metric.tolerance is None:
            differences = against_controls(own_scores, control_scores, others, seed=seed, clusters=clusters)
        for name, of_control in zip(names, differences, strict=True):
            against = tuple(difference for difference in of_control if difference.n)
            compared[name, metric.label] = PositiveControl(
                row=_with_reason(rows[name, metric.label], metric),
                against=against,
                comparison=decide_verdict(against, sampling.unit)[0],
            )
    return tuple(compared[control.label, metric.label] for control in positive_controls for metric in spec_metrics)


def _with_reason(row: SummaryRow, metric: MetricSpec) -> SummaryRow:
    """The row with its own reason for undefined scores."""
    if not row.undefined or EMPTY in metric.undefined:
        return row
    return dataclasses.replace(row, reason=EMPTY if metric.undefined == "never" else f"{EMPTY}, or {metric.undefined}")
