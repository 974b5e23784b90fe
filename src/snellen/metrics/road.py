"""ROAD: whether the prediction survives when salient pixels are imputed from their neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.sparse import coo_matrix, diags
from scipy.sparse.linalg import splu
from torch import Tensor

from snellen.classifier import Classifier
from snellen.metrics.pixel_removal import has_nan, pixel_ranks
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
        order = pixel_ranks(case.maps, rng=rng)
        pixels = order[0].numel()

        def blocks() -> Iterator[tuple[Tensor, Tensor]]:
            for fraction in self.fractions:
                removed = order < min(round(fraction * pixels), pixels - 1)
                noise = rng.child("road").normal(f"{fraction:g}", tuple(inputs.shape[1:])).to(inputs)
                yield torch.where(removed.unsqueeze(1), impute(inputs, removed) + self.noise * noise, inputs), targets

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
    height, width = inputs.shape[2], inputs.shape[3]
    system, order = _grid(height, width)
    pictures = inputs.double().cpu().numpy().reshape(len(inputs), inputs.shape[1], -1)[:, :, order]
    mask = removed.cpu().numpy().reshape(len(inputs), -1)[:, order]

    def impute_row(row: int) -> None:
        (places,) = mask[row].nonzero()
        if len(places):
            picture = pictures[row]
            picture[:, places] = 0.0
            rows = system[places]
            constants = -(rows @ picture.T)
            # The matrix is symmetric and positive definite: it needs no pivoting, and its order is prepared. Panels of one
            # column are faster here, because few columns have the same pattern.
            factors = splu(
                rows[:, places].tocsc(),
                permc_spec="NATURAL",
                diag_pivot_thresh=0.0,
                relax=1,
                panel_size=1,
                options={"SymmetricMode": True},
            )
            picture[:, places] = factors.solve(constants).T

    # Every image has its own unknowns and so its own system; they use as many threads as a pass of the model.
    with ThreadPoolExecutor(torch.get_num_threads()) as threads:
        list(threads.map(impute_row, range(len(inputs))))
    back = np.empty_like(pictures)
    back[:, :, order] = pictures
    return torch.from_numpy(back.reshape(inputs.shape)).to(inputs)


@lru_cache(maxsize=4)
def _grid(height: int, width: int) -> tuple[Any, np.ndarray]:
    """The linear system in which each pixel is the weighted mean of its neighbours, and its order of the pixels.

    Row p: Σ_q w_pq (x_p - x_q) = 0 over the neighbours inside the image. The order is nested dissection (halves first,
    the line between them last), for which the factors of any part of the system stay sparse.
    """
    order = np.array(_dissection(range(height), range(width), width))
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    place = place.reshape(height, width)
    pairs = [
        (place[:, :-1], place[:, 1:], 1 / 6),
        (place[:-1], place[1:], 1 / 6),
        (place[:-1, :-1], place[1:, 1:], 1 / 12),
        (place[:-1, 1:], place[1:, :-1], 1 / 12),
    ]
    ends = [(np.r_[first.ravel(), second.ravel()], np.r_[second.ravel(), first.ravel()]) for first, second, _ in pairs]
    weights = np.concatenate([np.full(2 * first.size, weight) for first, _, weight in pairs])
    rows, columns = (np.concatenate(arrays) for arrays in zip(*ends, strict=True))
    neighbours = coo_matrix((weights, (rows, columns)), shape=(len(order), len(order))).tocsr()
    return (diags(np.asarray(neighbours.sum(axis=1)).ravel()) - neighbours).tocsr(), order


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
