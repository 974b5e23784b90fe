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
