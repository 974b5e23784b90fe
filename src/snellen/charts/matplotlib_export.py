"""Charts as PDF and PNG for papers, drawn by matplotlib from the same shapes as the SVG of pages."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from snellen.charts.chart import (
    CROSS,
    MARGIN,
    NUMBER,
    OUTLINES,
    RING,
    Bar,
    Chart,
    Inset,
    Label,
    Marker,
    Polyline,
    Segment,
    Shape,
)
from snellen.charts.colours import COLOURS, OWN, STYLES, Style
from snellen.charts.numbers import Number
from snellen.errors import SnellenError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DPI = 300
"""Dots per inch of a PNG."""

_PIXELS_PER_INCH = 96
_POINTS = 72 / _PIXELS_PER_INCH
_ALIGN = {"start": "left", "middle": "center", "end": "right"}


def rendered_file(chart: Chart, *, width: Number, suffix: str) -> bytes:
    """The chart as the bytes of a PDF or PNG file.

    Args:
        chart: What to draw.
        width: Pixels, without the margin.
        suffix: ".pdf" or ".png".
    """
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise SnellenError(
            f'saving a chart as {suffix} needs matplotlib: pip install "snellen[charts]", or save it as .svg'
        ) from None
    wide, high = width + 2 * MARGIN, chart.height + 2 * MARGIN
    # Fonts of type 42 stay text in the PDF; without a date the same chart is the same file.
    metadata = {"Title": chart.description, "CreationDate": None} if suffix == ".pdf" else {"Description": chart.description}
    with rc_context({"pdf.fonttype": 42, "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(wide / _PIXELS_PER_INCH, high / _PIXELS_PER_INCH), facecolor=COLOURS["paper"])
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(0, wide), ylim=(high, 0))
        axes.axis("off")
        _draw(axes, chart.shapes, left=MARGIN, top=MARGIN, width=width)
        out = io.BytesIO()
        figure.savefig(out, format=suffix[1:], dpi=DPI, metadata=metadata)
    return out.getvalue()


def _draw(axes: Axes, shapes: tuple[Shape, ...], *, left: Number, top: Number, width: Number) -> None:
    """Draws shapes in their order into a frame whose corner and width are in pixels."""
    from matplotlib.patches import Rectangle

    def x(percent: Number) -> Number:
        return left + width * percent / 100

    for shape in shapes:
        order = len(axes.get_children())
        match shape:
            case Inset():
                _draw(axes, shape.chart.shapes, left=left + shape.x, top=top + shape.y, width=shape.width)
            case Segment():
                ends = [x(shape.x1), x(shape.x2)], [top + shape.y1, top + shape.y2]
                axes.plot(*ends, **_line(STYLES[shape.style], shape.colour, shape.dash), zorder=order)
            case Polyline():
                across, down = [x(at) for at, _ in shape.points], [top + at for _, at in shape.points]
                axes.plot(across, down, **_line(STYLES[shape.style], shape.colour, shape.dash), zorder=order)
            case Bar():
                corner, paint = (x(shape.x), top + shape.y), _area(STYLES[shape.style], shape.colour)
                axes.add_patch(Rectangle(corner, width * shape.width / 100, shape.height, **paint, zorder=order))
            case Marker():
                _draw_marker(axes, shape, x(shape.x), top + shape.y, order)
            case Label():
                axes.text(
                    x(shape.x) + shape.dx, top + shape.y, shape.text, **_text(STYLES[shape.style], shape.colour),
                    ha=_ALIGN[shape.anchor], rotation=-shape.turn, rotation_mode="anchor", zorder=order,
                )  # fmt: skip


def _draw_marker(axes: Axes, marker: Marker, x: Number, y: Number, order: int) -> None:
    from matplotlib.patches import Circle, Polygon

    paint, reach = _area(STYLES[marker.style], marker.colour), marker.radius
    if marker.shape == "cross":
        arm, line = CROSS * reach, _line(STYLES[marker.style], marker.colour, "")
        for way in (1, -1):
            axes.plot([x - arm, x + arm], [y - way * arm, y + way * arm], **line, zorder=order)
    elif marker.shape in OUTLINES:
        corners = [(x + reach * across, y + reach * down) for across, down in OUTLINES[marker.shape]]
        axes.add_patch(Polygon(corners, closed=True, **paint, zorder=order))
    else:
        size = {"dot": 1.0, "ring": RING}.get(marker.shape, NUMBER)
        axes.add_patch(Circle((x, y), reach * size, **paint, zorder=order))
    if marker.shape.isdigit():
        axes.text(x, y + 3.6, marker.shape, **_text(STYLES["digit"], marker.colour), ha="center", zorder=order)


def _text(style: Style, colour: str) -> dict[str, Any]:
    size, weight = style.size * _POINTS, "bold" if style.bold else "normal"
    return {"color": _colour(style.fill, colour), "fontsize": size, "fontweight": weight, "va": "baseline",
            "parse_math": False}  # fmt: skip


def _line(style: Style, colour: str, dash: str) -> dict[str, Any]:
    width = style.width * _POINTS
    paint = {"color": _colour(style.stroke, colour), "linewidth": width, "solid_capstyle": "butt"}
    lengths = [float(length) for length in (dash or style.dash).replace("none", "").split()]
    # matplotlib counts dashes in line widths.
    return {**paint, "linestyle": (0, [length * _POINTS / width for length in lengths])} if lengths else paint


def _area(style: Style, colour: str) -> dict[str, Any]:
    return {
        "facecolor": _colour(style.fill, colour),
        "edgecolor": _colour(style.stroke, colour),
        "linewidth": style.width * _POINTS if style.stroke else 0.0,
        "alpha": style.opacity if style.opacity != 1 else None,
    }


def _colour(name: str | None, own: str) -> str:
    return "none" if name is None else COLOURS[own or "ink"] if name == OWN else COLOURS[name]
