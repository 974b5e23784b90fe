"""ROAD: whether the prediction survives when salient pixels are imputed from their neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from scipy.linalg.lapack import dpbsv
from scipy.sparse import csc_matrix
from scipy.sparse.linalg import splu
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.row_ranges import has_nan
from snellen.metrics.pixel_removal import case_ranks
from snellen.plugins.registry import metric
from snellen.types import Case, CurveMetric, Passes, Rng


@metric(
    "road",
    cite="rong2022",
    attribute="input-sensitivity",
    higher_is_better=False,
    bounds=(0.0, 1.0),
    needs_output="decision",
    rank_only=True,
    undefined="the map holds NaN",
    formula="mean over fractions t of 1[argmax f(x with its t most salient pixels filled in) is the target]",
    reading="Most salient first, and the explained class in place of the label, so that one image has a score; with the "
    'labels as targets its mean is the accuracy of Rong et al. 2022. `of="probability"` moves more finely.',
    caveats={
        "song2023": "maps with blurred edges win, because what they remove can be filled in less well",
    },
)
@dataclass(frozen=True)
class Road(CurveMetric):
    """How often the target stays the prediction while salient pixels are imputed from their neighbours: low is good.

    Rong et al. 2022, remove and debias: a removed pixel is the weighted mean of its neighbours (1/6 beside, 1/12 across
    corners), removed ones included, which makes a linear system. Then come normal draws of size `noise` (in inputs), so
    that smooth patches do not show which pixels were removed. Of fractions 0.1, 0.5 and 0.9, a target that is the
    prediction for the first alone gives 1 / 3.
    """

    fractions: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
    """Shares of the pixels that are removed, one per point of the curve."""
    of: Literal["accuracy", "probability"] = "accuracy"
    """What a point holds: whether the target is the prediction, or its probability."""
    noise: float = 0.01

    def __post_init__(self) -> None:
        if not self.fractions or not all(0 < fraction < 1 for fraction in self.fractions):
            raise ValueError(f"fractions must lie between 0 and 1, not {self.fractions}")
        if len(set(self.fractions)) < len(self.fractions):
            raise ValueError(f"fractions must differ, not {self.fractions}")
        if self.noise < 0:
            raise ValueError(f"noise must not be negative, not {self.noise}")

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """1 where the target is the prediction and 0 elsewhere, or its probability, at each fraction."""
        inputs, targets = case.inputs, case.targets
        order = case_ranks(case, rng=rng)
        pixels = order[0].numel()

        def blocks() -> Iterator[tuple[Tensor, Tensor]]:
            for fraction in self.fractions:
                removed = order < min(round(fraction * pixels), pixels - 1)
                imputed = impute(inputs, removed)
                if self.noise:
                    noise = rng.child("road").normal(f"{fraction:g}", tuple(inputs.shape[1:])).to(inputs)
                    imputed = torch.where(removed.unsqueeze(1), imputed + self.noise * noise, inputs)
                yield imputed, targets

        outputs = case.classifier.target_outputs(blocks())
        values = (
            outputs.probability if self.of == "probability" else (outputs.predicted == targets.repeat(len(self.fractions)))
        )
        undefined = has_nan(case.maps).unsqueeze(1)
        return values.to(case.maps.dtype).view(len(self.fractions), len(case)).T.masked_fill(undefined, torch.nan)

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The fractions."""
        return tuple(f"{fraction:g}" for fraction in self.fractions)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The mean over the fractions."""
        return curve.mean(dim=1)

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """One pass per fraction."""
        return Passes(forward=len(self.fractions))


def impute(
    inputs: Float[Tensor, "batch channels height width"], removed: Bool[Tensor, "batch height width"]
) -> Float[Tensor, "batch channels height width"]:
    """The images with every removed pixel the weighted mean of its neighbours; one pixel of each image must be left."""
    left = inputs.double().cpu().masked_fill(removed.unsqueeze(1).cpu(), 0.0)
    constants = _sum_of_neighbours(left).flatten(2).numpy()
    pictures = left.flatten(2).numpy()
    mask = removed.cpu().numpy()
    solve = _solve_by_bands if inputs.shape[3] <= WIDEST_BAND else _solve_by_halves

    def impute_some(rows: slice) -> None:
        if mask[rows].any():
            image, pixel = mask[rows].reshape(-1, pictures.shape[2]).nonzero()
            pictures[rows][image, :, pixel] = solve(mask[rows], image, pixel, constants[rows][image, :, pixel])

    if inputs.shape[3] <= WIDEST_BAND:
        impute_some(slice(None))
    else:  # systems are solved by as many threads as a pass of the model uses
        with ThreadPoolExecutor(torch.get_num_threads()) as threads:
            list(threads.map(impute_some, [slice(row, row + 1) for row in range(len(mask))]))
    return left.to(inputs)


WIDEST_BAND = 96
"""Images up to this width are solved by bands, which is two to three times as fast there, and slower for large images."""


def _sum_of_neighbours(images: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch channels height width"]:
    """The sum of each pixel's neighbours, 1/6 of those beside and 1/12 of those across corners."""
    total = images
    for dim in (2, 3):  # weights 1, 2, 1 down and across: 2 beside, 1 across corners, and 4 for the pixel itself
        before, total = total, 2 * total
        length = images.shape[dim] - 1
        total.narrow(dim, 0, length).add_(before.narrow(dim, 1, length))
        total.narrow(dim, 1, length).add_(before.narrow(dim, 0, length))
    return (total - 4 * images) / 12


