"""Scores of maps over an exam: how much of a map lies on what the rule looks at, and how much on what it does not ask about.

P is for primary, what a map should focus on; S for secondary, what it should avoid (Kim, Plumb and Talwalkar 2022). AFL, the
attribution focus level, is the share of a map inside; MAFL is the mean of the shares of the pixels inside; IOU compares the
most salient pixels, as many as are to be focused on, with those inside. There are two readings: what the paper says, and
what its code does (`docs/decisions/0015-textbox-readings.md`).
"""

from __future__ import annotations

from functools import partial
from typing import Literal, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from snellen.errors import SnellenError, nearest
from snellen.metrics.ties import mean_over_orders
from snellen.textbox.exam.exam_scenes import ExamScenes
from snellen.textbox.exam.rendering import blur, render, stretch

ScoreReading = Literal["paper", "published-code"]
READINGS: tuple[ScoreReading, ...] = get_args(ScoreReading)
VERSION = 1
"""Raised with every change of a formula, so that cached scores are computed again."""
SCORES = ("pafl", "safl", "piou", "siou", "pmafl", "smafl")
LOWER_IS_BETTER = frozenset({"safl", "siou", "smafl"})
BINS = 10
"""How many bins of values the published code makes, at whose edges it may cut off the most salient pixels."""


def find_reading(text: str) -> ScoreReading:
    """A reading from its name as text."""
    for reading in READINGS:
        if reading == text:
            return reading
    raise SnellenError(f"there is no reading '{text}'{nearest(text, READINGS) or '; there are ' + ' and '.join(READINGS)}")


def score(
    exam: ExamScenes,
    maps: Float[Tensor, "batch height width"] | Float[np.ndarray, "batch height width"],
    method: str,
    *,
    reading: ScoreReading = "paper",
) -> dict[str, Float[np.ndarray, " batch"]]:
    """The six scores of one method's maps, one map per scene of the exam; NaN where a score is undefined.

    Undefined are the scores of what is not there, those of a map that is zero everywhere or not finite, and, in the
    published reading, those of a map without contrast. The oracle's maps have `oracle` for a method.
    """
    values = torch.as_tensor(maps).detach().cpu().double()
    if values.shape != exam.focus.shape:
        actual, expected = (" × ".join(map(str, shape)) for shape in (values.shape, exam.focus.shape))
        raise SnellenError(
            f"the maps of {method} are {actual}, but its exam has scenes of {expected}; give one map per scene"
        )
    defined = values.isfinite().flatten(1).all(dim=1) & values.flatten(1).any(dim=1)
    values = torch.where(defined[:, None, None], values, 0.0)
    scores = _as_in_the_paper(exam, values) if reading == "paper" else _as_in_the_code(exam, values, method)
    return {name: torch.where(defined, scores[name], torch.nan).numpy() for name in SCORES}


def oracle_maps(exam: ExamScenes) -> Float[Tensor, "batch height width"]:
    """The perfect maps: one inside every rectangle that a map should focus on, nothing elsewhere."""
    return exam.focus.float()


def _as_in_the_paper(exam: ExamScenes, maps: Float[Tensor, "batch height width"]) -> dict[str, Tensor]:
    size = maps.abs()
    shares = size / size.sum(dim=(1, 2), keepdim=True)
    count = exam.focus.sum(dim=(1, 2))
    last = _least_salient(size, count)
    scores: dict[str, Tensor] = {}
    for initial, region in (("p", exam.focus), ("s", exam.avoid)):
        scores |= _levels(initial, shares, region)
        scores[f"{initial}iou"] = _expected_overlaps(size, last, count, region)
    return scores


def _least_salient(size: Float[Tensor, "batch height width"], counts: Int[Tensor, " batch"]) -> Float[Tensor, "batch 1 1"]:
    """The value of the last of the `counts` most salient pixels of each map; infinite where the count is 0."""
    values = size.flatten(1).numpy()
    last = np.full(len(values), np.inf)
    for count in set(counts.tolist()) - {0}:
        rows = np.flatnonzero(counts.numpy() == count)
        position = values.shape[1] - count
        last[rows] = np.partition(values[rows], position, axis=1)[:, position]
    return torch.from_numpy(last)[:, None, None]


