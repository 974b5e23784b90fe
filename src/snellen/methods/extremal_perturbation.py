"""Extremal perturbation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from snellen.classifier import Classifier
from snellen.methods.descent import Momentum
from snellen.plugins.registry import method
from snellen.types import Images, Maps, Output, Passes, Rng, Targets

Grids = Float[Tensor, "masks rows columns"]

RATE = 0.02
"""Length of a step of the gradient descent."""
WEIGHT, START_SHARE = 1200.0, 0.005
"""Final weight of the penalty for a wrong area (the paper's 300, doubled twice), and the share of it at the start.

The penalty pushes the ranked values of the mask apart. With full weight from the start it would do so before the target's
gradient has ordered them, and a hundred steps would end in regions that keep nothing of the target.
"""

TEMPERATURE = 1 / 20
"""Of the soft maximum: the smaller it is, the more the largest bump alone counts."""
OUTSIDE, FAR_EXPONENT = -1e9, 40.0
"""The value of a cell that does not exist, and the negative logarithm of its weight, which is next to nothing."""

REACH = 5
"""In cells: the bump of a cell is below 2 % of its height from there on."""

POINTS_PER_SIDE = 2
"""The mask is computed at this many points per cell and upsampled linearly; its bumps are several cells wide."""

TIE = 1e-6
"""Values that are this close differ by rounding only."""

LEVELS = 8
"""Number of copies of the image, from sharp to most blurred."""
MOST_BLUR = 20 / 224
"""The widest Gaussian, as a share of the image's side."""


@method(
    "extremal-perturbation",
    cite="fong2019",
    family="perturbation",
    needs={"gradients"},
    presets={"fong2019": {"steps": 800}},
    caveats={
        "fong2019": "Each area is optimised by itself, so a larger mask need not contain a smaller one",
    },
    ranges={
        "areas": ((0.1,), (0.05, 0.1, 0.2), (0.1, 0.2, 0.4, 0.8)),
        "steps": (50, 200, 800),
        "cells": (16, 64),
        "of": ("probability",),
    },
)
@dataclass(frozen=True)
class ExtremalPerturbation:
    """In what share of `areas` a pixel belongs to the region of that size which, left sharp, keeps the target highest.

    Outside the region the image is blurred. Regions are made of smooth bumps on a grid of `cells`, optimised by gradient
    ascent with a penalty on the ranked values of the mask, which should be one in an area of that size and zero elsewhere.
    """

    areas: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4)
    steps: int = 100
    """Number of gradient steps per area."""
    cells: int = 32
    of: Output = "logit"

    def __post_init__(self) -> None:
        if self.steps < 1 or self.cells < 1:
            raise ValueError(f"steps and cells must be at least 1, not {self.steps} and {self.cells}")
        if not self.areas or not all(0 < area < 1 for area in self.areas):
            raise ValueError(f"areas must lie between 0 and 1, not {list(self.areas)}")

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward and one backward per area and step."""
        return Passes(self.steps, self.steps) * len(self.areas)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        # As many images at a time as fill a pass; each has a mask, a pyramid and a graph of its own.
        count = max(1, classifier.rows_for(inputs, gradients=True) // len(self.areas))
        parts = zip(inputs.split(count), targets.split(count), strict=True)
        return torch.cat([self._masks(classifier, *part) for part in parts])

    def _masks(self, classifier: Classifier, inputs: Images, targets: Targets) -> Maps:
        areas = torch.tensor(self.areas).to(inputs).repeat(len(inputs))
        owners = torch.arange(len(inputs), device=inputs.device).repeat_interleave(len(self.areas))
        pyramid = blurred(inputs)
        size = (int(inputs.shape[2]), int(inputs.shape[3]))
        cells = torch.full((len(areas), self.cells, self.cells), START).to(inputs)
        descent, evenly = Momentum(RATE), influence(cells)
        for step in range(self.steps):
            weight = WEIGHT * START_SHARE ** (1 - (step + 1) / self.steps)
            with torch.enable_grad():
                leaf = cells.detach().requires_grad_()
                fine = smooth_masks(leaf)
                images = perturbed(pyramid, owners, _upsample(fine, size))
                penalty = area_penalty(fine, areas).sum()
            gradient, _ = classifier.gradient(images.detach(), targets[owners], of=self.of)
            (slope,) = torch.autograd.grad((images, penalty), leaf, (-gradient, torch.tensor(weight).to(inputs)))
            cells = descent.step(cells, slope / evenly).clamp(0, 1)
        masks = _upsample(smooth_masks(cells), size).clamp_min(
            0
        )  # cells beyond the border leave small negative rounding errors
        return masks.view(len(inputs), len(self.areas), *size).mean(dim=1)


START = 1.0
"""Initial value of all cells: the whole image is kept."""


def smooth_masks(cells: Grids) -> Float[Tensor, "masks tall wide"]:
    """A mask of overlapping bumps, one per cell: at each point the largest of cell value times bump height.

    The largest is a soft one, so it is measured against that of a full grid: full cells give a full mask up to the border.
    """
    _, rows, columns = cells.shape
    bumps, full = _bumps().to(cells), torch.ones_like(cells[:1])
    largest, most = (_SoftLargest.apply(grid, bumps) for grid in (cells, full))  # type: ignore[no-untyped-call]
    points = (largest / most).clamp_max(1).view(-1, POINTS_PER_SIDE**2, rows, columns)
    return functional.pixel_shuffle(points, POINTS_PER_SIDE).squeeze(1)


class _SoftLargest(torch.autograd.Function):
    """At each point p, the mean m of the heights h = cell × bump around, weighted by w = exp(h / T); with its derivative.

    Heights are at most 1, so that the exponentials need no shift. One mask at a time, which stays in the caches.
    """

    @staticmethod
    def forward(ctx: Any, cells: Tensor, bumps: Tensor) -> Tensor:
        side = 2 * REACH + 1
        # Only cells that exist take part: empty ones beyond the border, or copies, would attract or repel the area.
        padded = functional.pad(cells, (REACH,) * 4, value=OUTSIDE)
        ctx.size = cells.shape[1:]
        means, slopes = [], []
        for grid in padded:
            neighbours = functional.unfold(grid[None, None], side)
            heights = (neighbours * bumps[..., None]).clamp_min_(-FAR_EXPONENT * TEMPERATURE)
            weights = (heights / TEMPERATURE).exp_()
            total = weights.sum(dim=1, keepdim=True)
            mean = heights.mul(weights).sum(dim=1, keepdim=True).div_(total)
            means.append(mean[:, 0])
            if ctx.needs_input_grad[0]:  # dm / dh = w / Σw (1 + (h - m) / T)
                slopes.append(heights.sub_(mean - TEMPERATURE).mul_(weights).mul_(1 / (total * TEMPERATURE)))
        if slopes:
            ctx.save_for_backward(torch.stack(slopes), bumps)
        return torch.stack(means)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        slopes, bumps = ctx.saved_tensors
        gradients = [
            (slope * bumps[..., None]).mul_(upstream_row[:, None]).sum(dim=0)
            for slope, upstream_row in zip(slopes, upstream[0], strict=True)
        ]
        return functional.fold(torch.stack(gradients), ctx.size, 2 * REACH + 1, padding=REACH)[:, 0], None


def influence(cells: Grids) -> Float[Tensor, "1 rows columns"]:
    """How much of a full mask depends on each cell, relative to the mean cell; cells at the border cover fewer points.

    Steps are divided by it, so that an even gradient moves the mask evenly, at the border too.
    """
    with torch.enable_grad():
        full = torch.ones_like(cells[:1]).requires_grad_()
        (slope,) = torch.autograd.grad(smooth_masks(full).sum(), full)
    return slope / slope.mean()


def _bumps() -> Float[Tensor, "points neighbours"]:
    """The height, at each point of a cell, of the bumps of the cells around: flat for one cell, then a Gaussian's flank."""
    inside = (torch.arange(POINTS_PER_SIDE) + 0.5) / POINTS_PER_SIDE - 0.5
    away = inside[:, None] - torch.arange(-REACH, REACH + 1)
    distance = (away[:, None, :, None].square() + away[None, :, None, :].square()).sqrt()
    return torch.exp(-(distance - 1).clamp_min(0).square() / 4).flatten(2).flatten(0, 1)


