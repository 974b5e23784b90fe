"""LIME as captum offers it: distances between images, and a sparse linear model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.fills import MEAN
from snellen.maps.superpixels import Segmentation, pad_blocks, superpixel_outputs, superpixels
from snellen.plugins.registry import method
from snellen.types import Fill, Images, Maps, Output, Passes, Rng, Targets

WIDTH = 1000.0
"""Width of the kernel over Euclidean distances between inputs: so wide that all copies of a 224×224 image weigh alike."""
ROUNDS = 3000
"""Most iterations of the solver; it stops earlier when the weights no longer change."""


@method(
    "lime-lasso",
    cite="kokhlikyan2020",
    family="perturbation",
    signed=True,
    deterministic=False,
    presets={"zhang2024": {"samples": 40, "segments": "quickshift-inputs"}},
    caveats={
        "slack2020": "a model that detects the out-of-distribution samples can hide what it uses from LIME",
        "alvarezmelis2018": "nearly equal images can get very different maps, because the samples and superpixels change",
    },
    ranges={
        "samples": (40, 200, 2000),
        "segments": ("quickshift-inputs", "slic", "grid"),
        "penalty": (0.01, 0.04, 0.16),
        "of": ("probability",),
        "fill": ("black", "blur", "noise"),
    },
)
@dataclass(frozen=True)
class LimeLasso:
    """The weight of the pixel's superpixel in a sparse linear model of the output; most superpixels get none.

    It differs from `lime` in the surrogate: copies are near when their inputs are (Euclidean distance), and a Lasso with
    `penalty` fits the output, a logit by default. Each copy keeps every superpixel with probability one half.
    """

    samples: int = 1000
    """Number of copies of the image with random superpixels removed."""
    segments: Segmentation = "quickshift"
    penalty: float = 0.08
    of: Output = "logit"
    fill: Fill = MEAN

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise ValueError(f"samples must be at least 2, not {self.samples}")
        if self.penalty < 0:
            raise ValueError(f"penalty must not be negative, not {self.penalty}")

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward per sample."""
        return Passes(forward=self.samples)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        labels = superpixels(classifier, inputs, self.segments)
        counts = (labels.flatten(1).amax(dim=1) + 1).tolist()
        keeps = [draws(rng[i : i + 1], self.samples, count).to(inputs.device) for i, count in enumerate(counts)]
        start = self.fill(classifier, inputs, rng=rng)
        outputs = superpixel_outputs(classifier, inputs, targets, labels, keeps, start=start, of=self.of)
        chosen = pad_blocks(keeps, (self.samples, max(counts)))
        # A removed superpixel moves the inputs by its own distance from the fill, whatever else is removed.
        squares = (inputs - start).double().square().sum(dim=1).flatten(1)
        energy = squares.new_zeros(len(inputs), max(counts)).scatter_add(1, labels.flatten(1), squares)
        distance = torch.einsum("bsm,bm->bs", 1 - chosen, energy)
        proximity = (-distance / (2 * WIDTH**2)).exp()
        weights = lasso(chosen, torch.stack(outputs).double(), proximity, self.penalty)
        return weights.gather(1, labels.flatten(1)).view(labels.shape).to(inputs.dtype)


def draws(rng: Rng, samples: int, count: int) -> Bool[Tensor, "samples superpixels"]:
    """Which superpixels each copy of one image keeps."""
    return rng.uniform("lime-lasso", (samples, count))[0] < 0.5


def lasso(
    features: Float[Tensor, "batch samples features"],
    outputs: Float[Tensor, "batch samples"],
    importance: Float[Tensor, "batch samples"],
    penalty: float,
) -> Float[Tensor, "batch features"]:
    """The weights w that minimise the weighted mean of (output - w·features - intercept)² / 2 + penalty Σ|w|, row by row.

    Beck & Teboulle's accelerated proximal gradient with restarts; a column of zeros gets weight zero.

    Args:
        features: 1 for each superpixel that a copy keeps, 0 for one that is removed.
        outputs: the output for each copy.
        importance: the weight of each copy.
        penalty: weight of the sum of magnitudes.
    """
    share = (importance / importance.sum(dim=1, keepdim=True))[..., None]
    centred = features - (share * features).sum(dim=1, keepdim=True)
    rise = (outputs - (share[..., 0] * outputs).sum(dim=1, keepdim=True))[..., None]
    gram, slope = (share * centred).transpose(1, 2) @ centred, (share * centred).transpose(1, 2) @ rise
    step = 1 / torch.linalg.eigvalsh(gram)[:, -1].clamp_min(1e-12).view(-1, 1, 1)
    weights = ahead = torch.zeros_like(slope)
    pace = torch.ones_like(step)
    for _ in range(ROUNDS):
        moved = ahead - step * (gram @ ahead - slope)
        new = moved.sign() * (moved.abs() - step * penalty).clamp_min(0)
        change = new - weights
        if not bool((change.abs() > 1e-12 * (1 + new.abs())).any()):
            break
        # A row whose momentum points uphill starts its momentum anew.
        uphill = ((ahead - new) * change).sum(dim=1, keepdim=True) > 0
        pace = torch.where(uphill, torch.ones_like(pace), pace)
        faster = (1 + (1 + 4 * pace**2).sqrt()) / 2
        ahead = new + torch.where(uphill, torch.zeros_like(pace), (pace - 1) / faster) * change
        weights, pace = new, faster
    return weights[..., 0]
