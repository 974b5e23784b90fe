"""What a map costs, as a bar per method: its seconds, and which part of them the model's own passes take."""

from __future__ import annotations

import math
from dataclasses import dataclass

from markupsafe import Markup

from snellen.charts import numbers
from snellen.charts.bars import part_bar
from snellen.charts.chart import Chart
from snellen.charts.legends import bar_key
from snellen.charts.scale import round_scale
from snellen.charts.strips import number_axis
from snellen.report.readable import Readable


@dataclass(frozen=True, kw_only=True)
class CostBar:
    """What a map of one method costs."""

    name: str
    """The label of the method."""
    control: bool
    bar: Chart
    time: str
    """Per map; "not measured" or a dash where there is none."""
    share: str
    """Which part of it the model's own passes take."""


@dataclass(frozen=True, kw_only=True)
class CostBars:
    """What a map costs, a bar per method, with the axis and the legend."""

    rows: list[CostBar]
    axis: Chart
    legend: dict[str, Markup]


def cost_bars(run: Readable) -> CostBars | None:
    """A bar per method and control, the slowest first, those that were not measured last; None if none was measured."""
    costs = run.costs()
    images = costs["images"].where(costs["images"] > 0)
    costs = costs.assign(each=costs["seconds"] / images, inside=costs["model_seconds"] / images)
    most = float(costs["each"].max())
    if not most > 0:
        return None
    unit, factor = ("ms", 1000) if most < 1 else ("s", 1)
    scale, ticks = round_scale([0.0, factor * most], (0.0, math.inf))
    control = {method.label: method.control for method in run.record.spec.methods}
    elsewhere = {method.label for method in run.record.spec.methods if method.maps is not None}
    rows = []
    for row in costs.sort_values("each", ascending=False, kind="stable").to_dict("records"):
        name, each = str(row["method"]), float(row["each"])
        # A record does not promise that the passes took no longer than the map, and a bar cannot show it.
        inside = min(float(row["inside"]), each)
        time, share = numbers.duration(each), f"{inside / each:.0%} in the model".replace("%", " %") if each > 0 else ""
        if name in elsewhere:
            time, share = "–", "made elsewhere"
        description = ", ".join(filter(None, [f"{name}: {time} per map", share]))
        bar = part_bar(scale, factor * each, factor * inside, description=description)
        rows.append(CostBar(name=name, control=control.get(name, False), bar=bar, time=time, share=share))
    axis = number_axis(
        scale, {tick: f"{tick:g} {unit}" for tick in ticks}, description=f"scale from 0 to {ticks[-1]:g} {unit} per map"
    )
    legend = {"inside the model": bar_key("blue"), "everything else": bar_key("grey")}
    return CostBars(rows=rows, axis=axis, legend=legend)
