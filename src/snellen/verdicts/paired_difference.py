"""A method against one control, and how many more images would settle which of the two is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from snellen.files.documents import Number


@dataclass(frozen=True)
class PairedDifference:
    """A method against one control: the mean paired difference (positive is better), its interval, and the margin.

    `spread` over the root of `n` is the standard error. `clusters` counts the classes or groups that were drawn as a whole.
    """

    control: str
    mean: Number
    low: Number
    high: Number
    margin: Number
    spread: Number
    n: int
    clusters: int | None = None

    @property
    def units(self) -> int:
        """How many were drawn: clusters, or images where each was drawn by itself."""
        return self.n if self.clusters is None else self.clusters

    @property
    def better(self) -> bool:
        """Whether the method is better beyond doubt."""
        return self.low > 0

    @property
    def worse(self) -> bool:
        """Whether the control is better beyond doubt."""
        return self.high < 0

    @property
    def alike(self) -> bool:
        """Whether all of the interval lies within the margin: a difference that is sure, but small, is none either."""
        return -self.margin <= self.low and self.high <= self.margin


def further_images(against: Sequence[PairedDifference], images: int | None = None) -> int | None:
    """How many more images would probably (with 80 %) settle a verdict, if differences stay as they are; None if none would.

    A pass takes enough images for every control; a fail takes enough for one. Of `images` those that define a pair are a
    share, and so it will be with further ones.
    """
    doubtful = sum(not one.better for one in against)
    passing: list[float] = []
    failing: list[float] = []
    for one in against:
        down, up = _reaches(one)
        # The chance to miss is shared among controls, and among the two ends that must lie within the margin.
        clear = _images(down + _z(0.2 / max(1, doubtful)), one.spread, one.mean)
        passing.append(0.0 if one.better else clear)
        failing.append(_images(up + _z(0.2), one.spread, -one.mean))
        within = (
            _images(up + _z(0.1), one.spread, one.margin - one.mean),
            _images(down + _z(0.1), one.spread, one.margin + one.mean),
        )
        failing.append(max(within))
    least = min(max(passing, default=math.inf), min(failing, default=math.inf))
    now = min((one.n for one in against), default=0)
    return _more(least, now, images or now)


def images_for_axiom(gap: PairedDifference, images: int) -> int | None:
    """The same for an axiom, whose `gap` to the best value stands beside a tolerance instead of a margin."""
    ahead = gap.mean - gap.margin
    reach = _reaches(gap)[0 if ahead > 0 else 1]
    return _more(_images(reach + _z(0.2), gap.spread, abs(ahead)), gap.n, images)


def _more(needed: float, now: int, images: int) -> int | None:
    return None if math.isinf(needed) else max(1, math.ceil((needed - now) * images / now))


def _reaches(one: PairedDifference) -> tuple[float, float]:
    """How many standard errors the interval reaches down and up."""
    error = one.spread / math.sqrt(one.n)
    return ((one.mean - one.low) / error, (one.high - one.mean) / error) if error > 0 else (0.0, 0.0)


def _images(errors: float, spread: float, distance: float) -> float:
    """How many images make a distance as wide as so many standard errors."""
    return math.inf if distance <= 0 else (errors * spread / distance) ** 2


def _z(missed: float) -> float:
    return NormalDist().inv_cdf(1 - missed)
