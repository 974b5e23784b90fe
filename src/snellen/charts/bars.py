"""Bars: histograms, and horizontal bars of which a part is marked."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from snellen.charts.chart import Bar, Chart, Label, Shape, vertical_line
from snellen.charts.numbers import Number, count, short
from snellen.charts.scale import PlotArea, Scale


def histogram(
    values: Sequence[Number], *, name: str, bounds: tuple[Number, Number] | None = None, bins: int = 10, noun: str = "image"
) -> Chart:
    """How many values fall into each of `bins` intervals of equal width; undefined values are counted separately.

    Args:
        values: One number per image.
        name: What the numbers are, such as "probability of the predicted class".
        bounds: The ends of the horizontal axis; by default the lowest and the highest value.
        bins: How many intervals.
        noun: What is counted, in the singular.
    """
    numbers = np.asarray(values, dtype=np.float64)
    finite = numbers[np.isfinite(numbers)]
    counts, edges = np.histogram(finite, bins=bins, range=bounds)
    most = int(counts.max()) if len(finite) else 0
    low, high = float(edges[0]), float(edges[-1])
    area = PlotArea(across=Scale(low, high, 0), up=Scale(0, max(most, 1), 0), top=16, height=100)
    share = 100 / bins
    bars = [
        Bar(x=place * share + 0.4, width=share - 0.8, y=area.y(number), height=area.bottom - area.y(number))
        for place, number in enumerate(counts.tolist())
    ]
    missing = len(numbers) - len(finite)
    peak = int(counts.argmax())
    middle = f", median {short(float(np.median(finite)))}" if len(finite) else ""
    description = (
        f"{name} of {count(len(finite), noun)}{middle}; most, {most}, between {short(float(edges[peak]))} and "
        f"{short(float(edges[peak + 1]))}{f'; {missing} undefined' if missing else ''}"
    )
    below = area.bottom + 14
    labels = (
        Label(x=0, y=11, text=count(most, noun)),
        Label(x=0, y=below, text=short(low)),
        Label(x=50, y=below, text=name, anchor="middle", style="text"),
        Label(x=100, y=below, text=short(high), anchor="end"),
    )
    return Chart(description=description, shapes=(*bars, *area.axes(), *labels), height=below + 6, kind="panel")


def part_bar(scale: Scale, value: Number, part: Number, *, description: str) -> Chart:
    """A horizontal bar from zero to `value`, its first `part` in colour and the rest in grey.

    Args:
        scale: Shared by all bars below each other; it holds zero.
        value: The length of the bar; one that is not finite is not drawn.
        part: How much of the value is marked, from 0 to `value`.
        description: All of it in words.
    """
    shapes: list[Shape] = []
    if math.isfinite(value):
        start, middle, end = scale.at(0), scale.at(part), scale.at(value)
        shapes.append(Bar(x=start, width=middle - start, y=5, height=12, style="full", colour="blue"))
        shapes.append(Bar(x=middle, width=end - middle, y=5, height=12, style="full", colour="grey"))
    shapes.append(vertical_line(scale.at(0), 0, 22))
    return Chart(description=description, shapes=tuple(shapes), height=22, kind="strip")
