"""The rule by which a method passes, fails or stays undecided in a test: against controls, or within a tolerance.

All comparisons of one test (every method with every control) are one family. Their intervals hold *together* with 98 %: each
reaches so many standard errors to both sides that no comparison strays farther in 98 % of bootstrap draws of the images
(max-t, Westfall and Young 1993), balanced (Beran 1988): a comparison that strays far by nature does not widen all others.
So the chance that a test praises or condemns any method wrongly stays below one in twenty, however many methods and controls
there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from snellen.verdicts.against import Against, further_images, images_for_axiom
from snellen.verdicts.statistics import (
    LEVEL,
    MINIMUM_IMAGES,
    best_value,
    cube,
    fooled,
    means_of_resamples,
    student,
    summarise,
)

Verdict = Literal["pass", "fail", "inconclusive", "not counted"]

MARGIN = 0.2
"""A difference within this many standard deviations counts as none: Cohen's (1988) bound of a small effect.

The standard deviation is that of the scores over images, the method's and the control's pooled."""

PRECISION = 1e-6
"""Scores that differ by less than this share of the largest are alike in any case: single precision makes up such gaps."""

DEAF = 0.1
"""A metric that controls win in more than all but this share of pairs is not counted at all."""

RESAMPLES = 5_000

FEW = "too few images for a verdict"
"""The reason where there are fewer than `MINIMUM_IMAGES`."""

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
    summary: pd.DataFrame | None = None,
) -> list[Judgement]:
    """A verdict for each method in each test (see `RULE`; `AXIOM` for a metric with a tolerance).

    *Not counted*: too few images, no control, nothing computed, or a metric that a control wins outright (see `DEAF`).
    `summary` is what `summarise` says of the same scores, for those who have it already.
    """
    if summary is None:
        summary = summarise(scores, spec_methods, spec_metrics, seed=seed)
    rows = {(row.method, row.metric): row for row in summary.itertuples()}
    deceived = fooled(summary)
    found = []
    for metric, own, rivals, (methods, controls) in tables(scores, spec_methods, spec_metrics):
        label = metric["label"]
        mine = [rows[(one, label)] for one in methods]
        if metric.get("tolerance") is not None:
            found += _axiom(own, metric, mine, seed)
            continue
        pairs = against_controls(own, rivals, controls, seed=seed)
        outright = label in deceived and beaten(own, rivals) > 1 - DEAF
        for row, pair in zip(mine, pairs, strict=True):
            against = tuple(one for one in pair if one.n)
            verdict, reason = verdict_of(against) if row.n else _nothing(row)
            more = further_images(against, len(own)) if verdict == "inconclusive" else None
            if outright and verdict != "not counted":
                by = deceived[label]
                wins = "wins" if len(by) == 1 else "win"
                reason = f"fooled by {', '.join(by)}, which {wins} against nearly every map; otherwise {verdict}"
                verdict, more = "not counted", None
            found.append(_judgement(row, verdict, reason, RULE, against, more))
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
    return {
        (method, metric["label"]): against
        for metric, own, rivals, (methods, controls) in tables(scores, spec_methods, spec_metrics)
        if controls
        for method, against in zip(methods, against_controls(own, rivals, controls, seed=seed), strict=True)
    }


Table = tuple[
    Mapping[str, Any],
    Float[np.ndarray, "images methods"],
    Float[np.ndarray, "images controls"],
    tuple[Sequence[str], Sequence[str]],
]
"""A metric, the scores of methods and of controls by it (larger is better, whichever way it points), and their labels."""


def tables(
    scores: pd.DataFrame, spec_methods: Sequence[Mapping[str, Any]], spec_metrics: Sequence[Mapping[str, Any]]
) -> Iterator[Table]:
    """The scores of each metric in turn."""
    methods = [one["label"] for one in spec_methods if not one["control"]]
    controls = [one["label"] for one in spec_methods if one["control"]]
    values, _ = cube(scores, [*methods, *controls], [one["label"] for one in spec_metrics])
    for place, metric in enumerate(spec_metrics):
        table = values[:, :, place] * (1.0 if metric["higher_is_better"] else -1.0)
        yield metric, table[:, : len(methods)], table[:, len(methods) :], (methods, controls)


def against_controls(
    own: Float[np.ndarray, "images methods"],
    rivals: Float[np.ndarray, "images controls"],
    controls: Sequence[str],
    *,
    seed: int = 0,
) -> list[tuple[Against, ...]]:
    """For each method, how it stands against each control in one test; larger scores are better."""
    images, shape = len(own), (own.shape[1], rivals.shape[1])
    differences = own[:, :, None] - rivals[:, None, :]
    mean, low, high, n = (
        one.reshape(shape) for one in simultaneous(differences.reshape(images, math.prod(shape)), seed=seed)
    )
    both = ~np.isnan(differences)
    # Only images on which both are defined count, for the margin too.
    first, second = (np.where(both, one, np.nan) for one in (own[:, :, None], rivals[:, None, :]))
    margin = MARGIN * np.sqrt((_deviation(first) ** 2 + _deviation(second) ** 2) / 2)
    largest = np.maximum(np.abs(first), np.abs(second))
    margin = np.maximum(margin, PRECISION * np.where(both, largest, 0.0).max(axis=0, initial=0.0))
    spread = _deviation(differences)
    rows = []
    for at in range(shape[0]):
        against = []
        for place, control in enumerate(controls):
            ends = float(mean[at, place]), float(low[at, place]), float(high[at, place])
            beside = float(margin[at, place]), float(spread[at, place]), int(n[at, place])
            against.append(Against(control, *ends, *beside))
        rows.append(tuple(against))
    return rows


def beaten(own: Float[np.ndarray, "images methods"], rivals: Float[np.ndarray, "images controls"]) -> float:
    """How often the control with the best mean is at least as good as a method on the same image, over all such pairs.

    Larger scores are better. NaN where there is no pair.
    """
    rivals = rivals[:, ~np.isnan(rivals).all(axis=0)]
    if not rivals.size:
        return math.nan
    best = rivals[:, int(np.nanmean(rivals, axis=0).argmax())]
    gaps = best[:, None] - own
    known = ~np.isnan(gaps)
    return float((gaps >= 0)[known].mean()) if known.any() else math.nan


def simultaneous(
    values: Float[np.ndarray, "images columns"], *, level: float = LEVEL, resamples: int = RESAMPLES, seed: int = 0
) -> tuple[Float[np.ndarray, " columns"], ...]:
    """Mean, low end, high end and number of defined values per column; all intervals hold together at this level.

    Each draw of the images is measured in its own standard errors (bootstrap-t, Efron and Tibshirani 1993), each side for
    itself, so that skewed scores do not make one end too hopeful. No interval is narrower than Student's of a single mean:
    where most differences are none, draws vary too little, and three images of thirty would do.

    Columns without spread have no width. Neither they nor columns with too few values for a verdict widen the others; the
    latter hold together among themselves.
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
    moving = (n >= 2) & (error > 1e-12 * np.where(defined, np.abs(values), 0.0).max(axis=0))
    for family in (n >= MINIMUM_IMAGES, n < MINIMUM_IMAGES):
        at = np.flatnonzero(moving & family)
        if len(at):
            above, below = _reach(centred[:, at], defined[:, at], error[at], level, resamples, seed)
            least = np.array([student(0.5 + level / 2, int(one) - 1) for one in n[at]])
            low[at], high[at] = (
                mean[at] - np.maximum(above, least) * error[at],
                mean[at] + np.maximum(below, least) * error[at],
            )
    return mean, low, high, n


