"""A figure of line charts side by side with one legend, for documents: a title, the legend, and rows of panels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from snellen.charts.chart import Chart, Inset, Label, Marker, Polyline, Segment, Shape
from snellen.charts.numbers import Number
from snellen.charts.scale import PlotArea, Scale


@dataclass(frozen=True, kw_only=True)
class LineStyle:
    """One entry of the legend: how a line looks, and what it stands for."""

    name: str
    colour: str
    """A name in `COLOURS`."""
    dash: str = ""
    """Lengths of strokes and gaps in pixels; empty for a whole line."""
    dots: bool = False
    """Whether each point has a dot."""


@dataclass(frozen=True, kw_only=True)
class LinePanel:
    """One panel of a figure."""

    title: str
    lines: Mapping[LineStyle, Sequence[tuple[Number, Number]]]
    """Points (x, y) from left to right; a y that is not a number interrupts the line."""
    across: Mapping[Number, str]
    """Where the horizontal axis has words, and which."""
    up: Mapping[Number, str]
    """Where the vertical axis has words, and which."""
    ends: tuple[Number, Number]
    """Of the horizontal axis."""
    dashed: Number | None = None
    """The level of a threshold."""
    caption: str = ""
    """What the horizontal axis shows."""


_LEFT, _TOP, _BETWEEN = 46, 64, 40


def line_figure(
    rows: Sequence[Sequence[LinePanel]], *, title: str, width: Number, height: Number, turn: Number = 0.0, below: Number = 56
) -> Chart:
    """Panels of one size in rows.

    Args:
        rows: From the top; the words of the vertical axis stand at the first panel of a row.
        title: Above everything; also the description.
        width: Of a panel's plot area, in pixels.
        height: Of a panel's plot area, in pixels.
        turn: Degrees by which the words under the horizontal axis are turned.
        below: Pixels under a plot area for these words and the caption.
    """
    columns = max(map(len, rows))
    total = _LEFT + columns * (width + _BETWEEN)
    step = height + 18 + below
    shapes: list[Shape] = [Label(x=100 * _LEFT / total, y=20, text=title, style="title")]
    shapes += _legend(list(dict.fromkeys(style for row in rows for panel in row for style in panel.lines)), total)
    for down, row in enumerate(rows):
        for place, panel in enumerate(row):
            chart = _panel(panel, height, turn=turn, labelled=place == 0)
            shapes.append(Inset(chart=chart, x=_LEFT + place * (width + _BETWEEN), y=_TOP + down * step, width=width))
    return Chart(description=title, shapes=tuple(shapes), height=_TOP + len(rows) * step, width=total)


def _legend(styles: Sequence[LineStyle], total: Number) -> list[Shape]:
    shapes: list[Shape] = []
    x = float(_LEFT)
    for style in styles:
        left, right = 100 * x / total, 100 * (x + 24) / total
        shapes.append(Segment(x1=left, x2=right, y1=34, y2=34, style="series", dash=style.dash, colour=style.colour))
        shapes.append(Label(x=right, y=38, text=style.name, dx=6))
        x += 52 + 6 * len(style.name)
    return shapes


def _panel(panel: LinePanel, height: Number, *, turn: Number, labelled: bool) -> Chart:
    area = PlotArea(across=Scale(*panel.ends, 0), up=Scale(min(panel.up), max(panel.up), 0), top=18, height=height)
    levels = {value: text if labelled else "" for value, text in panel.up.items()}
    shapes: list[Shape] = [Label(x=0, y=8, text=panel.title, style="text")]
    shapes += [*area.grid(levels, dashed=panel.dashed), *area.numbers_below(panel.across, turn=turn)]
    if panel.caption:
        shapes.append(Label(x=50, y=area.bottom + 38, text=panel.caption, anchor="middle"))
    for style, points in panel.lines.items():
        for piece in _pieces(points):
            shapes.append(
                Polyline(
                    points=[(area.x(x), area.y(y)) for x, y in piece], colour=style.colour, dash=style.dash, style="series"
                )
            )
        if style.dots:
            shapes += [
                Marker(x=area.x(x), y=area.y(y), radius=2.5, colour=style.colour) for x, y in points if math.isfinite(y)
            ]
    return Chart(description=panel.title, shapes=tuple(shapes), height=area.bottom)


def _pieces(points: Sequence[tuple[Number, Number]]) -> list[list[tuple[Number, Number]]]:
    """Runs of consecutive points whose y is a number; single points are left out."""
    pieces: list[list[tuple[Number, Number]]] = [[]]
    for point in points:
        if math.isfinite(point[1]):
            pieces[-1].append(point)
        else:
            pieces.append([])
    return [piece for piece in pieces if len(piece) > 1]
