"""How far each metric can be trusted on the data of a run, and how much its verdicts weigh.

The weight of a metric is the product of three shares:

- *fooled*: 1, or, when a control is among its top two, the share of pairs in which a method still beats the best control;
- *reliable*: how alike two halves of the images order the methods (split-half, Spearman–Brown), never below 0;
- *truth*: 1, or less when the metric is known from TextBox not to follow the truth (see `TRUTH`).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
import pandas as pd
import scipy.stats
from jaxtyping import Float

from snellen.files.documents import Number
from snellen.runs.record import MethodSpec, MetricSpec
from snellen.verdicts.rule import control_win_share, metric_tables
from snellen.verdicts.statistics import fooled, summarise

TRUTH: Mapping[str, float] = {"misleads": 0.5, "blind": 0.75, "shape": 0.75, "unclear": 0.75}
"""The weight of a metric's verdicts by how it did in complex TextBox settings, where the truth is known; 1 for all others.

Of the metrics that were tried there, only those that were shown to prefer right maps, over networks, methods and images
alike, count fully. The least weight is half, not zero, because a test may ask something else of a map than whether it is
right."""

_REASONS = {
    "misleads": "prefers the wrong map",
    "blind": "does not see the right map",
    "shape": "goes by the shape of a map, not its place",
    "unclear": "is not shown to prefer the right map",
}

RELIABLE = 2 / 3
"""Below this split-half reliability a metric is marked; for Krippendorff's α it is his bound for tentative conclusions."""

SPLITS = 200


@dataclass(frozen=True)
class TextBoxResult:
    """How a metric did on TextBox, where the truth is known: how often it prefers the right map to the wrong one.

    The interval is over networks, methods and images.
    """

    metric: str
    """Its registered name."""
    auc: Number
    """The share of pairs in which it prefers the right map."""
    low: Number
    high: Number
    """Ends of the 95 % interval."""
    n: int
    """How many images."""
    verdict: str
    """A key of `TRUTH`, or another word where it follows the truth."""


@dataclass(frozen=True)
class Trust:
    """How far a metric can be trusted on the data of a run."""

    metric: str
    """Its label."""
    fooled_by: tuple[str, ...]
    """Labels of the controls in its top two."""
    beaten: Number
    """In which share of pairs the best control is at least as good as a method."""
    split_half: Number
    """How alike two halves of the images order the methods, at most 1."""
    alpha: Number
    """Krippendorff's α of the order of methods, over images."""
    known: TextBoxResult | None
    """None where the metric was not tried on TextBox."""
    axiom: bool = False
    """Whether the metric has a tolerance, so that a control may fulfil it too."""
    people: str = ""
    """What participants' answers say against it, in words; the weight does not depend on it, because a test may ask
    something else of a map."""

    @property
    def weight(self) -> float:
        """The weight of its verdicts, between 0 and 1."""
        if self.axiom:
            return 1.0
        unfooled = 1 - (1.0 if math.isnan(self.beaten) else self.beaten) if self.fooled_by else 1.0
        reliable = 1.0 if math.isnan(self.split_half) else max(0.0, self.split_half)
        return unfooled * reliable * (TRUTH.get(self.known.verdict, 1.0) if self.known else 1.0)

    @property
    def marks(self) -> tuple[str, ...]:
        """The reasons against it, each a phrase with its number."""
        people = (self.people,) if self.people else ()
        if self.axiom:
            return people
        marks = []
        if self.fooled_by:
            are = "is" if len(self.fooled_by) == 1 else "are"
            marks.append(
                f"fooled: {', '.join(self.fooled_by)} {are} in its top two; the best control does as well as a method in "
                f"{self.beaten:.0%} of pairs"
            )
        if self.split_half < RELIABLE:
            marks.append(f"unreliable: two halves of the images order the methods alike only to {self.split_half:.2f}")
        if self.alpha < RELIABLE:
            marks.append(f"one image says little: Krippendorff's α over images is {self.alpha:.2f}")
        if self.known and self.known.verdict in TRUTH:
            marks.append(
                f"{_REASONS[self.known.verdict]} where the truth is known: on TextBox the right one wins in "
                f"{self.known.auc:.0%} of pairs [{self.known.low:.0%}, {self.known.high:.0%}] over networks, methods and "
                "images"
            )
        return (*marks, *people)


