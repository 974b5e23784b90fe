"""Charts of a study: a dot per participant, differences with their intervals, quantiles, and calibration.

Horizontal positions are percentages, so that a chart fits any width; heights are pixels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from snellen.charts import numbers
from snellen.charts.chart import Chart
from snellen.charts.scale import Scale
from snellen.charts.strips import Estimate, strip
from snellen.charts.verdict_marks import colour_of
from snellen.study.analysis.calibration import CalibrationBin
from snellen.study.analysis.comparisons import ArmContrast
from snellen.study.analysis.distributions import Distribution
from snellen.study.analysis.equivalence import Equivalence
from snellen.study.analysis.outcomes import Better

INK = "#1b1f24"
NARROWEST = 300
"""The least width of a chart on the page, in pixels; dots that do not overlap at this width never do."""

_RADIUS, _TALLEST, _UNDER = 3.0, 64.0, 22
"""Of dots, of a swarm, and of the interval under it, in pixels."""
_PANEL = 190
"""Height of the plotting area of a square chart, in pixels."""


def swarm(arm: Distribution, scale: Scale, label: str) -> Markup:
    """All participants of an arm as dots over a box of their quartiles; below them the mean with its interval."""
    rows = _swarm_rows([scale.at(value) * NARROWEST / 100 for value in arm.values])
    deepest = max(map(abs, rows), default=0)
    step = min(2 * _RADIUS - 0.5, _TALLEST / (2 * deepest + 1)) if deepest else 0.0
    middle = math.ceil(deepest * step + _RADIUS + 3)
    parts = []
    if arm.n:
        left, right, half = (scale.at(end) for end in (*arm.quartiles, arm.median))
        parts.append(
            f'<rect class="box" x="{left:.2f}%" width="{max(right - left, 0.2):.2f}%" y="1" height="{2 * middle - 2}"/>'
            f'<line class="median" x1="{half:.2f}%" x2="{half:.2f}%" y1="1" y2="{2 * middle - 1}"/>'
        )
    parts += [
        f'<circle class="dot" cx="{scale.at(value):.2f}%" cy="{middle + row * step:.1f}" r="{_RADIUS:g}"/>'
        for value, row in zip(arm.values, rows, strict=True)
    ]
    y = 2 * middle + 9
    parts.append(f'<line class="base" x1="0" x2="100%" y1="{y}" y2="{y}"/>')
    if math.isfinite(arm.low):
        low, high = max(arm.low, scale.low), min(arm.high, scale.high)
        ends = f'x1="{scale.at(low) if low == arm.low else 0:.2f}%" x2="{scale.at(high) if high == arm.high else 100:.2f}%"'
        parts.append(f'<line class="bar" {ends} y1="{y}" y2="{y}" stroke="{INK}"/>')
    if math.isfinite(arm.mean):
        parts.append(f'<circle cx="{scale.at(arm.mean):.2f}%" cy="{y}" r="4.5" fill="{INK}"/>')
    return Markup('<svg class="swarm" height="{}" role="img" aria-label="{}">{}</svg>').format(
        2 * middle + _UNDER, label, Markup("".join(parts))
    )


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


def scale_and_ticks(values: Sequence[float], bounds: tuple[float, float]) -> tuple[Scale, list[float]]:
    """A scale with round ends that holds these values and stays within the bounds, and round numbers along it.

    >>> scale_and_ticks([12.0, 47.0], (0.0, 100.0))[1]
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
    ticks = [round(start + number * step, 10) for number in range(first, last + 1)]
    inside = [tick for tick in ticks if bounds[0] <= tick <= bounds[1]]
    return Scale(max(ticks[0], bounds[0]), min(ticks[-1], bounds[1])), inside


def axis(scale: Scale, ticks: Sequence[float], better: Better, more: str) -> Markup:
    """The axis under dots: numbers, and which way is better, or only more."""
    arrow = {"high": "better →", "low": "← better", "neither": f"more {more} →"}[better]
    position, anchor = (100, "end") if better != "low" else (0, "start")
    direction = Markup('<text class="better" x="{}%" y="32" text-anchor="{}">{}</text>').format(position, anchor, arrow)
    return _axis(scale, ticks, direction, 36, arrow.strip("←→ "))


def ruler(scale: Scale, ticks: Sequence[float]) -> Markup:
    """The axis under differences: numbers alone."""
    return _axis(scale, ticks, Markup(""), 22, "zero is no difference")


def _axis(scale: Scale, ticks: Sequence[float], direction: Markup, height: int, meaning: str) -> Markup:
    marks = [
        Markup(
            '<line class="base" x1="{0:.2f}%" x2="{0:.2f}%" y1="0" y2="5"/>'
            '<text x="{0:.2f}%" y="17" text-anchor="middle">{1}</text>'
        ).format(scale.at(tick), _tick_label(tick))
        for tick in ticks
    ]
    label = f"scale from {ticks[0]:g} to {ticks[-1]:g}, {meaning}"
    return Markup(
        '<svg class="axis" height="{}" role="img" aria-label="{}">'
        '<line class="base" x1="0" x2="100%" y1="0" y2="0"/>{}{}</svg>'
    ).format(height, label, Markup("").join(marks), direction)


def contrast_scale(pairs: Sequence[ArmContrast]) -> Scale | None:
    """A scale with zero on it that holds all intervals."""
    return _scale_with_zero([(pair.low, pair.high) for pair in pairs])


