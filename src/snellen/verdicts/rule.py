"""The rule by which a method passes, fails or stays undecided in a test: against controls, or within a tolerance.

All comparisons of one test (every method with every control) are one family. Their intervals hold *together* with 98 %: each
reaches as many standard errors to both sides as the farthest of all comparisons strays in 98 % of bootstrap draws of the
images (max-t, Westfall and Young 1993). So the chance that a test praises or condemns any method wrongly stays below one in
twenty, however many methods and controls there are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from snellen.verdicts.statistics import MINIMUM_IMAGES, best_value, fooled, means_of_resamples, summarise, wide

Verdict = Literal["pass", "fail", "inconclusive", "not counted"]

LEVEL = 0.98
"""Of the intervals. On very skewed scores (log-normal) an interval promises more than it holds; at this level a method that
is no better than a control still passes in fewer than one test of twenty, from the least number of images on."""

MARGIN = 0.2
"""A difference within this many standard deviations counts as none: Cohen's (1988) bound of a small effect.

The standard deviation is that of the scores over images, the method's and the control's pooled."""

DEAF = 0.1
"""A metric that controls win in more than all but this share of pairs is not counted at all."""

RESAMPLES = 5_000

MOST = 100_000
"""Advice that asks for more images than this says so in words instead."""

RULE = (
    "fail: worse than some control, or within the margin of it; pass: better than every control; inconclusive: neither. "
    f"By paired differences per image, whose {LEVEL:.0%} bootstrap intervals hold together for all methods and controls of "
    f"the test; margin {MARGIN:g} standard deviations; at least {MINIMUM_IMAGES} images."
)
AXIOM = (
    "pass: the whole interval of the mean is within the tolerance of the best value; fail: all of it is beyond; "
    f"inconclusive: neither. The {LEVEL:.0%} bootstrap intervals hold together for all methods; at least "
    f"{MINIMUM_IMAGES} images."
)


@dataclass(frozen=True)
class Against:
    """A method against one control: the mean paired difference (positive is better), its interval, and the margin."""

    control: str
    mean: float
    low: float
    high: float
    margin: float
    spread: float
    n: int

    @property
    def better(self) -> bool:
        """Whether the method is better beyond doubt."""
        return self.low > 0

    @property
    def worse(self) -> bool:
        """Whether the control is better beyond doubt."""
        return self.high < 0

    @property
    def alike(self) -> bool:
        """Whether all of the interval lies within the margin: a difference that is sure, but small, is none either."""
        return -self.margin <= self.low and self.high <= self.margin


@dataclass(frozen=True)
class Judgement:
    """One verdict with all that it rests on. `more` is how many further images would probably settle an inconclusive one."""

    method: str
    metric: str
    verdict: Verdict
    reason: str
    rule: str
    mean: float
    low: float
    high: float
    n: int
    undefined: int
    against: tuple[Against, ...] = ()
    more: int | None = None

    @property
    def advice(self) -> str:
        """What would settle an inconclusive verdict; empty for others."""
        if self.verdict != "inconclusive":
            return ""
        if self.more is None or self.more > MOST:
            return "more images will hardly settle it"
        return f"about {self.more} more {'image' if self.more == 1 else 'images'} would settle it"


def judge(
    scores: pd.DataFrame,
    spec_methods: Sequence[Mapping[str, Any]],
    spec_metrics: Sequence[Mapping[str, Any]],
    *,
    seed: int = 0,
) -> list[Judgement]:
    """A verdict for each method in each test (see `RULE`; `AXIOM` for a metric with a tolerance).

    *Not counted*: too few images, no control, nothing computed, or a metric that a control wins outright (see `DEAF`).
    """
    summary = summarise(scores, spec_methods, spec_metrics, seed=seed)
    rows = {(row.method, row.metric): row for row in summary.itertuples()}
    deceived = fooled(summary)
    own = [one["label"] for one in spec_methods if not one["control"]]
    found = []
    for metric in spec_metrics:
        label = metric["label"]
        mine = [rows[(one, label)] for one in own]
        if metric.get("tolerance") is not None:
            found += _axiom(scores, own, metric, mine, seed)
            continue
        pairs = compare(scores, spec_methods, [metric], seed=seed)
        outright = label in deceived and beaten(scores, spec_methods, metric) > 1 - DEAF
        for row in mine:
            against = tuple(one for one in pairs.get((str(row.method), label), ()) if one.n)
            verdict, reason = _comparative(row, against)
            if outright and verdict != "not counted":
                by = ", ".join(deceived[label])
                verdict, reason = "not counted", f"fooled by {by}, which wins against nearly every map; otherwise {verdict}"
            found.append(_judgement(row, verdict, reason, RULE, against))
    return found


def compare(
    scores: pd.DataFrame,
    spec_methods: Sequence[Mapping[str, Any]],
    spec_metrics: Sequence[Mapping[str, Any]],
    *,
    seed: int = 0,
) -> dict[tuple[str, str], tuple[Against, ...]]:
    """By method and metric, how much better than each control a method is on the same image.

    Positive is better, whichever way the metric points. Only images on which both are defined count.
    """
    methods = [one["label"] for one in spec_methods if not one["control"]]
    controls = [one["label"] for one in spec_methods if one["control"]]
    if not methods or not controls:
        return {}
    found = {}
    for metric in spec_metrics:
        label, sign = metric["label"], 1.0 if metric["higher_is_better"] else -1.0
        table = wide(scores, [*methods, *controls], [label]).to_numpy(dtype=np.float64) * sign
        own, rivals = table[:, : len(methods)], table[:, len(methods) :]
        differences = (own[:, :, None] - rivals[:, None, :]).reshape(len(table), -1)
        mean, low, high, n = simultaneous(differences, seed=seed)
        both = ~np.isnan(differences).reshape(len(table), len(methods), len(controls))
        spread = np.stack([_deviation(column) for column in differences.T]) if len(table) else np.zeros(mean.shape)
        for at, method in enumerate(methods):
            against = []
            for place, control in enumerate(controls):
                here, column = both[:, at, place], at * len(controls) + place
                pooled = math.sqrt((_deviation(own[here, at]) ** 2 + _deviation(rivals[here, place]) ** 2) / 2)
                ends = float(mean[column]), float(low[column]), float(high[column])
                against.append(Against(control, *ends, MARGIN * pooled, float(spread[column]), int(n[column])))
            found[(method, label)] = tuple(against)
    return found


def beaten(scores: pd.DataFrame, spec_methods: Sequence[Mapping[str, Any]], metric: Mapping[str, Any]) -> float:
    """How often the control with the best mean is at least as good as a method on the same image, over all such pairs."""
    methods = [one["label"] for one in spec_methods if not one["control"]]
    controls = [one["label"] for one in spec_methods if one["control"]]
    sign = 1.0 if metric["higher_is_better"] else -1.0
    table = wide(scores, [*methods, *controls], [metric["label"]]).to_numpy(dtype=np.float64) * sign
    rivals = table[:, len(methods) :]
    known = ~np.isnan(rivals).all(axis=0)
    if not known.any():
        return math.nan
    best = rivals[:, known][:, int(np.nanmean(rivals[:, known], axis=0).argmax())]
    gaps = best[:, None] - table[:, : len(methods)]
    return float((gaps >= 0)[~np.isnan(gaps)].mean()) if (~np.isnan(gaps)).any() else math.nan


def simultaneous(
    values: Float[np.ndarray, "images columns"], *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[Float[np.ndarray, " columns"], ...]:
    """Mean, low end, high end and number of defined values per column; all intervals hold together at this level.

    Each draw of the images is measured in its own standard errors (bootstrap-t, Efron and Tibshirani 1993), each side for
    itself, so that skewed scores do not make one end too hopeful. Columns without spread have no width, and do not widen
    the others.
    """
    images, columns = values.shape
    defined = ~np.isnan(values)
    n = defined.sum(axis=0).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(defined, values, 0.0).sum(axis=0) / n
    low, high = np.full(columns, np.nan), np.full(columns, np.nan)
    if images < 2 or not columns:
        return mean, low, high, n
    low[n >= 2] = high[n >= 2] = mean[n >= 2]
    centred = np.where(defined, values - np.nan_to_num(mean), 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.sqrt((centred**2).sum(axis=0) / (n - 1) / n)
    # Rounding leaves a trace of spread in columns whose values are all equal.
    moving = np.flatnonzero((n >= 2) & (error > 1e-12 * np.nanmax(np.where(defined, np.abs(values), 0.0), axis=0)))
    if len(moving):
        above, below = _reach(centred[:, moving], defined[:, moving], error[moving], level, resamples, seed)
        low[moving], high[moving] = mean[moving] - above * error[moving], mean[moving] + below * error[moving]
    return mean, low, high, n


def _reach(
    centred: Float[np.ndarray, "images columns"],
    defined: Bool[np.ndarray, "images columns"],
    error: Float[np.ndarray, " columns"],
    level: float,
    resamples: int,
    seed: int,
) -> tuple[float, float]:
    """How many standard errors the farthest column strays above and below its mean, in all but (1 - level) of the draws."""
    weights = defined.astype(np.float64)
    both = np.concatenate([centred, centred**2], axis=1)
    drawn = means_of_resamples(both, np.tile(weights, 2), resamples, np.random.default_rng(seed))
    means, squares = np.split(drawn, 2, axis=1)
    n = weights.sum(axis=0)
    # A draw may hold one value many times; its own error then is nearly nothing, and says nothing.
    own = np.maximum(np.sqrt(np.maximum(squares - means**2, 0.0) / (n - 1)), 0.1 * error)
    strayed = means / own
    tail = 1 - (1 - level) / 2
    return float(np.quantile(np.nanmax(strayed, axis=1), tail)), float(np.quantile(np.nanmax(-strayed, axis=1), tail))


def _comparative(row: Any, against: Sequence[Against]) -> tuple[Verdict, str]:
    if not row.n:
        return "not counted", "undefined" if row.undefined else "not run"
    if not against:
        return "not counted", "nothing to compare with"
    if min(one.n for one in against) < MINIMUM_IMAGES:
        return "not counted", "too few images for a verdict"
    worse, alike = [one.control for one in against if one.worse], [one.control for one in against if one.alike]
    if worse:
        return "fail", f"worse than {', '.join(worse)}"
    if alike:
        return "fail", f"no better than {', '.join(alike)}, within the margin"
    if all(one.better for one in against):
        return "pass", "better than every control"
    return "inconclusive", f"not clear of {', '.join(one.control for one in against if not one.better)}"


def _axiom(
    scores: pd.DataFrame, own: Sequence[str], metric: Mapping[str, Any], rows: Sequence[Any], seed: int
) -> list[Judgement]:
    label, tolerance, best = metric["label"], float(metric["tolerance"]), best_value(metric)
    _, low, high, _ = simultaneous(wide(scores, own, [label]).to_numpy(dtype=np.float64), seed=seed)
    found = []
    for at, row in enumerate(rows):
        verdict: Verdict
        near, far = sorted((abs(float(low[at]) - best), abs(float(high[at]) - best)))
        if not row.n:
            verdict, reason = "not counted", "undefined" if row.undefined else "not run"
        elif row.n < MINIMUM_IMAGES:
            verdict, reason = "not counted", "too few images for a verdict"
        elif far <= tolerance:
            verdict, reason = "pass", f"within {tolerance:g} of {best:g}"
        elif near > tolerance:
            verdict, reason = "fail", f"farther than {tolerance:g} from {best:g}"
        else:
            verdict, reason = "inconclusive", f"not clear of {tolerance:g} from {best:g}"
        found.append(_judgement(row, verdict, reason, AXIOM, ()))
    return found


def _judgement(row: Any, verdict: Verdict, reason: str, rule: str, against: tuple[Against, ...]) -> Judgement:
    more = further_images(against) if verdict == "inconclusive" and against else None
    ends = float(row.mean), float(row.low), float(row.high)
    return Judgement(row.method, row.metric, verdict, reason, rule, *ends, int(row.n), int(row.undefined), against, more)


def further_images(against: Sequence[Against]) -> int | None:
    """How many more images would probably (with 80 %) settle a verdict, if differences stay as they are; None if none would.

    A pass takes enough images for every control; a fail takes enough for one.
    """
    power = NormalDist().inv_cdf(0.8)
    passing: list[float] = []
    failing: list[float] = []
    for one in against:
        # How many standard errors the interval reaches to each side, seen from its width.
        reach = (one.high - one.low) / 2 * math.sqrt(one.n) / one.spread if one.spread > 0 else 0.0
        needed = _images((reach + power) * one.spread, abs(one.mean))
        passing.append(0.0 if one.better else needed if one.mean > 0 else math.inf)
        if one.mean < 0:
            failing.append(needed)
        if abs(one.mean) < one.margin:
            failing.append(_images((reach + power) * one.spread, one.margin - abs(one.mean)))
    least = min(max(passing, default=math.inf), min(failing, default=math.inf))
    now = min(one.n for one in against)
    return None if math.isinf(least) else max(1, math.ceil(least) - now)


def _images(width: float, distance: float) -> float:
    return math.inf if distance <= 0 else (width / distance) ** 2


def _deviation(values: Float[np.ndarray, " values"]) -> float:
    known = values[~np.isnan(values)]
    return float(known.std(ddof=1)) if len(known) > 1 else 0.0
