"""Curves as small multiples: one panel per method, the controls in grey and the truth in green behind it, the same axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from markupsafe import Markup

from snellen.charts.chart import Chart, Label, Polyline, Shape
from snellen.charts.legends import line_key
from snellen.charts.numbers import short
from snellen.charts.scale import PlotArea, Scale

DASHES = ("", "5 3", "1.5 2.5", "8 3 2 3", "3 2", "10 4")
"""How the lines of the controls differ, since all of them are grey."""


@dataclass(frozen=True, kw_only=True)
class CurvePanels:
    """The mean curves of one metric."""

    panels: dict[str, Chart]
    """By method."""
    legend: dict[str, Markup]
    """By control, a piece of its line for the legend."""
    oracles: dict[str, Markup]
    """The same by positive control."""
    low: str
    """The lower end of the vertical axis."""
    high: str
    """The upper end of the vertical axis."""


def curve_panels(
    curves: Mapping[str, Float[np.ndarray, "images points"]], controls: Sequence[str], oracles: Sequence[str] = ()
) -> CurvePanels | None:
    """The mean curve of every method in a panel of its own; None where no curve is defined.

    Args:
        curves: By method, one curve per image over the share of pixels changed; images with an undefined point are left out.
        controls: The methods that are controls.
        oracles: The positive controls.
    """
    means = {}
    for name, rows in curves.items():
        complete = rows[np.isfinite(rows).all(axis=1)]
        if len(complete):
            means[name] = complete.mean(axis=0)
    if not means:
        return None
    low = min(0.0, *(float(mean.min()) for mean in means.values()))
    high = max(float(mean.max()) for mean in means.values())
    area = PlotArea(across=Scale(0, 1, 0), up=Scale(low, high if high > low else low + 1, 0), top=16, height=100)
    dashes = {name: DASHES[place % len(DASHES)] for place, name in enumerate(name for name in means if name in controls)}
    behind = [_line(area, means[name], "behind", dash=dash) for name, dash in dashes.items()]
    green = {name: DASHES[place % len(DASHES)] for place, name in enumerate(name for name in means if name in oracles)}
    behind += [_line(area, means[name], "oracle", dash=dash) for name, dash in green.items()]
    heights = [float(means[name].mean()) for name in dashes]
    against = f"; controls have mean heights from {short(min(heights))} to {short(max(heights))}" if heights else ""
    against += "".join(f"; {name} has {short(float(means[name].mean()))}" for name in green)
    panels = {}
    for name, mean in means.items():
        if name not in dashes and name not in green:
            start, end, height = short(float(mean[0])), short(float(mean[-1])), short(float(mean.mean()))
            description = f"{name}: starts at {start}, ends at {end}, mean height {height}{against}"
            panels[name] = _panel(area, [*behind, _line(area, mean, "curve")], description)
    if not panels:
        panels = {"controls": _panel(area, behind, "mean curves of the controls")}
    legend = {name: line_key("behind", dash=dash) for name, dash in dashes.items()}
    keys = {name: line_key("oracle", dash=dash) for name, dash in green.items()}
    return CurvePanels(panels=panels, legend=legend, oracles=keys, low=short(area.up.low), high=short(area.up.high))


def column_means(rows: Float[np.ndarray, "images points"]) -> Float[np.ndarray, " points"]:
    """The mean of each column over the images on which it is defined."""
    defined = np.isfinite(rows)
    with np.errstate(invalid="ignore"):
        means: np.ndarray = np.where(defined, rows, 0.0).sum(axis=0, dtype=np.float64) / defined.sum(axis=0)
    return means


def _line(area: PlotArea, mean: Float[np.ndarray, " points"], style: str, *, dash: str = "") -> Polyline:
    across = np.linspace(0, 1, len(mean)).tolist()
    return Polyline(points=area.points(across, mean.tolist()), style=style, colour="ink", dash=dash)


def _panel(area: PlotArea, lines: Sequence[Shape], description: str) -> Chart:
    below = area.bottom + 14
    words = (
        Label(x=0, y=11, text=short(area.up.high)),
        Label(x=0, y=below, text="0 %"),
        Label(x=100, y=below, text="100 %", anchor="end"),
    )
    return Chart(description=description, shapes=(*lines, *area.axes(), *words), height=below + 6, kind="panel")
