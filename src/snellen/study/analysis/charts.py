"""Charts of a study: a dot per participant, differences with their intervals, quantiles, and calibration."""

from __future__ import annotations

import math
from collections.abc import Sequence

from snellen.charts import numbers
from snellen.charts.chart import Bar, Chart, Label, Marker, Segment, Shape, horizontal_line, vertical_line
from snellen.charts.scale import PlotArea, Scale, scale_with_zero
from snellen.charts.strips import Estimate, number_axis, strip
from snellen.charts.verdict_marks import colour_of
from snellen.study.analysis.calibration import CalibrationBin
from snellen.study.analysis.comparisons import ArmDifference
from snellen.study.analysis.distributions import Distribution
from snellen.study.analysis.equivalence import Equivalence
from snellen.study.analysis.outcomes import Better
from snellen.study.tasks import Assurance

NARROWEST = 300
"""The least width of a swarm on the page, in pixels: dots that do not overlap at this width overlap at no other."""

_RADIUS, _TALLEST, _UNDER = 3.0, 64.0, 22
"""The radius of dots, the greatest height of a swarm, and the height of the interval under it, in pixels."""


def swarm(arm: Distribution, scale: Scale, description: str) -> Chart:
    """All participants of an arm as dots over a box of their quartiles; below them the mean with its interval.

    Args:
        arm: The scores of the participants.
        scale: From scores to per cent of the width.
        description: The chart in words.
    """
    rows = _swarm_rows([scale.at(value) * NARROWEST / 100 for value in arm.values])
    deepest = max(map(abs, rows), default=0)
    step = min(2 * _RADIUS - 0.5, _TALLEST / (2 * deepest + 1)) if deepest else 0.0
    middle = math.ceil(deepest * step + _RADIUS + 3)
    shapes: list[Shape] = []
    if arm.n:
        left, right = (scale.at(end) for end in arm.quartiles)
        shapes.append(Bar(x=left, width=max(right - left, 0.2), y=1, height=2 * middle - 2, style="shaded"))
        shapes.append(vertical_line(scale.at(arm.median), 1, 2 * middle - 1, "median"))
    shapes += [
        Marker(x=scale.at(value), y=middle + row * step, colour="methodology", radius=_RADIUS, faint=True)
        for value, row in zip(arm.values, rows, strict=True)
    ]
    y = 2 * middle + 9
    shapes.append(horizontal_line(y))
    if math.isfinite(arm.low):
        # An interval that leaves the scale is drawn to the edge of the chart.
        start = scale.at(arm.low) if arm.low >= scale.low else 0.0
        end = scale.at(arm.high) if arm.high <= scale.high else 100.0
        shapes.append(horizontal_line(y, "bar", start=start, end=end, colour="ink"))
    if math.isfinite(arm.mean):
        shapes.append(Marker(x=scale.at(arm.mean), y=y, radius=4.5))
    return Chart(description=description, shapes=tuple(shapes), height=2 * middle + _UNDER, kind="swarm")


def _swarm_rows(positions: Sequence[float]) -> list[int]:
    """For dots from left to right, the row nearest to the middle (0) in which each overlaps no other."""
    last: dict[int, float] = {}
    rows = []
    outwards = [0, *(sign * distance for distance in range(1, 2000) for sign in (-1, 1))]
    for position in positions:
        row = next(row for row in outwards if last.get(row, -math.inf) + 2 * _RADIUS <= position)
        last[row] = position
        rows.append(row)
    return rows


def axis(scale: Scale, ticks: Sequence[float], better: Better, more: str) -> Chart:
    """The axis under swarms: numbers, and which way is better, or only more.

    Args:
        scale: That of the swarms.
        ticks: The scores that are labelled.
        better: Which end is better.
        more: Of what there is more on the right, where neither end is better.
    """
    arrow = {"high": "better →", "low": "← better", "neither": f"more {more} →"}[better]
    if better == "low":
        direction = Label(x=0, y=32, text=arrow, style="better")
    else:
        direction = Label(x=100, y=32, text=arrow, anchor="end", style="better")
    return _number_axis(scale, ticks, arrow.strip("←→ "), [direction])


def difference_axis(scale: Scale, ticks: Sequence[float]) -> Chart:
    """The axis under differences: numbers alone."""
    return _number_axis(scale, ticks, "zero is no difference")


def _number_axis(scale: Scale, ticks: Sequence[float], meaning: str, below: Sequence[Label] = ()) -> Chart:
    description = f"scale from {ticks[0]:g} to {ticks[-1]:g}, {meaning}"
    return number_axis(scale, {tick: _tick_label(tick) for tick in ticks}, description=description, below=below)


def contrast_scale(pairs: Sequence[ArmDifference]) -> Scale | None:
    """A scale with zero on it that holds all intervals."""
    return scale_with_zero([end for pair in pairs for end in (pair.low, pair.high)])


