"""ROAD's linear systems: both ways to solve them give what a dense solution of the definition gives."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from snellen.metrics import multigrid, road
from snellen.types import Rng

RNG = Rng(0, tuple("ab"))


def imputed_by_dense_system(image: np.ndarray, removed: np.ndarray) -> np.ndarray:
    """Every removed pixel is the weighted mean of its neighbours inside the image, written down pixel by pixel."""
    height, width = removed.shape
    matrix, right = np.eye(height * width), image.reshape(-1).copy()
    for row, column in zip(*removed.nonzero(), strict=True):
        line = np.zeros(height * width)
        for down in (-1, 0, 1):
            for across in (-1, 0, 1):
                inside = 0 <= row + down < height and 0 <= column + across < width
                if inside and (down or across):
                    weight = 1 / 6 if 0 in (down, across) else 1 / 12
                    line[(row + down) * width + column + across] -= weight
                    line[row * width + column] += weight
        matrix[row * width + column], right[row * width + column] = line, 0.0
    return np.linalg.solve(matrix, right).reshape(height, width)


@pytest.mark.parametrize(("widest", "smallest"), [(0, 4), (0, 1000), (1000, 1000)], ids=["multigrid", "direct", "bands"])
@pytest.mark.parametrize("size", [(9, 14), (17, 6), (30, 31), (1, 12), (12, 1)])
def test_imputed_pixels_solve_the_definition(monkeypatch, size, widest, smallest):
    monkeypatch.setattr(road, "WIDEST_BAND", widest)
    monkeypatch.setattr(multigrid, "SMALLEST", smallest)
    images = RNG.normal("images", (3, *size))
    scattered = RNG.uniform("removed", size) < 0.6
    block = torch.ones(2, *size, dtype=torch.bool)
    block[:, 0, 0] = False
    none = torch.zeros(2, *size, dtype=torch.bool)
    few = none.clone()
    few[0, -1, -1] = few[1, size[0] // 2, size[1] // 2] = True
    for removed in (scattered & block, block, few, none):
        ours = road.impute(images, removed).numpy()
        for picture, mask, filled in zip(images.double().numpy(), removed.numpy(), ours, strict=True):
            for channel, values in zip(picture, filled, strict=True):
                np.testing.assert_allclose(values, imputed_by_dense_system(channel, mask), atol=1e-5)


@pytest.mark.parametrize("size", [(100, 97), (3, 400)])
def test_large_systems_are_solved_in_few_steps_whatever_is_left(monkeypatch, size):
    """One pixel, scattered ones, a wall with a gap, stripes, nearly all: what is left of the equations is rounding."""
    steps = []
    cycle = multigrid._solve_roughly

    def counting(levels, *rest):
        steps.append(len(levels))
        return cycle(levels, *rest)

    monkeypatch.setattr(multigrid, "_solve_roughly", counting)
    draws, rows, columns = RNG.uniform("removed", size)[0], torch.arange(size[0])[:, None], torch.arange(size[1])
    corner, wall, stripes = (torch.ones(size, dtype=torch.bool) for _ in range(3))
    corner[0, 0] = False
    wall[:, size[1] // 2] = rows[:, 0] == 1
    stripes[:, ::2] = False
    masks = torch.stack(
        [corner, wall, stripes, *(draws < share for share in (0.001, 0.3, 0.6, 0.9, 0.99)), rows + columns > 3]
    )
    images = RNG.normal("images", size)[:1, None].double().repeat(len(masks), 2, 1, 1)
    remaining = images.masked_fill(masks[:, None], 0.0)
    filled = remaining + multigrid.solve(multigrid.neighbour_sums(remaining), masks)
    degrees = multigrid.neighbour_sums(torch.ones(1, 1, *size, dtype=torch.float64))
    left = (degrees * filled - multigrid.neighbour_sums(filled)).masked_select(masks[:, None])
    assert float(left.abs().max()) < 1e-6
    assert steps.count(max(steps)) <= 20


def test_images_with_nan_end_at_once():
    image = torch.full((1, 1, 100, 100), torch.nan)
    assert bool(road.impute(image, torch.ones(1, 100, 100, dtype=torch.bool).triu()).isnan().any())
