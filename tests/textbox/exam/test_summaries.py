"""Summaries, worked by hand on a frame of two settings, two methods and two images per bucket."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from snellen.errors import SnellenError
from snellen.textbox.exam import summaries
from snellen.textbox.exam.summaries import COLUMNS

NAN = float("nan")

# setting, simple, bucket, visible, method: PAFL and SAFL of two images
SCORED = {
    ("simple", True, 7, 1, "good"): ([0.9, 0.7], [NAN, NAN]),
    ("simple", True, 8, 2, "good"): ([0.6, 0.6], [0.2, 0.0]),
    ("simple", True, 10, 2, "good"): ([0.5, 0.5], [0.4, 0.4]),  # not above one half
    ("simple", True, 1, 0, "good"): ([NAN, NAN], [NAN, NAN]),
    ("complex", False, 10, 2, "good"): ([0.3, 0.1], [NAN, NAN]),
    ("complex", False, 11, 3, "good"): ([0.6, NAN], [0.1, 0.1]),
    ("simple", True, 7, 1, "bad"): ([0.4, 0.4], [NAN, NAN]),
    ("simple", True, 8, 2, "bad"): ([0.1, 0.3], [0.7, 0.3]),
    ("simple", True, 10, 2, "bad"): ([0.3, 0.3], [0.1, 0.1]),
    ("simple", True, 1, 0, "bad"): ([NAN, NAN], [NAN, NAN]),
    ("complex", False, 10, 2, "bad"): ([0.2, 0.2], [NAN, NAN]),
    ("complex", False, 11, 3, "bad"): ([NAN, NAN], [NAN, NAN]),  # its maps are zero
}


def scored() -> pd.DataFrame:
    rows = [
        (setting, simple, bucket, visible, f"{bucket}/{image}", method, *(pafl[image], safl[image]) * 3)
        for (setting, simple, bucket, visible, method), (pafl, safl) in SCORED.items()
        for image in range(2)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def row_of(table: pd.DataFrame, **key: object) -> pd.Series:
    matching = table[np.logical_and.reduce([table[name] == value for name, value in key.items()])]
    assert len(matching) == 1
    return matching.iloc[0]


def test_means_of_buckets_leave_out_and_count_what_is_undefined() -> None:
    table = summaries.bucket_means(scored())
    assert len(table) == len(SCORED)
    full = row_of(table, setting="simple", bucket=7, method="good")
    assert (full["mean"], full["n"], full["undefined"], full["visible"], full["simple"]) == (
        pytest.approx(0.8),
        2,
        0,
        1,
        True,
    )
    half = row_of(table, setting="complex", bucket=11, method="good")
    assert (half["mean"], half["n"], half["undefined"]) == (0.6, 1, 1)
    none = row_of(table, setting="simple", bucket=1, method="good")
    assert np.isnan(none["mean"])
    assert (none["n"], none["undefined"]) == (0, 2)


def test_averages_count_every_bucket_once() -> None:
    table = summaries.averages(scored())
    good = row_of(table, method="good")
    assert good["mean"] == pytest.approx((0.8 + 0.6 + 0.5 + 0.2 + 0.6) / 5)  # whichever has more images
    assert good["spread"] == pytest.approx(np.std([0.8, 0.6, 0.5, 0.2, 0.6]))
    assert (good["buckets"], good["undefined"]) == (5, 3)
    apart = summaries.averages(scored(), "safl", ("setting", "method"))
    bad = row_of(apart, setting="simple", method="bad")
    assert bad["mean"] == pytest.approx((0.5 + 0.1) / 2)
    assert bad["spread"] == pytest.approx(0.2)
    nothing = row_of(apart, setting="complex", method="bad")
    assert np.isnan(nothing["mean"])
    assert np.isnan(nothing["spread"])
    assert (nothing["buckets"], nothing["undefined"]) == (0, 4)


def test_by_number_of_visible_objects() -> None:
    table = summaries.by_visible(scored())
    assert row_of(table, simple=True, visible=2, method="good")["mean"] == pytest.approx((0.6 + 0.5) / 2)
    assert row_of(table, simple=False, visible=2, method="good")["mean"] == pytest.approx(0.2)
    assert table["visible"].tolist() == [0, 0, 1, 1, 2, 2, 2, 2, 3, 3]
    assert table["simple"].tolist() == [True] * 6 + [False] * 4


def test_the_worst_bucket_has_a_name() -> None:
    table = summaries.worst(scored())
    good = row_of(table, method="good")
    assert (good["setting"], good["bucket"], good["mean"]) == ("complex", 10, pytest.approx(0.2))
    avoided = row_of(summaries.worst(scored(), "safl"), method="good")  # most of it on what should be avoided
    assert (avoided["setting"], avoided["bucket"], avoided["mean"]) == ("simple", 10, pytest.approx(0.4))
    apart = summaries.worst(scored(), "safl", ("setting", "method"))
    nothing = row_of(apart, setting="complex", method="bad")
    assert nothing["bucket"] is pd.NA
    assert np.isnan(nothing["mean"])


def test_success_is_counted_where_there_is_something_to_avoid() -> None:
    table = summaries.success(scored())
    good = row_of(table, setting="simple", method="good")  # bucket 7 has nothing to avoid; 8 succeeds; 10 does not
    assert (good["share"], good["buckets"], good["undefined"]) == (0.5, 2, 0)
    other = row_of(table, setting="complex", method="good")
    assert (other["share"], other["buckets"], other["undefined"]) == (1.0, 1, 0)
    blank = row_of(table, setting="complex", method="bad")  # where the other method has a score, this one has none
    assert np.isnan(blank["share"])
    assert (blank["buckets"], blank["undefined"]) == (0, 1)


def test_failure_needs_more_than_half_of_the_buckets() -> None:
    frame = scored()
    table = summaries.failure(frame)
    bad = row_of(table, setting="simple", method="bad")  # .5 > .2 in bucket 8, .1 < .3 in bucket 10
    assert (bad["share"], bad["fails"]) == (0.5, False)
    assert row_of(table, setting="complex", method="bad")["fails"] is pd.NA
    more = frame.copy()
    more.loc[(more["method"] == "bad") & (more["bucket"] == 10) & more["simple"], "safl"] = 0.31
    assert row_of(summaries.failure(more), setting="simple", method="bad")["fails"]
    assert not row_of(summaries.failure(more), setting="simple", method="good")["fails"]


def test_simple_and_complex_settings_side_by_side() -> None:
    table = summaries.simple_and_complex(scored())
    good = row_of(table, simple=True, method="good")
    assert good["average"] == pytest.approx((0.8 + 0.6 + 0.5) / 3)
    assert (good["minimum"], good["setting"], good["bucket"]) == (0.5, "simple", 10)
    other = row_of(table, simple=False, method="good")
    assert (other["average"], other["minimum"]) == (pytest.approx(0.4), pytest.approx(0.2))
    assert len(table) == 4


def test_mistakes_get_a_sentence() -> None:
    with pytest.raises(SnellenError, match="no score 'pafi'; did you mean 'pafl'"):
        summaries.averages(scored(), "pafi")
    with pytest.raises(SnellenError, match="but lacks bucket"):
        summaries.averages(scored().drop(columns="bucket"))
