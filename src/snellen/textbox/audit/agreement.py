"""How well scores order maps as the truth does, image by image.

A pair is two maps of the same image whose truths and scores are all defined. Maps of different images are never compared,
because images differ in how hard they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

from snellen.textbox.exam.summaries import BAR

MapTable = Float[np.ndarray, "images methods"]
ImageValues = Float[np.ndarray, " images"]

DIFFERENCE = 0.1
"""Two maps differ clearly when their truths are farther apart than this."""


def round_scores(scores: MapTable, *, bounded: bool) -> MapTable:
    """Scores without the rounding errors of float32: six decimals between finite bounds, else six significant ones.

    Without this, maps with equal scores would be ordered by rounding errors.
    """
    if bounded:
        return np.round(scores.astype(np.float64), 6)
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.floor(np.log10(np.abs(scores, dtype=np.float64)))
    scale = np.power(10.0, 5 - np.where(np.isfinite(size), size, 0.0))
    return np.asarray(np.round(scores * scale) / scale)


@dataclass(frozen=True, eq=False, kw_only=True)
class Pairs:
    """What a measure of agreement counts in every pair of maps of every image, so that maps can be resampled cheaply.

    The value of an image is Σ agreement / √(Σ differing · Σ distinguished), each sum over its pairs; NaN where no truths
    differ, 0 where no scores do.
    """

    maps: int
    """Number of maps per image."""
    agreement: Float[np.ndarray, "images pairs"]
    """How far truth and scores order a pair alike."""
    differing: Float[np.ndarray, "images pairs"]
    """Whether the truths of a pair differ."""
    distinguished: Float[np.ndarray, "images pairs"]
    """Whether its scores differ."""

    def values(self) -> ImageValues:
        """The value of every image, with every map once."""
        return np.asarray(self.resample(np.ones((1, self.maps)))[0])

    def resample(self, counts: Float[np.ndarray, "resamples maps"]) -> Float[np.ndarray, "resamples images"]:
        """The value of every image in every resample, where each map counts `counts` times."""
        first, second = _columns(self.maps)
        weights = counts[:, first] * counts[:, second]
        differing, distinguished = weights @ self.differing.T, weights @ self.distinguished.T
        with np.errstate(divide="ignore", invalid="ignore"):
            values = (weights @ self.agreement.T) / np.sqrt(differing * distinguished)
        return np.asarray(np.where(differing == 0, np.nan, np.where(distinguished == 0, 0.0, values)))


def tau(truth: MapTable, quality: MapTable) -> Pairs:
    """Kendall's τ-b between truth and quality of the maps of each image.

    τ-b = (C − D) / √(pairs with another truth · pairs with another quality), where C pairs are in the same order and D in
    the other. A quality that is the same for all maps orders nothing and gets 0; where the truth does not differ there is
    nothing to order, and τ is NaN. Truths .9, .5, .1 and qualities 3, 1, 2 have C = 2 and D = 1: τ = 1/3.
    """
    signs, others = _signs(truth), _signs(quality)
    defined = ~(np.isnan(signs) | np.isnan(others))
    signs, others = np.where(defined, signs, 0.0), np.where(defined, others, 0.0)
    return Pairs(maps=truth.shape[1], agreement=signs * others, differing=np.abs(signs), distinguished=np.abs(others))


def auc_of_success(truth: MapTable, quality: MapTable) -> Pairs:
    """How often a map that succeeds has a higher quality than a map of the same image that does not; a tie counts half.

    Over all pairs of one map with truth > .5 and one with truth ≤ .5: the area under the ROC curve of quality as a test of
    success. NaN where the image has no such pair. Guessing gives .5. Truths .9, .2, .4 and qualities 2, 2, 1: a tie and a
    right pair, so .75.
    """
    first, second = _columns(truth.shape[1])
    return _preferences(truth, quality, (truth[:, first] > BAR) != (truth[:, second] > BAR))


def auc_of_difference(truth: MapTable, quality: MapTable, difference: float = DIFFERENCE) -> Pairs:
    """How often the map with the higher truth has the higher quality, in pairs with truths more than `difference` apart."""
    first, second = _columns(truth.shape[1])
    return _preferences(truth, quality, np.abs(truth[:, first] - truth[:, second]) > difference)


def _columns(maps: int) -> tuple[Int[np.ndarray, " pairs"], Int[np.ndarray, " pairs"]]:
    """The columns of the first and of the second map of each pair."""
    first, second = np.triu_indices(maps, 1)
    return first, second


def _signs(table: MapTable) -> Float[np.ndarray, "images pairs"]:
    """Which map of each pair is higher: 1 the first, -1 the second, 0 neither, NaN undefined."""
    first, second = _columns(table.shape[1])
    return np.asarray(np.sign(table[:, first] - table[:, second]))


def _preferences(truth: MapTable, quality: MapTable, compared: Bool[np.ndarray, "images pairs"]) -> Pairs:
    """Whether the map with the higher truth also has the higher quality, for each compared pair."""
    signs, others = _signs(truth), _signs(quality)
    counted = compared & ~(np.isnan(signs) | np.isnan(others))
    agreement = np.where(counted, (np.where(counted, signs * others, 0.0) + 1) / 2, 0.0)
    weights = counted.astype(np.float64)
    return Pairs(maps=truth.shape[1], agreement=agreement, differing=weights, distinguished=weights)
