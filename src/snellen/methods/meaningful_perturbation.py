"""Meaningful perturbation."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.fills import Blur
from snellen.methods.descent import Adam
from snellen.plugins.registry import method
from snellen.types import Fill, Images, Maps, Passes, Rng, Targets

Grids = Float[Tensor, "batch rows columns"]

RATE = 0.1
"""Length of a step of the gradient descent."""
SOFTNESS = 5 / 8
"""The width of the Gaussian that upsamples the grid, in cells: 5 pixels for cells of 8 in the paper."""

BLURRED = Blur(kernel=61, sigma=10.0)


@method(
    "meaningful-perturbation",
    cite="fong2017",
    family="perturbation",
    deterministic=False,
    needs={"gradients"},
    needs_output="probability",
    presets={"fong2017": {"steps": 300}},
    caveats={
        "fong2019": "The weights of its penalties balance evidence against size and roughness, and must be tuned anew for "
        "each model and sometimes each image",
    },
    ranges={
        "steps": (50, 200, 300),
        "cells": (14, 56),
        "fill": ("mean", "noise", "blur"),
        "area": (1e-5, 1e-3),
        "roughness": (1e-3, 1e-1),
    },
)
@dataclass(frozen=True)
class MeaningfulPerturbation:
    """How much of the image must be removed at a pixel, in the smallest smooth blur that lowers the target's probability.

    A coarse mask is optimised by gradient descent on that probability, plus `area` times the sum of what is removed, plus
    `roughness` times the sum of cubed steps between neighbouring cells. The image moves a little under the mask at every
    step, so that the mask does not grow artefacts. 100 steps come close to the paper's 300 at a third of the cost.
    """

    steps: int = 100
    """Number of gradient steps."""
    cells: int = 28
    """Side of the mask's grid."""
    fill: Fill = BLURRED
    area: float = 1e-4
    roughness: float = 1e-2

    def __post_init__(self) -> None:
        if self.steps < 1 or self.cells < 1:
            raise ValueError(f"steps and cells must be at least 1, not {self.steps} and {self.cells}")
        if self.area < 0 or self.roughness < 0:
            raise ValueError(f"area and roughness must not be negative, not {self.area} and {self.roughness}")

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward and one backward per step."""
        return Passes(self.steps, self.steps)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        start = self.fill(classifier, inputs, rng=rng)
        difference = inputs - start
        height, width = (int(side) for side in inputs.shape[2:])
        down, across = upsampling(self.cells, height).to(inputs), upsampling(self.cells, width).to(inputs)
        keep = torch.full((len(inputs), self.cells, self.cells), START).to(inputs)
        adam = Adam(RATE)
        for step in range(self.steps):
            moved_start, moved_difference = shifted(start, rng, step), shifted(difference, rng, step)
            mask = down @ keep @ across.T
            images = torch.addcmul(moved_start, mask[:, None], moved_difference)
            gradient, _ = classifier.gradient(images, targets, of="probability")
            slope = down.T @ (gradient * moved_difference).sum(dim=1) @ across
            keep = adam.step(keep, slope - self.area + self.roughness * _steps_cubed(keep)).clamp(0, 1)
        return down @ (1 - keep) @ across.T


START = 0.5
"""Half of everything is removed at first: near the image itself a confident classifier has hardly any gradient."""


def upsampling(cells: int, side: int) -> Float[Tensor, "side cells"]:
    """The Gaussian weight of each cell at each pixel along one axis; the weights at a pixel sum to 1."""
    centres = (torch.arange(cells) + 0.5) / cells
    places = (torch.arange(side) + 0.5) / side
    return (-0.5 * ((places[:, None] - centres) * cells / SOFTNESS).square()).softmax(dim=1)


def shifted(images: Images, rng: Rng, step: int) -> Images:
    """Each image moved by its own whole pixels of this step, at most 2 of 224; its border is repeated."""
    height, width = images.shape[2:]
    draw = rng.uniform(f"jitter {step}", (2,)).to(images)
    places = []
    for axis, side in enumerate((height, width)):
        reach = max(1, round(side / 112))
        by = (draw[:, axis] * (2 * reach + 1)).floor().long() - reach
        places.append((torch.arange(side, device=images.device) + by[:, None]).clamp(0, side - 1))
    rows = torch.arange(len(images), device=images.device)[:, None, None, None]
    channels = torch.arange(images.shape[1], device=images.device)[None, :, None, None]
    return images[rows, channels, places[0][:, None, :, None], places[1][:, None, None, :]]


def _steps_cubed(grids: Grids) -> Grids:
    """The gradient of the sum of |step|³ between neighbouring cells."""
    total = torch.zeros_like(grids)
    for axis in (1, 2):
        step = grids.diff(dim=axis)
        slope = 3 * step * step.abs()
        total.narrow(axis, 1, grids.shape[axis] - 1).add_(slope)
        total.narrow(axis, 0, grids.shape[axis] - 1).sub_(slope)
    return total
