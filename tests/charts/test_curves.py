"""Panels show mean curves over the controls, on one pair of axes."""

from __future__ import annotations

import re

import numpy as np

from snellen.charts.curves import curve_panels


def points(panel, style):
    """The points of the first line of a style, from the top of the field, which begins below the upper number."""
    text = re.search(rf'class="{style} ink" points="([^"]+)"', panel.svg())[1]
    pairs = [tuple(map(float, pair.split(","))) for pair in text.split(" ")]
    return [(x, y - 16) for x, y in pairs]


def test_a_panel_draws_the_mean_over_images_on_axes_that_all_panels_share():
    curves = {
        "a": np.array([[1.0, 0.5, 0.0], [0.6, 0.3, 0.0]]),
        "b": np.array([[0.4, 0.4, 0.4]]),
        "random": np.array([[0.2, 0.2, 0.2]]),
    }
    drawn = curve_panels(curves, ["random"])
    assert list(drawn.panels) == ["a", "b"]
    assert list(drawn.legend) == ["random"]
    assert (drawn.low, drawn.high) == ("0", "0.80")
    assert points(drawn.panels["a"], "curve") == [(0, 0), (50, 50), (100, 100)]
    assert points(drawn.panels["b"], "curve") == [(0, 50), (50, 50), (100, 50)]
    assert points(drawn.panels["b"], "behind") == [(0, 75), (50, 75), (100, 75)]
    assert (
        "a: starts at 0.80, ends at 0, mean height 0.40; controls have mean heights from 0.20 to 0.20"
        in drawn.panels["a"].description
    )


def test_images_without_a_curve_are_left_out():
    curves = {"a": np.array([[1.0, 0.0], [np.nan, np.nan]])}
    assert points(curve_panels(curves, []).panels["a"], "curve") == [(0, 0), (100, 100)]
    assert curve_panels({"a": np.full((2, 3), np.nan)}, []) is None
    assert curve_panels({}, []) is None


def test_controls_alone_still_have_a_panel():
    drawn = curve_panels({"random": np.array([[0.5, 0.1]])}, ["random"])
    assert list(drawn.panels) == ["controls"]


def test_a_flat_zero_curve_has_a_scale():
    assert points(curve_panels({"a": np.zeros((1, 2))}, []).panels["a"], "curve") == [(0, 100), (100, 100)]
