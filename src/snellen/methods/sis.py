"""Sufficient input subsets."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.fills import MEAN
from snellen.maps.superpixels import CELLS, squares, superpixel_outputs
from snellen.plugins.registry import method
from snellen.types import Fill, Images, Maps, Passes, Rng, Targets

_CAVEATS = {
    "carter2021": "the subset keeps the classifier confident, but people often see nothing in it: it may lie in the "
    "background or at the border"
}


def _check(threshold: float) -> None:
    if not 0 < threshold <= 1:
        raise ValueError(f"threshold must lie above 0 and up to 1, not {threshold}")


@method(
    "sis",
    cite="carter2019",
    family="perturbation",
    needs={"gradients"},
    needs_output="probability",
    presets={"boggust2023": {"ranked": False}},
    caveats=_CAVEATS,
    ranges={
        "threshold": (0.5, 0.7, 0.95),
        "per_step": (50, 200, 400),
        "ranked": (False,),
        "fill": ("black", "blur", "noise"),
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
    """Whether the map ranks the pixels of the subset; otherwise it is 1 there."""
    fill: Fill = MEAN

    def __post_init__(self) -> None:
        _check(self.threshold)
        if self.per_step < 1:
            raise ValueError(f"per_step must be at least 1, not {self.per_step}")

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward and one backward per step; the probability may rise again, so no step can be left out."""
        steps = math.ceil(size[0] * size[1] / self.per_step)
        return Passes(steps, steps)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        start = self.fill(classifier, inputs, rng=rng)
        difference = inputs - start
        batch, height, width = len(inputs), *inputs.shape[2:]
        steps = math.ceil(height * width / self.per_step)
        # The step that removes each pixel, counted from 1; `steps + 1` while the pixel is still there.
        removed = torch.full((batch, height * width), steps + 1, device=inputs.device)
        needed = inputs.new_zeros(batch)
        subset = torch.zeros(batch, 1, dtype=torch.long, device=inputs.device)
        for step in range(steps):
            present = removed > steps
            images = torch.where(present.view(batch, 1, height, width), inputs, start)
            gradient, output = classifier.gradient(images, targets, of="probability")
            if step == 0:
                needed = _needed(output, self.threshold)
            subset = torch.where((output >= needed)[:, None], step, subset)
            fall = (gradient * difference).sum(dim=1).flatten(1).masked_fill(~present, torch.inf)
            least_needed = fall.topk(min(self.per_step, int(present[0].sum())), dim=1, largest=False).indices
            removed.scatter_(1, least_needed, step + 1)
        return _subset_map(removed, subset, steps, self.ranked).to(inputs.dtype).view(batch, height, width)


@method(
    "sis-removal",
    cite="carter2019",
    family="perturbation",
    needs_output="probability",
    caveats=_CAVEATS,
    ranges={"threshold": (0.5, 0.7, 0.95), "cells": (4, 5, 10), "ranked": (False,), "fill": ("black", "blur", "noise")},
)
@dataclass(frozen=True)
class SisRemoval:
    """How long the pixel's square survives while the least needed are removed, if the smallest subset that suffices has it.

    As `sis`, for a black box: squares of a grid of `cells` by `cells` take the place of pixels, and each step tries the
    removal of every square that is left and makes the one that keeps the probability highest. That is the original search;
    pixel by pixel it would need as many passes as half the square of their number.
    """

    threshold: float = 0.85
    """The probability that a subset must keep, as for `sis`."""
    cells: int = CELLS
    ranked: bool = True
    """Whether the map ranks the squares of the subset; otherwise it is 1 there."""
    fill: Fill = MEAN

    def __post_init__(self) -> None:
        _check(self.threshold)
        if self.cells < 1:
            raise ValueError(f"cells must be at least 1, not {self.cells}")

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward for the image, and one per square that is left at each step until there is one."""
        count = min(self.cells, size[0]) * min(self.cells, size[1])
        return Passes(forward=count * (count + 1) // 2)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        height, width = inputs.shape[2:]
        labels = squares(height, width, self.cells).to(inputs.device).expand(len(inputs), -1, -1)
        start = self.fill(classifier, inputs, rng=rng)
        count = int(labels.max()) + 1

        def probabilities(keeps: Bool[Tensor, "batch choices squares"]) -> Float[Tensor, "batch choices"]:
            outputs = superpixel_outputs(classifier, inputs, targets, labels, list(keeps), start=start, of="probability")
            return torch.stack(outputs)

        present = torch.ones(len(inputs), count, dtype=torch.bool, device=inputs.device)
        removed = torch.full((len(inputs), count), count, device=inputs.device)
        output = probabilities(present[:, None])[:, 0]
        needed = _needed(output, self.threshold)
        subset = torch.zeros(len(inputs), 1, dtype=torch.long, device=inputs.device)
        for step in range(1, count):
            remaining = present.nonzero()[:, 1].view(len(inputs), -1)
            outputs = probabilities(
                present[:, None].expand(-1, remaining.shape[1], -1).scatter(2, remaining[..., None], False)
            )
            output, best = outputs.max(dim=1)
            removed_square = remaining.gather(1, best[:, None])
            present.scatter_(1, removed_square, False)
            removed.scatter_(1, removed_square, step)
            subset = torch.where((output >= needed)[:, None], step, subset)
        return (
            _subset_map(removed, subset, count, self.ranked).to(inputs.dtype).gather(1, labels.flatten(1)).view(labels.shape)
        )


def _needed(whole: Float[Tensor, " batch"], threshold: float) -> Float[Tensor, " batch"]:
    """The probability that a subset must keep, from that of the whole image."""
    return torch.where(whole >= threshold, threshold, threshold * whole)


def _subset_map(
    removed: Int[Tensor, "batch features"], subset: Int[Tensor, "batch 1"], steps: int, ranked: bool
) -> Float[Tensor, "batch features"]:
    """Zero for what is removed up to the step that leaves the subset; for the rest the share of steps survived, or 1."""
    rank = removed / steps if ranked else torch.ones_like(removed, dtype=torch.float32)
    return torch.where(removed > subset, rank, 0)
