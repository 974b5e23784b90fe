"""A chart: shapes on a canvas, with a description in words. It is drawn as SVG on pages, and saved as SVG, PDF or PNG.

Horizontal positions are per cent of the chart's width, so that a chart fits any page; vertical positions are pixels from the
top.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from markupsafe import Markup

from snellen.charts.colours import chart_css
from snellen.charts.numbers import Number
from snellen.errors import SnellenError
from snellen.files.atomic import write_whole

Anchor = Literal["start", "middle", "end"]
MarkerShape = Literal["dot", "ring", "square", "box", "triangle", "diamond", "cross", "1", "2", "3"]
ChartKind = Literal["strip", "axis", "panel", "dots", "swarm", "picture"]

WIDTH, MARGIN = 480, 8
"""In pixels: the width of a saved chart that has no width of its own, and the empty border around a saved chart."""

OUTLINES: dict[str, tuple[tuple[Number, Number], ...]] = {
    "square": ((-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)),
    "box": ((-0.81, -0.81), (0.81, -0.81), (0.81, 0.81), (-0.81, 0.81)),
    "triangle": ((0, -1.19), (1.14, 0.9), (-1.14, 0.9)),
    "diamond": ((0, -1.29), (1.19, 0), (0, 1.29), (-1.19, 0)),
}
"""The corners of markers with corners, for a radius of 1; y points down."""

RING, CROSS, NUMBER = 0.86, 0.86, 1.67
"""Sizes of the other markers, for a radius of 1."""


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A straight line; `x1` and `x2` are per cent, `y1` and `y2` pixels."""

    x1: Number
    x2: Number
    y1: Number
    y2: Number
    style: str = "base"
    """A name in `STYLES`, as in all shapes."""
    colour: str = ""
    """A name in `COLOURS`, for styles whose colour is `OWN`."""
    dash: str = ""
    """Lengths of strokes and gaps in pixels, such as "3 2"; empty for a whole line."""

    def svg(self) -> Markup:
        """The line as SVG."""
        ends = f'x1="{_percent(self.x1)}" x2="{_percent(self.x2)}" y1="{_pixels(self.y1)}" y2="{_pixels(self.y2)}"'
        return Markup(f"<line {_class(self.style, self.colour)} {ends}{_dash(self.dash)}/>")


def vertical_line(x: Number, top: Number, bottom: Number, style: str = "base") -> Segment:
    """A vertical line."""
    return Segment(x1=x, x2=x, y1=top, y2=bottom, style=style)


def horizontal_line(
    y: Number, style: str = "base", *, start: Number = 0.0, end: Number = 100.0, colour: str = ""
) -> Segment:
    """A horizontal line."""
    return Segment(x1=start, x2=end, y1=y, y2=y, style=style, colour=colour)


@dataclass(frozen=True, kw_only=True)
class Bar:
    """A filled rectangle; `x` and `width` are per cent, `y` and `height` pixels."""

    x: Number
    width: Number
    y: Number
    height: Number
    style: str = "column"
    colour: str = ""

    def svg(self) -> Markup:
        """The rectangle as SVG."""
        place = (
            f'x="{_percent(self.x)}" width="{_percent(self.width)}" y="{_pixels(self.y)}" height="{_pixels(self.height)}"'
        )
        return Markup(f"<rect {_class(self.style, self.colour)} {place}/>")


@dataclass(frozen=True, kw_only=True)
class Marker:
    """One value as a small shape, filled or open, or as a digit in a circle."""

    x: Number
    y: Number
    shape: MarkerShape = "dot"
    colour: str = "ink"
    radius: Number = 4.2
    """Pixels."""
    faint: bool = False
    """Whether it is half transparent, so that dots which overlap stay visible."""

    @property
    def style(self) -> str:
        """How it is painted."""
        if self.shape.isdigit():
            return "number"
        kind = {"ring": "open", "box": "open", "diamond": "hollow", "cross": "hollow"}.get(self.shape, "full")
        return "faint" if self.faint else kind

    def svg(self) -> Markup:
        """The marker as SVG."""
        paint, x, y = _class(self.style, self.colour), _percent(self.x), _pixels(self.y)
        if self.shape in ("dot", "ring"):
            radius = self.radius * (RING if self.shape == "ring" else 1)
            return Markup(f'<circle {paint} cx="{x}" cy="{y}" r="{radius:.3g}"/>')
        if self.shape.isdigit():
            digit = f'<text {_class("digit", self.colour)} y="3.6" text-anchor="middle">{self.shape}</text>'
            body = f'<circle {paint} r="{self.radius * NUMBER:.3g}"/>{digit}'
        else:
            body = f'<path {paint} d="{self._path()}"/>'
        return Markup(f'<svg x="{x}" y="{y}" overflow="visible">{body}</svg>')

    def _path(self) -> str:
        reach = self.radius
        if self.shape == "cross":
            arm = f"{CROSS * reach:.3g}"
            return f"M-{arm} -{arm} {arm} {arm}M-{arm} {arm} {arm} -{arm}"
        return "M" + " ".join(f"{reach * x:.3g} {reach * y:.3g}" for x, y in OUTLINES[self.shape]) + "Z"


@dataclass(frozen=True, kw_only=True)
class Polyline:
    """A line through points (per cent, pixels)."""

    points: Sequence[tuple[Number, Number]]
    style: str = "curve"
    colour: str = ""
    dash: str = ""

    def svg(self) -> Markup:
        """The line as SVG; it must stand in a frame that is 100 units wide (see `Chart.svg`)."""
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in self.points)
        return Markup(f'<polyline {_class(self.style, self.colour)} points="{points}"{_dash(self.dash)}/>')