def contrast_strip(pair: ArmDifference, scale: Scale, *, different: bool) -> Chart:
    """The difference of two arms, in black where they are shown to be different; the grey tick is no difference."""
    interval = numbers.interval(pair.low, pair.high, min(pair.n), signs=True)
    description = f"{pair.first} less {pair.second}: {numbers.signed(pair.difference)} {interval}"
    colour = "ink" if different else "inconclusive"
    estimate = Estimate(mean=pair.difference, low=pair.low, high=pair.high, colour=colour)
    return strip(scale, estimate, description=description, ticks=[0.0])


def equality_scale(pairs: Sequence[Equivalence]) -> Scale | None:
    """A scale that holds the margin on both sides and all intervals."""
    margin = max((pair.margin for pair in pairs), default=0.0)
    ends = [end for pair in pairs for end in (pair.low, pair.high)]
    return scale_with_zero([*ends, -1.3 * margin, 1.3 * margin])


def equality_strip(pair: Equivalence, scale: Scale, kind: str, conclusion: str) -> Chart:
    """The difference of two arms over the band within which they count as equal.

    Args:
        pair: The two arms.
        scale: From differences to per cent of the width.
        kind: The verdict whose colour it has.
        conclusion: The conclusion in words, for the description of the chart.
    """
    estimate = Estimate(mean=pair.difference, low=pair.low, high=pair.high, colour=colour_of(kind))
    description = f"{pair.first} less {pair.second}: {numbers.signed(pair.difference)}, {conclusion}"
    return strip(scale, estimate, description=description, ticks=[0.0], band=(-pair.margin, pair.margin))


def quantile_plot(points: Sequence[tuple[float, float]], description: str) -> Chart:
    """Residuals against those of a normal distribution; on the diagonal they would be equal."""
    reach = float(math.ceil(max(3.0, *(max(abs(expected), abs(observed)) for expected, observed in points))))
    area = _area(Scale(-reach, reach), Scale(-reach, reach))
    dots = [
        Marker(x=area.x(expected), y=area.y(observed), colour="methodology", radius=2.5, faint=True)
        for expected, observed in points
    ]
    diagonal = _diagonal(area, (-reach, -reach), (reach, reach))
    return _panel(area, [diagonal, *dots], ("expected of normal residuals", "observed"), description)


def calibration_plot(bins: Sequence[CalibrationBin], assurance: Assurance, axes: tuple[str, str], description: str) -> Chart:
    """The share of right answers by what was stated; on the diagonal certainty equals the share of right answers.

    Args:
        bins: Answers by stated certainty or stake; a larger dot is more answers.
        assurance: What was stated, and its range.
        axes: Names of the horizontal and the vertical axis.
        description: The chart in words.
    """
    ends = (float(assurance.low), float(assurance.high))
    area = _area(Scale(*ends), Scale(0.0, 1.0))
    most = max((answers.n for answers in bins), default=1)
    # Stakes have no diagonal: they are no probabilities.
    start, end = ((value, value / 100) for value in ends)
    shapes: list[Shape] = [_diagonal(area, start, end)] if assurance.kind == "certainty" else []
    for answers in bins:
        x, radius = area.x(answers.stated), 2 + 4 * math.sqrt(answers.n / most)
        low, high = area.y(answers.right_low), area.y(answers.right_high)
        shapes.append(Segment(x1=x, x2=x, y1=low, y2=high, style="thin", colour="ink"))
        shapes.append(Marker(x=x, y=area.y(answers.right), radius=radius))
    return _panel(area, shapes, axes, description)


def _area(across: Scale, up: Scale) -> PlotArea:
    return PlotArea(across=across, up=up, top=10, height=190)


def _diagonal(area: PlotArea, start: tuple[float, float], end: tuple[float, float]) -> Segment:
    return Segment(x1=area.x(start[0]), y1=area.y(start[1]), x2=area.x(end[0]), y2=area.y(end[1]), style="lead")


def _panel(area: PlotArea, shapes: Sequence[Shape], axes: tuple[str, str], description: str) -> Chart:
    """A square chart with named axes and the numbers at their ends."""
    across, up, below = area.across, area.up, area.bottom + 14
    labels = (
        Label(x=0, y=area.y(up.low) + 4, text=_tick_label(up.low), dx=4),
        Label(x=0, y=area.y(up.high) + 4, text=_tick_label(up.high), dx=4),
        Label(x=0, y=8, text=axes[1], style="better", dx=4),
        Label(x=area.x(across.low), y=below, text=_tick_label(across.low)),
        Label(x=area.x(across.high), y=below, text=_tick_label(across.high), anchor="end"),
        Label(x=50, y=area.bottom + 30, text=axes[0], anchor="middle", style="better"),
    )
    shapes = (*area.axes(), *shapes, *labels)
    return Chart(description=description, shapes=shapes, height=area.bottom + 34, kind="panel")


def _tick_label(value: float) -> str:
    return f"{value:g}".replace("-", "−")
