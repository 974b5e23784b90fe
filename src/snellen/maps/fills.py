"""Fills: what replaces removed pixels. Each is defined in pixels (before normalisation) or in inputs (after it)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch.nn import functional

from snellen.classifier import Classifier
from snellen.plugins.registry import fill
from snellen.types import Images, Rng


@fill("black", space="pixels")
@dataclass(frozen=True)
class Black:
    """Black pixels: zero before normalisation."""

    def __call__(self, classifier: Classifier, inputs: Images, *, rng: Rng) -> Images:
        return classifier.to_inputs(torch.zeros_like(inputs))


@fill("mean", space="inputs")
@dataclass(frozen=True)
class Mean:
    """The mean colour of the training data: zero after normalisation, as in most published code."""

    def __call__(self, classifier: Classifier, inputs: Images, *, rng: Rng) -> Images:
        return torch.zeros_like(inputs)


@fill("blur", space="inputs")
@dataclass(frozen=True)
class Blur:
    """The blurred image, as at the start of the insertion test.

    The kernel is that of Petsiuk et al. 2018: a Gaussian folded back into its window, so that a wide sigma gives nearly a
    box. Inputs outside of the image count as 0.
    """

    kernel: int = 11
    """Side of the blur's window in pixels."""
    sigma: float = 5.0
    """Standard deviation of the Gaussian in pixels."""

    def __post_init__(self) -> None:
        if self.kernel < 1 or self.kernel % 2 == 0:
            raise ValueError(f"kernel must be odd and positive, not {self.kernel}")

    def __call__(self, classifier: Classifier, inputs: Images, *, rng: Rng) -> Images:
        weights = torch.tensor(_folded_gaussian(self.kernel, self.sigma), dtype=inputs.dtype, device=inputs.device)
        channels, half = inputs.shape[1], self.kernel // 2
        rows = weights.view(1, 1, -1, 1).repeat(channels, 1, 1, 1)
        tall = functional.conv2d(inputs, rows, padding=(half, 0), groups=channels)
        return functional.conv2d(tall, rows.transpose(2, 3), padding=(0, half), groups=channels)


@fill("noise", space="pixels")
@dataclass(frozen=True)
class Noise:
    """Uniform random pixels, different for every sample."""

    def __call__(self, classifier: Classifier, inputs: Images, *, rng: Rng) -> Images:
        return classifier.to_inputs(rng.uniform("fill", tuple(inputs.shape[1:])).to(inputs))


@fill("gaussian", space="inputs")
@dataclass(frozen=True)
class Gaussian:
    """Standard normal inputs, different for every sample: the baseline of some published code."""

    def __call__(self, classifier: Classifier, inputs: Images, *, rng: Rng) -> Images:
        return rng.normal("fill", tuple(inputs.shape[1:])).to(inputs)


BLACK, MEAN, BLUR, NOISE = Black(), Mean(), Blur(), Noise()


@lru_cache
def _folded_gaussian(size: int, sigma: float) -> tuple[float, ...]:
    """The response of a reflecting Gaussian filter (cut off at 4 sigma) to a spike in the middle of a window."""
    reach = int(4 * sigma + 0.5)
    weights = [0.0] * size
    for offset in range(-reach, reach + 1):
        place = (size // 2 + offset) % (2 * size)
        weights[place if place < size else 2 * size - 1 - place] += math.exp(-0.5 * (offset / sigma) ** 2)
    total = sum(weights)
    return tuple(weight / total for weight in weights)
