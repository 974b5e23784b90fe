"""The difference between a method and a control, and how many more images would decide which of the two is better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

from snellen.files.documents import Number


@dataclass(frozen=True)
class PairedDifference:
    """The mean difference between a method and a control on the same images; positive means that the method is better."""

    control: str
    """Its label."""
    mean: Number
    low: Number
    high: Number
    """Ends of the interval of the mean."""
    margin: Number
    """A difference within this margin does not matter."""
    spread: Number
    """The standard error times the root of `n`: the standard deviation of differences, where images are drawn one by one."""
    n: int
    """Images on which both scores are defined."""
    clusters: int | None = None
    """How many classes or groups were drawn as a whole; None where single images were."""

    @property
    def units(self) -> int:
        """How many clusters were drawn, or images where each was drawn by itself."""
        return self.n if self.clusters is None else self.clusters

    @property
    def better(self) -> bool:
        """Whether the whole interval is above 0: the method is better."""
        return self.low > 0

    @property
    def worse(self) -> bool:
        """Whether the whole interval is below 0: the control is better."""
        return self.high < 0

    @property
    def alike(self) -> bool:
        """Whether the whole interval is within the margin: the difference is too small to matter."""
        return -self.margin <= self.low and self.high <= self.margin


def further_images(against: Sequence[PairedDifference], images: int | None = None) -> int | None:
    """How many more images would decide a verdict with a probability of 80 %, if means and spreads stay as they are.

    None where no number of images would.

    A pass needs enough images for every control, a fail enough for one. Of `images`, only those on which both scores
    are defined count, and further images are expected to define as large a share.
    """
    doubtful = sum(not difference.better for difference in against)
    passing: list[float] = []
    failing: list[float] = []
    for difference in against:
        down, up = _half_widths_in_errors(difference)
        # The chance to miss is shared among controls, and among the two ends that must lie within the margin.
        separated = _images_needed(down + _normal_quantile(0.2 / max(1, doubtful)), difference.spread, difference.mean)
        passing.append(0.0 if difference.better else separated)
        failing.append(_images_needed(up + _normal_quantile(0.2), difference.spread, -difference.mean))
        within = (
            _images_needed(up + _normal_quantile(0.1), difference.spread, difference.margin - difference.mean),
            _images_needed(down + _normal_quantile(0.1), difference.spread, difference.margin + difference.mean),
        )
        failing.append(max(within))
    least = min(max(passing, default=math.inf), min(failing, default=math.inf))
    defined = min((difference.n for difference in against), default=0)
    return _further_images(least, defined, images or defined)


def images_for_axiom(gap: PairedDifference, images: int) -> int | None:
    """How many more images would decide an axiom with a probability of 80 %; None where no number would.

    Args:
        gap: The distance from the best value, with the tolerance as its margin.
        images: How many images there are.

    """
    beyond = gap.mean - gap.margin
    reach = _half_widths_in_errors(gap)[0 if beyond > 0 else 1]
    return _further_images(_images_needed(reach + _normal_quantile(0.2), gap.spread, abs(beyond)), gap.n, images)


def _further_images(needed: float, defined: int, images: int) -> int | None:
    """How many further images to take where `defined` of `images` are defined and `needed` must be; None for no number."""
    return None if math.isinf(needed) else max(1, math.ceil((needed - defined) * images / defined))


def _half_widths_in_errors(difference: PairedDifference) -> tuple[float, float]:
    """How far the interval reaches below and above the mean, in standard errors."""
    error = difference.spread / math.sqrt(difference.n)
    if error <= 0:
        return 0.0, 0.0
    return (difference.mean - difference.low) / error, (difference.high - difference.mean) / error


def _images_needed(errors: float, spread: float, distance: float) -> float:
    """How many images it takes until a distance is this many standard errors."""
    return math.inf if distance <= 0 else (errors * spread / distance) ** 2


def _normal_quantile(missed: float) -> float:
    """The quantile of the normal distribution that is exceeded with this probability."""
    return NormalDist().inv_cdf(1 - missed)
