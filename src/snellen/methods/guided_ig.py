"""Integrated gradients along a path that turns away from large gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64

from snellen.classifier import Classifier
from snellen.maps.folding import Fold, fold
from snellen.plugins.registry import method
from snellen.types import Images, Maps, Output, Passes, Rng, Targets

SMALLEST_GAP = 1e-9
"""The remaining distance at which the published code ends a step."""

Doubles = Float64[np.ndarray, " features"]
Values = Float[np.ndarray, " features"]
Chosen = Bool[np.ndarray, " features"]


@method(
    "guided-ig",
    cite="kapishnikov2021",
    family="path",
    signed=True,
    needs={"gradients"},
    caveats={
        "snellen2026": "its map does not sum to the rise on deep networks: with default settings the gap is more than 5 % "
        "of the rise on 39 of 40 CIFAR-10 images and a ResNet-20 (median 88 %, largest 14 times the rise); "
        "and rounding can turn the path, so that the same function in other weights gets another map (of 4 such images, "
        "with 60 steps, 2 moved by more than a tenth of the largest value)",
    },
    presets={"kapishnikov2021": {}, "cose2023": {"of": "probability", "fold": "absolute-sum"}},
    ranges={
        "steps": (50, 100, 400),
        "fraction": (0.1, 0.5, 1.0),
        "max_dist": (0.01, 0.1, 1.0),
        "of": ("probability",),
        "fold": ("absolute-sum", "absolute-max", "norm"),
    },
)
@dataclass(frozen=True)
class GuidedIG:
    """Each pixel's share of the rise from grey to the image, on a path that moves the least sensitive pixels first.

    In every step the `fraction` of values with the smallest gradients goes ahead, no value further than `max_dist` from
    the straight line. The published 200 steps are the default, because with fewer steps than
    1 / `max_dist` the path hardly leaves the line. Values move as far as `max_dist` allows on one gradient, so the sum
    misses the rise of the output, by a little in small networks and by far in deep ones; more steps do not take that away, a
    smaller `max_dist` does.
    """

    steps: int = 200
    """Number of steps of the path."""
    fraction: float = 0.25
    max_dist: float = 0.02
    of: Output = "logit"
    fold: Fold = "sum"

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, not {self.steps}")
        if not 0 < self.fraction <= 1:
            raise ValueError(f"fraction must lie above 0 and up to 1, not {self.fraction}")
        if not 0 <= self.max_dist <= 1:
            raise ValueError(f"max_dist must lie between 0 and 1, not {self.max_dist}")

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward and one backward per step."""
        return Passes(self.steps, self.steps)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        # The path starts at zero inputs, so a value's place on it is a share of the value itself. It is computed in double
        # precision: where a network's rectifiers are about to switch, single precision would find another path. And it is
        # computed in numpy, whose selection takes a tenth of the time of torch.kthvalue, row by row, so that a row stays in
        # the processor's cache.
        difference = inputs.double().flatten(1).cpu()
        length = difference.abs()
        share = (length == 0).double()  # a value of zero is already at its end
        total = torch.zeros_like(difference)
        for step in range(1, self.steps + 1):
            point = (share * difference).to(inputs).view(inputs.shape)
            gradient = classifier.gradient(point, targets, of=self.of)[0].flatten(1).cpu().numpy()
            for row in zip(share.numpy(), total.numpy(), gradient, length.numpy(), strict=True):
                self._advance(step, *row)
        return fold((difference * total).to(inputs).view(inputs.shape), self.fold)

    def _advance(self, step: int, share: Doubles, total: Doubles, gradient: Values, length: Doubles) -> None:
        """Moves an image's values until they are as near to the input as a straight line would be after this step.

        What each value gains on the way is added to the total.
        """
        behind, ahead = max(step / self.steps - self.max_dist, 0.0), min(step / self.steps + self.max_dist, 1.0)
        before = share.copy()
        np.maximum(share, behind, out=share)
        free = np.flatnonzero(share < ahead)
        steepness = np.abs(gradient[free])
        gap = float(length.sum() * (step / self.steps) - (length * share).sum())
        # Group by group of values, the least steep first.
        while gap > SMALLEST_GAP and len(free):
            chosen = least(steepness, int(self.fraction * (len(share) - 1)))
            moving = free[chosen]
            room = ahead - share[moving]
            reach = float((length[moving] * room).sum())
            if reach > gap:
                share[moving] += room * (gap / reach)
                break
            share[moving] = ahead
            gap -= reach
            free, steepness = free[~chosen], steepness[~chosen]
        total += np.subtract(share, before, out=before) * gradient


def least(steepness: Values, place: int) -> Chosen:
    """Which values are at most the one with index `place` in rising order; all if there are no more values than that."""
    if place >= len(steepness):
        return np.ones(len(steepness), dtype=bool)
    bound = np.partition(steepness, place)[place]
    # Not "at most": NaN must be chosen too, or the loop over a row would never end.
    return np.asarray(~(steepness > bound))
