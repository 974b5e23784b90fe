"""LIME."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.fills import MEAN
from snellen.maps.superpixels import Segmentation, pad_blocks, superpixel_outputs, superpixels
from snellen.plugins.registry import method
from snellen.types import Fill, Images, Maps, Output, Passes, Rng, Targets

WIDTH = 0.25
"""Width of the kernel over cosine distances; the authors' setting for images."""
PENALTY = 1.0
"""Penalty of the ridge regression; the authors' setting for images."""
STRONGEST = 10
"""How many superpixels `show=ternary` marks."""


@method(
    "lime",
    cite="ribeiro2016",
    family="perturbation",
    signed=True,
    deterministic=False,
    presets={
        "zhang2024": "lime-lasso@zhang2024",
        "cose2023": {"segments": "quickshift-inputs", "show": "ternary"},
        "boggust2023": {"segments": "quickshift-inputs", "show": "positive"},
    },
    caveats={
        "slack2020": "a model that detects the out-of-distribution samples can hide what it uses from LIME",
        "alvarezmelis2018": "nearly equal images can get very different maps, because the samples and superpixels change",
    },
    ranges={
        "samples": (100, 500, 2000),
        "segments": ("quickshift-inputs", "slic", "grid"),
        "show": ("positive", "ternary"),
        "of": ("logit",),
        "fill": ("black", "blur", "noise"),
    },
)
@dataclass(frozen=True)
class Lime:
    """The weight of the pixel's superpixel in a linear model of the output, fitted where random superpixels are removed.

    Each of `samples` copies keeps every superpixel with probability one half, the first copy keeps all. Copies like the
    image (cosine distance) weigh more in the ridge regression. All pixels of a superpixel carry its whole weight. A
    thousand samples are the authors' choice for images; captum's default of 25 leaves fewer copies than superpixels.
    """

    samples: int = 1000
    """Number of copies of the image with random superpixels removed."""
    segments: Segmentation = "quickshift"
    show: Literal["weight", "positive", "ternary"] = "weight"
    """What a superpixel gets: its weight, its positive weight, or the sign of one of the ten largest weights."""
    of: Output = "probability"
    fill: Fill = MEAN

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise ValueError(f"samples must be at least 2, not {self.samples}")

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward per sample."""
        return Passes(forward=self.samples)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        labels = superpixels(classifier, inputs, self.segments)
        counts = (labels.flatten(1).amax(dim=1) + 1).tolist()
        keeps = [draw(rng[i : i + 1], self.samples, count).to(inputs.device) for i, count in enumerate(counts)]
        start = self.fill(classifier, inputs, rng=rng)
        outputs = superpixel_outputs(classifier, inputs, targets, labels, keeps, start=start, of=self.of)
        weights = surrogate(pad_blocks(keeps, (self.samples, max(counts))), torch.stack(outputs).double())
        if self.show == "positive":
            weights = weights.clamp_min(0)
        if self.show == "ternary":
            strongest = weights.abs().topk(min(STRONGEST, weights.shape[1]), dim=1).indices
            weights = torch.zeros_like(weights).scatter(1, strongest, weights.gather(1, strongest).sign())
        return weights.gather(1, labels.flatten(1)).view(labels.shape).to(inputs.dtype)


def draw(rng: Rng, samples: int, count: int) -> Bool[Tensor, "samples superpixels"]:
    """Which superpixels each copy of one image keeps: all in the first, each with probability one half in the others."""
    keeps = rng.uniform("lime", (samples, count))[0] < 0.5
    keeps[0] = True
    return keeps


def surrogate(
    keeps: Float[Tensor, "batch samples superpixels"], outputs: Float[Tensor, "batch samples"]
) -> Float[Tensor, "batch superpixels"]:
    """The weights of all images' ridge regressions; a column of zeros, which pads a smaller image, gets weight zero.

    The first sample must keep everything: the distance of a copy that keeps n of m superpixels from it is 1 - sqrt(n / m).
    """
    distance = 1 - (keeps.sum(dim=2) / keeps[:, :1].sum(dim=2)).sqrt()
    proximity = (-0.5 * (distance / WIDTH) ** 2).exp()
    share = proximity / proximity.sum(dim=1, keepdim=True)
    centred = keeps - torch.einsum("bs,bsm->bm", share, keeps)[:, None]
    rise = outputs - (share * outputs).sum(dim=1, keepdim=True)
    weighted = (proximity[..., None] * centred).transpose(1, 2)
    penalty = PENALTY * torch.eye(keeps.shape[2], dtype=keeps.dtype, device=keeps.device)
    weights: Tensor = torch.linalg.solve(weighted @ centred + penalty, weighted @ rise[..., None])
    return weights[..., 0]