def contrast_strip(pair: ArmContrast, scale: Scale, *, different: bool) -> Chart:
    """The difference of two arms; the grey tick is no difference."""
    interval = numbers.interval(pair.low, pair.high, min(pair.n), signs=True)
    label = f"{pair.first} less {pair.second}: {numbers.gain(pair.difference)} {interval}"
    colour = "ink" if different else "inconclusive"
    estimate = Estimate(mean=pair.difference, low=pair.low, high=pair.high, colour=colour)
    return strip(scale, estimate, description=label, ticks=[0.0])


def equality_scale(pairs: Sequence[Equivalence]) -> Scale | None:
    """A scale that holds the margin on both sides and all intervals."""
    margin = max((pair.margin for pair in pairs), default=0.0)
    return _scale_with_zero([*((pair.low, pair.high) for pair in pairs), (-1.3 * margin, 1.3 * margin)])


def equality_strip(pair: Equivalence, scale: Scale, kind: str, conclusion: str) -> Chart:
    """The difference of two arms over the band within which they count as equal, in the colour of a kind of verdict."""
    estimate = Estimate(mean=pair.difference, low=pair.low, high=pair.high, colour=colour_of(kind))
    label = f"{pair.first} less {pair.second}: {numbers.gain(pair.difference)}, {conclusion}"
    return strip(scale, estimate, description=label, ticks=[0.0], band=(-pair.margin, pair.margin))


def _scale_with_zero(intervals: Sequence[tuple[float, float]]) -> Scale | None:
    finite = [end for interval in intervals for end in interval if math.isfinite(end)]
    if not finite or min(finite) == max(finite) == 0:
        return None
    return Scale(min(0.0, *finite), max(0.0, *finite))


def quantile_plot(points: Sequence[tuple[float, float]], label: str) -> Markup:
    """Residuals against those of a normal distribution; on the line they would be equal."""
    reach = math.ceil(max(3.0, *(max(abs(expected), abs(observed)) for expected, observed in points)))
    scale = Scale(-float(reach), float(reach))
    dots = "".join(
        f'<circle class="dot" cx="{scale.at(expected):.1f}%" cy="{_height(scale, observed):.1f}" r="2.5"/>'
        for expected, observed in points
    )
    return _square(Markup(dots), scale, ("expected of normal residuals", "observed"), label)


def calibration_plot(bins: Sequence[CalibrationBin], ends: tuple[float, float], axes: tuple[str, str], label: str) -> Markup:
    """The share of right answers by what was stated; on the line both would be equal.

    Args:
        bins: answers by stated certainty or stake; a larger dot is more answers.
        ends: the lowest and highest value that can be stated.
        axes: names of the horizontal and the vertical axis.
        label: the chart in words.
    """
    across, up = Scale(*ends), Scale(0.0, 1.0)
    most = max((answers.n for answers in bins), default=1)
    parts = []
    for answers in bins:
        x, radius = across.at(answers.stated), 2 + 4 * math.sqrt(answers.n / most)
        parts.append(
            f'<line class="bar thin" x1="{x:.2f}%" x2="{x:.2f}%" y1="{_height(up, answers.right_low):.1f}" '
            f'y2="{_height(up, answers.right_high):.1f}" stroke="{INK}"/>'
            f'<circle cx="{x:.2f}%" cy="{_height(up, answers.right):.1f}" r="{radius:.1f}" fill="{INK}"/>'
        )
    # On the line certainty equals the share of right answers; stakes have no such line.
    diagonal = (across.at(50.0), _height(up, 0.5), across.at(100.0), _height(up, 1.0)) if ends == (50.0, 100.0) else None
    return _square(Markup("".join(parts)), across, axes, label, up=up, diagonal=diagonal)


def _height(scale: Scale, value: float) -> float:
    return 10 + _PANEL * (1 - scale.at(value) / 100)


def _square(
    inside: Markup,
    across: Scale,
    axes: tuple[str, str],
    label: str,
    *,
    up: Scale | None = None,
    diagonal: tuple[float, float, float, float] | None = None,
) -> Markup:
    """A square chart with named axes. Without `up` both axes have the same scale, and the diagonal is drawn."""
    if up is None:
        low, high = across.low, across.high
        diagonal = (across.at(low), _height(across, low), across.at(high), _height(across, high))
    up = up or across
    guide = ""
    if diagonal:
        x1, y1, x2, y2 = diagonal
        guide = f'<line class="lead" x1="{x1:.1f}%" x2="{x2:.1f}%" y1="{y1:.1f}" y2="{y2:.1f}"/>'
    bottom = 10 + _PANEL
    return Markup(
        '<svg class="panel" height="{}" role="img" aria-label="{}">'
        '<line class="base" x1="0" x2="100%" y1="{}" y2="{}"/><line class="base" x1="0" x2="0" y1="10" y2="{}"/>{}{}'
        '<text x="4" y="{:.1f}">{}</text><text x="4" y="{:.1f}">{}</text><text x="4" y="8" class="better">{}</text>'
        '<text x="{:.1f}%" y="{}">{}</text><text x="{:.1f}%" y="{}" text-anchor="end">{}</text>'
        '<text x="50%" y="{}" text-anchor="middle" class="better">{}</text></svg>'
    ).format(
        bottom + 34, label, bottom, bottom, bottom, Markup(guide), inside,
        _height(up, up.low) + 4, _tick_label(up.low), _height(up, up.high) + 4, _tick_label(up.high), axes[1],
        across.at(across.low), bottom + 14, _tick_label(across.low), across.at(across.high), bottom + 14,
        _tick_label(across.high), bottom + 30, axes[0],
    )  # fmt: skip


def _tick_label(value: float) -> str:
    return f"{value:g}".replace("-", "−")
