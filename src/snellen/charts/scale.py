"""Scales: where a number stands along an axis, and which numbers an axis shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from snellen.charts.chart import Label, Segment, Shape, horizontal_line, vertical_line
from snellen.charts.numbers import Number


@dataclass(frozen=True)
class Scale:
    """The values from `low` to `high` along a line."""

    low: Number
    high: Number
    """The values at the two ends."""
    margin: Number = 3.0
    """Empty space at both ends, in per cent of the line."""

    def at(self, value: Number) -> Number:
        """Where a value stands, in per cent of the line."""
        return self.margin + (100 - 2 * self.margin) * (value - self.low) / (self.high - self.low)


def scale_of(values: Sequence[Number], bounds: tuple[Number, Number] = (-math.inf, math.inf)) -> Scale | None:
    """The scale that holds all of these numbers; None when no number is finite.

    If all numbers are equal, the scale runs between the bounds, or between zero and twice the number.

    Args:
        values: Numbers to show; those that are not finite are ignored.
        bounds: The least and the largest possible value of the metric.
    """
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return None
    low, high = min(finite), max(finite)
    if low < high:
        return Scale(low, high)
    if all(math.isfinite(bound) for bound in bounds) and bounds[0] < bounds[1]:
        return Scale(min(low, bounds[0]), max(high, bounds[1]))
    return Scale(min(0.0, 2 * low), max(0.0, 2 * high)) if low else Scale(-1.0, 1.0)


def scale_with_zero(values: Sequence[Number]) -> Scale | None:
    """The scale that holds zero and all of these numbers; None when that is zero alone."""
    finite = [value for value in values if math.isfinite(value)]
    if not finite or min(finite) == max(finite) == 0:
        return None
    return Scale(min(0.0, *finite), max(0.0, *finite))


def round_scale(values: Sequence[Number], bounds: tuple[Number, Number]) -> tuple[Scale, list[Number]]:
    """A scale with round ends that holds these values and stays within the bounds, and round numbers along it.

    >>> round_scale([12.0, 47.0], (0.0, 100.0))[1]
    [10.0, 20.0, 30.0, 40.0, 50.0]
    """
    low, high = min(values, default=bounds[0]), max(values, default=bounds[1])
    if high <= low:
        low, high = bounds
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(size * power for size in (1, 2, 2.5, 5, 10) if size * power >= rough * 0.999)
    # Counted from the lower bound, so that a scale from 1 to 7 has its ends among the numbers.
    start = bounds[0] if math.isfinite(bounds[0]) else 0.0
    first, last = math.floor((low - start) / step + 1e-9), math.ceil((high - start) / step - 1e-9)
    steps = [round(start + place * step, 10) for place in range(first, last + 1)]
    ticks = [tick for tick in steps if bounds[0] <= tick <= bounds[1]]
    return Scale(max(steps[0], bounds[0]), min(steps[-1], bounds[1])), ticks


@dataclass(frozen=True, kw_only=True)
class PlotArea:
    """The rectangle of a panel with two axes, in which points are drawn."""

    across: Scale
    up: Scale
    """The scales of the two axes."""
    top: Number
    """Pixels from the top of the chart to the top of the rectangle."""
    height: Number
    """Pixels."""

    @property
    def bottom(self) -> Number:
        """Pixels from the top of the chart to the horizontal axis."""
        return self.top + self.height

    def x(self, value: Number) -> Number:
        """Where a value stands across, in per cent."""
        return self.across.at(value)

    def y(self, value: Number) -> Number:
        """Where a value stands upwards, in pixels from the top of the chart."""
        return self.top + self.height * (1 - self.up.at(value) / 100)

    def points(self, across: Sequence[Number], up: Sequence[Number]) -> list[tuple[Number, Number]]:
        """Points for a polyline."""
        return [(self.x(x), self.y(y)) for x, y in zip(across, up, strict=True)]

    def axes(self) -> tuple[Segment, ...]:
        """The lines at the bottom and on the left."""
        return horizontal_line(self.bottom), vertical_line(0.0, self.top, self.bottom)

    def grid(self, levels: Mapping[Number, str], *, dashed: Number | None = None) -> list[Shape]:
        """Horizontal lines with words to the left of them; `dashed` is the level of a threshold."""
        shapes: list[Shape] = []
        for value, text in levels.items():
            y = self.y(value)
            shapes.append(Segment(x1=0, x2=100, y1=y, y2=y, dash="4 3" if value == dashed else ""))
            if text:
                shapes.append(Label(x=0, y=y + 4, text=text, anchor="end", dx=-8))
        return shapes

    def numbers_below(self, ticks: Mapping[Number, str], *, turn: Number = 0.0) -> list[Shape]:
        """Words under the horizontal axis, turned by `turn` degrees."""
        if turn:
            return [
                Label(x=self.x(value), y=self.bottom + 12, text=text, anchor="end", dx=3, turn=turn)
                for value, text in ticks.items()
            ]
        shapes: list[Shape] = []
        for value, text in ticks.items():
            shapes.append(vertical_line(self.x(value), self.bottom, self.bottom + 4))
            shapes.append(Label(x=self.x(value), y=self.bottom + 18, text=text, anchor="middle"))
        return shapes
