"""Occlusion by a sliding window."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.fills import MEAN
from snellen.plugins.registry import method
from snellen.types import Fill, Images, Maps, Output, Passes, Rng, Targets


@method(
    "occlusion",
    cite="zeiler2014",
    family="perturbation",
    signed=True,
    ranges={"cells": (4, 14), "overlap": (1, 4), "of": ("logit",), "fill": ("black", "blur", "noise")},
)
@dataclass(frozen=True)
class Occlusion:
    """How far the output falls when a window over the pixel is covered, averaged over the windows that cover it.

    `cells` windows side by side span the image; each moves by its width over `overlap`.
    """

    cells: int = 7
    overlap: int = 2
    of: Output = "probability"
    fill: Fill = MEAN

    def __post_init__(self) -> None:
        if self.cells < 1 or self.overlap < 1:
            raise ValueError(f"cells and overlap must be at least 1, not {self.cells} and {self.overlap}")

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward per window, and one for the whole image."""
        return Passes(forward=1 + len(self._covered(size[0])) * len(self._covered(size[1])))

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        rows, columns = self._covered(inputs.shape[2]), self._covered(inputs.shape[3])
        covers = (rows[:, None, :, None] & columns[None, :, None, :]).flatten(0, 1)
        start = self.fill(classifier, inputs, rng=rng)
        count = classifier.copies(inputs)

        def blocks() -> Iterator[tuple[Tensor, Tensor]]:
            yield inputs, targets
            for cover in covers.to(inputs.device).split(count):
                covered_images = torch.lerp(inputs, start, cover[:, None, None].to(inputs))
                yield covered_images.flatten(0, 1), targets.repeat(len(cover))

        whole, covered = classifier.scores(blocks(), of=self.of).split([len(inputs), len(covers) * len(inputs)])
        falls = (whole - covered.view(len(covers), -1)).view(len(rows), len(columns), -1)
        tall, wide = rows.to(falls), columns.to(falls)
        return torch.einsum("ijb,ih,jw->bhw", falls, tall, wide) / torch.outer(tall.sum(dim=0), wide.sum(dim=0))

    def _covered(self, side: int) -> Bool[Tensor, "windows side"]:
        """Which pixels of a line each window covers; the last window may reach over the edge."""
        window = math.ceil(side / self.cells)
        stride = math.ceil(window / self.overlap)
        first = torch.arange(1 + math.ceil((side - window) / stride))[:, None] * stride
        pixels = torch.arange(side)
        return (pixels >= first) & (pixels < first + window)
