"""Panels show mean curves over the controls, on one pair of axes."""

from __future__ import annotations

import re

import numpy as np

from snellen.charts.curves import chart


def points(svg, kind):
    found = re.search(rf'class="{kind}" points="([^"]+)"', svg)[1]
    return [tuple(map(float, pair.split(","))) for pair in found.split(" ")]


def test_a_panel_draws_the_mean_over_images_on_axes_that_all_panels_share():
    curves = {
        "a": np.array([[1.0, 0.5, 0.0], [0.6, 0.3, 0.0]]),
        "b": np.array([[0.4, 0.4, 0.4]]),
        "random": np.array([[0.2, 0.2, 0.2]]),
    }
    drawn = chart(curves, ["random"])
    assert [panel.name for panel in drawn.panels] == ["a", "b"]
    assert [key.name for key in drawn.keys] == ["random"]
    assert (drawn.bottom, drawn.top) == ("0", "0.80")
    assert points(drawn.panels[0].svg, "own") == [(0, 0), (50, 50), (100, 100)]
    assert points(drawn.panels[1].svg, "own") == [(0, 50), (50, 50), (100, 50)]
    assert points(drawn.panels[1].svg, "grey") == [(0, 75), (50, 75), (100, 75)]
    assert (
        "a: starts at 0.80, ends at 0, mean height 0.40; controls have mean heights from 0.20 to 0.20" in drawn.panels[0].svg
    )


def test_images_without_a_curve_are_left_out():
    curves = {"a": np.array([[1.0, 0.0], [np.nan, np.nan]])}
    assert points(chart(curves, []).panels[0].svg, "own") == [(0, 0), (100, 100)]
    assert chart({"a": np.full((2, 3), np.nan)}, []) is None
    assert chart({}, []) is None


def test_controls_alone_still_have_a_panel():
    drawn = chart({"random": np.array([[0.5, 0.1]])}, ["random"])
    assert [panel.name for panel in drawn.panels] == ["controls"]


def test_a_flat_zero_curve_has_a_scale():
    assert points(chart({"a": np.zeros((1, 2))}, []).panels[0].svg, "own") == [(0, 100), (100, 100)]