@dataclass(frozen=True, kw_only=True)
class Label:
    """A line of text; `y` is its baseline."""

    x: Number
    y: Number
    text: str
    anchor: Anchor = "start"
    style: str = "caption"
    colour: str = ""
    dx: Number = 0.0
    """Pixels that it is moved to the right."""
    turn: Number = 0.0
    """Degrees that it is turned, clockwise."""

    def svg(self) -> Markup:
        """The text as SVG, escaped."""
        paint = Markup("" if self.style == "caption" else " " + _class(self.style, self.colour))
        anchor = Markup("" if self.anchor == "start" else f' text-anchor="{self.anchor}"')
        shift = Markup(f' dx="{self.dx:g}"' if self.dx else "")
        x, y = _percent(self.x), _pixels(self.y)
        if self.turn:
            turned = Markup('<text{} transform="rotate({:g})"{}{}>{}</text>').format(
                paint, self.turn, shift, anchor, self.text
            )
            return Markup('<svg x="{}" y="{}" overflow="visible">{}</svg>').format(x, y, turned)
        return Markup('<text{} x="{}" y="{}"{}{}>{}</text>').format(paint, x, y, shift, anchor, self.text)


@dataclass(frozen=True, kw_only=True)
class Inset:
    """A chart inside another. All four numbers are pixels, so the outer chart needs a width in pixels."""

    chart: Chart
    x: Number
    y: Number
    width: Number
    """Of the inner chart."""

    def svg(self) -> Markup:
        """The inner chart as SVG."""
        return Markup('<svg x="{:g}" y="{:g}" width="{:g}" height="{:g}" overflow="visible">{}</svg>').format(
            self.x, self.y, self.width, self.chart.height, self.chart.inside()
        )


Shape = Segment | Bar | Marker | Polyline | Label | Inset


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Shapes from back to front, and what they show in words. Templates print it as SVG; notebooks show it."""

    description: str
    """What the chart shows, for people who cannot see it."""
    shapes: tuple[Shape, ...]
    """From back to front."""
    height: Number
    """Pixels."""
    width: Number | None = None
    """Pixels; None for as wide as the page allows."""
    kind: ChartKind = "picture"
    """The CSS class on a page."""

    def svg(self) -> Markup:
        """The chart for a page that has the style sheet of `colours.page_css`."""
        width = "" if self.width is None else f' width="{self.width:g}"'
        return Markup('<svg class="{}"{} height="{:g}" role="img" aria-label="{}">{}</svg>').format(
            self.kind, Markup(width), self.height, self.description, self.inside()
        )

    def icon(self, width: int) -> Markup:
        """The chart as a small picture beside words that already say what it shows."""
        return Markup('<svg class="icon" width="{}" height="{:g}" aria-hidden="true">{}</svg>').format(
            width, self.height, self.inside()
        )

    def inside(self) -> Markup:
        """All shapes as SVG, without the frame."""
        parts = []
        for lines, shapes in itertools.groupby(self.shapes, lambda shape: isinstance(shape, Polyline)):
            body = Markup("").join(shape.svg() for shape in shapes)
            # Points of a polyline cannot be percentages, so these lines stretch with a frame of 100 units.
            frame = '<svg width="100%" height="{0:g}" viewBox="0 0 100 {0:g}" preserveAspectRatio="none" overflow="visible">'
            parts.append(Markup(frame + "{1}</svg>").format(self.height, body) if lines else body)
        return Markup("").join(parts)

    def standalone(self, *, width: Number = WIDTH) -> str:
        """The chart as an SVG file that needs nothing else.

        Args:
            width: Pixels; used only if the chart has no width of its own.
        """
        wide, high = (self.width or width) + 2 * MARGIN, self.height + 2 * MARGIN
        return Markup(
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0:g} {1:g}" width="{0:g}" height="{1:g}" role="img" '
            'aria-label="{2}"><title>{2}</title><style>{3}</style><rect class="background" width="100%" height="100%"/>'
            "{4}</svg>\n"
        ).format(
            wide, high, self.description, Markup(chart_css()),
            Inset(chart=self, x=MARGIN, y=MARGIN, width=self.width or width).svg(),
        )  # fmt: skip

    def save(self, path: str | Path, *, width: Number = WIDTH) -> Path:
        """Writes the chart as a file; its suffix (.svg, .pdf or .png) says in which format.

        PDF and PNG are drawn by matplotlib, which `pip install "snellen[charts]"` brings.

        Args:
            path: The file to write.
            width: Pixels; used only if the chart has no width of its own. 96 pixels are an inch in a PDF.
        """
        target = Path(path)
        match target.suffix.lower():
            case ".svg":
                content = self.standalone(width=width).encode()
            case ".pdf" | ".png" as suffix:
                from snellen.charts.matplotlib_export import rendered_file

                content = rendered_file(self, width=self.width or width, suffix=suffix)
            case other:
                raise SnellenError(f"cannot save a chart as '{target.name}': '{other}' is not .svg, .pdf or .png")
        try:
            write_whole(target, content)
        except OSError as problem:
            raise SnellenError(f"cannot write '{target}' ({problem.strerror}); choose another path") from None
        return target

    def __html__(self) -> str:
        return self.svg()

    def _repr_svg_(self) -> str:
        return self.standalone()


def _class(style: str, colour: str) -> Markup:
    return Markup('class="{}"').format(f"{style} {colour}" if colour else style)


def _dash(dash: str) -> str:
    return f' stroke-dasharray="{dash}"' if dash else ""


def _percent(value: Number) -> str:
    return f"{round(value, 2):g}%" if value in (0, 100) else f"{value:.2f}%"


def _pixels(value: Number) -> str:
    return f"{round(value, 1):g}"
