"""The rule by which a method passes, fails or stays undecided in a test: against controls, or within a tolerance.

The intervals of all comparisons of a test (every method with every control) are *simultaneous* at 98 %: each is so many
standard errors wide that in 98 % of bootstrap draws of the images no comparison lies outside its interval (max-t, Westfall
and Young 1993). They are balanced (Beran 1988): a comparison with a long tail does not widen all others.
So the probability of a wrong pass or fail in a test stays below 5 %, however many methods and controls there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from snellen.files.documents import Number
from snellen.runs.record import MethodSpec, MetricSpec
from snellen.verdicts.intervals import RESAMPLES, simultaneous, standard_error
from snellen.verdicts.paired_difference import PairedDifference, further_images, images_for_axiom
from snellen.verdicts.rare_failures import HIDDEN, rare_failure_note, worst_value
from snellen.verdicts.sampling import IMAGES, MINIMUM_GROUPS, PLURAL, Clusters, Sampling, SamplingUnit
from snellen.verdicts.statistics import (
    LEVEL,
    MINIMUM_IMAGES,
    SummaryRow,
    best_value,
    fooled,
    sample_names,
    score_array,
    student_quantile,
    summarise,
)

RULE_VERSION = 2
"""Changes whenever the same scores would get other verdicts or intervals; stored verdicts are then computed again."""

Verdict = Literal["pass", "fail", "inconclusive", "not counted"]

MARGIN = 0.2
"""A difference within this many standard deviations counts as none: Cohen's (1988) bound of a small effect.

The standard deviation is that of the scores over images, the method's and the control's pooled."""

PRECISION = 1e-6
"""Scores that differ by less than this share of the largest count as equal: single precision is no better."""

OUTRIGHT = 0.9
"""A metric is not counted where its best control is at least as good as a method in more than this share of pairs."""

TOO_FEW: Mapping[SamplingUnit, str] = {unit: f"too few {several} for a verdict" for unit, several in PLURAL.items()}
"""Why there is no verdict with fewer images than `MINIMUM_IMAGES`, or fewer classes or groups than `MINIMUM_GROUPS`."""

MOST_ADVISED = 100_000
"""The most further images that the advice names."""

RULE = (
    "fail: worse than some control, or within the margin of it; pass: better than every control; inconclusive: neither. "
    f"By paired differences per image, whose {LEVEL:.0%} bootstrap intervals hold together for all methods and controls of "
    f"the test; margin {MARGIN:g} standard deviations, at their lower limit; at least {MINIMUM_IMAGES} images."
)
AXIOM = (
    "pass: the whole interval of the mean is within the tolerance of the best value; fail: all of it is beyond; "
    f"inconclusive: neither. The {LEVEL:.0%} bootstrap intervals hold together for all methods; at least "
    f"{MINIMUM_IMAGES} images. Where it breaks on fewer than {HIDDEN} in n images, n of them need not show it."
)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The verdict on a method in the test of one metric, with all that it rests on."""

    method: str
    """Its label."""
    metric: str
    """Its label."""
    verdict: Verdict
    reason: str
    """Why, in words."""
    rule: str
    """The rule that was applied, in words."""
    mean: Number
    low: Number
    high: Number
    """Ends of the 95 % interval of the mean; verdicts rest on those of `against`."""
    n: int
    """Images with a defined score."""
    undefined: int
    """Images whose score is NaN."""
    against: tuple[PairedDifference, ...] = ()
    """The difference from each control; empty for an axiom."""
    more: int | None = None
    """How many further images would probably decide an inconclusive verdict; None where no number would."""
    unit: SamplingUnit = "image"
    """What was drawn at random."""
    note: str = ""
    """A caveat of a pass, such as that failures too rare to be seen could undo it."""

    @property
    def advice(self) -> str:
        """What would decide an inconclusive verdict; empty for others."""
        if self.verdict != "inconclusive":
            return ""
        if self.more is None or self.more > MOST_ADVISED:
            return "more images will hardly settle it"
        further = "" if self.unit == "image" else f" of further {PLURAL[self.unit]}"
        return f"about {self.more} more {'image' if self.more == 1 else 'images'}{further} would settle it"


