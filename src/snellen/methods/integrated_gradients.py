"""Integrated gradients."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.folding import Fold, fold
from snellen.masking import MEAN
from snellen.registry import method
from snellen.types import Fill, Output, Passes, Rng

Images = Float[Tensor, "batch channels height width"]


@method(
    "integrated-gradients",
    cite="sundararajan2017",
    signed=True,
    complete=True,
    implementation_invariant=True,
    needs={"gradients"},
    presets={
        "zhang2024": {"steps": 100, "fold": "absolute-max"},
        "cose2023": {"steps": 25, "of": "probability", "fold": "absolute-sum"},
        "kim2022": {"steps": 64, "baseline": "black"},
        "boggust2023": {"steps": 50, "baseline": "gaussian", "fold": "absolute-sum"},
    },
    ranges={
        "steps": (8, 16, 64, 100),
        "baseline": ("black", "blur", "gaussian"),
        "of": ("probability",),
        "fold": ("absolute-sum", "absolute-max", "norm"),
    },
)
@dataclass(frozen=True)
class IntegratedGradients:
    """Each pixel's share of the rise from a baseline's output to the image's: mean gradient on the line, times the way.

    The mean is taken at Gauss-Legendre nodes, so that the map's sum meets the rise with few steps.
    """

    steps: int = 32
    baseline: Fill = MEAN
    of: Output = "logit"
    fold: Fold = "sum"

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, not {self.steps}")

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward and one backward per step."""
        return Passes(self.steps, self.steps)

    def __call__(
        self,
        classifier: Classifier,
        inputs: Images,
        targets: Int[Tensor, " batch"],
        *,
        rng: Rng,
    ) -> Float[Tensor, "batch height width"]:
        start = self.baseline(classifier, inputs, rng=rng)
        return fold(integrated(classifier, start, inputs, targets, steps=self.steps, of=self.of), self.fold)


def integrated(
    classifier: Classifier, start: Images, inputs: Images, targets: Int[Tensor, " batch"], *, steps: int, of: Output
) -> Images:
    """Each input value's share of the rise of the output on the straight line from `start`."""
    way = inputs - start
    places, weights = (torch.from_numpy(one).to(inputs) for one in np.polynomial.legendre.leggauss(steps))
    total = torch.zeros_like(inputs)
    count = classifier.copies(inputs)
    for share, weight in zip(((places + 1) / 2).split(count), (weights / 2).split(count), strict=True):
        line = start[:, None] + share.view(1, -1, 1, 1, 1) * way[:, None]
        gradient, _ = classifier.gradient(line.flatten(0, 1), targets.repeat_interleave(len(share)), of=of)
        total += torch.einsum("bs...,s->b...", gradient.view(line.shape), weight)
    return way * total
