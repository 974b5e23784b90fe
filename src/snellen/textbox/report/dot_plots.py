"""Dot plots of many methods: one row per method, every panel on the same scale from 0 to 1, with a table of the numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from snellen.charts.chart import Bar, Chart, Label, Marker, MarkerShape, Shape, horizontal_line, vertical_line
from snellen.charts.legends import marker_key
from snellen.charts.scale import Scale

SCALE = Scale(0.0, 1.0)
HEIGHT, MIDDLE = 20, 10
"""Of a row, in pixels."""


@dataclass(frozen=True)
class Dot:
    """A value with its marker, and what it is, in words."""

    value: float
    shape: MarkerShape
    words: str
    colour: str = "ink"
    """A name in `snellen.charts.colours.COLOURS`."""


@dataclass(frozen=True, kw_only=True)
class DotPlotCell:
    """One method in one panel."""

    dots: tuple[Dot, ...]
    """From back to front."""
    bar: float | None = None
    """End of a bar from zero."""
    link: tuple[float, float] | None = None
    """Ends of a line."""
    further: tuple[tuple[str, float], ...] = ()
    """Further numbers for screen readers."""

    @property
    def words(self) -> str:
        """All numbers, for screen readers."""
        bar = [] if self.bar is None else [("average", self.bar)]
        values = [*bar, *self.further, *((dot.words, dot.value) for dot in self.dots)]
        return ", ".join(f"{name} {score(value) if math.isfinite(value) else 'undefined'}" for name, value in values)


@dataclass(frozen=True, kw_only=True)
class DotPlotPanel:
    """One column of a dot plot."""

    title: str
    threshold: float | None = None
    """Above it a method passes; None where there is no such bar."""
    best_control: float | None = None
    """The highest average of a control."""
    oracle: float | None = None
    """The average of a perfect map."""


@dataclass(frozen=True)
class DotPlotRow:
    """One method, with a cell for every panel."""

    method: str
    cells: tuple[DotPlotCell, ...]


@dataclass(frozen=True)
class NumberTable:
    """The numbers behind a dot plot as text; the first column holds the names of rows."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, kw_only=True)
class DotPlot:
    """Rows in groups, under panels, with a legend and the numbers as a table."""

    name: str
    title: str
    after: str
    """The figure of the paper that it follows."""
    note: str
    """How to read it."""
    panels: tuple[DotPlotPanel, ...]
    groups: tuple[tuple[str, tuple[DotPlotRow, ...]], ...]
    """Title of each group of rows, and the rows."""
    keys: tuple[tuple[MarkerShape, str, str], ...]
    """Shape, colour and meaning of every kind of dot."""
    table: NumberTable

    def axes(self) -> list[Chart]:
        """The axis of every panel."""
        return [axis(panel) for panel in self.panels]

    def charts(self, row: DotPlotRow, name: str) -> list[Chart]:
        """The charts of one row, one per panel."""
        return [cell_chart(cell, panel, name) for cell, panel in zip(row.cells, self.panels, strict=True)]

    def legend(self) -> list[tuple[Markup, str]]:
        """Every kind of dot with its meaning, and the lines of the panels with theirs."""
        entries = [(marker_key(shape, colour), words) for shape, colour, words in self.keys]
        lines: list[tuple[str, tuple[Shape, ...], str]] = [
            ("threshold", (vertical_line(50, 0, 16, "threshold"),), "0.5: more than half"),
            ("best_control", (Bar(x=0, width=100, y=0, height=16, style="shaded"),), "averages of controls"),
            ("oracle", (vertical_line(50, 0, 16, "oracle"),), "score of a perfect map"),
        ]
        for attribute, shapes, words in lines:
            if any(getattr(panel, attribute) for panel in self.panels):
                entries.append((Chart(description="", shapes=shapes, height=16).icon(16), words))
        return entries


