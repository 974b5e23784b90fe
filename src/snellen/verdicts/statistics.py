"""From scores per image to means with intervals, and metrics that controls fool."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist

import numpy as np
import pandas as pd
import scipy.stats
from jaxtyping import Bool, Float

from snellen.files.documents import Number
from snellen.runs.record import MethodSpec, MetricSpec
from snellen.verdicts.sampling import IMAGES, PLURAL, Clusters, Sampling

RESAMPLES = 10_000

LEVEL = 0.98
"""Of the intervals that verdicts rest on. On very skewed scores (log-normal) an interval covers the mean less often than its
level says; at this level a method that is no better than a control still passes in fewer than one test of twenty, from the
least number of images on."""

MINIMUM_IMAGES = 30
"""Below this no verdict is given.

Scores of saliency metrics are skewed, and the interval of a mean then covers it less often than its level says: on
log-normal scores (the tests draw them) a nominal 95 % covers about 83 % with 7 images and about 89 % with 30. With 30 images
only paired differences of more than 0.6 standard deviations are likely to be detected; a verdict should detect those.
"""


@dataclass(frozen=True)
class Certainty:
    """Whether the images of a run allow a verdict."""

    n: int
    """How many images."""
    enough: bool
    """Whether they allow a verdict."""
    words: str
    """As a sentence without its full stop."""


def certainty(n: int, sampling: Sampling = IMAGES) -> Certainty:
    """Whether n images, drawn as `sampling` says, allow a verdict, and in words how much.

    >>> certainty(7).enough
    False
    """
    if n < MINIMUM_IMAGES:
        words = "1 image is" if n == 1 else f"{n} images are"
        return Certainty(n, False, f"{words} too few for a verdict, which needs at least {MINIMUM_IMAGES}")
    if sampling.too_few:
        return Certainty(n, False, sampling.words)
    # One comparison at the level of verdicts with 80 % power; the more methods there are, the larger it must be.
    visible = (NormalDist().inv_cdf(0.5 + LEVEL / 2) + NormalDist().inv_cdf(0.8)) / math.sqrt(n)
    alike = "" if sampling.unit == "image" else f", or larger where {PLURAL[sampling.unit]} differ"
    visible_words = f"{n} images usually show differences of at least {visible:.2g} standard deviations{alike}"
    return Certainty(n, True, "; ".join(filter(None, [visible_words, "smaller ones stay hidden", sampling.words])))


@dataclass(frozen=True, kw_only=True)
class SummaryRow:
    """A summary of the scores of one method by one metric."""

    method: str
    """Its label."""
    metric: str
    """Its label."""
    mean: Number
    low: Number
    high: Number
    """Ends of the 95 % interval of the mean."""
    n: int
    """Images with a defined score."""
    undefined: int
    """Images whose score is NaN."""
    missing: int
    """Images whose score was not computed, as in an unfinished run."""
    reason: str
    """Why scores are undefined, in words; empty where none is."""
    control: bool
    """Whether the method is a control."""
    higher_is_better: bool
    tolerance: Number
    """Of an axiom; NaN for other metrics."""
    best: Number
    """The best value that the metric can take; NaN where that end is open."""

    @staticmethod
    def table(rows: Sequence[SummaryRow]) -> pd.DataFrame:
        """The rows as a table with a column per field."""
        names = [field.name for field in dataclasses.fields(SummaryRow)]
        return pd.DataFrame({name: [getattr(row, name) for row in rows] for name in names}, columns=names)

    @staticmethod
    def rows(table: pd.DataFrame) -> list[SummaryRow]:
        """The rows of such a table."""
        return [SummaryRow(**{str(name): value for name, value in row.items()}) for row in table.to_dict("records")]


def summarise(
    scores: pd.DataFrame,
    spec_methods: Sequence[MethodSpec],
    spec_metrics: Sequence[MetricSpec],
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
    sampling: Sampling = IMAGES,
) -> pd.DataFrame:
    """One row per method and metric: the mean over images, its 95 % interval, and how many scores were undefined.

    `undefined` scores were computed and are NaN; `missing` ones were not computed, as in an unfinished run.
    Without resamples there are means alone.

    The interval is a bootstrap percentile interval over images, widened for small n as Hesterberg (2015, The American
    Statistician 69(4)) proposes: its tails are those that make it as wide as Student's interval on normal data. BCa was not
    taken because it estimates a bias and an acceleration too, from the same few values; the two were not compared here.

    Images (or the whole classes or groups that `sampling` names) are drawn together with their undefined scores. The same
    draws serve every method and metric, and samples are sorted by name first, so an interval depends neither on the order
    of rows nor on other methods and metrics. Equal scores give an interval without width; fewer than two defined scores
    give none (NaN).

    Args:
        scores: Columns sample, method, metric and value.
        spec_methods: The methods, controls included.
        spec_metrics: The metrics.
        seed: Of the bootstrap draws.
        resamples: How many draws.
        sampling: What is drawn at random.
    """
    values, written = score_array(
        scores, [method.label for method in spec_methods], [metric.label for metric in spec_metrics]
    )
    images = len(values)
    mean, low, high, n = interval_of_mean(
        values.reshape(images, len(spec_methods) * len(spec_metrics)),
        resamples=resamples,
        seed=seed,
        clusters=sampling.clusters(sample_names(scores)),
    )
    computed = written.sum(axis=0).ravel()
    rows = []
    for column, (method, metric) in enumerate(itertools.product(spec_methods, spec_metrics)):
        present = int(computed[column])
        undefined = present - int(n[column])
        rows.append(
            SummaryRow(
                method=method.label,
                metric=metric.label,
                mean=float(mean[column]),
                low=float(low[column]),
                high=float(high[column]),
                n=int(n[column]),
                undefined=undefined,
                missing=images - present,
                reason=metric.undefined if undefined else "",
                control=method.control,
                higher_is_better=metric.higher_is_better,
                tolerance=math.nan if metric.tolerance is None else metric.tolerance,
                best=best_value(metric),
            )
        )
    return SummaryRow.table(rows)


def best_value(metric: MetricSpec) -> float:
    """The best value that a metric can take; NaN where its end is open."""
    low, high = metric.bounds
    end = high if metric.higher_is_better else low
    return math.nan if end is None else float(end)


def fooled(summary: pd.DataFrame) -> dict[str, list[str]]:
    """Metrics that are fooled on this data, with the controls that are in their top two; a tie with second place counts.

    Where a single method is compared with controls, a control is always among the top two; then only first place counts.
    Metrics without a defined mean of any method are left out; so are axioms, which a control may well fulfil.
    """
    controls: dict[str, list[str]] = {}
    for metric, rows in summary.groupby("metric", sort=False):
        ranked = rows.dropna(subset=["mean"])
        methods = int((~ranked["control"].astype(bool)).sum())
        if not methods or ranked["tolerance"].notna().any():
            continue
        quality = np.where(ranked["higher_is_better"], ranked["mean"], -ranked["mean"])
        threshold = np.sort(quality)[::-1][: min(2, methods)][-1]
        inside = ranked["control"].astype(bool).to_numpy() & (quality >= threshold)
        if inside.any():
            controls[str(metric)] = [str(name) for name in ranked["method"].to_numpy()[inside]]
    return controls


def interval_of_mean(
    values: Float[np.ndarray, "images columns"],
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
    clusters: Clusters | None = None,
) -> tuple[
    Float[np.ndarray, " columns"],
    Float[np.ndarray, " columns"],
    Float[np.ndarray, " columns"],
    Float[np.ndarray, " columns"],
]:
    """Mean, low end, high end and number of defined values per column; arguments and intervals as in `summarise`."""
    columns = values.shape[1]
    defined = ~np.isnan(values)
    n = defined.sum(axis=0).astype(np.float64)
    filled = np.where(defined, values, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = filled.sum(axis=0) / n
    low, high = np.full(columns, np.nan), np.full(columns, np.nan)
    # Differences from the mean are averaged, so that equal scores give exactly no width.
    sums = sum_by_cluster(np.where(defined, values - np.nan_to_num(mean), 0.0), clusters)
    sizes = sum_by_cluster(defined.astype(np.float64), clusters)
    if len(sums) < 2 or not resamples:
        return mean, low, high, n
    for start in range(0, columns, _COLUMNS_AT_ONCE):
        part = slice(start, start + _COLUMNS_AT_ONCE)
        counts = (sizes[:, part] > 0).sum(axis=0)
        drawn = means_of_resamples(sums[:, part], sizes[:, part], resamples, np.random.default_rng(seed))
        for count in np.unique(counts[counts >= 2]):
            tail = _tail(int(count), level)
            here = np.flatnonzero(counts == count)
            at = start + here
            own = drawn if len(here) == drawn.shape[1] else drawn[:, here]
            ends = mean[at] + (np.nanquantile if count < len(sums) else np.quantile)(own, [tail, 1 - tail], axis=0)
            # Rounding must not carry an end beyond the scores themselves, where a probability could become negative.
            low[at], high[at] = np.clip(ends, np.nanmin(values[:, at], axis=0), np.nanmax(values[:, at], axis=0))
    return mean, low, high, n


_COLUMNS_AT_ONCE = 512
"""How many columns are resampled at once, to bound memory; all columns have the same draws."""


def holm(p_values: Float[np.ndarray, " tests"]) -> Float[np.ndarray, " tests"]:
    """P-values corrected for their number (Holm 1979): the probability that any of those below .05 is wrong is at most 5 %.

    .01, .04 and .03 become .03, .06 and .06. Undefined p-values are left out and stay NaN.
    """
    corrected = np.full(len(p_values), np.nan)
    order = [at for at in np.argsort(p_values, kind="stable") if not np.isnan(p_values[at])]
    highest = 0.0
    for rank, at in enumerate(order):
        highest = max(highest, min(1.0, float(p_values[at]) * (len(order) - rank)))
        corrected[at] = highest
    return corrected


def sum_by_cluster(
    values: Float[np.ndarray, "images columns"], clusters: Clusters | None
) -> Float[np.ndarray, "clusters columns"]:
    """The sum of each column over each cluster; without clusters, every image is its own cluster."""
    if clusters is None:
        return values
    sums = np.zeros((int(clusters.max(initial=-1)) + 1, values.shape[1]))
    np.add.at(sums, clusters, values)
    return sums


def means_of_resamples(
    sums: Float[np.ndarray, "clusters columns"],
    counts: Float[np.ndarray, "clusters columns"],
    resamples: int,
    generator: np.random.Generator,
) -> Float[np.ndarray, "resamples columns"]:
    """The mean of each column in each resample of the clusters, from the sum and the number of values in each cluster.

    How often each cluster was drawn is a matrix, so a product gives all sums.

    Args:
        sums: The sum of the defined values of each column over each cluster.
        counts: How many values these are.
        resamples: How many draws.
        generator: Draws the clusters.
    """
    clusters, columns = sums.shape
    gaps = np.flatnonzero((counts != counts[:1]).any(axis=0))
    size = counts[0].copy()
    size[gaps] = 1.0
    block = max(1, 250_000 // clusters)
    drawn = np.empty((resamples, columns))
    for start in range(0, resamples, block):
        rows = min(block, resamples - start)
        picks = generator.integers(0, clusters, size=(rows, clusters)) + clusters * np.arange(rows)[:, None]
        times = np.bincount(picks.ravel(), minlength=rows * clusters).reshape(rows, clusters).astype(np.float64)
        drawn[start : start + rows] = times @ sums
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn[start : start + rows] /= clusters * size
            if len(gaps):
                drawn[start : start + rows, gaps] *= clusters / (times @ counts[:, gaps])
    return drawn


def _tail(n: int, level: float) -> float:
    """The tail on each side that makes a percentile interval of n normal values as wide as Student's (Hesterberg 2015)."""
    return NormalDist().cdf(-math.sqrt(n / (n - 1)) * student_quantile(0.5 + level / 2, n - 1))


