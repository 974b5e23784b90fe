"""Sufficient input subsets."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.masking import MEAN
from snellen.registry import method
from snellen.types import Fill, Passes, Rng


@method(
    "sis",
    cite="carter2019",
    needs={"gradients"},
    presets={"boggust2023": {"ranked": False}},
    caveats={
        "carter2021": "the subset keeps the classifier confident, but people often see nothing in it: it may lie in the "
        "background or at the border"
    },
)
@dataclass(frozen=True)
class Sis:
    """How long the pixel survives while the least needed ones are removed, if the smallest subset that suffices has it.

    Zero outside that subset; inside, the share of the steps that the pixel outlived, or 1 with `ranked=false`. Each step
    removes the `per_step` pixels whose removal lowers the target's probability least, judged by the gradient towards the
    fill. A subset suffices when it alone keeps the probability at `threshold`, or, where the whole image stays below, at
    that share of the image's own.
    """

    threshold: float = 0.85
    per_step: int = 100
    ranked: bool = True
    fill: Fill = MEAN

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise ValueError(f"threshold must lie above 0 and up to 1, not {self.threshold}")
        if self.per_step < 1:
            raise ValueError(f"per_step must be at least 1, not {self.per_step}")

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward and one backward per step; the probability may rise again, so no step can be spared."""
        steps = math.ceil(size[0] * size[1] / self.per_step)
        return Passes(steps, steps)

    def __call__(
        self,
        classifier: Classifier,
        inputs: Float[Tensor, "batch channels height width"],
        targets: Int[Tensor, " batch"],
        *,
        rng: Rng,
    ) -> Float[Tensor, "batch height width"]:
        start = self.fill(classifier, inputs, rng=rng)
        way = inputs - start
        batch, height, width = len(inputs), *inputs.shape[2:]
        steps = math.ceil(height * width / self.per_step)
        # The step that removes a pixel, counted from 1; beyond the last while it is still there.
        removed = torch.full((batch, height * width), steps + 1, device=inputs.device)
        needed = inputs.new_zeros(batch)
        subset = torch.zeros(batch, 1, dtype=torch.long, device=inputs.device)
        for step in range(steps):
            there = removed > steps
            seen = torch.where(there.view(batch, 1, height, width), inputs, start)
            gradient, output = classifier.gradient(seen, targets, of="probability")
            if step == 0:
                needed = torch.where(output >= self.threshold, self.threshold, self.threshold * output)
            subset = torch.where((output >= needed)[:, None], step, subset)
            fall = (gradient * way).sum(dim=1).flatten(1).masked_fill(~there, torch.inf)
            least = fall.topk(min(self.per_step, int(there[0].sum())), dim=1, largest=False).indices
            removed.scatter_(1, least, step + 1)
        inside = removed > subset
        rank = removed.to(inputs.dtype) / steps if self.ranked else torch.ones_like(removed, dtype=inputs.dtype)
        return torch.where(inside, rank, 0).view(batch, height, width)
