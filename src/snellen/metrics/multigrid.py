"""Multigrid: the values of pixels that are the weighted means of their neighbours, for large images.

Conjugate gradients need few iterations where each first solves the same problem roughly on coarser and coarser grids.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

Grids = Float[Tensor, "images channels height width"]
_OtherGrids = Float[Tensor, "images channels rows columns"]

ACCURACY = 1e-8
"""The size of what is left of the equations, relative to their right side, at which the values count as solved."""

MOST_ITERATIONS = 500
"""Images need about ten; the limit is for those with values beyond the range of the arithmetic."""

SMALLEST = 256
"""Equations of grids with at most so many points are solved directly."""

_AROUND = tuple(product((-1, 0, 1), repeat=2))
"""How far down and across the nine points around a point are, row by row."""


def neighbour_sums(images: Grids) -> Grids:
    """The sum of each pixel's neighbours, 1/6 of those beside and 1/12 of those across corners."""
    return (_sum_of_nine(images) - 4 * images) / 12


def solve(constants: Float[Tensor, "images channels height width"], unknown: Bool[Tensor, "images height width"]) -> Grids:
    """The values at the unknown pixels, and 0 elsewhere: each pixel is the mean of its neighbours, weighted as above.

    Args:
        constants: the neighbours' weighted sum over the pixels that are known.
        unknown: the pixels whose value is computed; one of each image must be known.
    """
    exact = _Pixels.around(unknown, torch.float64)
    levels: list[_Level] = [_Pixels.around(unknown, torch.float32)]
    while levels[-1].points > SMALLEST:
        levels.append(_coarser(levels[-1]))
    bottom = _inverse(levels.pop())
    left = constants * exact.unknown
    goal = ACCURACY * _length(left)
    values, step, before = torch.zeros_like(left), torch.zeros_like(left), torch.ones_like(goal)
    for _ in range(MOST_ITERATIONS):
        if not bool((_length(left) > goal).any()):  # also where they hold NaN
            break
        rough = _solve_roughly(levels, bottom, left.float()).double()
        now = _product(left, rough)
        step.mul_((now / before).nan_to_num_(0.0, 0.0, 0.0)).add_(rough)
        change = exact(step)
        share = (now / _product(step, change)).nan_to_num_(0.0, 0.0, 0.0)
        values.addcmul_(step, share)
        left.addcmul_(change, share, value=-1)
        before = now
    return values


def _product(first: Grids, second: Grids) -> Float[Tensor, "images channels 1 1"]:
    total: Tensor = (first * second).sum(dim=(2, 3), keepdim=True)
    return total


def _length(grids: Grids) -> Float[Tensor, "images channels 1 1"]:
    length: Tensor = torch.linalg.vector_norm(grids, dim=(2, 3), keepdim=True)
    return length


def _solve_roughly(levels: Sequence[_Level], bottom: Float[Tensor, "images points points"], constants: Grids) -> Grids:
    """A V-cycle: a step of Jacobi's method, what is left of the equations on the next coarser grid, and a step again."""
    if not levels:
        return (constants.flatten(2) @ bottom).view(constants.shape)
    level, coarser = levels[0], levels[1:]
    values = constants * level.pace
    rest = _solve_roughly(coarser, bottom, _to_coarser(constants - level(values)))
    values = values.addcmul_(_to_finer(rest, level.size), level.unknown)
    return values.addcmul_(constants - level(values), level.pace)


# The equations of each grid ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Level(ABC):
    """The linear equations of a grid, one for each unknown point."""

    unknown: Float[Tensor, "images 1 height width"]
    """1 at points that have an equation."""
    pace: Float[Tensor, "images 1 height width"]
    """What a step of Jacobi's method multiplies with what is left of each equation."""

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return int(self.unknown.shape[2]), int(self.unknown.shape[3])

    @property
    def points(self) -> int:
        """The number of points."""
        return self.size[0] * self.size[1]

    @abstractmethod
    def __call__(self, values: Grids) -> Grids:
        """The left side of the equations."""


@dataclass(frozen=True, eq=False)
class _Pixels(_Level):
    """The equations of the image itself, in which all neighbours have the same weights."""

    own: Float[Tensor, "images 1 height width"]
    """The weight of the pixel itself, from which its part of the sum of nine is subtracted again."""

    @classmethod
    def around(cls, unknown: Bool[Tensor, "images height width"], dtype: torch.dtype) -> _Pixels:
        """The equations of unknown pixels."""
        inside = unknown.unsqueeze(1).to(dtype)
        degrees = neighbour_sums(torch.ones(1, 1, *unknown.shape[1:], dtype=dtype))
        pace = _pace(degrees * inside, (degrees + neighbour_sums(inside)) * inside)
        return cls(unknown=inside, pace=pace, own=(degrees + 1 / 3) * inside)

    def __call__(self, values: Grids) -> Grids:
        """The left side of the equations."""
        return (self.own * values).addcmul_(_sum_of_nine(values), self.unknown, value=-1 / 12)


