"""Strips: the mean of a method beside those of the controls, and the axis under a column of strips."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from snellen.charts import numbers
from snellen.charts.chart import Anchor, Bar, Chart, Label, Marker, MarkerShape, Shape, horizontal_line, vertical_line
from snellen.charts.numbers import Number
from snellen.charts.scale import Scale

NARROWEST = 340
"""Pixels; labels that do not overlap at this width do not overlap at any width that a page gives a strip."""

STRIP_HEIGHT = 26

_LETTER_WIDTH, _GAP, _ROW_HEIGHT, _LABEL_SHIFT = 6.3, 6.0, 14, 3


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean with its interval, on a strip; values that are not finite are not drawn."""

    mean: Number
    low: Number = math.nan
    high: Number = math.nan
    """Ends of the interval; NaN where there is none."""
    colour: str = "ink"
    """A name in `COLOURS`."""
    shape: MarkerShape = "dot"
    radius: Number = 5.0
    """Of the marker, in pixels."""

    def shapes(self, scale: Scale, y: Number) -> list[Shape]:
        """A bar for the interval and a marker for the mean, `y` pixels from the top."""
        shapes: list[Shape] = []
        if math.isfinite(self.low) and math.isfinite(self.high):
            ends = {"start": scale.at(self.low), "end": scale.at(self.high)}
            shapes.append(horizontal_line(y, "bar", **ends, colour=self.colour))
        if math.isfinite(self.mean):
            marker = Marker(x=scale.at(self.mean), y=y, shape=self.shape, colour=self.colour, radius=self.radius)
            shapes.append(marker)
        return shapes


def strip(
    scale: Scale,
    estimate: Estimate,
    *,
    description: str,
    ticks: Sequence[Number] = (),
    oracles: Sequence[Number] = (),
    band: tuple[Number, Number] | None = None,
) -> Chart:
    """One method: grey ticks for the controls, a bar for its interval, a dot for its mean.

    Args:
        scale: Shared by all strips of a metric.
        estimate: The method's mean and interval.
        description: All of it in words.
        ticks: The means of the controls; values that are not finite are not drawn.
        oracles: The means of positive controls, as green lines.
        band: A range to shade behind everything, such as differences that count as equal.
    """
    middle = STRIP_HEIGHT // 2
    shapes: list[Shape] = [_range(scale, band, top=1, height=STRIP_HEIGHT - 2, style="band")] if band else []
    shapes.append(horizontal_line(middle))
    shapes += [vertical_line(scale.at(value), 5, 21, "tick") for value in ticks if math.isfinite(value)]
    shapes += [vertical_line(scale.at(value), 1, STRIP_HEIGHT - 1, "oracle") for value in oracles if math.isfinite(value)]
    shapes += estimate.shapes(scale, middle)
    return Chart(description=description, shapes=tuple(shapes), height=STRIP_HEIGHT, kind="strip")


def forest_line(
    scale: Scale,
    estimates: Sequence[tuple[Number, Estimate]],
    *,
    description: str,
    height: Number,
    ticks: Sequence[Number] = (),
    shaded: tuple[Number, Number] | None = None,
) -> Chart:
    """One line of a forest plot: several estimates of the same thing below each other.

    Args:
        scale: Shared by all lines of the forest.
        estimates: Each with how far down it stands, in pixels.
        description: All of it in words.
        height: Pixels.
        ticks: Values with a line from top to bottom, such as that of guessing.
        shaded: A range to shade behind everything.
    """
    shapes: list[Shape] = [_range(scale, shaded, top=0, height=height, style="shaded")] if shaded else []
    shapes += [vertical_line(scale.at(value), 0, height, "tick") for value in ticks]
    for y, estimate in estimates:
        shapes += estimate.shapes(scale, y)
    return Chart(description=description, shapes=tuple(shapes), height=height, kind="strip")


def _range(scale: Scale, ends: tuple[Number, Number], *, top: Number, height: Number, style: str) -> Bar:
    left, right = scale.at(ends[0]), scale.at(ends[1])
    return Bar(x=left, width=right - left, y=top, height=height, style=style)