def _expected_overlaps(
    size: Float[Tensor, "batch height width"],
    last: Float[Tensor, "batch 1 1"],
    counts: Int[Tensor, " batch"],
    region: Bool[Tensor, "batch height width"],
) -> Float[Tensor, " batch"]:
    """Intersection over union of a region and the most salient pixels, on average over all orders of equal pixels."""
    higher, equal = size > last, size == last
    masks = (higher, equal, higher & region, equal & region, region)
    columns = (counts, *(mask.sum(dim=(1, 2)) for mask in masks))
    overlaps = []
    for count, surely, equals, above, among, total in zip(*(column.tolist() for column in columns), strict=True):
        if not (count and total):
            overlaps.append(torch.nan)
        elif count - surely == equals:  # all equals are taken, as always where no two pixels are equal
            overlaps.append((above + among) / (count + total - above - among))
        else:
            overlap = partial(_overlap, sizes=count + total)
            overlaps.append(mean_over_orders(overlap, above=above, equals=equals, among=among, taken=count - surely))
    return torch.tensor(overlaps, dtype=torch.float64)


def _overlap(hits: Tensor, *, sizes: int) -> Tensor:
    """Intersection over union of two sets, from the size of their intersection and the sum of their sizes."""
    return hits / (sizes - hits)


def _as_in_the_code(exam: ExamScenes, maps: Float[Tensor, "batch height width"], method: str) -> dict[str, Tensor]:
    pictures = render(maps, exam.buckets, method)
    # Before the blur, whose rounding would make a contrast out of none.
    flat = pictures.amax(dim=(1, 2)) == pictures.amin(dim=(1, 2))
    soft = blur(pictures)
    light = stretch(soft)
    shares = light / light.sum(dim=(1, 2), keepdim=True)
    salient = _at_least(soft, exam.focus.sum(dim=(1, 2)))
    regions = exam.scenes.regions()
    inside = (salient[:, None] & regions).sum(dim=(2, 3))
    # Each object is compared with all salient pixels by itself, so that two can never both score 1.
    overlaps = inside / (salient.sum(dim=(1, 2))[:, None] + regions.sum(dim=(2, 3)) - inside).double()
    scores: dict[str, Tensor] = {}
    for initial, region, listed in (("p", exam.focus, exam.focused), ("s", exam.avoid, exam.avoided)):
        scores |= _levels(initial, shares, region)
        scores[f"{initial}iou"] = torch.where(listed, overlaps, torch.nan).nanmean(dim=1)
    return {name: values.masked_fill(flat, torch.nan) for name, values in scores.items()}


def _levels(
    initial: str, shares: Float[Tensor, "batch height width"], region: Bool[Tensor, "batch height width"]
) -> dict[str, Tensor]:
    inside = (shares * region).sum(dim=(1, 2))
    pixels = region.sum(dim=(1, 2))
    return {f"{initial}afl": torch.where(pixels > 0, inside, torch.nan), f"{initial}mafl": inside / pixels}


def _at_least(
    pictures: Float[Tensor, "batch height width"], counts: Int[Tensor, " batch"]
) -> Bool[Tensor, "batch height width"]:
    """The pixels from the lower edge of one of ten bins upwards: the highest edge with at least `counts` pixels above it."""
    low, high = (end(pictures, dim=(1, 2)).numpy() for end in (torch.amin, torch.amax))
    edges = torch.from_numpy(np.linspace(low, high, BINS + 1)[:BINS])[:, :, None, None]
    # `counts` pixels lie above an edge just when the last of the `counts` most salient pixels does.
    chosen = (edges <= _least_salient(pictures, counts)).sum(dim=0, keepdim=True) - 1
    return pictures >= edges.gather(0, chosen)[0]
