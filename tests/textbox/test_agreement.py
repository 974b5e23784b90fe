"""How well scores order maps as the truth does: worked by hand, against scipy, and the promise of the intervals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import kendalltau

from snellen.textbox.agreement import auc_of_difference, auc_of_success, interval_over_images, rounded, tau

NAN = math.nan


def rows(*values: list[float]) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_tau_by_hand() -> None:
    truth = rows([0.9, 0.5, 0.1], [0.9, 0.5, 0.1], [0.9, 0.5, 0.1], [0.3, 0.3, 0.3], [0.9, 0.5, NAN], [0.9, 0.5, 0.5])
    scores = rows([3, 1, 2], [1, 2, 3], [7, 7, 7], [1, 2, 3], [1, 2, 9], [2, 2, 1])
    # C − D = 1 of 3; all against; no order told; nothing to order; only the first pair is known; one of √(2·2).
    assert tau(truth, scores) == pytest.approx([1 / 3, -1, 0, NAN, -1, 0.5], nan_ok=True)


def test_tau_is_scipys_where_that_is_defined() -> None:
    generator = np.random.default_rng(3)
    truth = np.round(generator.random((40, 9)), 1)
    scores = np.round(generator.random((40, 9)), 1)
    scores[generator.random((40, 9)) < 0.1] = NAN
    expected = []
    for one, other in zip(truth, scores, strict=True):
        known = ~np.isnan(other)
        expected.append(kendalltau(one[known], other[known]).statistic)
    assert tau(truth, scores) == pytest.approx(expected)


def test_auc_of_success_by_hand() -> None:
    truth = rows([0.9, 0.2, 0.4], [0.9, 0.8, 0.7], [0.9, 0.5, 0.1], [0.9, 0.6, 0.1], [0.9, 0.1, NAN])
    scores = rows([2, 2, 1], [1, 2, 3], [1, 2, 3], [5, NAN, 5], [1, 0, 9])
    # A tie and a right pair; nobody fails; .5 is no success, so twice wrong; only the tie is known; without the unknown.
    assert auc_of_success(truth, scores) == pytest.approx([0.75, NAN, 0, 0.5, 1], nan_ok=True)


def test_auc_of_difference_by_hand() -> None:
    truth = rows([0.30, 0.25, 0.05], [0.30, 0.29, 0.28])
    scores = rows([1, 9, 1], [1, 2, 3])
    # .30 over .05 is a tie, .25 over .05 is right, .30 over .25 is no clear difference; then nothing differs clearly.
    assert auc_of_difference(truth, scores) == pytest.approx([0.75, NAN], nan_ok=True)


def test_a_turned_metric_has_the_other_half() -> None:
    generator = np.random.default_rng(5)
    truth, scores = generator.random((30, 8)), np.round(generator.random((30, 8)), 1)
    assert auc_of_success(truth, -scores) == pytest.approx(1 - auc_of_success(truth, scores))
    assert auc_of_difference(truth, -scores) == pytest.approx(1 - auc_of_difference(truth, scores))
    assert tau(truth, -scores) == pytest.approx(-tau(truth, scores))


def test_the_truth_agrees_with_itself_and_guessing_does_not() -> None:
    generator = np.random.default_rng(7)
    truth = generator.random((400, 8))
    assert (tau(truth, truth) == 1).all()
    assert np.nanmin(auc_of_success(truth, truth)) == 1
    found = interval_over_images(auc_of_success(truth, generator.random(truth.shape))[:, None], np.zeros(400, dtype=int))
    assert found.low[0] < 0.5 < found.high[0]
    assert found.high[0] - found.low[0] < 0.1


def test_what_float_makes_up_is_no_order() -> None:
    assert (np.diff(rounded(rows([1 - 1e-8, 1.0, 1 - 3e-8]), bounded=True)) == 0).all()
    assert (np.diff(rounded(rows([12345678.0, 12345678.9]), bounded=False)) == 0).all()
    assert (np.diff(rounded(rows([1e-9, 2e-9, 3.0, 4e12]), bounded=False)) > 0).all()
    assert rounded(rows([0.0, NAN, -2.5]), bounded=False) == pytest.approx(rows([0, NAN, -2.5]), nan_ok=True)


def test_intervals_cover_what_they_promise() -> None:
    """Three images of each of twelve buckets, whose means differ; the truth is the mean over these very buckets."""
    generator = np.random.default_rng(11)
    strata = np.repeat(np.arange(12), 3)
    level = np.linspace(0.2, 0.8, 12)
    draws = 400
    values = generator.beta(4 * level[strata][:, None], 4 * (1 - level[strata])[:, None], size=(36, draws))
    found = interval_over_images(values, strata, resamples=1000)
    covered = ((found.low <= 0.5) & (found.high >= 0.5)).mean()
    assert 0.92 <= covered <= 0.98  # ±.022 is two standard errors of 400 draws
    # Whether buckets differ does not widen the interval: they are not drawn.
    shifted = interval_over_images(values - level[strata][:, None], strata, resamples=1000)
    assert (shifted.high - shifted.low) == pytest.approx(found.high - found.low)
    assert ((found.chance(0.5) < 0.05).mean()) == pytest.approx(1 - covered, abs=0.03)


def test_intervals_of_few_and_of_equal_values() -> None:
    found = interval_over_images(rows([1, 2, NAN, 0.25], [1, NAN, NAN, 0.5], [1, NAN, NAN, 0.75]), np.array([1, 2, 3]))
    assert found.mean == pytest.approx([1, 2, NAN, 0.5], nan_ok=True)
    assert found.n.tolist() == [3, 1, 0, 3]
    assert (found.low[0], found.high[0]) == (1, 1)
    assert np.isnan(found.low[1:3]).all()
    assert 0.25 <= found.low[3] < 0.5 < found.high[3] <= 0.75  # each alone in its bucket: drawn together
    assert found.chance(0.5)[[0, 3]] == pytest.approx([0, 1])
