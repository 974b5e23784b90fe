"""Pictures of a study: every participant a dot, differences with their intervals, quantiles, and calibration.

Positions along a line are percentages, so that a picture fits any width; heights are pixels.
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
from snellen.study.analysis.calibration import Bin
from snellen.study.analysis.comparisons import Contrast
from snellen.study.analysis.distributions import Distribution
from snellen.study.analysis.equivalence import Equivalence
from snellen.study.analysis.outcomes import Better

INK = "#1b1f24"
NARROWEST = 300
"""Pixels; dots that do not cover each other at this width do not at any width that the page gives them."""

_RADIUS, _TALLEST, _UNDER = 3.0, 64.0, 22
_PANEL = 190
"""Height of the field of a square picture."""


def swarm(one: Distribution, scale: Scale, words: str) -> Markup:
    """All participants of an arm as dots over a box of their quartiles; below them the mean with its interval."""
    lanes = _lanes([scale.at(value) * NARROWEST / 100 for value in one.values])
    deepest = max(map(abs, lanes), default=0)
    step = min(2 * _RADIUS - 0.5, _TALLEST / (2 * deepest + 1)) if deepest else 0.0
    middle = math.ceil(deepest * step + _RADIUS + 3)
    parts = []
    if one.n:
        left, right, half = (scale.at(end) for end in (*one.quartiles, one.median))
        parts.append(
            f'<rect class="box" x="{left:.2f}%" width="{max(right - left, 0.2):.2f}%" y="1" height="{2 * middle - 2}"/>'
            f'<line class="median" x1="{half:.2f}%" x2="{half:.2f}%" y1="1" y2="{2 * middle - 1}"/>'
        )
    parts += [
        f'<circle class="dot" cx="{scale.at(value):.2f}%" cy="{middle + lane * step:.1f}" r="{_RADIUS:g}"/>'
        for value, lane in zip(one.values, lanes, strict=True)
    ]
    y = 2 * middle + 9
    parts.append(f'<line class="base" x1="0" x2="100%" y1="{y}" y2="{y}"/>')
    if math.isfinite(one.low):
        low, high = max(one.low, scale.low), min(one.high, scale.high)
        ends = f'x1="{scale.at(low) if low == one.low else 0:.2f}%" x2="{scale.at(high) if high == one.high else 100:.2f}%"'
        parts.append(f'<line class="bar" {ends} y1="{y}" y2="{y}" stroke="{INK}"/>')
    if math.isfinite(one.mean):
        parts.append(f'<circle cx="{scale.at(one.mean):.2f}%" cy="{y}" r="4.5" fill="{INK}"/>')
    return Markup('<svg class="swarm" height="{}" role="img" aria-label="{}">{}</svg>').format(
        2 * middle + _UNDER, words, Markup("".join(parts))
    )


def _lanes(places: Sequence[float]) -> list[int]:
    """For dots from left to right, the lane nearest to the middle in which each covers no other."""
    ends: dict[int, float] = {}
    found = []
    for place in places:
        lane = next(one for one in _outwards() if ends.get(one, -math.inf) + 2 * _RADIUS <= place)
        ends[lane] = place
        found.append(lane)
    return found


def _outwards() -> Sequence[int]:
    return [0, *(sign * one for one in range(1, 2000) for sign in (-1, 1))]


def field_of(values: Sequence[float], bounds: tuple[float, float]) -> tuple[Scale, list[float]]:
    """A scale with round ends that holds these values and stays within the bounds, and round numbers along it.

    >>> field_of([12.0, 47.0], (0.0, 100.0))[1]
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
    ticks = [round(start + place * step, 10) for place in range(first, last + 1)]
    kept = [tick for tick in ticks if bounds[0] <= tick <= bounds[1]]
    return Scale(max(ticks[0], bounds[0]), min(ticks[-1], bounds[1])), kept


def axis(scale: Scale, ticks: Sequence[float], better: Better, more: str) -> Markup:
    """What stands under dots: numbers, and which way is better, or only more."""
    words = {"high": "better →", "low": "← better", "neither": f"more {more} →"}[better]
    at, anchor = (100, "end") if better != "low" else (0, "start")
    way = Markup('<text class="better" x="{}%" y="32" text-anchor="{}">{}</text>').format(at, anchor, words)
    return _ruled(scale, ticks, way, 36, words.strip("←→ "))


def ruler(scale: Scale, ticks: Sequence[float]) -> Markup:
    """What stands under differences: numbers alone."""
    return _ruled(scale, ticks, Markup(""), 22, "zero is no difference")