def _solve_by_bands(
    mask: Bool[np.ndarray, "images height width"],
    image: Int[np.ndarray, " n"],
    pixel: Int[np.ndarray, " n"],
    constants: Float[np.ndarray, "n channels"],
) -> Float[np.ndarray, "n channels"]:
    """The values of the unknown pixels of several images, whose number within each image is `pixel`.

    Unknowns are in the order of their rows, so that a neighbour is at most a row away. The systems of all images are one
    system of independent blocks.
    """
    height, width = mask.shape[1:]
    padded = np.pad(mask, ((0, 0), (0, 1), (1, 1)))  # so that what is outside of an image is no unknown
    flat, stride = padded.ravel(), width + 2
    number = np.cumsum(flat) - 1
    at = np.flatnonzero(flat)
    later = []
    for offset, weight in ((1, 1 / 6), (stride - 1, 1 / 12), (stride, 1 / 6), (stride + 1, 1 / 12)):
        (places,) = flat[at + offset].nonzero()
        later.append((places, number[at[places] + offset] - places, -weight))
    bands = np.zeros((len(at), 1 + max((int(apart.max(initial=0)) for _, apart, _ in later))))
    bands[:, 0] = _degrees(height, width)[pixel]
    for places, apart, weight in later:
        bands[places, apart] = weight
    _, solution, problem = dpbsv(bands.T, constants, lower=1, overwrite_ab=1)
    assert problem == 0, "the matrix is positive definite where a pixel of each image is left"
    return solution  # type: ignore[no-any-return]


@lru_cache(maxsize=4)
def _degrees(height: int, width: int) -> Float[np.ndarray, " pixels"]:
    """The sum of the weights of each pixel's neighbours inside the image."""
    return _sum_of_neighbours(torch.ones(1, 1, height, width, dtype=torch.float64)).flatten().numpy()


def _solve_by_halves(
    mask: Bool[np.ndarray, "images height width"],
    image: Int[np.ndarray, " n"],
    pixel: Int[np.ndarray, " n"],
    constants: Float[np.ndarray, "n channels"],
) -> Float[np.ndarray, "n channels"]:
    """As `_solve_by_bands` for a single image, in an order in which the factors of a large system stay sparse."""
    grid = _grid(*mask.shape[1:])
    unknown = np.append(mask.ravel()[grid.order], False)  # beyond the last place is what is outside of the image
    (places,) = unknown.nonzero()
    neighbours = grid.neighbours[places]
    counted = unknown[neighbours]
    columns = (np.cumsum(unknown, dtype=np.int32) - 1)[neighbours[counted]]
    starts = np.concatenate([[0], np.cumsum(counted.sum(axis=1))]).astype(np.int32)
    matrix = csc_matrix((grid.weights[places][counted], columns, starts), shape=(len(places), len(places)))
    # The matrix is symmetric and positive definite: it needs no pivoting, and its order is prepared. Panels of one column
    # are faster here, because few columns have the same pattern.
    factors = splu(
        matrix,
        permc_spec="NATURAL",
        diag_pivot_thresh=0.0,
        relax=1,
        panel_size=1,
        options={"SymmetricMode": True},
    )
    place_of_unknown = np.cumsum(mask.ravel()) - 1
    ordered = place_of_unknown[grid.order[places]]
    solution = np.empty_like(constants)
    solution[ordered] = factors.solve(constants[ordered])
    return solution


@dataclass(frozen=True, eq=False)
class _Grid:
    """The linear system in which each pixel is the weighted mean of its neighbours, and its order of the pixels.

    Row p: Σ_q w_pq (x_p - x_q) = 0 over the neighbours inside the image. The order is nested dissection (halves first,
    the line between them last), for which the factors of any part of the system stay sparse.
    """

    order: Int[np.ndarray, " pixels"]
    """The pixel at each place."""
    neighbours: Int[np.ndarray, "pixels 9"]
    """By place: the places of the pixel and its neighbours in rising order; those outside the image come last."""
    weights: Float[np.ndarray, "pixels 9"]
    """The numbers of the row of each place, in the same order."""


@lru_cache(maxsize=4)
def _grid(height: int, width: int) -> _Grid:
    order = np.array(_dissection(range(height), range(width), width))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    around = np.pad(place.reshape(height, width), 1, constant_values=len(order))
    offsets = [(down, across) for down in range(3) for across in range(3)]
    neighbours = np.stack(
        [around[down : down + height, across : across + width].ravel() for down, across in offsets], axis=1
    )
    distances = np.array([abs(down - 1) + abs(across - 1) for down, across in offsets])
    weights = np.where(neighbours < len(order), np.array([0, -1 / 6, -1 / 12])[distances], 0.0)
    weights[:, 4] = -weights.sum(axis=1)
    neighbours, weights = neighbours[order], weights[order]
    rising = neighbours.argsort(axis=1, kind="stable")
    return _Grid(
        order=order,
        neighbours=np.take_along_axis(neighbours, rising, axis=1),
        weights=np.take_along_axis(weights, rising, axis=1),
    )


def _dissection(rows: range, columns: range, width: int) -> list[int]:
    if len(rows) * len(columns) <= 16:
        return [row * width + column for row in rows for column in columns]
    if len(rows) >= len(columns):
        middle = len(rows) // 2
        parts = (rows[:middle], columns), (rows[middle + 1 :], columns), (rows[middle : middle + 1], columns)
    else:
        middle = len(columns) // 2
        parts = (rows, columns[:middle]), (rows, columns[middle + 1 :]), (rows, columns[middle : middle + 1])
    return [pixel for part in parts for pixel in _dissection(*part, width)]
