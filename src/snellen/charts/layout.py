"""Several charts as one figure for a paper: strips below each other with their names, or panels side by side."""

from __future__ import annotations

from collections.abc import Mapping

from snellen.charts.chart import Chart, Inset, Label, Shape
from snellen.charts.numbers import Number

_LETTER_WIDTH, _GAP = 6.3, 12


def stack(rows: Mapping[str, Chart], *, title: str, axis: Chart | None = None, width: Number = 360) -> Chart:
    """Charts below each other, each beside its name, over one axis.

    Args:
        rows: By name, from the top.
        title: Above everything.
        axis: Under the last chart.
        width: Of a chart, in pixels, without its name.
    """
    left = _LETTER_WIDTH * max(map(len, rows), default=0) + _GAP
    total = left + width
    shapes: list[Shape] = [Label(x=0, y=12, text=title, style="title")]
    y = 28.0
    for name, chart in rows.items():
        shapes.append(Label(x=0, y=y + chart.height / 2 + 4, text=name, style="text"))
        shapes.append(Inset(chart=chart, x=left, y=y, width=width))
        y += chart.height + 2
    if axis is not None:
        shapes.append(Inset(chart=axis, x=left, y=y, width=width))
        y += axis.height
    description = "; ".join([title, *(chart.description for chart in rows.values())])
    return Chart(description=description, shapes=tuple(shapes), height=y, width=total)


def grid(panels: Mapping[str, Chart], *, title: str, columns: int = 3, width: Number = 200) -> Chart:
    """Panels of one height in rows, each under its name.

    Args:
        panels: By name, in reading order.
        title: Above everything.
        columns: Panels in a row.
        width: Of a panel, in pixels.
    """
    shapes: list[Shape] = [Label(x=0, y=12, text=title, style="title")]
    tallest = max((chart.height for chart in panels.values()), default=0)
    columns = max(1, min(columns, len(panels)))
    total, step = columns * (width + 26) - 26, tallest + 34
    for place, (name, chart) in enumerate(panels.items()):
        x, y = place % columns * (width + 26), 28 + place // columns * step
        shapes += [
            Label(x=100 * x / total, y=y + 10, text=name, style="text"),
            Inset(chart=chart, x=x, y=y + 16, width=width),
        ]
    description = "; ".join([title, *(chart.description for chart in panels.values())])
    return Chart(description=description, shapes=tuple(shapes), height=28 + -(-len(panels) // columns) * step, width=total)
