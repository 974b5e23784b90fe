"""Curves as small multiples: one panel per method, the controls in grey behind it, the same axes everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from markupsafe import Markup

from snellen.charts.numbers import short

DASHES = ("none", "5 3", "1.5 2.5", "8 3 2 3", "3 2", "10 4")
"""How the controls' lines differ, since all of them are grey."""


@dataclass(frozen=True)
class Panel:
    """One method's mean curve, drawn over those of the controls."""

    name: str
    svg: Markup


@dataclass(frozen=True)
class Key:
    """Which grey line is which control."""

    name: str
    svg: Markup


@dataclass(frozen=True)
class Chart:
    """All panels of one metric, with the key to the grey lines."""

    panels: list[Panel]
    keys: list[Key]
    top: str
    bottom: str


def chart(curves: Mapping[str, Float[np.ndarray, "images points"]], controls: Sequence[str]) -> Chart | None:
    """The mean curve over images of every method, or nothing where no curve is defined."""
    means = {}
    for name, rows in curves.items():
        whole = rows[np.isfinite(rows).all(axis=1)]
        if len(whole):
            means[name] = whole.mean(axis=0)
    if not means:
        return None
    low = min(0.0, *(float(mean.min()) for mean in means.values()))
    high = max(float(mean.max()) for mean in means.values())
    high = high if high > low else low + 1
    grey = [name for name in means if name in controls]
    behind = Markup("").join(_line(means[name], low, high, "grey", DASHES[at % len(DASHES)]) for at, name in enumerate(grey))
    panels = []
    for name, mean in means.items():
        if name in controls:
            continue
        others = [float(means[one].mean()) for one in grey]
        against = f"; controls have mean heights from {short(min(others))} to {short(max(others))}" if others else ""
        start, end, height = short(float(mean[0])), short(float(mean[-1])), short(float(mean.mean()))
        words = f"{name}: starts at {start}, ends at {end}, mean height {height}"
        panels.append(Panel(name, _panel(behind + _line(mean, low, high, "own", "none"), high, words + against)))
    if not panels:
        panels = [Panel("controls", _panel(behind, high, "mean curves of the controls"))]
    keys = [
        Key(name, Markup('<svg width="26" height="8" aria-hidden="true"><line class="grey" x1="0" x2="26" y1="4" y2="4" '
                         'stroke-dasharray="{}"/></svg>').format(DASHES[at % len(DASHES)]))
        for at, name in enumerate(grey)
    ]  # fmt: skip
    return Chart(panels, keys, short(high), short(low))


def column_means(rows: Float[np.ndarray, "images points"]) -> Float[np.ndarray, " points"]:
    """The mean of each column over the images on which it is defined."""
    defined = np.isfinite(rows)
    with np.errstate(invalid="ignore"):
        means: np.ndarray = np.where(defined, rows, 0.0).sum(axis=0, dtype=np.float64) / defined.sum(axis=0)
    return means


def _line(mean: Float[np.ndarray, " points"], low: float, high: float, kind: str, dash: str) -> Markup:
    x = np.linspace(0, 100, len(mean))
    y = 100 - 100 * (mean - low) / (high - low)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
    return Markup('<polyline class="{}" points="{}" stroke-dasharray="{}"/>').format(kind, points, dash)


def _panel(lines: Markup, high: float, words: str) -> Markup:
    return Markup(
        '<svg class="panel" height="136" role="img" aria-label="{}">'
        '<svg x="0" y="16" width="100%" height="100" viewBox="0 0 100 100" preserveAspectRatio="none" '
        'overflow="visible">{}</svg>'
        '<line class="base" x1="0" x2="100%" y1="116" y2="116"/><line class="base" x1="0" x2="0" y1="16" y2="116"/>'
        '<text x="0" y="11">{}</text><text x="0" y="130">0 %</text>'
        '<text x="100%" y="130" text-anchor="end">100 %</text></svg>'
    ).format(words, lines, short(high))
