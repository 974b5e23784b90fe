"""XRAI: regions ranked by the attribution they hold."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float, Int, UInt64
from scipy import sparse

from snellen.classifier import Classifier
from snellen.methods.integrated_gradients import integrated
from snellen.plugins.registry import method
from snellen.plugins.traits import TraitEvidence
from snellen.types import Images, Maps, Output, Passes, Rng, Targets

Baselines = Literal["both", "darkest", "brightest"]

SIDE = 224
"""Height and width to which a larger image is resized for segmentation; the settings below are meant for it."""
SCALES = (50, 100, 150, 250, 500, 1200)
"""Settings of the segmentation (Felzenszwalb); a larger one gives larger segments."""
SMOOTHING, SMALLEST = 0.8, 150
MARGIN, LEAST_NEW = 5, 50
"""By how many pixels a segment is widened, and how many it must add to what was taken before it."""


@method(
    "xrai",
    cite="kapishnikov2019",
    family="path",
    signed=True,
    needs={"gradients"},
    implementation_invariant=TraitEvidence(0.01, images=18, networks=5),
    presets={"kapishnikov2019": {"steps": 100}, "boggust2023": {"steps": 100}},
    ranges={"steps": (8, 16, 100), "baselines": ("darkest", "brightest"), "fast": (True,), "of": ("probability",)},
)
@dataclass(frozen=True)
class Xrai:
    """The mean attribution of a pixel's region, where regions are taken one by one, the densest in attribution first.

    Regions are segments of the image at six scales, each a little widened. The attribution is that of integrated gradients
    from the image's darkest and from its brightest value, their mean, and of that the largest channel. The brightest value
    credits what is dark: where light objects stand on a dark ground that is the ground, and `baselines=darkest` credits
    the objects. `fast` ranks the segments once instead of anew after each choice. For images smaller than 224×224 all
    lengths shrink in proportion.
    """

    steps: int = 32
    """Number of points on each path of integrated gradients."""
    baselines: Baselines = "both"
    """The values from which integrated gradients start: the image's darkest, its brightest, or both."""
    fast: bool = False
    of: Output = "logit"

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise ValueError(f"steps must be at least 1, not {self.steps}")

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward and one backward per step and baseline."""
        count = self.steps * (2 if self.baselines == "both" else 1)
        return Passes(count, count)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        images = inputs.detach().movedim(1, 3).cpu().numpy()
        with ThreadPoolExecutor(1) as executor:  # segments while the model computes
            segments = [executor.submit(segments_of, image) for image in images]
            try:
                attributions = self._attributions(classifier, inputs, targets).cpu().numpy()
            except BaseException:
                executor.shutdown(cancel_futures=True)
                raise
        least_new = max(1, round(LEAST_NEW * _shrunk(*inputs.shape[2:]) ** 2))
        maps = [
            ranked(attribution, segment.result(), least_new, fast=self.fast)
            for attribution, segment in zip(attributions, segments, strict=True)
        ]
        return torch.from_numpy(np.stack(maps)).to(inputs)

    def _attributions(self, classifier: Classifier, inputs: Images, targets: Targets) -> Maps:
        values = {"darkest": inputs.amin(dim=(1, 2, 3), keepdim=True), "brightest": inputs.amax(dim=(1, 2, 3), keepdim=True)}
        chosen = list(values.values()) if self.baselines == "both" else [values[self.baselines]]
        starts = torch.stack(chosen, dim=1).expand(-1, -1, *inputs.shape[1:]).flatten(0, 1)
        times = len(chosen)
        ends, classes = inputs.repeat_interleave(times, dim=0), targets.repeat_interleave(times)
        attributions = integrated(classifier, starts, ends, classes, steps=self.steps, of=self.of)
        return attributions.view(-1, times, *inputs.shape[1:]).mean(dim=1).amax(dim=1)


def segments_of(image: Float[np.ndarray, "height width channels"]) -> sparse.csr_array:
    """Which pixels (rows) lie in which widened segment (columns), finest scale first."""
    from skimage.segmentation import felzenszwalb  # slow import, half a second
    from skimage.transform import resize

    height, width = image.shape[:2]
    low, high = image.min(), image.max()
    stretched = (image - low) / (high - low if high > low else 1) * 2 - 1
    shrunk = _shrunk(height, width)
    down, right = np.arange(height), np.arange(width)
    if shrunk == 1 and (height, width) != (SIDE, SIDE):
        stretched = resize(stretched, (SIDE, SIDE), order=3, mode="constant", preserve_range=True, anti_aliasing=True)
        down, right = (((positions + 0.5) * SIDE / len(positions)).astype(int) for positions in (down, right))
    inside = []
    for scale in SCALES:
        # Differences between neighbours grow as an image shrinks, and areas shrink twice: scale / area stays in proportion.
        labels = felzenszwalb(
            stretched, scale=scale * shrunk, sigma=SMOOTHING * shrunk, min_size=round(SMALLEST * shrunk**2)
        )
        inside.append(_widened(labels[np.ix_(down, right)], round(MARGIN * shrunk)))
    return sparse.hstack(inside, format="csr")


def _shrunk(height: int, width: int) -> float:
    """How many times smaller than the size that the settings are meant for, as a share of the side; at most 1."""
    return min(1.0, math.sqrt(height * width) / SIDE)


def _widened(labels: Int[np.ndarray, "height width"], radius: int) -> sparse.csr_array:
    """Which pixels lie in a disk around some pixel of each label."""
    parts = []
    for first in range(0, int(labels.max()) + 1, 64):
        # One bit per label, so that one pass over the image widens 64 segments.
        in_block = (labels >= first) & (labels < first + 64)
        bits = np.where(in_block, np.uint64(1) << (np.where(in_block, labels - first, 0)).astype(np.uint64), np.uint64(0))
        count = min(64, int(labels.max()) + 1 - first)
        flags = np.unpackbits(_spread(bits, radius).reshape(-1, 1).view(np.uint8), axis=1, bitorder="little")
        parts.append(sparse.csr_array(flags[:, :count]))
    return sparse.hstack(parts, format="csr")


def _spread(bits: UInt64[np.ndarray, "height width"], radius: int) -> UInt64[np.ndarray, "height width"]:
    """The union of all bits within a disk."""
    height, width = bits.shape
    padded = np.pad(bits, radius)
    out = np.zeros_like(bits)
    for down in range(-radius, radius + 1):
        reach = math.isqrt(radius**2 - down**2)
        line = padded[radius + down : radius + down + height]
        for right in range(-reach, reach + 1):
            out |= line[:, radius + right : radius + right + width]
    return out


def ranked(
    attribution: Float[np.ndarray, "height width"], inside: sparse.csr_array, least_new: int, *, fast: bool
) -> Float[np.ndarray, "height width"]:
    """Each pixel's density of attribution in the part that its region added when it was taken."""
    values = attribution.astype(np.float64).ravel()
    inside = inside.astype(np.float64)
    sums, pixels = values @ inside, np.ones_like(values) @ inside
    columns = inside.tocsc()
    order = iter(np.argsort(-sums / np.maximum(pixels, 1), kind="stable"))
    out, free = np.zeros_like(values), np.ones(values.shape, dtype=bool)
    while True:
        # A segment with fewer than `least_new` free pixels is never taken, nor one that was taken before.
        open_ = pixels >= least_new
        if fast:
            best = next((segment for segment in order if open_[segment]), None)
        else:
            best = int(np.argmax(np.where(open_, sums / np.maximum(pixels, 1), -np.inf))) if open_.any() else None
        if best is None:
            break
        region = columns.indices[columns.indptr[best] : columns.indptr[best + 1]]
        region = region[free[region]]
        out[region] = values[region].mean()
        free[region] = False
        covered = inside[region]
        sums -= values[region] @ covered
        pixels -= np.ones(len(region)) @ covered
    if free.any():
        out[free] = values[free].mean()
    return out.reshape(attribution.shape)