@dataclass(frozen=True, eq=False)
class _Coarse(_Level):
    """The equations of a coarser grid."""

    weights: Float[Tensor, "images 9 height width"]
    """Of the nine points around each point, row by row; the middle is the point itself."""

    def __call__(self, values: Grids) -> Grids:
        """The left side of the equations."""
        height, width = self.size
        total = self.weights[:, 4:5] * values
        for place, (down, across) in enumerate(_AROUND):
            if place != 4:
                here = (..., slice(max(0, -down), height - max(0, down)), slice(max(0, -across), width - max(0, across)))
                there = (..., slice(max(0, down), height + min(0, down)), slice(max(0, across), width + min(0, across)))
                total[here].addcmul_(self.weights[:, place : place + 1][here], values[there])
        return total


def _pace(own: Grids, magnitudes: Grids) -> Grids:
    """The pace of each equation, from the point's own weight and the sum of the magnitudes of all nine.

    The inverse of its own weight; where those of the neighbours are as large, a tenth less, without which a step might
    make the largest error larger.
    """
    return torch.where(own > 0, 1 / torch.maximum(own, 0.55 * magnitudes), 0.0)


def _coarser(level: _Level) -> _Coarse:
    """The equations of every second point: what the finer equations are for values that are interpolated between them.

    A coarse point depends on the eight around it. So points that are three apart can be set to 1 at once, and nine such
    patterns show all weights.
    """
    height, width = ((length + 1) // 2 for length in level.size)
    row, column = (torch.arange(length) for length in (height, width))
    patterns = functional.one_hot((row % 3)[:, None] * 3 + column % 3, 9).permute(2, 0, 1).unsqueeze(0)
    spread = _to_finer(patterns.to(level.unknown), level.size) * level.unknown
    shown = _to_coarser(level(spread))
    weights = torch.zeros_like(shown)
    for place, (down, across) in enumerate(_AROUND):
        pattern = ((row + down) % 3)[:, None] * 3 + (column + across) % 3
        exists = ((row + down >= 0) & (row + down < height))[:, None] & (column + across >= 0) & (column + across < width)
        weights[:, place] = shown.gather(1, pattern.expand(len(shown), 1, height, width)).squeeze(1) * exists
    own = weights[:, 4:5]
    return _Coarse((own > 0).to(own), _pace(own, weights.abs().sum(dim=1, keepdim=True)), weights)


def _inverse(level: _Level) -> Float[Tensor, "images points points"]:
    """The inverse of the whole matrix of the equations."""
    each = torch.eye(level.points).view(1, level.points, *level.size)
    matrix = level(each * level.unknown).flatten(2).double()
    own = matrix.diagonal(dim1=1, dim2=2)
    # Where few pixels are unknown, several coarse points stand for the same ones, so that the matrix is singular.
    regular = matrix + torch.diag_embed(torch.where(own > 0, 1e-5 * own, 1.0))
    return torch.cholesky_inverse(torch.linalg.cholesky(regular)).float()


# From grid to grid ---------------------------------------------------------------------------------------------------


def _sum_of_nine(grids: Grids) -> Grids:
    """Of the points around each point: four times itself, twice those beside, and once those across corners."""
    for dim in (2, 3):
        before, grids = grids, 2 * grids
        length = grids.shape[dim] - 1
        grids.narrow(dim, 0, length).add_(before.narrow(dim, 1, length))
        grids.narrow(dim, 1, length).add_(before.narrow(dim, 0, length))
    return grids


def _to_finer(grids: Grids, size: tuple[int, int]) -> _OtherGrids:
    """Values of every second point, with means between them."""
    for dim in (2, 3):
        few, count = grids.shape[dim], size[dim - 2]
        finer = grids.new_empty([*grids.shape[:dim], count, *grids.shape[dim + 1 :]])
        _every_second(finer, dim, 0).copy_(grids)
        between = _every_second(finer, dim, 1).narrow(dim, 0, few - 1)
        torch.add(grids.narrow(dim, 0, few - 1), grids.narrow(dim, 1, few - 1), out=between).mul_(0.5)
        if count % 2 == 0:  # the last point has a neighbour on one side only
            finer.narrow(dim, count - 1, 1).copy_(grids.narrow(dim, few - 1, 1))
        grids = finer
    return grids


def _to_coarser(grids: Grids) -> _OtherGrids:
    """The sum over the points to which each coarse point is interpolated, with the same weights."""
    for dim in (2, 3):
        count = grids.shape[dim]
        coarser = _every_second(grids, dim, 0).clone()
        few = coarser.shape[dim]
        between = _every_second(grids, dim, 1).narrow(dim, 0, few - 1)
        coarser.narrow(dim, 0, few - 1).add_(between, alpha=0.5)
        coarser.narrow(dim, 1, few - 1).add_(between, alpha=0.5)
        if count % 2 == 0:
            coarser.narrow(dim, few - 1, 1).add_(grids.narrow(dim, count - 1, 1))
        grids = coarser
    return grids


def _every_second(grids: Grids, dim: int, first: int) -> _OtherGrids:
    return grids[:, :, first::2] if dim == 2 else grids[..., first::2]
