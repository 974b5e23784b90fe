"""Conditions: rotated, resized, cropped or mixed samples, so that any metric can be run on such images.

Zhang et al. 2024 (Table 4) test maps on images that are rotated or of lower quality. A condition changes the images before
everything else: predictions, targets, maps and scores are those of the changed images. The truth is changed with the image.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from snellen.errors import SnellenError
from snellen.images.columns import Digests, index_array
from snellen.images.samples import Samples, Source
from snellen.images.transforms import move_pixels, rotation_index
from snellen.plugins.registry import CONDITIONS, condition, label, spec, traits
from snellen.types import Condition, Rng, Sample


@condition("rotation", cite="zhang2024")
@dataclass(frozen=True)
class Rotation:
    """Each image rotated counter-clockwise about its centre, nearest neighbour, with corners of the fill colour.

    The paper rotates by 45, 135, 225 and 315 degrees, with the mean colour of ImageNet in the corners, which is
    fill=[0.485, 0.456, 0.406]. `fill` is one number for all channels or one for each.
    """

    degrees: float = 45.0
    """Counter-clockwise angle."""
    fill: tuple[float, ...] = (0.0,)
    """Pixels in [0, 1] of the corners: one number for all channels, or one for each."""

    def __post_init__(self) -> None:
        if not self.fill or not all(0 <= value <= 1 for value in self.fill):
            raise ValueError(f"fill must be pixels from 0 to 1, not {list(self.fill)}")

    def __call__(self, sample: Sample, partner: Sample | None, *, rng: Rng) -> Sample:
        channels, height, width = sample.image.shape
        if len(self.fill) not in (1, channels):
            raise SnellenError(f"rotation: fill has {len(self.fill)} numbers, but '{sample.id}' has {channels} channels")
        index = rotation_index((height, width), torch.tensor([self.degrees]).double())
        image = move_pixels(sample.image[None], index, torch.tensor(self.fill).to(sample.image).view(-1, 1, 1))[0]
        truth = None
        if sample.truth is not None:
            truth = move_pixels(sample.truth[None, None].float(), index, torch.zeros(1))[0, 0] > 0
        return replace(sample, image=image, truth=truth)


@condition("resize", cite="zhang2024")
@dataclass(frozen=True)
class Resize:
    """Each image resized until its short side has `side` pixels, and back to its size, which removes details.

    The paper uses 32, 64, 128 and 448. Linear interpolation, with averaging when it shrinks.
    """

    side: int = 64

    def __post_init__(self) -> None:
        if self.side < 1:
            raise ValueError(f"side must be at least 1, not {self.side}")

    def __call__(self, sample: Sample, partner: Sample | None, *, rng: Rng) -> Sample:
        _, height, width = sample.image.shape
        scale = self.side / min(height, width)
        small = _resize(sample.image, (max(1, round(height * scale)), max(1, round(width * scale))))
        return replace(sample, image=_resize(small, (height, width)))


@condition("crop", cite="zhang2024")
@dataclass(frozen=True)
class Crop:
    """A random crop of each image, enlarged to the size of the whole.

    Its share of the area is drawn from `scale`, and its width is 3/4 to 4/3 of its height, as in the training of most
    networks; if no such crop fits in ten draws, it is the largest in the middle that does. The paper uses four seeds. The
    truth is cropped too, so it may be empty.
    """

    scale: tuple[float, ...] = (0.08, 1.0)

    def __post_init__(self) -> None:
        if len(self.scale) != 2 or not 0 < self.scale[0] <= self.scale[1] <= 1:
            raise ValueError(f"scale must be two rising shares from 0 to 1, not {list(self.scale)}")

    def __call__(self, sample: Sample, partner: Sample | None, *, rng: Rng) -> Sample:
        _, height, width = sample.image.shape
        top, left, rows, columns = self.window((height, width), rng)
        part = (slice(top, top + rows), slice(left, left + columns))
        image = _resize(sample.image[:, *part], (height, width))
        truth = None
        if sample.truth is not None:
            truth = _resize(sample.truth[None, *part].float(), (height, width))[0] >= 0.5
        return replace(sample, image=image, truth=truth)

    def window(self, size: tuple[int, int], rng: Rng) -> tuple[int, int, int, int]:
        """Top, left, height and width of the crop, drawn for one sample."""
        height, width = size
        wide, narrow = math.log(4 / 3), math.log(3 / 4)
        for area, ratio, down, across in rng.uniform("crop", (10, 4))[0].double().tolist():
            share = self.scale[0] + area * (self.scale[1] - self.scale[0])
            shape = math.exp(narrow + ratio * (wide - narrow))
            pixels = share * height * width
            rows, columns = round(math.sqrt(pixels / shape)), round(math.sqrt(pixels * shape))
            if 0 < rows <= height and 0 < columns <= width:
                return int(down * (height - rows + 1)), int(across * (width - columns + 1)), rows, columns
        rows, columns = min(height, round(width * 4 / 3)), min(width, round(height * 4 / 3))
        return (height - rows) // 2, (width - columns) // 2, rows, columns


@condition("mixup", cite="zhang2018mixup", partner=True)
@dataclass(frozen=True)
class Mixup:
    """Each image mixed with another image of the run, by a share drawn from Beta(alpha, alpha).

    Label and truth are those of the image with the larger share; the published code for Table 4 of Zhang et al. 2024 uses
    those of the first image, however small its share is. The pairs are drawn with the run's seed.
    """

    alpha: float = 1.0
    """Both parameters of the Beta distribution: 1 draws shares evenly, larger ones near a half."""

    def __post_init__(self) -> None:
        if self.alpha <= 0:
            raise ValueError(f"alpha must be positive, not {self.alpha}")

    def __call__(self, sample: Sample, partner: Sample | None, *, rng: Rng) -> Sample:
        if partner is None:
            raise SnellenError(f"mixup needs a second picture to mix '{sample.id}' with; give more than one")
        share = float(rng.shared(f"mixup/{sample.id}").beta(self.alpha, self.alpha))
        stronger = sample if share >= 0.5 else partner
        image = (share * sample.image + (1 - share) * partner.image).clamp(0, 1)
        return Sample(
            id=sample.id, image=image, label=stronger.label, truth=stronger.truth, group=sample.group, number=stronger.number
        )


def _resize(image: Float[Tensor, "channels height width"], size: tuple[int, int]) -> Float[Tensor, "channels down across"]:
    resized: Tensor = functional.interpolate(image[None], size, mode="bilinear", antialias=True, align_corners=False)[0]
    return resized.clamp(0, 1)


@dataclass(frozen=True, eq=False)
class Conditioned:
    """Samples of another source, each changed when it is loaded."""

    source: Source
    """Where the unchanged samples are loaded from."""
    condition: Condition
    """The change."""
    seed: int
    """The run's seed."""
    pairs: np.ndarray
    """Index of each sample in `source`, and that of its partner for conditions that mix two, otherwise -1."""

    def load(self, index: int) -> Sample:
        """The changed sample."""
        place, other = self.pairs[index].tolist()
        sample = self.source.load(place)
        partner = None if other < 0 else self.source.load(other)
        return self.condition(sample, partner, rng=Rng(self.seed, (sample.id,), "/condition"))

    def take(self, indices: Sequence[int]) -> Conditioned:
        """A source of these samples and their partners."""
        pairs = self.pairs[index_array(indices)]
        needed = np.unique(pairs[pairs >= 0])
        new_pairs = np.where(pairs < 0, -1, np.searchsorted(needed, pairs))
        return replace(self, source=self.source.take(needed.tolist()), pairs=new_pairs)


