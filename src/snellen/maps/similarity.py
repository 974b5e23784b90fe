"""Similarity of maps: structural similarity and correlation, for a batch at once. Undefined values are NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from snellen.maps.row_ranges import has_nan, row_range
from snellen.maps.sorted_rows import mean_ranks
from snellen.types import Maps

Masks = Bool[Tensor, "batch height width"]

Likeness = Literal["ssim", "pearson", "spearman"]
"""How alike two maps are: structural similarity, or a correlation of their pixels or of the ranks of these."""
MaskedLikeness = Literal["ssim", "ssim-mirrored", "pearson", "spearman"]
"""Measures for maps of which some pixels have no counterpart."""


def likeness(first: Maps, second: Maps, how: MaskedLikeness, *, within: Masks | None = None) -> Float[Tensor, " batch"]:
    """Similarity of two maps, 1 for equal maps; a correlation is also 1 for linearly related maps.

    Args:
        first: maps.
        second: the maps that are compared with them, in the same order.
        how: the measure. `ssim-mirrored` differs from `ssim` only with `within`.
        within: the pixels that have a counterpart, for example after a rotation; others are ignored. Structural similarity
            also ignores pixels whose window contains such pixels.
    """
    if how == "ssim-mirrored":
        return ssim(first, second, within=within, mirrored=within is not None)
    return {"ssim": ssim, "pearson": pearson, "spearman": spearman}[how](first, second, within=within)


def likeness_to(first: Maps, how: Likeness) -> Callable[[Maps], Float[Tensor, " batch"]]:
    """A function that gives the likeness of other maps to these; faster than `likeness` for several other maps."""
    if how != "spearman":
        return lambda second: likeness(first, second, how)
    places = mean_ranks(_rows(first, None))
    return lambda second: correlation(places, mean_ranks(_rows(second, None))).to(first.dtype)


def is_constant(maps: Maps) -> Bool[Tensor, " batch"]:
    """Which maps have the same value everywhere."""
    return maps.amax(dim=(1, 2)) == maps.amin(dim=(1, 2))


def ssim(
    first: Maps, second: Maps, *, window: int = 5, within: Masks | None = None, mirrored: bool = False
) -> Float[Tensor, " batch"]:
    """Mean structural similarity over all whole windows, as in scikit-image (Wang et al. 2004).

    Uniform window, sample covariance, C1 = (0.01 L)², C2 = (0.03 L)², where L is the larger of the two maps' ranges. NaN for
    two constant maps, for maps with NaN and for maps smaller than the window.

    Args:
        first: maps.
        second: the maps that are compared with them, in the same order.
        window: side of the window in pixels.
        within: the pixels that count; a window counts if all its pixels do.
        mirrored: mirror the maps at their border, so that pixels there have windows too, as in scikit-image before cropping.
    """
    if min(first.shape[1:]) < window:
        return torch.full_like(first[:, 0, 0], torch.nan)
    a, b = first.double(), second.double()
    if mirrored:
        a, b = (_mirrored(maps, window // 2) for maps in (a, b))
        within = None if within is None else functional.pad(within, (window // 2,) * 4, value=True)
    pair = torch.stack([a, b])
    span = (pair.amax(dim=(2, 3)) - pair.amin(dim=(2, 3))).amax(dim=0).view(-1, 1, 1)
    moments = torch.stack([a, b, a * a, b * b, a * b], dim=1)
    mean_a, mean_b, square_a, square_b, product = _window_means(moments, window).unbind(1)
    sample = window**2 / (window**2 - 1)
    spread = sample * (square_a - mean_a**2 + square_b - mean_b**2)
    covariance = sample * (product - mean_a * mean_b)
    c1, c2 = (0.01 * span) ** 2, (0.03 * span) ** 2
    values = (2 * mean_a * mean_b + c1) * (2 * covariance + c2) / ((mean_a**2 + mean_b**2 + c1) * (spread + c2))
    counted = torch.ones_like(values)
    if within is not None:  # a window counts if all its pixels do
        counted = 1 - functional.max_pool2d((~within).double(), window, stride=1)
    mean = (values.nan_to_num() * counted).sum(dim=(1, 2)) / counted.sum(dim=(1, 2))
    return mean.masked_fill(~((span > 0) & span.isfinite()).flatten(), torch.nan).to(first.dtype)


def _mirrored(maps: Maps, border: int) -> Float[Tensor, "batch down across"]:
    """Maps with a border that mirrors their outermost pixels: c b a | a b c."""
    height, width = (
        torch.cat([torch.arange(border).flip(0), torch.arange(size), size - 1 - torch.arange(border)])
        for size in maps.shape[1:]
    )
    return maps[:, height][:, :, width]


def _window_means(values: Float[Tensor, "... height width"], window: int) -> Float[Tensor, "... down across"]:
    """The mean over every whole window, first down, then across; five times as fast as pooling."""
    for axis in (-2, -1):
        length = values.shape[axis] - window + 1
        total = values.narrow(axis, 0, length).clone()
        for start in range(1, window):
            total += values.narrow(axis, start, length)
        values = total
    return values / window**2


def pearson(first: Maps, second: Maps, *, within: Masks | None = None) -> Float[Tensor, " batch"]:
    """Pearson correlation of the pixels; NaN for constant maps and maps with NaN."""
    return correlation(*(_rows(maps, within) for maps in (first, second))).to(first.dtype)


def spearman(first: Maps, second: Maps, *, within: Masks | None = None) -> Float[Tensor, " batch"]:
    """Spearman correlation of the pixels; equal pixels get their mean rank; NaN for constant maps and maps with NaN."""
    return correlation(*(mean_ranks(_rows(maps, within)) for maps in (first, second))).to(first.dtype)


def correlation(first: Float[Tensor, "batch n"], second: Float[Tensor, "batch n"]) -> Float[Tensor, " batch"]:
    """Pearson correlation of each pair of rows over columns without NaN; NaN if a row is constant."""
    pair = torch.stack([first.double(), second.double()])
    columns = pair.shape[2]
    largest = _largest(pair)
    if not bool(largest.isnan().any()):
        too_few = torch.tensor(columns < 2)
        pair -= pair.mean(dim=2, keepdim=True)
    else:  # what is missing counts as zero, before and after the mean is subtracted
        missing = pair.isnan().any(dim=0)
        count = columns - missing.sum(dim=1, keepdim=True).to(pair)
        pair.masked_fill_(missing, 0.0)
        largest = _largest(pair)
        pair = (pair - pair.sum(dim=2, keepdim=True) / count).masked_fill(missing, 0.0)
        too_few = count.squeeze(1) < 2
    sizes = torch.linalg.vector_norm(pair, dim=2)
    products: Tensor = torch.linalg.vecdot(pair[0], pair[1]) / sizes.prod(dim=0)
    # Rounding leaves tiny differences in a constant row; relative to its size they do not count.
    smallest = 1e-12 * largest
    is_flat = sizes <= columns**0.5 * smallest  # only then the largest difference can be so small
    if bool(is_flat.any()):
        is_flat = _largest(pair) <= smallest
    return products.clamp(-1, 1).masked_fill(is_flat.any(dim=0) | too_few, torch.nan)


def _largest(rows: Float[Tensor, "... n"]) -> Float[Tensor, "..."]:
    """The largest magnitude of each row, NaN where it holds NaN."""
    low, high = row_range(rows)
    return torch.maximum(-low, high)


def rank_correlation(first: Float[Tensor, "batch n"], second: Float[Tensor, "batch n"]) -> Float[Tensor, " batch"]:
    """Spearman correlation of each pair of rows; equal values get their mean rank; NaN for a constant row."""
    return correlation(mean_ranks(first.double()), mean_ranks(second.double()))


def _rows(maps: Maps, within: Masks | None) -> Float[Tensor, "batch n"]:
    values, undefined = maps.double(), has_nan(maps)
    if bool(undefined.any()):
        values = values.masked_fill(undefined.view(-1, 1, 1), torch.nan)
    return (values if within is None else values.masked_fill(~within, torch.nan)).flatten(1)