def _reach(
    centred: Float[np.ndarray, "images columns"],
    defined: Bool[np.ndarray, "images columns"],
    error: Float[np.ndarray, " columns"],
    level: float,
    resamples: int,
    seed: int,
) -> tuple[Float[np.ndarray, " columns"], Float[np.ndarray, " columns"]]:
    """How many standard errors a column reaches down and up, so that none strays farther in all but (1 - level) of draws.

    A column strays in its own measure: as far as it goes alone at this level, but at least as far as three of four do.
    So one that almost always hits, whose few misses are absent from some draws, does not widen all others; and one whose
    long tail no image happened to show is not too hopeful.
    """
    both = np.concatenate([centred, centred**2], axis=1)
    drawn = means_of_resamples(both, np.tile(defined, 2), resamples, np.random.default_rng(seed))
    means, squares = np.split(drawn, 2, axis=1)
    n = defined.sum(axis=0)
    # A draw may hold one value many times; its own error then is nearly nothing, and says nothing.
    own = np.maximum(np.sqrt(np.maximum(squares - means**2, 0.0) / (n - 1)), 0.1 * error)
    # A draw without any defined value of a column is NaN there, and strays nowhere.
    strayed = np.nan_to_num(means / own)
    tail = 1 - (1 - level) / 2

    def together(side: Float[np.ndarray, "resamples columns"]) -> Float[np.ndarray, " columns"]:
        alone = np.quantile(side, tail, axis=0)
        alone = np.maximum(alone, max(float(np.quantile(alone, 0.75)), 1.0))
        return np.asarray(alone * np.quantile((side / alone).max(axis=1), tail))

    return together(strayed), together(-strayed)