def area_penalty(masks: Grids, areas: Float[Tensor, " masks"]) -> Float[Tensor, " masks"]:
    """The mean squared difference between a mask's values in order and zeros followed by a share `area` of ones.

    Equal values get equal goals, else their order in memory would decide which of them to keep.
    """
    values = masks.flatten(1).sort(dim=1).values
    count = values.shape[1]
    from_above = count - 1 - torch.arange(count, device=masks.device)
    goal = (areas[:, None] * count - from_above).clamp(0, 1)
    rises = (values.detach().diff(dim=1) > TIE).long().cumsum(dim=1)
    ties = torch.cat([torch.zeros_like(rises[:, :1]), rises], dim=1)
    members = torch.zeros_like(goal).scatter_add(1, ties, torch.ones_like(goal))
    shared = torch.zeros_like(goal).scatter_add(1, ties, goal) / members.clamp_min(1)
    return (values - shared.gather(1, ties)).square().mean(dim=1)


def blurred(inputs: Images) -> Float[Tensor, "batch levels channels height width"]:
    """The image under Gaussians of growing width, from none to the widest; what lies outside weighs nothing."""
    levels = [inputs]
    for level in range(1, LEVELS):
        image = inputs
        for axis in (2, 3):
            side = inputs.shape[axis]
            sigma = MOST_BLUR * side * level / (LEVELS - 1)
            places = torch.arange(side).to(inputs)
            weights = (-0.5 * ((places[:, None] - places) / sigma).square()).softmax(dim=1)
            image = (image.transpose(axis, 3) @ weights.T).transpose(axis, 3)
        levels.append(image)
    return torch.stack(levels, dim=1).permute(2, 0, 1, 3, 4).contiguous().permute(1, 2, 0, 3, 4)


