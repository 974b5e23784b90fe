"""How well scores order maps as the truth does: worked by hand, and against scipy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import kendalltau

from snellen.textbox.audit.agreement import auc_of_difference, auc_of_success, round_scores, tau

NAN = math.nan


def rows(*values: list[float]) -> np.ndarray:
    return np.array(values, dtype=np.float64)


def test_tau_by_hand() -> None:
    truth = rows([0.9, 0.5, 0.1], [0.9, 0.5, 0.1], [0.9, 0.5, 0.1], [0.3, 0.3, 0.3], [0.9, 0.5, NAN], [0.9, 0.5, 0.5])
    scores = rows([3, 1, 2], [1, 2, 3], [7, 7, 7], [1, 2, 3], [1, 2, 9], [2, 2, 1])
    # C − D = 1 of 3; all against; no order told; nothing to order; only the first pair is known; one of √(2·2).
    assert tau(truth, scores).values() == pytest.approx([1 / 3, -1, 0, NAN, -1, 0.5], nan_ok=True)


def test_tau_is_scipys_where_that_is_defined() -> None:
    generator = np.random.default_rng(3)
    truth = np.round(generator.random((40, 9)), 1)
    scores = np.round(generator.random((40, 9)), 1)
    scores[generator.random((40, 9)) < 0.1] = NAN
    expected = []
    for true_row, other in zip(truth, scores, strict=True):
        defined = ~np.isnan(other)
        expected.append(kendalltau(true_row[defined], other[defined]).statistic)
    assert tau(truth, scores).values() == pytest.approx(expected)


def test_auc_of_success_by_hand() -> None:
    truth = rows([0.9, 0.2, 0.4], [0.9, 0.8, 0.7], [0.9, 0.5, 0.1], [0.9, 0.6, 0.1], [0.9, 0.1, NAN])
    scores = rows([2, 2, 1], [1, 2, 3], [1, 2, 3], [5, NAN, 5], [1, 0, 9])
    # A tie and a right pair; nobody fails; .5 is no success, so twice wrong; only the tie is known; without the unknown.
    assert auc_of_success(truth, scores).values() == pytest.approx([0.75, NAN, 0, 0.5, 1], nan_ok=True)


def test_auc_of_difference_by_hand() -> None:
    truth = rows([0.30, 0.25, 0.05], [0.30, 0.29, 0.28])
    scores = rows([1, 9, 1], [1, 2, 3])
    # .30 over .05 is a tie, .25 over .05 is right, .30 over .25 is no clear difference; then nothing differs clearly.
    assert auc_of_difference(truth, scores).values() == pytest.approx([0.75, NAN], nan_ok=True)


def test_a_turned_metric_has_the_other_half() -> None:
    generator = np.random.default_rng(5)
    truth, scores = generator.random((30, 8)), np.round(generator.random((30, 8)), 1)
    for measure in (auc_of_success, auc_of_difference):
        assert measure(truth, -scores).values() == pytest.approx(1 - measure(truth, scores).values())
    assert tau(truth, -scores).values() == pytest.approx(-tau(truth, scores).values())


def test_the_truth_agrees_with_itself_and_guessing_does_not() -> None:
    generator = np.random.default_rng(7)
    truth = generator.random((400, 8))
    assert tau(truth, truth).values() == pytest.approx(1)
    assert np.nanmin(auc_of_success(truth, truth).values()) == 1
    assert np.nanmean(auc_of_success(truth, generator.random(truth.shape)).values()) == pytest.approx(0.5, abs=0.05)


def test_a_map_that_is_drawn_twice_counts_twice_and_one_that_is_not_drawn_not_at_all() -> None:
    truth, scores = rows([0.9, 0.2, 0.4]), rows([2, 2, 1])  # a tie with the second map, a right pair with the third
    drawn = auc_of_success(truth, scores).resample(rows([1, 1, 1], [1, 2, 1], [1, 0, 3], [0, 2, 1]))
    assert drawn[:, 0] == pytest.approx([0.75, 2 / 3, 1, NAN], nan_ok=True)
    generator = np.random.default_rng(9)
    truth, scores = generator.random((12, 6)), generator.random((12, 6))
    twice = [0, 0, 2, 3, 3, 3, 5]
    counts = np.bincount(twice, minlength=6)[None].astype(float)
    for measure in (auc_of_success, auc_of_difference):
        again = measure(truth[:, twice], scores[:, twice]).values()
        assert measure(truth, scores).resample(counts)[0] == pytest.approx(again, nan_ok=True)


def test_what_float_makes_up_is_no_order() -> None:
    assert (np.diff(round_scores(rows([1 - 1e-8, 1.0, 1 - 3e-8]), bounded=True)) == 0).all()
    assert (np.diff(round_scores(rows([12345678.0, 12345678.9]), bounded=False)) == 0).all()
    assert (np.diff(round_scores(rows([1e-9, 2e-9, 3.0, 4e12]), bounded=False)) > 0).all()
    assert round_scores(rows([0.0, NAN, -2.5]), bounded=False) == pytest.approx(rows([0, NAN, -2.5]), nan_ok=True)
