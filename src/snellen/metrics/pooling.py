"""The traces of COSE over many pictures: the pooled numbers of its paper, by kind of change, by transform, by magnitude.

A sample's own score is a mean over its augmentations, and a table of scores a mean over samples. The paper instead pools all
(picture, variant) pairs that count, so that a picture with many of them weighs more. Both can be read from the same trace.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from snellen.images.transforms import STEPS, TRANSFORMS, draw_magnitudes
from snellen.metrics.cose import geometric, harmonic
from snellen.types import Rng

Part = Literal["consistency", "sensitivity"]
Trace = Float[Tensor, "images points"]


class Column(NamedTuple):
    """What a column of a trace stands for: part, kind (geometric, photometric or model), name, and which draw."""

    part: Part
    kind: str
    name: str
    draw: int | None


@dataclass(frozen=True)
class Pooled:
    """Means over all pairs that count, NaN where none does, and how many there were."""

    consistency: float
    sensitivity: float
    harmonic: float
    geometric: float
    consistent: int
    sensitive: int


def columns(points: Sequence[str], part: Part | None = None) -> list[Column | None]:
    """What each name stands for; None for what is not a row. The traces of `cose` say themselves to which part they belong.

    >>> columns(["consistency/geometric/rotate/3", "models"])[0]
    Column(part='consistency', kind='geometric', name='rotate', draw=3)
    """
    found: list[Column | None] = []
    for point in points:
        words = point.split("/")
        own = part
        if words[0] in ("consistency", "sensitivity"):
            own = "consistency" if words[0] == "consistency" else "sensitivity"
            words = words[1:]
        if len(words) < 2 or own is None:
            found.append(None)
        else:
            found.append(Column(own, words[0], words[1], int(words[2]) if len(words) > 2 else None))
    return found


def pooled(trace: Trace, points: Sequence[str], *, part: Part | None = None) -> Pooled:
    """The four numbers of the paper over a trace of `cose`; of `consistency` or `sensitivity` say which with `part`."""
    return _pooled(trace, columns(points, part), torch.ones_like(trace, dtype=torch.bool))


def split(
    trace: Trace, points: Sequence[str], by: Literal["kind", "transform"], *, part: Part | None = None
) -> Mapping[str, Pooled]:
    """The same for geometric and photometric changes and models apart, or for each transform."""
    known = columns(points, part)
    names = [None if one is None else one.kind if by == "kind" else one.name for one in known]
    return {
        name: _pooled(trace, known, torch.tensor([one == name for one in names]).expand_as(trace))
        for name in dict.fromkeys(one for one in names if one is not None)
    }


def by_magnitude(
    trace: Trace, points: Sequence[str], *, magnitudes: int, rng: Rng, part: Part | None = None
) -> Mapping[int, Pooled]:
    """The same for each magnitude from 1 to 30, whichever its sign; `rng` is the run's, with the ids of the trace's rows."""
    steps = steps_of(points, magnitudes=magnitudes, rng=rng, part=part).abs()
    known = columns(points, part)
    return {step: _pooled(trace, known, steps == step) for step in range(1, STEPS + 1)}


def steps_of(
    points: Sequence[str], *, magnitudes: int, rng: Rng, part: Part | None = None
) -> Float[Tensor, "images points"]:
    """The signed magnitude, from -30 to 30, that each picture was given in each column; NaN where there is none."""
    signed = {one.name: draw_magnitudes(one, magnitudes, rng=rng) for one in TRANSFORMS if one.signed}
    found = torch.full((len(rng), len(points)), torch.nan)
    for place, column in enumerate(columns(points, part)):
        if column is not None and column.draw is not None and column.name in signed:
            found[:, place] = signed[column.name][:, column.draw].float()
    return found


def _pooled(trace: Trace, known: Sequence[Column | None], chosen: Bool[Tensor, "images points"]) -> Pooled:
    means, counts = [], []
    for part in ("consistency", "sensitivity"):
        mine = torch.tensor([one is not None and one.part == part for one in known]).expand_as(trace)
        values = trace[mine & chosen & ~trace.isnan()].double()
        means.append(values.mean() if len(values) else torch.tensor(math.nan).double())
        counts.append(len(values))
    return Pooled(float(means[0]), float(means[1]), float(harmonic(*means)), float(geometric(*means)), counts[0], counts[1])