@cache
def student_quantile(share: float, df: int) -> float:
    """The quantile of Student's t distribution with `df` degrees of freedom.

    >>> round(student_quantile(0.975, 10), 3)
    2.228
    """
    return float(scipy.stats.t.ppf(share, df))


def sample_names(scores: pd.DataFrame) -> list[str]:
    """The samples of scores, sorted by name."""
    return [str(sample) for sample in pd.factorize(scores["sample"], sort=True)[1]]


def score_array(
    scores: pd.DataFrame, methods: Sequence[str], metrics: Sequence[str]
) -> tuple[Float[np.ndarray, "images methods metrics"], Bool[np.ndarray, "images methods metrics"]]:
    """Scores by sample, method and metric in the order of the spec, NaN where undefined or missing; and which were computed.

    Samples are in the order of `sample_names`, so that the order of the rows of `scores` does not matter.
    """
    at, samples = pd.factorize(scores["sample"], sort=True)
    shape = len(samples), len(methods), len(metrics)
    values, written = np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    rows = pd.Index(list(methods)).get_indexer(pd.Index(scores["method"]))
    columns = pd.Index(list(metrics)).get_indexer(pd.Index(scores["metric"]))
    listed = (rows >= 0) & (columns >= 0)
    cells = at[listed], rows[listed], columns[listed]
    values[cells], written[cells] = scores["value"].to_numpy(dtype=np.float64)[listed], True
    if int(written.sum()) != int(listed.sum()):
        raise ValueError("scores hold two rows for one sample, method and metric")
    return values, written
