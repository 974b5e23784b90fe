"""ROAD: whether the prediction survives when salient pixels are imputed from their neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.linalg.lapack import dpbsv
from torch import Tensor

from snellen.classifier import Classifier
from snellen.classifier.arithmetic import in_threads
from snellen.maps.row_ranges import has_nan
from snellen.metrics import multigrid
from snellen.metrics.multigrid import neighbour_sums
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
                    imputed += removed.unsqueeze(1) * (self.noise * noise)
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
    left, unknown = inputs.double().cpu().masked_fill(removed.unsqueeze(1).cpu(), 0.0), removed.cpu()
    constants = neighbour_sums(left)
    if inputs.shape[3] <= WIDEST_BAND:
        return (left + _solve_by_bands(constants, unknown)).to(inputs)
    images = min(AT_ONCE, -(-len(inputs) // torch.get_num_threads()))
    parts = zip(constants.split(images), unknown.split(images), strict=True)
    return (left + torch.cat(in_threads(lambda part: multigrid.solve(*part), parts))).to(inputs)


AT_ONCE = 4
"""So many large images at most are solved at once in each thread: more take no less time each."""

WIDEST_BAND = 96
"""Images up to this width are solved by bands, which is faster there, and slower for large images."""


def _solve_by_bands(
    constants: Float[Tensor, "images channels height width"], unknown: Bool[Tensor, "images height width"]
) -> Float[Tensor, "images channels height width"]:
    """As `multigrid.solve`, exactly.

    Unknowns are in the order of their rows, so that a neighbour is at most a row away. The systems of all images are one
    system of independent blocks.
    """
    solution = torch.zeros_like(constants)
    mask = unknown.numpy()
    image, pixel = mask.reshape(len(mask), -1).nonzero()
    if not len(pixel):
        return solution
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
    values = solution.flatten(2).numpy()
    _, values[image, :, pixel], problem = dpbsv(
        bands.T, constants.flatten(2).numpy()[image, :, pixel], lower=1, overwrite_ab=1
    )
    assert problem == 0, "the matrix is positive definite where a pixel of each image is left"
    return solution


@lru_cache(maxsize=4)
def _degrees(height: int, width: int) -> Float[np.ndarray, " pixels"]:
    """The sum of the weights of each pixel's neighbours inside the image."""
    return neighbour_sums(torch.ones(1, 1, height, width, dtype=torch.float64)).flatten().numpy()