def _ruled(scale: Scale, ticks: Sequence[float], inside: Markup, height: int, words: str) -> Markup:
    parts = [
        Markup(
            '<line class="base" x1="{0:.2f}%" x2="{0:.2f}%" y1="0" y2="5"/>'
            '<text x="{0:.2f}%" y="17" text-anchor="middle">{1}</text>'
        ).format(scale.at(tick), _plain(tick))
        for tick in ticks
    ]
    label = f"scale from {ticks[0]:g} to {ticks[-1]:g}, {words}"
    return Markup(
        '<svg class="axis" height="{}" role="img" aria-label="{}">'
        '<line class="base" x1="0" x2="100%" y1="0" y2="0"/>{}{}</svg>'
    ).format(height, label, Markup("").join(parts), inside)


def contrast_scale(contrasts: Sequence[Contrast]) -> Scale | None:
    """A scale with zero on it that holds all intervals."""
    return _around([(one.low, one.high) for one in contrasts])


def contrast_strip(one: Contrast, scale: Scale, shown: bool) -> Chart:
    """The difference of two arms; the grey tick is no difference."""
    ends = numbers.interval(one.low, one.high, min(one.n), signs=True)
    words = f"{one.first} less {one.second}: {numbers.gain(one.difference)} {ends}"
    colour = "ink" if shown else "inconclusive"
    estimate = Estimate(mean=one.difference, low=one.low, high=one.high, colour=colour)
    return strip(scale, estimate, description=words, ticks=[0.0])


def equality_scale(found: Sequence[Equivalence]) -> Scale | None:
    """A scale that holds the margin on both sides and all intervals."""
    margin = max((one.margin for one in found), default=0.0)
    return _around([*((one.low, one.high) for one in found), (-1.3 * margin, 1.3 * margin)])


def equality_strip(one: Equivalence, scale: Scale, kind: str, words: str) -> Chart:
    """The difference of two arms over the band within which they count as equal."""
    estimate = Estimate(mean=one.difference, low=one.low, high=one.high, colour=colour_of(kind))
    description = f"{one.first} less {one.second}: {numbers.gain(one.difference)}, {words}"
    return strip(scale, estimate, description=description, ticks=[0.0], band=(-one.margin, one.margin))


def _around(ends: Sequence[tuple[float, float]]) -> Scale | None:
    finite = [end for pair in ends for end in pair if math.isfinite(end)]
    if not finite or min(finite) == max(finite) == 0:
        return None
    return Scale(min(0.0, *finite), max(0.0, *finite))


def quantile_plot(points: Sequence[tuple[float, float]], words: str) -> Markup:
    """Residuals against those of a normal distribution; on the line they would be equal."""
    reach = math.ceil(max(3.0, *(max(abs(one), abs(other)) for one, other in points)))
    scale = Scale(-float(reach), float(reach))
    dots = "".join(
        f'<circle class="dot" cx="{scale.at(one):.1f}%" cy="{_height(scale, other):.1f}" r="2.5"/>' for one, other in points
    )
    return _square(Markup(dots), scale, ("expected of normal residuals", "found"), words)


def calibration_plot(bins: Sequence[Bin], ends: tuple[float, float], names: tuple[str, str], words: str) -> Markup:
    """The share of right answers by what was stated; on the line both would be equal."""
    across, up = Scale(*ends), Scale(0.0, 1.0)
    most = max((one.n for one in bins), default=1)
    parts = []
    for one in bins:
        x, radius = across.at(one.stated), 2 + 4 * math.sqrt(one.n / most)
        parts.append(
            f'<line class="bar thin" x1="{x:.2f}%" x2="{x:.2f}%" y1="{_height(up, one.right_low):.1f}" '
            f'y2="{_height(up, one.right_high):.1f}" stroke="{INK}"/>'
            f'<circle cx="{x:.2f}%" cy="{_height(up, one.right):.1f}" r="{radius:.1f}" fill="{INK}"/>'
        )
    # The line is where certainty equals the share of right answers; a stake of all or nothing has no such line.
    diagonal = (across.at(50.0), _height(up, 0.5), across.at(100.0), _height(up, 1.0)) if ends == (50.0, 100.0) else None
    return _square(Markup("".join(parts)), across, names, words, up=up, diagonal=diagonal)


def _height(scale: Scale, value: float) -> float:
    return 10 + _PANEL * (1 - scale.at(value) / 100)


def _square(
    inside: Markup,
    across: Scale,
    names: tuple[str, str],
    words: str,
    *,
    up: Scale | None = None,
    diagonal: tuple[float, float, float, float] | None = None,
) -> Markup:
    """A field with both axes named; without a scale of its own, upwards is as across and the diagonal is drawn."""
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
        bottom + 34, words, bottom, bottom, bottom, Markup(guide), inside,
        _height(up, up.low) + 4, _plain(up.low), _height(up, up.high) + 4, _plain(up.high), names[1],
        across.at(across.low), bottom + 14, _plain(across.low), across.at(across.high), bottom + 14,
        _plain(across.high), bottom + 30, names[0],
    )  # fmt: skip


def _plain(value: float) -> str:
    """A round number along an axis."""
    return f"{value:g}".replace("-", "−")
