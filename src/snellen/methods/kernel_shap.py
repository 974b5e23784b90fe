"""Kernel SHAP."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.fills import MEAN
from snellen.maps.superpixels import Segmentation, pad_blocks, superpixel_outputs, superpixels
from snellen.plugins.registry import method
from snellen.plugins.traits import TraitEvidence
from snellen.types import Fill, Images, Maps, Output, Passes, Rng, Targets

SMALLEST = 1e-10
"""Eigenvalues below this share of the largest belong to directions that the coalitions do not determine; these get zero."""


@method(
    "kernel-shap",
    cite="lundberg2017",
    family="perturbation",
    signed=True,
    complete=TraitEvidence(0.001, images=80, networks=4),
    deterministic=False,
    at_most=True,
    # boggust2023 ran captum's version on 50 samples, fewer than its superpixels, with Gaussian noise as fill:
    # that leaves the regression undetermined and cannot be expressed by these settings, so there is no preset.
    caveats={
        "slack2020": "a model that detects the out-of-distribution samples can hide what it uses from SHAP",
        "kumar2020": "removal is an intervention on images that do not occur, so a value need not be what people look for",
    },
    ranges={
        "samples": (250, 500, 2000),
        "segments": ("quickshift", "grid"),
        "of": ("probability",),
        "fill": ("black", "blur", "noise"),
    },
)
@dataclass(frozen=True)
class KernelShap:
    """The pixel's even part of its superpixel's Shapley value: the mean rise of the output when the superpixel joins others.

    The values solve the regression with Shapley's kernel whose sum is exactly the rise from the filled image to the image,
    over `samples` coalitions besides these two: the small and large ones all, the rest drawn in pairs with their
    complements. With no more coalitions than `samples` the values are exact. Each value is spread over its pixels, so that
    the map's sum is that rise too. captum's default of 25 samples leaves fewer coalitions than superpixels.
    """

    samples: int = 1000
    """Number of coalitions, each a copy of the image with some superpixels removed."""
    segments: Segmentation = "slic"
    of: Output = "logit"
    fill: Fill = MEAN

    def __post_init__(self) -> None:
        if self.samples < 2:
            raise ValueError(f"samples must be at least 2, not {self.samples}")

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward per coalition, the image and the filled image; an image of few superpixels has fewer coalitions."""
        return Passes(forward=2 + self.samples)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        labels = superpixels(classifier, inputs, self.segments)
        counts = (labels.flatten(1).amax(dim=1) + 1).tolist()
        choices = [coalitions(count, self.samples, rng[i : i + 1]) for i, count in enumerate(counts)]
        keeps = [_with_ends(chosen).to(inputs.device) for chosen, _ in choices]
        start = self.fill(classifier, inputs, rng=rng)
        outputs = superpixel_outputs(classifier, inputs, targets, labels, keeps, start=start, of=self.of)
        rows, columns = max(len(chosen) for chosen, _ in choices), max(counts)
        values = shapley(
            pad_blocks([chosen[2:] for chosen in keeps], (rows, columns)),
            pad_blocks([weight.to(inputs.device) for _, weight in choices], (rows,)),
            pad_blocks([output[2:] - output[0] for output in outputs], (rows,)),
            torch.stack([output[1].double() - output[0] for output in outputs]),
            torch.tensor(counts, device=inputs.device),
        )
        flat = labels.flatten(1)
        area = torch.zeros_like(values).scatter_add_(1, flat, torch.ones_like(flat, dtype=values.dtype))
        return (values / area.clamp_min(1)).gather(1, flat).view(labels.shape).to(inputs.dtype)