def strip_axis(scale: Scale, controls: Mapping[str, Number], *, higher_is_better: bool) -> Chart:
    """The axis under the strips of a metric: the controls by name, the ends of the scale, and which way is better."""
    ends = numbers.short(scale.low), numbers.short(scale.high)
    names = place_names({name: scale.at(value) for name, value in controls.items() if math.isfinite(value)})
    shapes: list[Shape] = []
    for name in names:
        y = 12 + _ROW_HEIGHT * name.row
        shift = _LABEL_SHIFT if name.anchor == "start" else -_LABEL_SHIFT
        shapes += [vertical_line(name.x, 0, y, "lead"), Label(x=name.x, y=y, text=name.text, anchor=name.anchor, dx=shift)]
    base = 16 + _ROW_HEIGHT * (max((name.row for name in names), default=-1) + 1)
    shapes += [
        horizontal_line(base - 6),
        Label(x=0, y=base + 8, text=ends[0]),
        Label(x=50, y=base + 8, text="better →" if higher_is_better else "← better", anchor="middle", style="better"),
        Label(x=100, y=base + 8, text=ends[1], anchor="end"),
    ]
    direction = "higher" if higher_is_better else "lower"
    description = f"scale from {ends[0]} to {ends[1]}, {direction} is better"
    return Chart(description=description, shapes=tuple(shapes), height=base + 14, kind="axis")


def number_axis(scale: Scale, ticks: Mapping[Number, str], *, description: str, below: Sequence[Label] = ()) -> Chart:
    """An axis with words at its ticks, and perhaps labels in a second row (at y = 32)."""
    shapes: list[Shape] = [horizontal_line(0)]
    for value, text in ticks.items():
        shapes += [vertical_line(scale.at(value), 0, 5), Label(x=scale.at(value), y=17, text=text, anchor="middle")]
    height = 36 if below else 22
    return Chart(description=description, shapes=(*shapes, *below), height=height, kind="axis")


# Names of ticks that do not overlap --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class TickName:
    """Where the name of a tick is written: at `x` per cent, to one side of it, in a row below the strip."""

    text: str
    x: Number
    anchor: Anchor
    """Which end of the text is at `x`."""
    row: int
    """Counted from 0, downwards."""


def place_names(ticks: Mapping[str, Number], width: int = NARROWEST) -> list[TickName]:
    """Places names of ticks such that none overlaps another, nor the line that leads to another.

    Names on the left are written to the right of their line and names on the right to the left of theirs. All ways to split
    them and to spread them over rows are tried, and the one with the fewest rows is taken. When nothing fits, every name
    has its own row.

    Args:
        ticks: By name, where the tick stands, in per cent of the width.
        width: Pixels.
    """
    order = sorted(ticks, key=lambda name: (ticks[name], name))
    count = len(order)
    texts = {name: name if len(name) <= 26 else name[:25] + "…" for name in order}
    lines = [ticks[name] * width / 100 for name in order]
    lengths = [_LETTER_WIDTH * len(texts[name]) for name in order]
    splits = (
        [(split, _conflicts(lines, lengths, split, width)) for split in range(count, -1, -1)] if count <= _MOST_NAMES else []
    )
    for deepest in range(count):
        for split, conflicts in splits:
            if conflicts is None:
                continue
            ways = itertools.product(range(deepest + 1), repeat=count)
            rows = min((way for way in ways if _is_clear(way, *conflicts)), key=sum, default=None)
            if rows is not None:
                sides: list[Anchor] = ["start" if place < split else "end" for place in range(count)]
                return [
                    TickName(text=texts[name], x=ticks[name], anchor=side, row=row)
                    for name, side, row in zip(order, sides, rows, strict=True)
                ]
    return [
        TickName(text=texts[name], x=ticks[name], anchor="start" if ticks[name] < 50 else "end", row=row)
        for row, name in enumerate(order)
    ]


_MOST_NAMES = 5
"""With more names, trying all ways would take too long."""

_Pairs = list[tuple[int, int]]


def _conflicts(lines: Sequence[Number], lengths: Sequence[Number], split: int, width: int) -> tuple[_Pairs, _Pairs] | None:
    """Pairs of names that need different rows, and pairs whose first name must be below the second; None if impossible.

    The first `split` names are written to the right of their lines, the others to the left of theirs.
    """
    boxes = [
        (x + _LABEL_SHIFT, x + _LABEL_SHIFT + length) if place < split else (x - _LABEL_SHIFT - length, x - _LABEL_SHIFT)
        for place, (x, length) in enumerate(zip(lines, lengths, strict=True))
    ]
    if any(left < 0 or right > width for left, right in boxes):
        return None
    apart: _Pairs = []
    below: _Pairs = []
    for first, second in itertools.permutations(range(len(lines)), 2):
        (left, right), (start, stop) = boxes[first], boxes[second]
        if left < stop + _GAP and start < right + _GAP:
            apart.append((first, second))
        # The line to the second name runs down to its row, so a name that it would cross must stand below that row.
        if left - 1 < lines[second] < right + 1:
            below.append((first, second))
    return None if any((second, first) in below for first, second in below) else (apart, below)


def _is_clear(rows: Sequence[int], apart: _Pairs, below: _Pairs) -> bool:
    return all(rows[first] > rows[second] for first, second in below) and all(
        rows[first] != rows[second] for first, second in apart
    )
