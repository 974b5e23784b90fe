"""Samples from a torch Dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from snellen.errors import SnellenError, first_line
from snellen.images.arrays import as_pixels
from snellen.images.columns import Names
from snellen.images.decoding import plain_image
from snellen.images.geometry import AS_IS, Geometry
from snellen.images.planes import channels_last
from snellen.images.reading import Reading, check_shown
from snellen.images.samples import InMemory, Progress, Samples, as_label, as_number, check_pixels, check_samples, digest
from snellen.types import Sample


@dataclass(frozen=True, eq=False)
class DatasetItems:
    """Samples of a Dataset; a part of them is loaded into memory, because a Dataset has no parts."""

    dataset: Any
    """The Dataset; items are read by index."""
    geometry: Geometry
    """How PIL images are cropped and resized."""
    channels: int
    """Number of channels of the classifier."""
    ids: Names
    """Name of each item."""
    numbers: bool = False
    """Whether labels are numbers."""

    def load(self, index: int) -> Sample:
        """The sample at this index."""
        name = self.ids[index]
        try:
            item = self.dataset[index]
        except SnellenError:
            raise
        except Exception as problem:
            raise SnellenError(f"item {index} of the dataset cannot be loaded ({first_line(problem)})") from problem
        parts = tuple(item) if isinstance(item, tuple | list) else (item,)
        if not 1 <= len(parts) <= 3:
            raise SnellenError(
                f"item {index} of the dataset has {len(parts)} parts; it must be (image, label) or (image, label, truth)"
            )
        image, label, truth = (*parts, None, None)[:3]
        pixels = self._pixels(image, name)
        marked = None if truth is None else torch.as_tensor(np.array(truth)) != 0
        if marked is not None and marked.shape != pixels.shape[1:]:
            raise SnellenError(f"the truth of item {index} of the dataset does not have the size of its image")
        owner = f"item {index} of the dataset"
        if self.numbers:
            return Sample(id=name, image=pixels, truth=marked, number=as_number(label, owner))
        return Sample(id=name, image=pixels, label=as_label(label, owner), truth=marked)

    def take(self, indices: Sequence[int]) -> InMemory:
        """These items, loaded now."""
        return InMemory(tuple(self.load(index) for index in indices)).take(range(len(indices)))

    def _pixels(self, image: Any, name: str) -> Tensor:
        many = self.channels not in (1, 3)
        if isinstance(image, Image.Image) and not many:
            return self.geometry.picture(plain_image(image, f"item {name} of the dataset"), self.channels)
        if not isinstance(image, Tensor | np.ndarray) or image.ndim not in (2, 3):
            raise SnellenError(
                f"the image of item {name} of the dataset is a {type(image).__name__}; give a "
                f"{'' if many else 'PIL picture or a '}tensor"
            )
        last = image.ndim == 3 and image.shape[0] not in (1, 3)
        if many:
            stated = channels_last(image.shape, self.channels) if image.ndim == 3 else None
            if stated is None:
                shape = "×".join(map(str, image.shape))
                raise SnellenError(
                    f"the image of item {name} of the dataset is {shape}, but the classifier takes {self.channels} channels"
                )
            last = stated
        pixels = as_pixels(image, last)
        check_pixels(pixels, f"item {name} of the dataset")
        return pixels


def from_dataset(
    dataset: Any,
    *,
    geometry: Geometry = AS_IS,
    channels: int = 3,
    numbers: bool = False,
    show_channels: tuple[int, ...] | None = None,
    description: str | None = None,
    notes: Sequence[str] = (),
    progress: Progress | None = None,
) -> Samples:
    """Samples from a map-style torch Dataset of (image, label) or (image, label, truth).

    PIL images are cropped and resized by `geometry`; tensors are used as they are and must be pixels in [0, 1], without
    normalisation. Where the classifier estimates a number (`numbers`), labels are numbers.

    Args:
        dataset: has a length and gives its items by index.
        geometry: how PIL images are cropped and resized.
        channels: of the classifier.
        numbers: whether labels are numbers, for a classifier that estimates one.
        show_channels: what pages show of images with many channels, counted from 1.
        description: where the samples come from, for reports; the name of the class if None.
        notes: sentences for the user, stored with the samples.
        progress: called with (images checked, images in total).
    """
    try:
        count = len(dataset)
    except TypeError:
        raise SnellenError(f"'{type(dataset).__name__}' has no length; give a map-style Dataset, or arrays") from None
    if not count:
        raise SnellenError(f"'{type(dataset).__name__}' is empty")
    width = len(str(count - 1))
    ids = Names(f"{place:0{width}d}" for place in range(count))
    check_shown(show_channels, channels)
    samples = check_samples(
        DatasetItems(dataset=dataset, geometry=geometry, channels=channels, ids=ids, numbers=numbers),
        ids,
        description or f"a {type(dataset).__name__}{Reading(show_channels=show_channels).words(channels)}",
        notes=notes,
        progress=progress,
    )
    if digest(samples.source.load(0)) != samples.digests[0]:
        raise SnellenError(
            f"item 0 of '{type(dataset).__name__}' is different each time it is loaded; leave out random transforms"
        )
    return replace(samples, show_channels=show_channels)
