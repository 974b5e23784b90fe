"""Integrated gradients along a path of ever less blurred copies of the image."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.folding import Fold, fold
from snellen.plugins.registry import method
from snellen.plugins.traits import TraitEvidence
from snellen.types import Images, Maps, Output, Passes, Rng, Targets

SIGMA_STEP = 0.01
"""Step in sigma, in pixels, by which the published code measures how a wider blur changes the image."""


@method(
    "blur-ig",
    cite="xu2020",
    family="path",
    signed=True,
    implementation_invariant=TraitEvidence(0.01, images=18, networks=5, missed=2),
    needs={"gradients"},
    presets={"xu2020": {}, "cose2023": {"of": "probability", "fold": "absolute-sum"}},
    ranges={
        "steps": (20, 50, 200),
        "max_sigma": (10.0, 25.0, 100.0),
        "of": ("probability",),
        "fold": ("absolute-sum", "absolute-max", "norm"),
    },
)
@dataclass(frozen=True)
class BlurIG:
    """Each pixel's share of the rise from a blurred image's output to the image's own, as the image comes into focus.

    The blur is a Gaussian of up to `max_sigma` pixels, in equal steps of its width, with zero inputs beyond the image. The
    default is the published number of steps; even with these the sum of a photograph's map misses the rise by up to a fifth.
    """

    steps: int = 100
    """Number of blurred images on the path."""
    max_sigma: float = 50.0
    of: Output = "logit"
    fold: Fold = "sum"

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, not {self.steps}")
        if self.max_sigma <= 0:
            raise ValueError(f"max_sigma must be positive, not {self.max_sigma}")

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward and one backward per step."""
        return Passes(self.steps, self.steps)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        height, width = inputs.shape[2:]
        count = classifier.copies(inputs)
        total = torch.zeros_like(inputs)
        images = inputs[:, None]
        for first in range(0, self.steps, count):
            sigmas = self.max_sigma * np.arange(first, min(first + count, self.steps)) / self.steps
            rows, rows_change = (blur[:, None].to(inputs) for blur in blurs(sigmas, height))
            columns, columns_change = (blur[:, None].to(inputs).mT for blur in blurs(sigmas, width))
            # A blur is one matrix per axis. The change of their product, to the last digit of the difference that the
            # published code takes, without the cancellation that this difference suffers from in single precision.
            tall = rows @ images
            blurred = tall @ columns
            change = tall @ columns_change
            change += (rows_change @ images) @ (columns + SIGMA_STEP * columns_change)
            gradient, _ = classifier.gradient(blurred.flatten(0, 1), targets.repeat_interleave(len(sigmas)), of=self.of)
            total -= torch.einsum("bs...,bs...->b...", gradient.view(blurred.shape), change)
        return fold(total * (self.max_sigma / self.steps), self.fold)


def blurs(
    sigmas: Float[np.ndarray, " steps"], size: int
) -> tuple[Float[Tensor, "steps size size"], Float[Tensor, "steps size size"]]:
    """For each width, the matrix that blurs a line of so many pixels, and how it changes per pixel of width."""
    weights, wider = _gaussians(sigmas, size), _gaussians(sigmas + SIGMA_STEP, size)
    distance = torch.from_numpy(np.abs(np.subtract.outer(np.arange(size), np.arange(size))))
    return torch.from_numpy(weights)[:, distance], torch.from_numpy((wider - weights) / SIGMA_STEP)[:, distance]


def _gaussians(sigmas: Float[np.ndarray, " steps"], size: int) -> Float[np.ndarray, "steps size"]:
    """Weights by distance; cut at four sigma, as in the published code, also where the image is narrower than that."""
    reach = (4 * sigmas + 0.5).astype(int)[:, None]
    distance = np.arange(max(size, int(reach.max()) + 1))
    wide = np.where(sigmas > 0, sigmas, 1.0)[:, None]
    weights = np.where(distance <= reach, np.exp(-0.5 * (distance / wide) ** 2), 0.0)
    weights /= 2 * weights.sum(axis=1, keepdims=True) - 1  # every distance but zero occurs on both sides
    return weights[:, :size]