def verdict_of(against: Sequence[Against]) -> tuple[Verdict, str]:
    """The verdict by `RULE`, and why."""
    if not against:
        return "not counted", "nothing to compare with"
    if min(one.n for one in against) < MINIMUM_IMAGES:
        return "not counted", FEW
    worse, alike = [one.control for one in against if one.worse], [one.control for one in against if one.alike]
    if worse:
        return "fail", f"worse than {', '.join(worse)}"
    if alike:
        return "fail", f"no better than {', '.join(alike)}, within the margin"
    if all(one.better for one in against):
        return "pass", "better than every control"
    return "inconclusive", f"not clear of {', '.join(one.control for one in against if not one.better)}"


def _axiom(
    own: Float[np.ndarray, "images methods"], metric: Mapping[str, Any], rows: Sequence[Any], seed: int
) -> list[Judgement]:
    tolerance, best = float(metric["tolerance"]), best_value(metric)
    # How far a score is from the best value; scores come larger is better.
    gaps = (best if metric["higher_is_better"] else -best) - own
    mean, low, high, n = simultaneous(gaps, seed=seed)
    spread = _deviation(gaps)
    found = []
    for at, row in enumerate(rows):
        verdict: Verdict
        near, far, more = max(0.0, float(low[at])), float(high[at]), None
        if not row.n:
            verdict, reason = _nothing(row)
        elif row.n < MINIMUM_IMAGES:
            verdict, reason = "not counted", FEW
        elif far <= tolerance:
            verdict, reason = "pass", f"within {tolerance:g} of {best:g}: {_at_most(far)}"
        elif near > tolerance:
            verdict, reason = "fail", f"farther than {tolerance:g} from {best:g}: at least {near:.2g}"
        else:
            verdict, reason = "inconclusive", f"not clear of {tolerance:g} from {best:g}: between {near:.2g} and {far:.2g}"
            ends = float(mean[at]), float(low[at]), float(high[at])
            more = images_for_axiom(Against("", *ends, tolerance, float(spread[at]), int(n[at])), len(own))
        found.append(_judgement(row, verdict, reason, AXIOM, (), more))
    return found


def _at_most(far: float) -> str:
    # What rounding leaves of zero would be told as 2.1e-08.
    return f"at most {far:.2g}" if far >= 1e-4 or not far else "less than 0.0001"


def _nothing(row: Any) -> tuple[Verdict, str]:
    return "not counted", "undefined" if row.undefined else "not run"


def _judgement(
    row: Any, verdict: Verdict, reason: str, rule: str, against: tuple[Against, ...], more: int | None
) -> Judgement:
    ends = float(row.mean), float(row.low), float(row.high)
    return Judgement(row.method, row.metric, verdict, reason, rule, *ends, int(row.n), int(row.undefined), against, more)


def _deviation(values: Float[np.ndarray, "images *columns"]) -> Float[np.ndarray, "*columns"]:
    """The standard deviation of each column; 0 where fewer than two values are defined."""
    known = ~np.isnan(values)
    n = known.sum(axis=0)
    mean = np.where(known, values, 0.0).sum(axis=0) / np.maximum(n, 1)
    squares = np.where(known, values - mean, 0.0) ** 2
    return np.asarray(np.sqrt(squares.sum(axis=0) / np.maximum(n - 1, 1)))