def trust(
    scores: pd.DataFrame,
    spec_methods: Sequence[MethodSpec],
    spec_metrics: Sequence[MetricSpec],
    *,
    seed: int = 0,
) -> dict[str, Trust]:
    """The trust in each metric, by label.

    Args:
        scores: Columns sample, method, metric and value.
        spec_methods: The methods, controls included.
        spec_metrics: The metrics.
        seed: Of the random halves.
    """
    fooled_by = fooled(summarise(scores, spec_methods, spec_metrics, resamples=0))
    trusts = {}
    for table in metric_tables(scores, spec_methods, spec_metrics):
        metric, label = table.metric, table.metric.label
        trusts[label] = Trust(
            metric=label,
            fooled_by=tuple(fooled_by.get(label, ())),
            beaten=control_win_share(table.method_scores, table.control_scores),
            split_half=split_half(table.method_scores, seed=seed),
            alpha=krippendorff(_ranks(table.method_scores)),
            known=textbox_results().get(metric.name),
            axiom=metric.tolerance is not None,
        )
    return trusts


def split_half(values: Float[np.ndarray, "images methods"], *, splits: int = SPLITS, seed: int = 0) -> float:
    """How alike two random halves of the images order the methods, carried over to all images by Spearman–Brown's formula.

    The mean Spearman correlation r of the methods' means over both halves gives 2r / (1 + r); a negative r stays as it is,
    because the formula is not meant for it. NaN with fewer than three methods or six images that define any.

    Args:
        values: The scores of methods by one metric.
        splits: How many random halves.
        seed: Of the random halves.
    """
    scores = values[:, ~np.isnan(values).all(axis=0)]
    scores = scores[~np.isnan(scores).all(axis=1)]
    images, methods = scores.shape
    if methods < 3 or images < 6:
        return math.nan
    generator = np.random.default_rng(seed)
    first = np.zeros((splits, images))
    for row in first:
        row[generator.permutation(images)[: images // 2]] = 1.0
    defined = ~np.isnan(scores)
    filled, weights = np.where(defined, scores, 0.0), defined.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        halves = [(half @ filled) / (half @ weights) for half in (first, 1 - first)]
    # Rounded, so that equal means stay equal whatever the order of a sum.
    scale = float(np.abs(filled).max()) or 1.0
    halves = [np.round(half / scale, 12) for half in halves]
    both = ~np.isnan(halves[0]) & ~np.isnan(halves[1])
    correlations = _spearman(*(np.where(both, half, np.nan) for half in halves))
    r = float(np.nanmean(correlations)) if not np.isnan(correlations).all() else math.nan
    return 2 * r / (1 + r) if r > 0 else r


def krippendorff(values: Float[np.ndarray, "raters units"]) -> float:
    """Krippendorff's α for numbers: 1 is full agreement of raters about the units, 0 is chance; NaN where nothing varies.

    α = 1 − Dₒ / Dₑ, the mean squared difference of values of one unit over that of all values.

    >>> krippendorff(np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]))
    1.0
    """
    defined = ~np.isnan(values)
    several = defined.sum(axis=0) >= 2
    values, defined = values[:, several], defined[:, several]
    total = int(defined.sum())
    if total < 2:
        return math.nan
    count = defined.sum(axis=0)
    filled = np.where(defined, values, 0.0)
    within = 2 * (count * (filled**2).sum(axis=0) - filled.sum(axis=0) ** 2) / (count - 1)
    observed = float(within.sum()) / total
    expected = 2 * (total * float((filled**2).sum()) - float(filled.sum()) ** 2) / (total * (total - 1))
    return math.nan if expected <= 1e-12 else 1 - observed / expected


@cache
def textbox_results() -> dict[str, TextBoxResult]:
    """The results of `snellen textbox audit` in complex settings, by metric; its option `--truth` writes them."""
    text = resources.files("snellen.verdicts").joinpath("known_truth.csv").read_text(encoding="utf-8")
    return {
        row["metric"]: TextBoxResult(
            metric=row["metric"],
            auc=float(row["auc"]),
            low=float(row["low"]),
            high=float(row["high"]),
            n=int(row["n"]),
            verdict=row["verdict"],
        )
        for row in csv.DictReader(text.splitlines())
    }


def _ranks(values: Float[np.ndarray, "images methods"]) -> Float[np.ndarray, "images methods"]:
    return np.asarray(scipy.stats.rankdata(values, axis=1, nan_policy="omit"), dtype=np.float64)


def _spearman(
    first: Float[np.ndarray, "rows methods"], second: Float[np.ndarray, "rows methods"]
) -> Float[np.ndarray, " rows"]:
    """Spearman's correlation of the rows of both; NaN where fewer than three values are defined, or all are equal."""
    ranks = [_ranks(half) for half in (first, second)]
    n = (~np.isnan(ranks[0])).sum(axis=1)
    # Ranks of n values, ties shared, always have the mean (n + 1) / 2.
    centred = [np.nan_to_num(rank - (n[:, None] + 1) / 2) for rank in ranks]
    spread = np.sqrt((centred[0] ** 2).sum(axis=1) * (centred[1] ** 2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where((n >= 3) & (spread > 0), (centred[0] * centred[1]).sum(axis=1) / spread, np.nan)
