"""Integrated gradients along a path that turns away from large gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.folding import Fold, fold
from snellen.registry import method
from snellen.types import Output, Passes, Rng

CLOSE = 1e-9
"""As near to a distance that was asked for as the published code goes."""

Rows = Float[Tensor, "batch features"]


@method(
    "guided-ig",
    cite="kapishnikov2021",
    signed=True,
    complete=True,
    needs={"gradients"},
    implementation_invariant=True,
    presets={"kapishnikov2021": {}, "cose2023": {"of": "probability", "fold": "absolute-sum"}},
)
@dataclass(frozen=True)
class GuidedIG:
    """Each pixel's share of the rise from grey to the image, on a path that moves the least sensitive pixels first.

    In every step the `fraction` of values with the smallest gradients goes ahead, no value further than `max_dist` from
    the straight line. The published 200 steps are the default, because the path can only turn where it looks: with fewer
    steps than 1 / `max_dist` it hardly leaves the line.
    """

    steps: int = 200
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

    def __call__(
        self,
        classifier: Classifier,
        inputs: Float[Tensor, "batch channels height width"],
        targets: Int[Tensor, " batch"],
        *,
        rng: Rng,
    ) -> Float[Tensor, "batch height width"]:
        # The path starts at zero inputs, so a value's place on it is a share of the value itself. It is kept in double
        # precision: where a network's rectifiers are about to switch, single precision would find another path.
        way = inputs.double().flatten(1)
        length = way.abs()
        share = torch.zeros_like(way)
        total = torch.zeros_like(way)
        for step in range(1, self.steps + 1):
            here = (share * way).to(inputs.dtype).view(inputs.shape)
            gradient = classifier.gradient(here, targets, of=self.of)[0].flatten(1)
            moved = self._advance(share, gradient.abs(), length, step)
            total.addcmul_(moved - share, gradient.double())
            share = moved
        return fold((way * total).to(inputs.dtype).view(inputs.shape), self.fold)

    def _advance(self, share: Rows, steepness: Rows, length: Rows, step: int) -> Rows:
        """Where on the path each value stands after a step: as near to the input as a straight line would then be."""
        behind = max(step / self.steps - self.max_dist, 0.0)
        ahead = share.new_tensor(min(step / self.steps + self.max_dist, 1.0))
        goal = length.sum(dim=1) * (1 - step / self.steps)
        share = share.clamp_min(behind)
        room = ahead - share
        free = (room > 0) & (length > 0)
        gap = (length * (1 - share)).sum(dim=1) - goal
        # Group by group of values, the least steep first. A row is done when it has come as near as it should.
        while bool((wanting := (gap > CLOSE) & free.any(dim=1)).any()):
            chosen = least(steepness, free & wanting[:, None], self.fraction)
            reach = (length * room).mul_(chosen).sum(dim=1)
            gamma = torch.where(reach > gap, gap / reach, 1.0)
            share = torch.lerp(share, ahead, chosen * gamma[:, None])
            free &= ~chosen
            gap = torch.where(wanting & (gamma == 1), gap - reach, 0.0)
        return share


def least(steepness: Rows, free: Bool[Tensor, "batch features"], fraction: float) -> Bool[Tensor, "batch features"]:
    """The free values at or below a quantile of all values, where those that are not free count as infinitely steep."""
    hidden = torch.where(free, steepness, torch.inf)
    place = int(fraction * (hidden.shape[1] - 1))
    # Selection in numpy takes a tenth of the time of torch.kthvalue.
    bound = np.partition(hidden.cpu().numpy(), place, axis=1)[:, place]
    # Not "at most": a gradient that is not a number must be taken too, or a row would wait for ever.
    return free & ~(hidden > torch.from_numpy(bound).to(hidden)[:, None])