def judge(
    scores: pd.DataFrame,
    spec_methods: Sequence[MethodSpec],
    spec_metrics: Sequence[MetricSpec],
    *,
    seed: int = 0,
    summary: pd.DataFrame | None = None,
    sampling: Sampling = IMAGES,
    looked: Mapping[str, Looked] | None = None,
) -> list[Judgement]:
    """A verdict for each method in each test (see `RULE`; `AXIOM` for a metric with a tolerance).

    *Not counted*: too few images, no control, nothing computed, or a metric that a control wins outright (see `OUTRIGHT`).

    Args:
        scores: Columns sample, method, metric and value.
        spec_methods: The methods, controls included.
        spec_metrics: The metrics.
        seed: Of the bootstrap draws.
        summary: What `summarise` returns for the same scores, where it is computed already.
        sampling: What was drawn at random.
        looked: By metric, what the looks of a run found that stops where verdicts are settled; None for the rule of a run
            that computes everything.
    """
    if summary is None:
        summary = summarise(scores, spec_methods, spec_metrics, seed=seed, sampling=sampling)
    clusters = sampling.clusters(sample_names(scores))
    added = f" {sampling.words[0].upper()}{sampling.words[1:]}." if sampling.words else ""
    rows = {(row.method, row.metric): row for row in SummaryRow.rows(summary)}
    fooled_by = fooled(summary)
    judgements = []
    for table in metric_tables(scores, spec_methods, spec_metrics):
        label, method_scores, control_scores = table.metric.label, table.method_scores, table.control_scores
        method_rows = [rows[(method, label)] for method in table.methods]
        test = None if looked is None else looked[label]
        images = [len(method_scores)] * len(method_rows) if test is None else test.images
        words = f"{added} {test.words}" if test else added
        if table.metric.tolerance is not None:
            gaps = (
                axiom_gaps(method_scores, table.metric, seed=seed, clusters=clusters) if test is None else test.differences
            )
            judgements += _axiom([gap for (gap,) in gaps], images, table.metric, method_rows, AXIOM + words, sampling.unit)
            continue
        worst = worst_value(table.metric)
        if test is None:
            differences: Sequence[tuple[PairedDifference, ...]] = against_controls(
                method_scores, control_scores, table.controls, seed=seed, clusters=clusters
            )
            outright = label in fooled_by and control_win_share(method_scores, control_scores) > OUTRIGHT
        else:
            differences, outright = test.differences, test.outright
        for column, (row, of_method) in enumerate(zip(method_rows, differences, strict=True)):
            compared = [index for index, difference in enumerate(of_method) if difference.n]
            against = tuple(of_method[index] for index in compared)
            verdict, reason = decide_verdict(against, sampling.unit) if row.n else _without_scores(row)
            more = further_images(against, images[column]) if verdict == "inconclusive" else None
            if outright and verdict != "not counted":
                controls = fooled_by.get(label) or [table.controls[_best_column(control_scores)]]
                wins = "wins" if len(controls) == 1 else "win"
                reason = f"fooled by {', '.join(controls)}, which {wins} against nearly every map; otherwise {verdict}"
                verdict, more = "not counted", None
            note = ""
            if verdict == "pass":
                note = rare_failure_note(
                    method_scores[:, column], control_scores[:, compared], against, worst, sampling.unit
                )
            judgements.append(
                _judgement(row, verdict, reason, RULE + words, sampling.unit, against=against, more=more, note=note)
            )
    return judgements


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What the looks at a test found, where a run stops as soon as verdicts are settled (see `sequential`)."""

    differences: Sequence[tuple[PairedDifference, ...]]
    """For each method, its difference from each control at the last look that counted for both; for an axiom, its gap."""
    images: Sequence[int]
    """After how many images the last look at each method was."""
    outright: bool
    """Whether a control wins the metric outright."""
    words: str
    """Which looks were taken, as a sentence."""


class MetricTable(NamedTuple):
    """The scores of methods and of controls by one metric, negated where lower is better, and their labels."""

    metric: MetricSpec
    method_scores: Float[np.ndarray, "images methods"]
    control_scores: Float[np.ndarray, "images controls"]
    methods: Sequence[str]
    controls: Sequence[str]
    """Their labels, in the order of the columns."""


def metric_tables(
    scores: pd.DataFrame, spec_methods: Sequence[MethodSpec], spec_metrics: Sequence[MetricSpec]
) -> Iterator[MetricTable]:
    """The scores of each metric in turn; rows are the samples in the order of `sample_names`."""
    methods = [method.label for method in spec_methods if not method.control]
    controls = [method.label for method in spec_methods if method.control]
    values, _ = score_array(scores, [*methods, *controls], [metric.label for metric in spec_metrics])
    for index, metric in enumerate(spec_metrics):
        method_scores, control_scores = np.split(
            values[:, :, index] * (1.0 if metric.higher_is_better else -1.0), [len(methods)], axis=1
        )
        yield MetricTable(
            metric=metric, method_scores=method_scores, control_scores=control_scores, methods=methods, controls=controls
        )


def against_controls(
    method_scores: Float[np.ndarray, "images methods"],
    control_scores: Float[np.ndarray, "images controls"],
    controls: Sequence[str],
    *,
    seed: int = 0,
    clusters: Clusters | None = None,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    counted: Bool[np.ndarray, "images methods controls"] | None = None,
    stand_ins: Int[np.ndarray, "images methods controls"] | None = None,
) -> list[tuple[PairedDifference, ...]]:
    """For each method, its difference from each control by one metric.

    Args:
        method_scores: Larger is better.
        control_scores: Larger is better.
        controls: Labels of the controls, in the order of the columns.
        seed: Of the bootstrap draws.
        clusters: The number of each image's cluster; None where each image is drawn by itself.
        level: The probability that all intervals hold together.
        resamples: How many bootstrap draws.
        counted: Which images count for each pair; all of them where None.
        stand_ins: The row whose difference stands for that of each image in the correction; its own where None. Pairs for
            which other images stand have the interval that these would give.
    """
    images, shape = len(method_scores), (method_scores.shape[1], control_scores.shape[1])
    differences = method_scores[:, :, None] - control_scores[:, None, :]
    if counted is not None:
        differences = np.where(counted, differences, np.nan)
    filled = differences if stand_ins is None else np.take_along_axis(differences, stand_ins, axis=0)
    flat = simultaneous(
        filled.reshape(images, math.prod(shape)), level=level, resamples=resamples, seed=seed, clusters=clusters
    )
    mean, low, high, n, error, drawn = (column.reshape(shape) for column in flat)
    both = ~np.isnan(differences)
    # Only images on which both are defined count, for the margin too.
    first, second = (np.where(both, scores, np.nan) for scores in (method_scores[:, :, None], control_scores[:, None, :]))
    margin = MARGIN * least_deviation(first, second, clusters, level)
    largest = np.maximum(np.abs(first), np.abs(second))
    margin = np.maximum(margin, PRECISION * np.where(both, largest, 0.0).max(axis=0, initial=0.0))
    spread = error * np.sqrt(n)
    return [
        tuple(
            PairedDifference(
                control=control,
                mean=float(mean[row, column]),
                low=float(low[row, column]),
                high=float(high[row, column]),
                margin=float(margin[row, column]),
                spread=float(spread[row, column]),
                n=int(n[row, column]),
                clusters=None if clusters is None else int(drawn[row, column]),
            )
            for column, control in enumerate(controls)
        )
        for row in range(len(mean))
    ]


def control_win_share(
    method_scores: Float[np.ndarray, "images methods"], control_scores: Float[np.ndarray, "images controls"]
) -> float:
    """How often the control with the best mean is at least as good as a method on the same image, over all such pairs.

    Larger scores are better. NaN where there is no pair.
    """
    control_scores = control_scores[:, ~np.isnan(control_scores).all(axis=0)]
    if not control_scores.size:
        return math.nan
    best = control_scores[:, _best_column(control_scores)]
    gaps = best[:, None] - method_scores
    defined = ~np.isnan(gaps)
    return float((gaps >= 0)[defined].mean()) if defined.any() else math.nan


def _best_column(control_scores: Float[np.ndarray, "images controls"]) -> int:
    """The control with the best mean."""
    return int(np.nanmean(control_scores, axis=0).argmax())


def decide_verdict(against: Sequence[PairedDifference], unit: SamplingUnit = "image") -> tuple[Verdict, str]:
    """The verdict by `RULE`, and why."""
    if not against:
        return "not counted", "nothing to compare with"
    if few := _too_few(min(difference.n for difference in against), min(difference.units for difference in against), unit):
        return "not counted", few
    worse = [difference.control for difference in against if difference.worse]
    alike = [difference.control for difference in against if difference.alike]
    if worse:
        return "fail", f"worse than {', '.join(worse)}"
    if alike:
        return "fail", f"no better than {', '.join(alike)}, within the margin"
    if all(difference.better for difference in against):
        return "pass", "better than every control"
    return "inconclusive", f"not clear of {', '.join(difference.control for difference in against if not difference.better)}"


def _too_few(n: int, units: int, unit: SamplingUnit) -> str:
    """The reason why so many images, in so many classes or groups, get no verdict; empty where they do."""
    if n < MINIMUM_IMAGES:
        return TOO_FEW["image"]
    return TOO_FEW[unit] if units < MINIMUM_GROUPS else ""


def axiom_gaps(
    method_scores: Float[np.ndarray, "images methods"],
    metric: MetricSpec,
    *,
    seed: int = 0,
    clusters: Clusters | None = None,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    counted: Bool[np.ndarray, "images methods controls"] | None = None,
    stand_ins: Int[np.ndarray, "images methods controls"] | None = None,
) -> list[tuple[PairedDifference, ...]]:
    """For each method, how far its scores are from the best value, with the tolerance as the margin.

    Arguments are those of `against_controls`; there is one pair per method.
    """
    best = best_value(metric)
    # `method_scores` has larger scores for better maps.
    gaps = (best if metric.higher_is_better else -best) - method_scores
    if counted is not None:
        gaps = np.where(counted[:, :, 0], gaps, np.nan)
    if stand_ins is not None:
        gaps = np.take_along_axis(gaps, stand_ins[:, :, 0], axis=0)
    intervals = simultaneous(gaps, seed=seed, clusters=clusters, level=level, resamples=resamples)
    return [
        (
            PairedDifference(
                control="",
                mean=float(mean),
                low=float(low),
                high=float(high),
                margin=metric.tolerance or 0.0,
                spread=float(error * math.sqrt(n)),
                n=int(n),
                clusters=None if clusters is None else int(drawn),
            ),
        )
        for mean, low, high, n, error, drawn in zip(*intervals, strict=True)
    ]


def _axiom(
    gaps: Sequence[PairedDifference],
    images: Sequence[int],
    metric: MetricSpec,
    rows: Sequence[SummaryRow],
    rule: str = AXIOM,
    unit: SamplingUnit = "image",
) -> list[Judgement]:
    tolerance, best = metric.tolerance or 0.0, best_value(metric)
    judgements = []
    for gap, count, row in zip(gaps, images, rows, strict=True):
        verdict: Verdict
        near, far, more = max(0.0, gap.low), gap.high, None
        if not row.n:
            verdict, reason = _without_scores(row)
        elif few := _too_few(row.n, gap.units, unit):
            verdict, reason = "not counted", few
        elif far <= tolerance:
            verdict, reason = "pass", f"within {tolerance:g} of {best:g}: {_at_most(far)}"
        elif near > tolerance:
            verdict, reason = "fail", f"farther than {tolerance:g} from {best:g}: at least {near:.2g}"
        else:
            verdict, reason = "inconclusive", f"not clear of {tolerance:g} from {best:g}: between {near:.2g} and {far:.2g}"
            more = images_for_axiom(gap, count)
        judgements.append(_judgement(row, verdict, reason, rule, unit, more=more))
    return judgements


def _at_most(far: float) -> str:
    # Rounding would print a zero as 2.1e-08.
    """The upper end of a distance in words."""
    return f"at most {far:.2g}" if far >= 1e-4 or not far else "less than 0.0001"


def _without_scores(row: SummaryRow) -> tuple[Verdict, str]:
    return "not counted", "undefined" if row.undefined else "not run"


def _judgement(
    row: SummaryRow,
    verdict: Verdict,
    reason: str,
    rule: str,
    unit: SamplingUnit,
    *,
    against: tuple[PairedDifference, ...] = (),
    more: int | None = None,
    note: str = "",
) -> Judgement:
    return Judgement(
        method=row.method,
        metric=row.metric,
        verdict=verdict,
        reason=reason,
        rule=rule,
        mean=row.mean,
        low=row.low,
        high=row.high,
        n=row.n,
        undefined=row.undefined,
        against=against,
        more=more,
        unit=unit,
        note=note,
    )


def least_deviation(
    first: Float[np.ndarray, "images *columns"],
    second: Float[np.ndarray, "images *columns"],
    clusters: Clusters | None,
    level: float = LEVEL,
) -> Float[np.ndarray, "*columns"]:
    """The lower limit of the standard deviation of two scores, pooled, because it is estimated from these images too.

    Otherwise a difference that hardly varies would be called alike whenever the images happen to spread the scores widely.
    The limit is symmetric on a logarithmic scale, because the estimate of a spread is.
    """
    n = (~np.isnan(first)).sum(axis=0)
    squares = np.zeros(first.shape)
    for scores in (first, second):
        with np.errstate(invalid="ignore", divide="ignore"):
            mean = np.where(np.isnan(scores), 0.0, scores).sum(axis=0) / n
        squares = squares + (scores - mean) ** 2 / 2
    flat = squares.reshape(len(squares), math.prod(n.shape))
    mean, error, _, groups = (column.reshape(n.shape) for column in standard_error(flat, clusters))
    reach = np.vectorize(lambda count: student_quantile(0.5 + level / 2, max(1, int(count) - 1)), otypes=[float])(groups)
    with np.errstate(invalid="ignore", divide="ignore"):
        deviation = np.sqrt(mean * n / (n - 1))
        return np.where((n > 1) & (mean > 0), deviation * np.exp(-reach * error / (2 * mean)), 0.0)
