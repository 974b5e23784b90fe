"""RISE."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.fills import MEAN
from snellen.plugins.registry import method
from snellen.types import Fill, Images, Maps, Output, Passes, Rng, Targets


@method(
    "rise",
    cite="petsiuk2018",
    family="perturbation",
    deterministic=False,
    presets={
        "petsiuk2018": {"masks": 6000},
        "petsiuk2018-evaluation": {"masks": 5000, "cells": 10},
        "zhang2024": {"masks": 32, "cells": 4, "of": "logit"},
        "boggust2023": {"masks": 500, "of": "logit"},
    },
    ranges={
        "masks": (100, 500, 1000, 4000),
        "cells": (4, 10, 16),
        "keep": (0.25, 0.5),
        "of": ("logit",),
        "fill": ("black", "blur", "noise"),
    },
)
@dataclass(frozen=True)
class Rise:
    """The mean output over random masks that leave a pixel visible; all images see the same masks.

    The masks are those of the paper's authors: coarse grids with a share `keep` of cells on, upsampled and shifted.
    """

    masks: int = 2000
    """Number of masks."""
    cells: int = 8
    """Side of a mask's coarse grid."""
    keep: float = 0.1
    of: Output = "probability"
    fill: Fill = MEAN

    def __post_init__(self) -> None:
        if self.masks < 1 or self.cells < 1:
            raise ValueError(f"masks and cells must be at least 1, not {self.masks} and {self.cells}")
        if not 0 < self.keep <= 1:
            raise ValueError(f"keep must lie above 0 and up to 1, not {self.keep}")

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward per mask."""
        return Passes(forward=self.masks)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        height, width = inputs.shape[2:]
        start = self.fill(classifier, inputs, rng=rng)
        difference = inputs - start
        count = classifier.copies(inputs)

        def blocks() -> Iterator[tuple[Tensor, Tensor]]:
            for masks in self.bank(rng, height, width, count):
                images = torch.addcmul(start, masks.to(inputs)[:, None, None], difference)
                yield images.flatten(0, 1), targets.repeat(len(masks))

        scores = classifier.scores(blocks(), of=self.of).view(self.masks, len(inputs))
        total = torch.zeros(len(inputs), height * width, dtype=inputs.dtype, device=inputs.device)
        # Drawing the masks a second time is cheaper than holding all of them.
        for masks, part in zip(self.bank(rng, height, width, count), scores.split(count), strict=True):
            total.addmm_(part.T.to(total), masks.flatten(1).to(total))
        return total.view(-1, height, width) / (self.masks * self.keep)

    def bank(self, rng: Rng, height: int, width: int, count: int) -> Iterator[Float[Tensor, "masks height width"]]:
        """The run's masks, `count` at a time: grids upsampled to a cell more than the image, cropped at random shifts."""
        tall, wide = math.ceil(height / self.cells), math.ceil(width / self.cells)
        draw = rng.shared(f"rise {self.masks} {self.cells} {self.keep} {height} {width}")
        grids = torch.from_numpy(draw.random((self.masks, self.cells, self.cells)) < self.keep).float()
        down = torch.from_numpy(draw.integers(0, tall, self.masks))
        right = torch.from_numpy(draw.integers(0, wide, self.masks))
        # Bilinear upsampling is a product with one matrix per axis, and a crop is a choice of that matrix's rows.
        rows, columns = _upsampling(self.cells, tall), _upsampling(self.cells, wide)
        for grid, top, left in zip(grids.split(count), down.split(count), right.split(count), strict=True):
            vertical = rows[top[:, None] + torch.arange(height)]
            horizontal = columns[left[:, None] + torch.arange(width)]
            yield vertical @ grid @ horizontal.transpose(1, 2)


def _upsampling(cells: int, side: int) -> Float[Tensor, "pixels cells"]:
    """Bilinear weights of each cell at each pixel of `(cells + 1) * side`."""
    size, last = (cells + 1) * side, cells - 1
    places = (torch.arange(size) + 0.5) * cells / size - 0.5
    # Half a cell at either border lies outside the grid's centres; the authors' masks are mirrored there.
    places = (last - (last - places.abs()).abs()).clamp(0, last)
    return (1 - (places[:, None] - torch.arange(cells)).abs()).clamp_min(0)
