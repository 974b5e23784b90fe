"""The strip: a method against controls that know nothing. Positions are percentages, so a strip fits any width."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

NARROWEST = 340
"""Pixels; labels that do not meet at this width do not meet at any width that the page gives a strip."""

_LETTER, _GAP, _LANE, _EDGE, _ASIDE = 6.3, 6.0, 14, 3.0, 3


@dataclass(frozen=True)
class Scale:
    """Values from `low` to `high` on a strip, with a margin at both ends."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """Where a value stands, in per cent of the width."""
        return _EDGE + (100 - 2 * _EDGE) * (value - self.low) / (self.high - self.low)


def scale_of(values: Sequence[float], bounds: tuple[float, float] = (-math.inf, math.inf)) -> Scale | None:
    """The scale that holds all of these numbers; none when no number is finite.

    A single number fills no scale. It is shown between the metric's bounds, or between zero and twice itself.
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


@dataclass(frozen=True)
class Label:
    """Where the name of a tick is written: at `x` per cent, to one side of it, in a lane below the strip."""

    text: str
    x: float
    anchor: str
    lane: int


def strip(
    scale: Scale, controls: Mapping[str, float], *, mean: float, low: float, high: float, colour: str, words: str
) -> Markup:
    """One method: grey ticks for the controls, a bar for its interval, a dot for its mean."""
    parts = ['<line class="base" x1="0" x2="100%" y1="13" y2="13"/>']
    parts += [
        f'<line class="tick" x1="{scale.at(value):.2f}%" x2="{scale.at(value):.2f}%" y1="5" y2="21"/>'
        for value in controls.values()
        if math.isfinite(value)
    ]
    if math.isfinite(low) and math.isfinite(high):
        parts.append(
            f'<line class="bar" x1="{scale.at(low):.2f}%" x2="{scale.at(high):.2f}%" y1="13" y2="13" stroke="{colour}"/>'
        )
    if math.isfinite(mean):
        parts.append(f'<circle cx="{scale.at(mean):.2f}%" cy="13" r="5" fill="{colour}"/>')
    inside = Markup("").join(Markup(part) for part in parts)
    return Markup('<svg class="strip" height="26" role="img" aria-label="{}">{}</svg>').format(words, inside)


def footer(scale: Scale, controls: Mapping[str, float], ends: tuple[str, str], higher_is_better: bool) -> Markup:
    """What stands under the strips of a metric: the controls by name, the ends of the scale, and which way is better."""
    labels = place({name: scale.at(value) for name, value in controls.items() if math.isfinite(value)})
    parts = []
    for label in labels:
        y = 12 + _LANE * label.lane
        shift = {"start": _ASIDE, "end": -_ASIDE}[label.anchor]
        parts.append(
            Markup(
                '<line class="lead" x1="{0:.2f}%" x2="{0:.2f}%" y1="0" y2="{1}"/>'
                '<text class="name" x="{0:.2f}%" y="{1}" dx="{2}" text-anchor="{3}">{4}</text>'
            ).format(label.x, y, shift, label.anchor, label.text)
        )
    base = 16 + _LANE * (max((label.lane for label in labels), default=-1) + 1)
    better = "better →" if higher_is_better else "← better"
    parts.append(
        Markup(
            '<line class="base" x1="0" x2="100%" y1="{0}" y2="{0}"/><text x="{5}%" y="{1}">{2}</text>'
            '<text class="better" x="50%" y="{1}" text-anchor="middle">{4}</text>'
            '<text x="{6}%" y="{1}" text-anchor="end">{3}</text>'
        ).format(base - 6, base + 8, ends[0], ends[1], better, 0, 100)
    )
    words = f"scale from {ends[0]} to {ends[1]}, {'higher' if higher_is_better else 'lower'} is better"
    return Markup('<svg class="axis" height="{}" role="img" aria-label="{}">{}</svg>').format(
        base + 14, words, Markup("").join(parts)
    )


def place(ticks: Mapping[str, float], width: int = NARROWEST) -> list[Label]:
    """Names for ticks (in per cent) such that no name meets another, nor the line that leads to another.

    Names on the left are written to the right of their line and names on the right to the left of theirs; all ways to split
    them and to spread them over lanes are tried, and the flattest is taken. When nothing fits, every name has its own lane.
    """
    order = sorted(ticks, key=lambda name: (ticks[name], name))
    count = len(order)
    texts = {name: name if len(name) <= 26 else name[:25] + "…" for name in order}
    lines = [ticks[name] * width / 100 for name in order]
    lengths = [_LETTER * len(texts[name]) for name in order]
    tried = [(split, _conflicts(lines, lengths, split, width)) for split in range(count, -1, -1)] if count <= _MOST else []
    for deepest in range(count):
        for split, conflicts in tried:
            ways = itertools.product(range(deepest + 1), repeat=count) if conflicts else ()
            found = min((lanes for lanes in ways if conflicts and _clear(lanes, *conflicts)), key=sum, default=None)
            if found is not None:
                anchors = ["start" if at < split else "end" for at in range(count)]
                return [Label(texts[name], ticks[name], anchors[at], found[at]) for at, name in enumerate(order)]
    return [Label(texts[name], ticks[name], "start" if ticks[name] < 50 else "end", at) for at, name in enumerate(order)]


_MOST = 5
_Pairs = list[tuple[int, int]]


def _conflicts(lines: Sequence[float], lengths: Sequence[float], split: int, width: int) -> tuple[_Pairs, _Pairs] | None:
    """Pairs of names that need different lanes, and pairs whose first name must be below the second; none if hopeless.

    The first `split` names are written to the right of their lines, the others to the left of theirs.
    """
    boxes = [
        (x + _ASIDE, x + _ASIDE + long) if at < split else (x - _ASIDE - long, x - _ASIDE)
        for at, (x, long) in enumerate(zip(lines, lengths, strict=True))
    ]
    if any(left < 0 or right > width for left, right in boxes):
        return None
    apart: _Pairs = []
    below: _Pairs = []
    for one, other in itertools.permutations(range(len(lines)), 2):
        (left, right), (start, stop) = boxes[one], boxes[other]
        if left < stop + _GAP and start < right + _GAP:
            apart.append((one, other))
        # The line to `other` runs down to its lane, so a name that it would cross has to stand below that lane.
        if left - 1 < lines[other] < right + 1:
            below.append((one, other))
    return None if any((other, one) in below for one, other in below) else (apart, below)


def _clear(lanes: Sequence[int], apart: _Pairs, below: _Pairs) -> bool:
    return all(lanes[one] > lanes[other] for one, other in below) and all(lanes[one] != lanes[other] for one, other in apart)
