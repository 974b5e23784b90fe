"""Small pictures for legends: a piece of a line or bar, or a marker, beside the words that say what it stands for."""

from __future__ import annotations

from markupsafe import Markup

from snellen.charts.chart import Bar, Chart, Marker, MarkerShape, Segment, horizontal_line


def line_key(style: str, *, dash: str = "", colour: str = "", width: int = 26) -> Markup:
    """A piece of a line, `width` pixels wide."""
    line = Segment(x1=0, x2=100, y1=4, y2=4, style=style, colour=colour, dash=dash)
    return Chart(description="", shapes=(line,), height=8).icon(width)


def bar_key(colour: str) -> Markup:
    """A piece of a bar."""
    return Chart(description="", shapes=(Bar(x=0, width=100, y=0, height=10, style="full", colour=colour),), height=10).icon(
        20
    )


def marker_key(shape: MarkerShape, colour: str) -> Markup:
    """A marker."""
    return Chart(description="", shapes=(Marker(x=50, y=8, shape=shape, colour=colour),), height=16).icon(16)


def estimate_key(shape: MarkerShape, colour: str) -> Markup:
    """A marker on a bar: a mean with its interval."""
    shapes = (horizontal_line(6, "bar", colour=colour), Marker(x=50, y=6, shape=shape, colour=colour, radius=4.5))
    return Chart(description="", shapes=shapes, height=12).icon(40)
