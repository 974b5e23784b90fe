"""Names under a strip never meet, and positions follow the scale."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from snellen.charts import numbers
from snellen.charts.scale import Scale, scale_of
from snellen.charts.strips import _LETTER_WIDTH, NARROWEST, Estimate, place_names, strip, strip_axis

NAMES = ["random", "edge", "fake-cam", "centre", "uniform"]


def boxes(labels, width):
    for label in labels:
        x, length = label.x * width / 100, _LETTER_WIDTH * len(label.text)
        yield (x, x + length, label.row) if label.anchor == "start" else (x - length, x, label.row)


@settings(max_examples=40)
@given(st.lists(st.floats(3, 97), min_size=0, max_size=5), st.integers(0, 3))
def test_names_never_overlap_at_any_width_from_the_narrowest_on(places, wider):
    width = NARROWEST + 200 * wider
    labels = place_names(dict(zip(NAMES, places, strict=False)))
    assert sorted(label.text for label in labels) == sorted(NAMES[: len(places)])
    for box, other in itertools.combinations(boxes(labels, width), 2):
        assert box[2] != other[2] or box[1] <= other[0] or other[1] <= box[0]


@settings(max_examples=40)
@given(st.lists(st.floats(3, 97), min_size=1, max_size=4))
def test_names_stay_inside_the_strip(places):
    for left, right, _ in boxes(place_names(dict(zip(NAMES, places, strict=False))), NARROWEST):
        assert left >= 0
        assert right <= NARROWEST


@settings(max_examples=40)
@given(st.lists(st.floats(40, 60), min_size=2, max_size=4))
def test_no_line_runs_through_a_name(places):
    labels = place_names(dict(zip(NAMES, places, strict=False)))
    for (left, right, row), label in zip(boxes(labels, NARROWEST), labels, strict=True):
        for other in labels:
            line = other.x * NARROWEST / 100
            # Names stand three pixels beside their own line, so only what is further in can be crossed.
            assert other is label or other.row < row or not left + 2.5 < line < right - 2.5


def test_many_or_very_long_names_get_a_row_each():
    ticks = {f"random(seed={at}, and=a long label)": 50.0 for at in range(8)}
    labels = place_names(ticks)
    assert sorted(label.row for label in labels) == list(range(8))
    assert all(len(label.text) <= 26 for label in labels)


def test_distant_ticks_share_one_row():
    assert {label.row for label in place_names({"random": 5.0, "edge": 40.0, "centre": 95.0})} == {0}


def test_the_scale_holds_every_number():
    scale = scale_of([0.2, float("nan"), 0.7, 0.4])
    assert scale == Scale(0.2, 0.7)
    assert scale.at(0.2) < scale.at(0.4) < scale.at(0.7)
    assert scale_of([float("nan")]) is None
    assert scale_of([0.7, 0.7], (0.0, 1.0)) == Scale(0.0, 1.0)
    assert scale_of([3.0], (0.0, math.inf)) == Scale(0.0, 6.0)
    assert scale_of([0.0]) == Scale(-1.0, 1.0)


def test_a_strip_draws_a_tick_per_control_and_escapes_its_words():
    estimate = Estimate(mean=0.5, low=0.4, high=0.6)
    svg = strip(Scale(0.0, 1.0), estimate, ticks=[0.1, float("nan")], description='<b> & "quotes"').svg()
    assert svg.count('class="tick"') == 1
    assert svg.count("<circle") == 1
    assert svg.count('class="bar ink"') == 1
    assert "<b>" not in svg
    bare = strip(Scale(0.0, 1.0), Estimate(mean=math.nan), description="nothing").svg()
    assert "<circle" not in bare
    assert 'class="bar' not in bare


def test_the_axis_says_which_way_is_better_and_where_the_scale_ends():
    assert "better →" in strip_axis(Scale(0.0, 1.0), {}, higher_is_better=True).svg()
    assert "← better" in strip_axis(Scale(0.0, 1.0), {}, higher_is_better=False).svg()
    assert "&lt;script&gt;" in strip_axis(Scale(0.0, 1.0), {"<script>": 0.5}, higher_is_better=True).svg()
    assert strip_axis(Scale(0.0, 0.5), {}, higher_is_better=True).description == "scale from 0 to 0.50, higher is better"


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e14, max_value=1e14))
def test_a_number_has_at_most_three_digits_and_is_close(value):
    text = numbers.short(value)
    digits = text.split("×")[0].lstrip("−0.").rstrip("kMGT")
    assert sum(letter.isdigit() for letter in digits) <= 3


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (0.6712, "0.67"), (0.09951, "0.10"), (0.0994, "0.099"), (9.996, "10.0"), (99.96, "100"), (999.6, "1k"),
     (999_600, "1M"), (0.000123, "1.2×10⁻⁴"), (0.00099999, "0.001"), (9.96e-5, "1.0×10⁻⁴"), (-1.5, "−1.50"),
     (1e-20, "1.0×10⁻²⁰"), (float("inf"), "∞"), (float("nan"), "undefined")],
)  # fmt: skip
def test_numbers_for_people(value, text):
    assert numbers.short(value) == text


def test_times_and_counts_for_people():
    assert [numbers.duration(seconds) for seconds in (0.0123, 48.2, 188.2, 4000)] == [
        "12.3 ms",
        "48.2 s",
        "3 min 8 s",
        "1 h 6 min",
    ]
    assert numbers.count(1, "image") == "1 image"
    assert numbers.count(12_345, "image") == "12 345 images"
    assert [numbers.amount(count) for count in (1.0, 32.5, 48213)] == ["1", "32.5", "48.2k"]
    assert numbers.interval(0.1, 0.1, 7) == "all 7 equal"
    assert numbers.interval(-0.1, 0.25, 7, signs=True) == "[−0.10, +0.25]"
    assert numbers.interval(float("nan"), float("nan"), 1) == "no interval"
