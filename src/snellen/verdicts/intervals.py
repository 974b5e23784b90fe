"""Simultaneous intervals of many means: bootstrap-t over images, or over whole clusters of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from snellen.verdicts.sampling import Clusters
from snellen.verdicts.statistics import LEVEL, MINIMUM_IMAGES, means_of_resamples, student_quantile, sum_by_cluster

RESAMPLES = 5_000


class Intervals(NamedTuple):
    """Per column: the mean, its interval, how many values and clusters define it, and its standard error."""

    mean: Float[np.ndarray, " columns"]
    low: Float[np.ndarray, " columns"]
    high: Float[np.ndarray, " columns"]
    n: Float[np.ndarray, " columns"]
    error: Float[np.ndarray, " columns"]
    clusters: Float[np.ndarray, " columns"]


def simultaneous(
    values: Float[np.ndarray, "images columns"],
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
    clusters: Clusters | None = None,
) -> Intervals:
    """Simultaneous intervals of the mean of every column: with probability `level` all of them hold their true mean.

    The mean of each bootstrap draw is divided by the standard error of the same draw (bootstrap-t, Efron and Tibshirani
    1993), and both ends are found separately, so that intervals of skewed scores are not too narrow at one end. No interval
    is narrower than Student's interval of a single mean: where most differences are 0, draws vary too little.

    Where images come in clusters, whole clusters are drawn, standard errors are those of cluster sums, but at least those of
    single images, and Student's interval has as many degrees of freedom as there are clusters, less one.

    Columns whose values are all equal have an interval without width. Neither they nor columns with too few values for a
    verdict widen the others; the intervals of the latter are simultaneous among themselves.

    Args:
        values: A score per image and column; NaN where undefined.
        level: The probability that all intervals hold together.
        resamples: How many bootstrap draws.
        seed: Of the draws.
        clusters: The number of each image's cluster; None where each image is drawn by itself.
    """
    defined = ~np.isnan(values)
    mean, error, n, groups = standard_error(values, clusters)
    centred = np.where(defined, values - np.nan_to_num(mean), 0.0)
    sums, counts = sum_by_cluster(centred, clusters), sum_by_cluster(defined.astype(np.float64), clusters)
    low, high = np.full(len(mean), np.nan), np.full(len(mean), np.nan)
    low[groups >= 2] = high[groups >= 2] = mean[groups >= 2]
    # Rounding leaves a trace of spread in columns whose values are all equal.
    varying = (groups >= 2) & (error > 1e-12 * np.where(defined, np.abs(values), 0.0).max(axis=0, initial=0.0))
    for chosen in (n >= MINIMUM_IMAGES, n < MINIMUM_IMAGES):
        at = np.flatnonzero(varying & chosen)
        if len(at):
            above, below = _half_widths(sums[:, at], counts[:, at], level, resamples, seed)
            least = np.array([student_quantile(0.5 + level / 2, int(group) - 1) for group in groups[at]])
            low[at], high[at] = (
                mean[at] - np.maximum(above, least) * error[at],
                mean[at] + np.maximum(below, least) * error[at],
            )
    return Intervals(mean=mean, low=low, high=high, n=n, error=np.where(varying, error, 0.0), clusters=groups)


def standard_error(
    values: Float[np.ndarray, "images columns"], clusters: Clusters | None
) -> tuple[Float[np.ndarray, " columns"], ...]:
    """Per column: the mean, its standard error, and how many values and clusters define it.

    The error is that of cluster sums, but never less than if each image were drawn by itself.
    """
    defined = ~np.isnan(values)
    n = defined.sum(axis=0).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = np.where(defined, values, 0.0).sum(axis=0) / n
        centred = np.where(defined, values - np.nan_to_num(mean), 0.0)
        if clusters is None:
            return mean, _error(centred, n, n), n, n
        groups = (sum_by_cluster(defined.astype(np.float64), clusters) > 0).sum(axis=0).astype(np.float64)
        return mean, np.maximum(_error(sum_by_cluster(centred, clusters), n, groups), _error(centred, n, n)), n, groups


def _error(
    sums: Float[np.ndarray, "clusters columns"], n: Float[np.ndarray, " columns"], groups: Float[np.ndarray, " columns"]
) -> Float[np.ndarray, " columns"]:
    """The standard error of a mean of n values, from sums over clusters of their differences from it."""
    return np.asarray(np.sqrt((sums**2).sum(axis=0) * groups / (groups - 1)) / n)


def _half_widths(
    sums: Float[np.ndarray, "clusters columns"],
    counts: Float[np.ndarray, "clusters columns"],
    level: float,
    resamples: int,
    seed: int,
) -> tuple[Float[np.ndarray, " columns"], Float[np.ndarray, " columns"]]:
    """The width of each interval below and above the mean, in standard errors: all columns lie inside in `level` of draws.

    Each column is scaled by its own quantile, but at least by the upper quartile of these quantiles over columns. So a
    column with a few rare values does not widen all others, and a column whose long tail no image shows is not too narrow.
    """
    columns = sums.shape[1]
    size, n = counts.max(axis=0), counts.sum(axis=0)
    groups = (counts > 0).sum(axis=0).astype(np.float64)
    # Clusters of one size need no more than the squares of their sums.
    uneven = np.flatnonzero(((counts > 0) & (counts != size)).any(axis=0))
    parts = [sums, sums**2, (sums * counts)[:, uneven], (counts**2)[:, uneven]]
    weights = [counts, counts, counts[:, uneven], counts[:, uneven]]
    drawn = means_of_resamples(
        np.concatenate(parts, axis=1), np.concatenate(weights, axis=1), resamples, np.random.default_rng(seed)
    )
    means, squares, products, sizes = np.split(drawn, np.cumsum([columns, columns, len(uneven)]), axis=1)
    squares = squares - size * means**2
    squares[:, uneven] += means[:, uneven] ** 2 * (size[uneven] + sizes) - 2 * means[:, uneven] * products
    # A draw may hold one cluster many times; its error is then nearly zero and says nothing.
    least = 0.1 * _error(sums, n, groups)
    draw_error = np.maximum(np.sqrt(np.maximum(squares, 0.0) / (n * (groups - 1) / groups)), least)
    # A draw without any defined value of a column is NaN there, and counts as no deviation.
    with np.errstate(invalid="ignore", divide="ignore"):
        deviations = np.nan_to_num(means / draw_error)
    tail = 1 - (1 - level) / 2

    def simultaneous_quantile(side: Float[np.ndarray, "resamples columns"]) -> Float[np.ndarray, " columns"]:
        single = np.quantile(side, tail, axis=0)
        single = np.maximum(single, max(float(np.quantile(single, 0.75)), 1.0))
        return np.asarray(single * np.quantile((side / single).max(axis=1), tail))

    return simultaneous_quantile(deviations), simultaneous_quantile(-deviations)
