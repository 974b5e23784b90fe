"""Scores of maps over an exam: how much of a map lies on what the rule looks at, and how much on what it does not ask about.

P is for primary, what a map should focus on; S for secondary, what it should avoid (Kim, Plumb and Talwalkar 2022). AFL, the
attribution focus level, is the share of a map inside; MAFL is the mean of the shares of the pixels inside; IOU compares the
most salient pixels, as many as are to be focused on, with those inside. Two readings are offered: what the paper says, and
what its code does. `docs/decisions/0015-textbox-readings.md` tells them apart.
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
from snellen.textbox.exam.rendering import blurred, rendered, stretched

Reading = Literal["paper", "published-code"]
READINGS: tuple[Reading, ...] = get_args(Reading)
VERSION = 1
"""Raised with every change of a formula, so that scores that a field keeps are computed again."""
SCORES = ("pafl", "safl", "piou", "siou", "pmafl", "smafl")
LOWER_IS_BETTER = frozenset({"safl", "siou", "smafl"})
BINS = 10
"""Of values, at whose edges the published code may cut off the most salient pixels."""


def find_reading(text: str) -> Reading:
    """A reading from its name as text."""
    for one in READINGS:
        if one == text:
            return one
    raise SnellenError(f"there is no reading '{text}'{nearest(text, READINGS) or '; there are ' + ' and '.join(READINGS)}")


def score(
    exam: ExamScenes,
    maps: Float[Tensor, "batch height width"] | Float[np.ndarray, "batch height width"],
    method: str,
    *,
    reading: Reading = "paper",
) -> dict[str, Float[np.ndarray, " batch"]]:
    """The six scores of one method's maps, one map per scene of the exam; NaN where a score is undefined.

    Undefined are the scores of what is not there, those of a map that is zero everywhere or not finite, and, in the
    published reading, those of a map without contrast. The oracle's maps have `oracle` for a method.
    """
    given = torch.as_tensor(maps).detach().cpu().double()
    if given.shape != exam.focus.shape:
        there, expected = (" × ".join(map(str, one)) for one in (given.shape, exam.focus.shape))
        raise SnellenError(
            f"the maps of {method} are {there}, but its exam has scenes of {expected}; give one map per scene"
        )
    known = given.isfinite().flatten(1).all(dim=1) & given.flatten(1).any(dim=1)
    given = torch.where(known[:, None, None], given, 0.0)
    found = _as_in_the_paper(exam, given) if reading == "paper" else _as_in_the_code(exam, given, method)
    return {name: torch.where(known, found[name], torch.nan).numpy() for name in SCORES}


def oracle(exam: ExamScenes) -> Float[Tensor, "batch height width"]:
    """The perfect maps: one inside every rectangle that a map should focus on, nothing elsewhere."""
    return exam.focus.float()


def _as_in_the_paper(exam: ExamScenes, maps: Float[Tensor, "batch height width"]) -> dict[str, Tensor]:
    size = maps.abs()
    shares = size / size.sum(dim=(1, 2), keepdim=True)
    wanted = exam.focus.sum(dim=(1, 2))
    last = _least_salient(size, wanted)
    found: dict[str, Tensor] = {}
    for initial, region in (("p", exam.focus), ("s", exam.avoid)):
        found |= _levels(initial, shares, region)
        found[f"{initial}iou"] = _expected_overlaps(size, last, wanted, region)
    return found


def _least_salient(size: Float[Tensor, "batch height width"], wanted: Int[Tensor, " batch"]) -> Float[Tensor, "batch 1 1"]:
    """The value of the last of so many most salient pixels; infinite where none is wanted."""
    values = size.flatten(1).numpy()
    found = np.full(len(values), np.inf)
    for count in set(wanted.tolist()) - {0}:
        rows = np.flatnonzero(wanted.numpy() == count)
        place = values.shape[1] - count
        found[rows] = np.partition(values[rows], place, axis=1)[:, place]
    return torch.from_numpy(found)[:, None, None]


def _expected_overlaps(
    size: Float[Tensor, "batch height width"],
    last: Float[Tensor, "batch 1 1"],
    wanted: Int[Tensor, " batch"],
    region: Bool[Tensor, "batch height width"],
) -> Float[Tensor, " batch"]:
    """Intersection over union of a region and the wanted number of most salient pixels, on average over orders of equals."""
    higher, equal = size > last, size == last
    counts = (higher, equal, higher & region, equal & region, region)
    columns = (wanted, *(one.sum(dim=(1, 2)) for one in counts))
    found = []
    for count, surely, equals, above, among, total in zip(*(column.tolist() for column in columns), strict=True):
        if not (count and total):
            found.append(torch.nan)
        elif count - surely == equals:  # all equals are taken, as always where no two pixels are equal
            found.append((above + among) / (count + total - above - among))
        else:
            overlap = partial(_overlap, sizes=count + total)
            found.append(mean_over_orders(overlap, above=above, equals=equals, among=among, taken=count - surely))
    return torch.tensor(found, dtype=torch.float64)


def _overlap(hits: Tensor, *, sizes: int) -> Tensor:
    """Intersection over union of two sets, from what they share and their sizes' sum."""
    return hits / (sizes - hits)


def _as_in_the_code(exam: ExamScenes, maps: Float[Tensor, "batch height width"], method: str) -> dict[str, Tensor]:
    pictures = rendered(maps, exam.buckets, method)
    # Asked before the blur, whose rounding would make a contrast out of none.
    flat = pictures.amax(dim=(1, 2)) == pictures.amin(dim=(1, 2))
    soft = blurred(pictures)
    light = stretched(soft)
    shares = light / light.sum(dim=(1, 2), keepdim=True)
    salient = _at_least(soft, exam.focus.sum(dim=(1, 2)))
    regions = exam.scenes.regions()
    shared = (salient[:, None] & regions).sum(dim=(2, 3))
    # Each thing is held against all salient pixels by itself, so that two can never both score 1.
    overlaps = shared / (salient.sum(dim=(1, 2))[:, None] + regions.sum(dim=(2, 3)) - shared).double()
    found: dict[str, Tensor] = {}
    for initial, region, listed in (("p", exam.focus, exam.focused), ("s", exam.avoid, exam.avoided)):
        found |= _levels(initial, shares, region)
        found[f"{initial}iou"] = torch.where(listed, overlaps, torch.nan).nanmean(dim=1)
    return {name: values.masked_fill(flat, torch.nan) for name, values in found.items()}


def _levels(
    initial: str, shares: Float[Tensor, "batch height width"], region: Bool[Tensor, "batch height width"]
) -> dict[str, Tensor]:
    inside = (shares * region).sum(dim=(1, 2))
    pixels = region.sum(dim=(1, 2))
    return {f"{initial}afl": torch.where(pixels > 0, inside, torch.nan), f"{initial}mafl": inside / pixels}


def _at_least(
    pictures: Float[Tensor, "batch height width"], wanted: Int[Tensor, " batch"]
) -> Bool[Tensor, "batch height width"]:
    """The pixels from the lower edge of one of ten bins upwards: the highest edge with at least so many above it."""
    low, high = (end(pictures, dim=(1, 2)).numpy() for end in (torch.amin, torch.amax))
    edges = torch.from_numpy(np.linspace(low, high, BINS + 1)[:BINS])[:, :, None, None]
    # So many lie above an edge just when the last of so many most salient pixels does.
    chosen = (edges <= _least_salient(pictures, wanted)).sum(dim=0, keepdim=True) - 1
    return pictures >= edges.gather(0, chosen)[0]
