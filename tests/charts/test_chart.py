"""A chart is the same on a page, as an SVG file, and as matplotlib draws it; its words are escaped."""

from __future__ import annotations

import builtins
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from PIL import Image

from snellen.charts.bars import histogram
from snellen.charts.chart import OUTLINES, Bar, Chart, Inset, Label, Marker, Polyline, Segment
from snellen.charts.colours import COLOURS, STYLES, chart_css, page_css
from snellen.charts.curves import curve_panels
from snellen.charts.layout import grid, stack
from snellen.charts.line_figure import LinePanel, LineStyle, line_figure
from snellen.charts.scale import PlotArea, Scale, round_scale
from snellen.charts.strips import Estimate, forest_line, strip, strip_axis
from snellen.errors import SnellenError

SHAPES = ("dot", "ring", "square", "box", "triangle", "diamond", "cross", "1")


@pytest.fixture
def chart():
    inner = Chart(description="inner", shapes=(Bar(x=0, width=100, y=0, height=10, style="shaded"),), height=10)
    return Chart(
        description='all shapes, <b> & "quotes"',
        shapes=(
            Bar(x=10, width=20, y=2, height=30),
            Segment(x1=0, x2=100, y1=40, y2=40, dash="3 2"),
            Polyline(points=[(0, 0), (50, 25.5), (100, 40)], colour="pass"),
            *(Marker(x=5 + 10 * place, y=20, shape=shape, colour="rust") for place, shape in enumerate(SHAPES)),
            Label(x=50, y=38, text="<script>$x$", anchor="middle"),
            Label(x=50, y=38, text="turned", turn=-45),
            Inset(chart=inner, x=20, y=5, width=40),
        ),
        height=48,
    )


def test_a_file_of_its_own_is_well_formed_and_has_a_title(chart, tmp_path):
    root = ET.fromstring(chart.save(tmp_path / "a.svg", width=300).read_text(encoding="utf-8"))
    assert root.get("role") == "img"
    assert root.find("{http://www.w3.org/2000/svg}title").text == chart.description
    assert (root.get("width"), root.get("height")) == ("316", "64")
    assert "url(" not in chart.standalone()


def test_words_are_escaped_on_pages(chart):
    svg = chart.svg()
    assert "<script" not in svg
    assert "<b>" not in svg
    assert svg.startswith('<svg class="picture" height="48" role="img" aria-label="all shapes,')


@pytest.mark.parametrize("suffix", ["pdf", "png"])
def test_matplotlib_draws_every_shape_and_the_same_file_again(chart, tmp_path, suffix):
    first, second = (chart.save(tmp_path / f"{name}.{suffix}").read_bytes() for name in "ab")
    assert first == second
    assert first.startswith(b"%PDF" if suffix == "pdf" else b"\x89PNG")


def test_a_bar_lies_where_its_numbers_say(tmp_path):
    shapes = (Bar(x=25, width=50, y=10, height=20, style="full", colour="fail"),)
    path = Chart(description="a bar", shapes=shapes, height=40).save(tmp_path / "bar.png", width=400)
    pixels = np.asarray(Image.open(path).convert("RGB")).astype(int)
    red = np.abs(pixels - [0xB3, 0x26, 0x1E]).sum(axis=2) < 30
    rows, columns = np.flatnonzero(red.any(axis=1)), np.flatnonzero(red.any(axis=0))
    inch = 300 / 96
    assert [rows[0], rows[-1]] == pytest.approx([inch * 18, inch * 38], abs=2)
    assert [columns[0], columns[-1]] == pytest.approx([inch * 108, inch * 308], abs=2)


def test_another_suffix_is_refused(chart, tmp_path):
    with pytest.raises(SnellenError, match=r"'\.jpg' is not \.svg, \.pdf or \.png"):
        chart.save(tmp_path / "a.jpg")
    with pytest.raises(SnellenError, match="choose another path"):
        chart.save(tmp_path / "missing" / "a.svg")