def perturbed(
    pyramid: Float[Tensor, "batch levels channels height width"], owners: Int[Tensor, " masks"], masks: Grids
) -> Float[Tensor, "masks channels height width"]:
    """Each owner's image, sharp where its mask is 1, most blurred where it is 0, linear between levels.

    Args:
        pyramid: each image under every blur.
        owners: index of the image that each mask belongs to.
        masks: numbers in [0, 1], one mask per row.
    """
    height, width = masks.shape[1:]
    depth = ((1 - masks) * (LEVELS - 1)).flatten()
    below = depth.detach().floor().clamp_(0, LEVELS - 2)
    pixels = torch.arange(height * width, device=masks.device)
    place = (below.long().view(len(masks), -1) + owners[:, None] * LEVELS).mul_(height * width).add_(pixels).flatten()
    planes = pyramid.permute(2, 0, 1, 3, 4).flatten(1)  # no copy, as `blurred` lays them out
    sharper, softer = planes.index_select(1, place), planes.index_select(1, place + height * width)
    images = sharper + (depth - below) * softer.sub_(sharper)
    return images.view(-1, len(masks), height, width).transpose(0, 1)


def _upsample(masks: Grids, size: tuple[int, int]) -> Float[Tensor, "masks height width"]:
    """Linear interpolation, as two products with matrices, whose derivative is as cheap."""
    down, across = (_stretch(side, length).to(masks) for side, length in zip(masks.shape[1:], size, strict=True))
    return down.T @ masks @ across


def _stretch(side: int, length: int) -> Float[Tensor, "side length"]:
    return functional.interpolate(torch.eye(side)[:, None], size=length, mode="linear", align_corners=False)[:, 0]