def score(value: float) -> str:
    """A score with two digits; a dash where it is undefined.

    >>> score(0.5), score(0.047), score(float("nan"))
    ('0.50', '0.05', '—')
    """
    return "—" if math.isnan(value) else f"{value:.2f}"


def cell_chart(cell: DotPlotCell, panel: DotPlotPanel, name: str) -> Chart:
    """The chart of one method in one panel."""
    shapes = _panel_shapes(panel)
    if cell.bar is not None and math.isfinite(cell.bar):
        shapes.append(_bar_to(cell.bar, y=4, height=12, style="column"))
    if cell.link is not None and all(map(math.isfinite, cell.link)):
        low, high = sorted(cell.link)
        shapes.append(horizontal_line(MIDDLE, "link", start=_at(low), end=_at(high), colour="ink"))
    dots = [dot for dot in cell.dots if math.isfinite(dot.value)]
    shapes += [Marker(x=_at(dot.value), y=MIDDLE, shape=dot.shape, colour=dot.colour) for dot in dots]
    if not dots and (cell.bar is None or math.isnan(cell.bar)):
        shapes.append(Label(x=_at(0.0), y=14, text="undefined", dx=6))
    description = f"{name}, {panel.title}: {cell.words or 'undefined'}"
    return Chart(description=description, shapes=tuple(shapes), height=HEIGHT, kind="dots")


def axis(panel: DotPlotPanel) -> Chart:
    """The scale of a panel; its description names the threshold, the best control and the perfect map."""
    labels = tuple(
        Label(x=_at(value), y=11, text=text, anchor="middle") for value, text in ((0.0, "0"), (0.5, "0.5"), (1.0, "1"))
    )
    words = [f"{panel.title}, from 0 to 1"]
    words += [f"passes above {panel.threshold}"] if panel.threshold is not None else []
    words += [f"best control {score(panel.best_control)}"] if panel.best_control is not None else []
    words += [f"perfect map {score(panel.oracle)}"] if panel.oracle is not None else []
    return Chart(description="; ".join(words), shapes=labels, height=15, kind="dots")


def _panel_shapes(panel: DotPlotPanel) -> list[Shape]:
    """The shapes behind every row of a panel."""
    shapes: list[Shape] = []
    if panel.best_control is not None and math.isfinite(panel.best_control):
        shapes.append(_bar_to(panel.best_control, y=0, height=HEIGHT, style="shaded"))
    shapes += [vertical_line(_at(end), 0, HEIGHT) for end in (0.0, 1.0)]
    if panel.threshold is not None:
        shapes.append(vertical_line(_at(panel.threshold), 0, HEIGHT, "threshold"))
    if panel.oracle is not None and math.isfinite(panel.oracle):
        shapes.append(vertical_line(_at(panel.oracle), 0, HEIGHT, "oracle"))
    return shapes


def _bar_to(value: float, *, y: int, height: int, style: str) -> Bar:
    return Bar(x=_at(0.0), width=_at(value) - _at(0.0), y=y, height=height, style=style)


def _at(value: float) -> float:
    return SCALE.at(min(1.0, max(0.0, value)))


def group_rows(
    rows: Mapping[str, DotPlotRow], families: Mapping[str, str], order: Iterable[str]
) -> tuple[tuple[str, tuple[DotPlotRow, ...]], ...]:
    """Rows by family, in this order of families; within a family as they come."""
    groups: dict[str, list[DotPlotRow]] = {name: [] for name in order}
    for label, row in rows.items():
        groups.setdefault(families[label], []).append(row)
    return tuple((name, tuple(members)) for name, members in groups.items() if members)


def number_table(columns: Sequence[str], rows: Iterable[tuple[str, Sequence[float]]]) -> NumberTable:
    """Numbers of methods as text, undefined ones as a dash; `columns` are the headings after the method's."""
    return NumberTable(("method", *columns), tuple((name, *map(score, values)) for name, values in rows))
