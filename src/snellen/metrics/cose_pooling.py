"""Pooled COSE scores: means over all pairs of image and change, as in the tables of the paper.

The score of a sample is a mean over its changes, and a table of scores is a mean over samples. The paper instead pools
all pairs of image and change, so that an image with many defined pairs has more weight. Both can be computed from one
curve.
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
Curves = Float[Tensor, "images points"]


class CosePoint(NamedTuple):
    """The meaning of one point of a curve."""

    part: Part
    """Whether the point belongs to consistency or to sensitivity."""
    kind: str
    """"geometric", "photometric" or "model"."""
    name: str
    """Name of the transform or model."""
    draw: int | None
    """Number of the drawn magnitude; None for a change without magnitudes."""


@dataclass(frozen=True, kw_only=True)
class PooledCose:
    """Means over all defined pairs of image and change, NaN where there is none."""

    consistency: float
    """Mean likeness over pairs that keep the prediction."""
    sensitivity: float
    """Mean of 1 - likeness over pairs that change the prediction."""
    harmonic: float
    """Harmonic mean of the two."""
    geometric: float
    """Geometric mean of the two."""
    consistent: int
    """Number of pairs in `consistency`."""
    sensitive: int
    """Number of pairs in `sensitivity`."""


def read_points(points: Sequence[str], part: Part | None = None) -> list[CosePoint | None]:
    """The meaning of each point name; None for points that are not a change.

    Args:
        part: the part of curves of `consistency` or `sensitivity`; point names of `cose` contain it.

    >>> read_points(["consistency/geometric/rotate/3", "models"])[0]
    CosePoint(part='consistency', kind='geometric', name='rotate', draw=3)
    """
    result: list[CosePoint | None] = []
    for point in points:
        words = point.split("/")
        own = part
        if words[0] in ("consistency", "sensitivity"):
            own = "consistency" if words[0] == "consistency" else "sensitivity"
            words = words[1:]
        if len(words) < 2 or own is None:
            result.append(None)
        else:
            result.append(CosePoint(part=own, kind=words[0], name=words[1], draw=int(words[2]) if len(words) > 2 else None))
    return result


def pool(curves: Curves, points: Sequence[str], *, part: Part | None = None) -> PooledCose:
    """The pooled scores of the paper; `part` as for `read_points`."""
    return _pool(curves, read_points(points, part), torch.ones_like(curves, dtype=torch.bool))


def pool_by(
    curves: Curves, points: Sequence[str], by: Literal["kind", "transform"], *, part: Part | None = None
) -> Mapping[str, PooledCose]:
    """The pooled scores of each kind of change, or of each transform."""
    columns = read_points(points, part)
    names = [None if column is None else column.kind if by == "kind" else column.name for column in columns]
    return {
        group: _pool(curves, columns, torch.tensor([name == group for name in names]).expand_as(curves))
        for group in dict.fromkeys(name for name in names if name is not None)
    }


def pool_by_magnitude(
    curves: Curves, points: Sequence[str], *, magnitudes: int, rng: Rng, part: Part | None = None
) -> Mapping[int, PooledCose]:
    """The pooled scores of each magnitude from 1 to 30, regardless of its sign; arguments as for `drawn_magnitudes`."""
    steps = drawn_magnitudes(points, magnitudes=magnitudes, rng=rng, part=part).abs()
    columns = read_points(points, part)
    return {step: _pool(curves, columns, steps == step) for step in range(1, STEPS + 1)}


def drawn_magnitudes(
    points: Sequence[str], *, magnitudes: int, rng: Rng, part: Part | None = None
) -> Float[Tensor, "images points"]:
    """The signed magnitude, from -30 to 30, of each image at each point; NaN where there is none.

    Args:
        magnitudes: the setting of the metric.
        rng: that of the run, with the ids of the curves' images.
    """
    signed = {
        transform.name: draw_magnitudes(transform, magnitudes, rng=rng) for transform in TRANSFORMS if transform.signed
    }
    result = torch.full((len(rng), len(points)), torch.nan)
    for index, column in enumerate(read_points(points, part)):
        if column is not None and column.draw is not None and column.name in signed:
            result[:, index] = signed[column.name][:, column.draw].float()
    return result


def _pool(curves: Curves, columns: Sequence[CosePoint | None], chosen: Bool[Tensor, "images points"]) -> PooledCose:
    means, counts = [], []
    for part in ("consistency", "sensitivity"):
        own = torch.tensor([column is not None and column.part == part for column in columns]).expand_as(curves)
        values = curves[own & chosen & ~curves.isnan()].double()
        means.append(values.mean() if len(values) else torch.tensor(math.nan).double())
        counts.append(len(values))
    return PooledCose(
        consistency=float(means[0]),
        sensitivity=float(means[1]),
        harmonic=float(harmonic(*means)),
        geometric=float(geometric(*means)),
        consistent=counts[0],
        sensitive=counts[1],
    )