def apply_condition(samples: Samples, condition: Any, *, seed: int) -> Samples:
    """The samples changed by a condition, written as in `rotation(degrees=45)`; their ids stay the same."""
    chosen: Condition = CONDITIONS.parse(condition)
    others = np.full(len(samples), -1)
    if traits(chosen).partner:
        if len(samples) < 2:
            raise SnellenError(f"{label(chosen)} mixes two pictures, but there is only '{samples.ids[0]}'; give more")
        numbers = Rng(seed, tuple(samples.ids), "/condition").uniform("partner", (1,)).flatten().double().numpy()
        # Any of the others with equal probability: a step of 1 to n - 1 from the sample's own index.
        others = (np.arange(len(samples)) + 1 + (numbers * (len(samples) - 1)).astype(np.int64)) % len(samples)
    pairs = np.stack([samples.places, np.where(others < 0, -1, samples.places[others])], axis=1)
    digests = (
        [samples.digests[place], None if other < 0 else samples.digests[other]]
        for place, other in enumerate(others.tolist())
    )
    facts = [spec(chosen), traits(chosen).version, seed]
    return replace(
        samples,
        source=Conditioned(source=samples.source, condition=chosen, seed=seed, pairs=pairs),
        places=np.arange(len(samples)),
        description=f"{samples.description}, under {label(chosen)}",
        digests=Digests(
            hashlib.sha256(json.dumps([*facts, sample_id, digest]).encode()).hexdigest()
            for sample_id, digest in zip(samples.ids, digests, strict=True)
        ),
    )