def test_without_matplotlib_a_sentence_says_what_to_install(chart, tmp_path, monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **settings):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **settings)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(SnellenError, match=r'pip install "snellen\[charts\]"'):
        chart.save(tmp_path / "a.pdf")
    assert chart.save(tmp_path / "a.svg").is_file()


def test_every_class_that_a_shape_can_have_is_in_the_style_sheet():
    css = chart_css()
    for name in [*STYLES, *COLOURS]:
        assert f"svg .{name}{{" in css
    for shape in [*OUTLINES, "dot", "ring", "cross", "2"]:
        assert Marker(x=0, y=0, shape=shape).style in STYLES
    assert not set(STYLES) & set(COLOURS)
    assert page_css().startswith(":root{--ink:")
    assert "var(" not in css


def test_a_histogram_counts_every_value_once():
    chart = histogram([0.05, 0.15, 0.17, 1.0, float("nan")], name="confidence", bounds=(0.0, 1.0))
    heights = [shape.height for shape in chart.shapes if isinstance(shape, Bar)]
    assert heights == [50, 100, 0, 0, 0, 0, 0, 0, 0, 50]
    assert chart.description == "confidence of 4 images, median 0.16; most, 2, between 0.10 and 0.20; 1 undefined"
    assert histogram([], name="confidence").height > 0


def test_a_line_is_interrupted_where_a_point_is_undefined():
    style = LineStyle(name="n = 30", colour="blue", dots=True)
    points = [(0.0, 0.1), (1.0, 0.2), (2.0, float("nan")), (3.0, 0.4)]
    panel = LinePanel(title="pass", lines={style: points}, across={0.0: "a"}, up={0.0: "0", 1.0: "1"}, ends=(0.0, 3.0))
    figure = line_figure([[panel, panel], [panel]], title="Chances", width=100, height=50)
    inner = [shape.chart for shape in figure.shapes if isinstance(shape, Inset)]
    assert len(inner) == 3
    assert [len(shape.points) for shape in inner[0].shapes if isinstance(shape, Polyline)] == [2]
    assert sum(isinstance(shape, Marker) for shape in inner[0].shapes) == 3
    assert figure.svg().count("n = 30") == 1


def test_charts_put_together_keep_their_descriptions(tmp_path):
    scale = Scale(0.0, 1.0)
    rows = {name: strip(scale, Estimate(mean=0.5), description=f"{name}: mean 0.5") for name in ("rise", "grad-cam")}
    whole = stack(rows, title="insertion", axis=strip_axis(scale, {"random": 0.2}, higher_is_better=True))
    assert whole.description == "insertion; rise: mean 0.5; grad-cam: mean 0.5"
    panels = curve_panels({"a": np.array([[1.0, 0.0]])}, []).panels
    for name, chart in {"stack": whole, "grid": grid(panels, title="deletion")}.items():
        assert len(re.findall("<svg", chart.svg())) > len(chart.description.split("; ")) - 1
        assert chart.save(tmp_path / f"{name}.png").stat().st_size > 1000


def test_a_forest_line_draws_each_estimate_in_its_place():
    estimates = [(11, Estimate(mean=0.5, low=0.4, high=0.6)), (23, Estimate(mean=float("nan")))]
    chart = forest_line(Scale(0.0, 1.0), estimates, description="a", height=46, ticks=[0.5], shaded=(0.4, 0.6))
    assert [shape.y for shape in chart.shapes if isinstance(shape, Marker)] == [11]


def test_points_of_a_plot_area_follow_both_scales():
    area = PlotArea(across=Scale(0, 10, 0), up=Scale(-1, 1, 0), top=10, height=100)
    assert area.points([0, 5, 10], [-1, 0, 1]) == [(0, 110), (50, 60), (100, 10)]
    scale, ticks = round_scale([1.2, 6.8], (1, 7))
    assert (scale.low, scale.high) == (1, 7)
    assert ticks[0] == 1
