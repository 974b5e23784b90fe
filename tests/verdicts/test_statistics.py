"""Intervals cover what they promise; means, undefined scores and the mark fooled follow their written rules."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from tests.verdicts.scored import long, method, metric, summary_of

from snellen.verdicts import MINIMUM_IMAGES, certainty, fooled, summarise
from snellen.verdicts.statistics import holm, interval_of_mean, score_array, student_quantile


@pytest.mark.parametrize(
    ("draw", "truth", "n", "least", "most"),
    [
        (lambda rng, shape: rng.normal(3, 2, shape), 3.0, 7, 0.91, 0.97),
        (lambda rng, shape: rng.normal(3, 2, shape), 3.0, 60, 0.93, 0.97),
        (lambda rng, shape: rng.beta(0.5, 1.5, shape), 0.25, MINIMUM_IMAGES, 0.92, 0.97),
        (lambda rng, shape: rng.lognormal(0, 1, shape), math.exp(0.5), 7, 0.78, 0.88),
        (lambda rng, shape: rng.lognormal(0, 1, shape), math.exp(0.5), MINIMUM_IMAGES, 0.86, 0.92),
    ],
    ids=["normal-7", "normal-60", "bounded-30", "skewed-7", "skewed-30"],
)
def test_the_interval_covers_the_true_mean_about_as_often_as_it_promises(draw, truth, n, least, most):
    values = draw(np.random.default_rng(5), (n, 1000))
    _, low, high, _ = interval_of_mean(values, resamples=1000)
    assert least <= ((low <= truth) & (truth <= high)).mean() <= most


def test_with_three_values_the_interval_is_the_quantile_over_all_27_resamples():
    values = np.array([0.0, 1.0, 5.0])
    every = np.array([np.mean(picks) for picks in itertools.product(values, repeat=3)])
    mean, low, high, n = interval_of_mean(values[:, None], resamples=200_000)
    assert mean[0] == 2.0
    assert n[0] == 3
    # Three values widen the tails to almost nothing: Φ(-√1.5 · 4.303) < 1e-7, so the ends are the smallest and largest mean.
    assert (low[0], high[0]) == (every.min(), every.max())


def test_the_quantile_of_student_matches_printed_tables():
    for freedom, value in [(1, 12.706), (2, 4.303), (6, 2.447), (29, 2.045), (199, 1.972), (5000, 1.960)]:
        assert student_quantile(0.975, freedom) == pytest.approx(value, abs=5e-4)


def test_equal_scores_give_an_interval_without_width():
    row = summary_of({"a": 0.1}, set()).iloc[0]
    assert (row["mean"], row["low"], row["high"]) == (0.1, 0.1, 0.1)


def test_order_and_other_scores_do_not_change_an_interval():
    rng = np.random.default_rng(0)
    values = {(name, by): list(rng.normal(size=12)) for name in "abc" for by in ("x", "y")}
    values[("b", "y")][3] = float("nan")
    methods, metrics = [method(name) for name in "abc"], [metric("x"), metric("y")]
    whole = summarise(long(values), methods, metrics, seed=3)
    shuffled = summarise(long(values).sample(frac=1, random_state=1), methods, metrics, seed=3)
    pd.testing.assert_frame_equal(whole, shuffled)
    alone = summarise(long({("b", "y"): values[("b", "y")]}), [method("b")], [metric("y")], seed=3)
    kept = whole[(whole["method"] == "b") & (whole["metric"] == "y")].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, kept)
    other = summarise(long(values), methods, metrics, seed=4)
    assert not other["low"].equals(whole["low"])


def test_undefined_scores_are_counted_with_their_reason_and_left_out():
    nan = float("nan")
    scores = long({("a", "m"): [1.0, nan, 3.0, nan], ("b", "m"): [nan] * 4, ("c", "m"): [nan, nan, 2.0, nan]})
    table = summarise(scores, [method("a"), method("b"), method("c")], [metric("m", undefined="empty truth")])
    table = table.set_index("method")
    assert table.loc["a", ["mean", "n", "undefined", "reason"]].tolist() == [2.0, 2, 2, "empty truth"]
    assert 1.0 <= table.loc["a", "low"] < 2.0 < table.loc["a", "high"] <= 3.0
    assert table.loc["b", ["n", "undefined"]].tolist() == [0, 4]
    assert table.loc["b", ["mean", "low", "high"]].isna().all()
    assert table.loc["c", "mean"] == 2.0
    assert table.loc["c", ["low", "high"]].isna().all()
    defined = summarise(long({("a", "m"): [1.0, 2.0]}), [method("a")], [metric("m", undefined="empty truth")])
    assert defined.loc[0, "reason"] == ""


def test_a_single_image_has_a_mean_and_no_interval():
    row = summarise(long({("a", "m"): [0.4]}), [method("a")], [metric("m")]).iloc[0]
    assert (row["mean"], row["n"]) == (0.4, 1)
    assert math.isnan(row["low"])
    assert math.isnan(row["high"])


def test_scores_that_were_never_written_are_missing_and_not_undefined():
    row = summarise(long({("a", "m"): [0.4, 0.5]}), [method("a"), method("b")], [metric("m")]).set_index("method").loc["b"]
    assert (row["n"], row["undefined"], row["missing"], row["reason"]) == (0, 0, 2, "")


def test_no_scores_at_all_still_make_a_table():
    empty = pd.DataFrame(columns=["sample", "method", "metric", "value"])
    assert summarise(empty, [method("a")], [metric("m")])["n"].tolist() == [0]


@pytest.mark.parametrize(
    ("means", "controls", "higher", "expected"),
    [
        ({"a": 0.9, "b": 0.8, "c": 0.7, "random": 0.1}, {"random"}, True, []),
        ({"a": 0.9, "b": 0.7, "random": 0.8}, {"random"}, True, ["random"]),
        ({"a": 0.9, "b": 0.8, "random": 0.8}, {"random"}, True, ["random"]),
        (
            {"a": 0.9, "b": 0.9, "random": 0.9, "edge": 0.9, "centre": 0.1},
            {"random", "edge", "centre"},
            True,
            ["random", "edge"],
        ),
        ({"a": 0.1, "b": 0.2, "random": 0.9}, {"random"}, False, []),
        ({"a": 0.1, "b": 0.2, "random": 0.0}, {"random"}, False, ["random"]),
        ({"a": 0.9, "random": 0.5, "edge": 0.1}, {"random", "edge"}, True, []),
        ({"a": 0.5, "random": 0.5, "edge": 0.1}, {"random", "edge"}, True, ["random"]),
        ({"random": 0.5, "edge": 0.1}, {"random", "edge"}, True, []),
        ({"a": 0.9, "b": float("nan"), "random": 0.5}, {"random"}, True, []),
    ],
)
def test_a_metric_is_fooled_when_a_control_is_in_its_top_two(means, controls, higher, expected):
    assert fooled(summary_of(means, controls, higher)).get("m", []) == expected


def test_a_metric_without_any_mean_is_not_fooled():
    assert fooled(summary_of({"a": float("nan"), "random": float("nan")}, {"random"})) == {}


@pytest.mark.parametrize("n", [0, 1, 7, MINIMUM_IMAGES - 1])
def test_few_images_allow_no_verdict(n):
    assert not certainty(n).enough
    assert "too few for a verdict" in certainty(n).words


def test_more_images_show_smaller_differences():
    assert certainty(MINIMUM_IMAGES).enough
    assert "at least 0.58 standard deviations" in certainty(30).words
    assert "at least 0.16 standard deviations" in certainty(400).words


def test_holm_by_hand():
    assert holm(np.array([0.01, 0.04, 0.03])) == pytest.approx([0.03, 0.06, 0.06])
    assert holm(np.array([0.01, math.nan, 0.9])) == pytest.approx([0.02, math.nan, 0.9], nan_ok=True)


def test_the_score_array_has_the_order_of_the_spec_and_separates_missing_from_undefined():
    scores = long({("b", "x"): [1.0, float("nan")], ("a", "y"): [3.0]}).iloc[::-1]
    values, written = score_array(scores, ["a", "b"], ["x", "y"])
    assert values[:, 1, 0].tolist() == pytest.approx([1.0, math.nan], nan_ok=True)
    assert values[:, 0, 1].tolist() == pytest.approx([3.0, math.nan], nan_ok=True)
    assert written[:, :, 0].tolist() == [[False, True], [False, True]]
    assert written[:, :, 1].tolist() == [[True, False], [False, False]]
    with pytest.raises(ValueError, match="two rows"):
        score_array(pd.concat([scores, scores]), ["a", "b"], ["x", "y"])


def test_means_alone_are_the_same_without_resamples():
    rng = np.random.default_rng(0)
    scores = long({(name, "m"): list(rng.normal(size=9)) for name in "ab"})
    quick = summarise(scores, [method("a"), method("b", True)], [metric()], resamples=0)
    whole = summarise(scores, [method("a"), method("b", True)], [metric()])
    assert quick["low"].isna().all()
    pd.testing.assert_frame_equal(quick.drop(columns=["low", "high"]), whole.drop(columns=["low", "high"]))


def test_many_columns_have_the_same_draws_as_few():
    values = np.random.default_rng(0).normal(size=(8, 1100))
    values[3, 700] = math.nan
    many = np.stack(interval_of_mean(values, resamples=300, seed=5))
    for at in (0, 600, 700, 1099):
        assert np.stack(interval_of_mean(values[:, [at]], resamples=300, seed=5))[:, 0] == pytest.approx(many[:, at])
