"""How well scores order maps as the truth does: image by image, with intervals over images.

Everything here is about maps of one image. A pair is two maps of the same image whose truths and scores are all known; how
maps of different images compare is never asked, for images differ in how hard they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import scipy.stats
from jaxtyping import Bool, Float, Int

from snellen.textbox.summaries import BAR
from snellen.verdicts.statistics import RESAMPLES

Table = Float[np.ndarray, "images methods"]
Images = Float[np.ndarray, " images"]

DIFFERENCE = 0.1
"""Two maps differ clearly when their truths are farther apart than this."""


def rounded(scores: Table, *, bounded: bool) -> Table:
    """Scores without the digits that float32 makes up: six decimals between finite bounds, else six significant ones.

    Without this, maps that a metric cannot tell apart would be ordered by rounding errors.
    """
    if bounded:
        return np.round(scores.astype(np.float64), 6)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.floor(np.log10(np.abs(scores, dtype=np.float64)))
    scale = np.power(10.0, 5 - np.where(np.isfinite(size), size, 0.0))
    return np.asarray(np.round(scores * scale) / scale)


def tau(truth: Table, quality: Table) -> Images:
    """Kendall's τ-b between truth and quality of the maps of each image.

    τ-b = (C − D) / √(pairs with another truth · pairs with another quality), where C pairs are in the same order and D in
    the other. A quality that is the same for all maps orders nothing and gets 0; where the truth does not differ there is
    nothing to order, and τ is NaN. Truths .9, .5, .1 and qualities 3, 1, 2 have C = 2 and D = 1: τ = 1/3.
    """
    signs, others = _signs(truth), _signs(quality)
    known = ~(np.isnan(signs) | np.isnan(others))
    signs, others = np.where(known, signs, 0.0), np.where(known, others, 0.0)
    differing, told = (signs != 0).sum(axis=1), (others != 0).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        found = (signs * others).sum(axis=1) / np.sqrt(differing * told)
    found = np.where(told == 0, 0.0, found)
    return np.asarray(np.where(differing == 0, np.nan, found))


def auc_of_success(truth: Table, quality: Table) -> Images:
    """How often, per image, of a map that succeeds and one that does not the first has the higher quality; a tie is half.

    Over all pairs of one map with truth > .5 and one with truth ≤ .5: the area under the ROC curve of quality as a test of
    success. NaN where the image has no such pair. Guessing gives .5. Truths .9, .2, .4 and qualities 2, 2, 1: a tie and a
    right pair, so .75.
    """
    return _right(truth, quality, (truth[:, _one(truth)] > BAR) != (truth[:, _other(truth)] > BAR))


def auc_of_difference(truth: Table, quality: Table, difference: float = DIFFERENCE) -> Images:
    """The same over all pairs whose truths are more than `difference` apart: how often the truer has the higher quality."""
    return _right(truth, quality, np.abs(truth[:, _one(truth)] - truth[:, _other(truth)]) > difference)


@dataclass(frozen=True, eq=False)
class Interval:
    """Means over images of some columns, with 95 % intervals, standard errors, and how many images define each."""

    mean: Float[np.ndarray, " columns"]
    low: Float[np.ndarray, " columns"]
    high: Float[np.ndarray, " columns"]
    error: Float[np.ndarray, " columns"]
    freedom: Float[np.ndarray, " columns"]
    n: Int[np.ndarray, " columns"]

    def chance(self, expected: float) -> Float[np.ndarray, " columns"]:
        """The two-sided p value of the mean against what is expected of guessing; Student's, with the bootstrap's error."""
        off = np.abs(self.mean - expected)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(off < 1e-12, 0.0, off / self.error)
        return np.asarray(2 * scipy.stats.t.sf(ratio, self.freedom))


def interval_over_images(
    values: Float[np.ndarray, "images columns"],
    strata: Int[np.ndarray, " images"],
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """The mean over images of each column, with a bootstrap interval in which whole images are drawn again.

    Images are drawn within their stratum, one fewer than there are, which makes the spread of the draws right however small
    the strata are (Rao and Wu 1988); strata of a single image are drawn together. The tails are those that make the
    interval as wide as Student's on normal values. All columns share their draws. An undefined value goes with its image;
    fewer than two images give no interval.
    """
    images, columns = values.shape
    defined = ~np.isnan(values)
    n = defined.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.where(defined, values, 0.0).sum(axis=0) / n
    groups = _groups(strata)
    held = np.array([[defined[members, column].any() for column in range(columns)] for members in groups])
    freedom = np.maximum(1, n - held.reshape(len(groups), columns).sum(axis=0)).astype(np.float64)
    nothing = np.full(columns, np.nan)
    low, high, error = nothing.copy(), nothing.copy(), nothing.copy()
    if images >= 2 and columns:
        # Differences from the mean are averaged, so that equal values give exactly no width.
        centred = np.where(defined, values - np.nan_to_num(mean), 0.0)
        weights = _weights(groups, images, resamples, np.random.default_rng(seed))
        with np.errstate(divide="ignore", invalid="ignore"):
            drawn = (weights @ centred) / (weights @ defined.astype(np.float64))
        for column in np.flatnonzero(n >= 2):
            tail = NormalDist().cdf(-float(scipy.stats.t.ppf(0.5 + level / 2, freedom[column])))
            low[column], high[column] = mean[column] + np.nanquantile(drawn[:, column], [tail, 1 - tail])
            error[column] = np.nanstd(drawn[:, column])
    return Interval(mean, low, high, error, freedom, n)


def _one(table: Table) -> Int[np.ndarray, " pairs"]:
    return np.triu_indices(table.shape[1], 1)[0]


def _other(table: Table) -> Int[np.ndarray, " pairs"]:
    return np.triu_indices(table.shape[1], 1)[1]


def _signs(table: Table) -> Float[np.ndarray, "images pairs"]:
    """Which of each pair is higher: 1 the first, -1 the second, 0 neither, NaN unknown."""
    return np.asarray(np.sign(table[:, _one(table)] - table[:, _other(table)]))


def _right(truth: Table, quality: Table, wanted: Bool[np.ndarray, "images pairs"]) -> Images:
    signs, others = _signs(truth), _signs(quality)
    counted = wanted & ~(np.isnan(signs) | np.isnan(others))
    right = np.where(counted, (np.where(counted, signs * others, 0.0) + 1) / 2, 0.0).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(right / counted.sum(axis=1))


def _groups(strata: Int[np.ndarray, " images"]) -> list[Int[np.ndarray, " _"]]:
    """The images of each stratum; those that are alone in theirs are one group, and go to the largest if still alone."""
    groups = [np.flatnonzero(strata == one) for one in np.unique(strata)]
    alone = [one for one in groups if len(one) == 1]
    several = [one for one in groups if len(one) > 1]
    if len(alone) == 1 and several:
        largest = max(range(len(several)), key=lambda at: len(several[at]))
        several[largest] = np.concatenate([several[largest], alone[0]])
    elif alone:
        several.append(np.concatenate(alone))
    return several


def _weights(
    groups: list[Int[np.ndarray, " _"]], images: int, resamples: int, generator: np.random.Generator
) -> Float[np.ndarray, "resamples images"]:
    """What each image counts in each resample."""
    weights = np.zeros((resamples, images))
    for members in groups:
        count = len(members)
        times = generator.multinomial(count - 1, np.full(count, 1 / count), size=resamples)
        weights[:, members] = times * (count / (count - 1))
    return weights