def coalitions(count: int, samples: int, rng: Rng) -> tuple[Bool[Tensor, "choices superpixels"], Float[Tensor, " choices"]]:
    """At most `samples` coalitions of one image's superpixels, neither empty nor full, and their weights.

    Sizes are taken in pairs, n and count - n, from the outside in, where the kernel is heaviest: all coalitions of a pair of
    sizes while its share of the samples is enough for them, then a random draw from all that are left.
    """
    sizes = range(1, count // 2 + 1)
    mass = np.array([(1 if 2 * n == count else 2) / (n * (count - n)) for n in sizes])
    keeps: list[np.ndarray] = []
    weights: list[np.ndarray] = []
    remaining, sizes_done = samples, 0
    for n in sizes:
        count_of_pair = math.comb(count, n) * (1 if 2 * n == count else 2)
        if remaining * mass[sizes_done] < count_of_pair * mass[sizes_done:].sum() * (1 - 1e-9):
            break
        subsets = np.zeros((math.comb(count, n), count), dtype=bool)
        for row, members in zip(subsets, itertools.combinations(range(count), n), strict=True):
            row[list(members)] = True
        keeps.append(subsets if 2 * n == count else np.concatenate([subsets, ~subsets]))
        weights.append(np.full(count_of_pair, mass[sizes_done] / count_of_pair))
        remaining, sizes_done = remaining - count_of_pair, sizes_done + 1
    if sizes_done < len(mass) and remaining > 0:
        pairs = math.ceil(remaining / 2)
        share = np.cumsum(mass[sizes_done:]) / mass[sizes_done:].sum()
        chosen = rng.uniform("kernel-shap sizes", (pairs,))[0].numpy()
        size = 1 + sizes_done + np.minimum(np.searchsorted(share, chosen, side="right"), len(share) - 1)
        rank = rng.uniform("kernel-shap members", (pairs, count))[0].numpy().argsort(axis=1).argsort(axis=1)
        subsets = rank < size[:, None]
        keeps.append(np.stack([subsets, ~subsets], axis=1).reshape(-1, count)[:remaining])
        weights.append(np.full(remaining, mass[sizes_done:].sum() / remaining))
    if not keeps:
        return torch.empty(0, count, dtype=torch.bool), torch.empty(0, dtype=torch.float64)
    return torch.from_numpy(np.concatenate(keeps)), torch.from_numpy(np.concatenate(weights))


def shapley(
    keeps: Float[Tensor, "batch choices superpixels"],
    weights: Float[Tensor, "batch choices"],
    rises: Float[Tensor, "batch choices"],
    whole: Float[Tensor, " batch"],
    counts: Int[Tensor, " batch"],
) -> Float[Tensor, "batch superpixels"]:
    """The values of all images that fit the coalitions' rises best, among those whose sum is the whole rise.

    Every superpixel starts with an even part of the whole; what is fitted is the smallest change whose sum is zero and
    that fits the coalitions. Superpixels beyond an image's count pad it and get zero, as do choices of weight zero.

    Args:
        keeps: 1 for each superpixel in each coalition, 0 for one that is removed.
        weights: the kernel's weight of each coalition.
        rises: how far each coalition's output lies above that of the filled image.
        whole: the rise from the filled image to the image.
        counts: number of superpixels of each image.
    """
    real = (torch.arange(keeps.shape[2], device=keeps.device) < counts[:, None]).to(keeps)
    even = real * (whole / counts)[:, None]
    balance = torch.diag_embed(real) - real[:, :, None] * real[:, None, :] / counts[:, None, None]
    rest = rises - torch.einsum("bsm,bm->bs", keeps, even)
    weighted = (weights[..., None] * keeps).transpose(1, 2)
    normal = balance @ (weighted @ keeps) @ balance
    change: Tensor = torch.linalg.pinv(normal, rtol=SMALLEST, hermitian=True) @ (balance @ (weighted @ rest[..., None]))
    return even + (balance @ change)[..., 0]


def _with_ends(keeps: Bool[Tensor, "choices superpixels"]) -> Bool[Tensor, "more superpixels"]:
    ends = torch.tensor([[False], [True]]).expand(2, keeps.shape[1])
    return torch.cat([ends, keeps])
