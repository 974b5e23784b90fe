"""Samples from arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from snellen.errors import SnellenError, short_repr
from snellen.images.columns import Names
from snellen.images.planes import channels_last
from snellen.images.reading import Reading, check_shown
from snellen.images.samples import Progress, Samples, as_findings, as_label, as_number, check_pixels, check_samples
from snellen.types import Findings, Sample

Array = np.ndarray | Tensor


@dataclass(frozen=True, eq=False)
class Arrays:
    """Samples in arrays, each converted when it is loaded; a memory-mapped file stays on disk."""

    images: Array
    """All images in one array."""
    channels_last: bool
    """Whether channels are the last axis."""
    labels: tuple[int | Findings | None, ...]
    """Class index or findings of each image."""
    truth: Array | None
    """All masks in one array."""
    ids: Names
    """Name of each image."""
    groups: tuple[str | None, ...]
    """Name of the group of each image, such as a patient."""
    numbers: tuple[float | None, ...]
    """The true number of each image, for a classifier that estimates one."""

    def load(self, index: int) -> Sample:
        """The sample at this index."""
        image = as_pixels(self.images[index], self.channels_last)
        check_pixels(image, self.ids[index])
        row = None if self.truth is None else self.truth[index]
        mask = None if row is None else (row if isinstance(row, Tensor) else torch.as_tensor(np.array(row)))
        if mask is not None and bool(mask.isnan().any()):
            raise SnellenError(f"the truth of '{self.ids[index]}' holds NaN; what belongs to the region is 1, all else 0")
        truth = None if mask is None else mask != 0
        return Sample(
            id=self.ids[index],
            image=image,
            label=self.labels[index],
            truth=truth,
            group=self.groups[index],
            number=self.numbers[index],
        )

    def take(self, indices: Sequence[int]) -> Arrays:
        """Copies of these samples."""
        rows = list(indices)
        return Arrays(
            images=self.images[rows],
            channels_last=self.channels_last,
            labels=tuple(self.labels[row] for row in rows),
            truth=None if self.truth is None else self.truth[rows],
            ids=self.ids.take(rows),
            groups=tuple(self.groups[row] for row in rows),
            numbers=tuple(self.numbers[row] for row in rows),
        )


def from_arrays(
    images: Array,
    labels: Sequence[Any] | Array | None = None,
    truth: Array | None = None,
    ids: Sequence[str] | None = None,
    *,
    groups: Sequence[Any] | Array | None = None,
    numbers: bool = False,
    channels: int | None = None,
    show_channels: tuple[int, ...] | None = None,
    progress: Progress | None = None,
) -> Samples:
    """Samples from numpy or torch arrays.

    Args:
        images: bytes, or floats in [0, 1], of shape (samples, channels, height, width), (samples, height, width, channels)
            or (samples, height, width) for greyscale.
        labels: class indices; for independent labels a list of indices per image, or an array with a row per image and a
            column per label: 1 present, 0 absent, -1 or NaN unknown.
        truth: (samples, height, width); what is not zero belongs to the region that correct maps highlight.
        ids: names of the samples; numbers by default.
        groups: what images have in common, such as a patient; None belongs to no group.
        numbers: whether labels are numbers, for a classifier that estimates one; None or NaN is unknown.
        channels: of the classifier, where these are neither 1 nor 3.
        show_channels: what pages show of such images, counted from 1 (see `Reading`).
        progress: called with (images checked, images in total).
    """
    shape = tuple(images.shape)
    if len(shape) not in (3, 4) or 0 in shape:
        raise SnellenError(f"images have the shape {_times(shape)}; it must be samples×channels×height×width or the like")
    count = shape[0]
    last = _channels_last(shape, channels)
    size = shape[1:3] if last or len(shape) == 3 else shape[2:]
    if truth is not None and tuple(truth.shape) != (count, *size):
        raise SnellenError(f"truth has the shape {_times(truth.shape)}, but the images need {_times((count, *size))}")
    for name, values in (("labels", labels), ("ids", ids), ("groups", groups)):
        if values is not None and (not hasattr(values, "__len__") or getattr(values, "shape", None) == ()):
            raise SnellenError(f"{name} are {short_repr(values)}; give one per image ({count}), in a list or array")
        if values is not None and len(values) != count:
            raise SnellenError(f"there are {count} images, but {len(values)} {name}")
    true_numbers: tuple[float | None, ...] = (None,) * count
    if numbers and labels is not None:
        true_numbers = tuple(as_number(label, f"image {place}") for place, label in enumerate(labels))
        labels = None
    if isinstance(labels, np.ndarray | Tensor) and labels.ndim == 2:
        rows = labels.tolist()
        labels = (
            [as_findings(row, f"image {place}") for place, row in enumerate(rows)] if labels.shape[1] > 1 else labels[:, 0]
        )
    class_indices = (
        tuple(as_label(label, f"image {place}") for place, label in enumerate(labels))
        if labels is not None
        else (None,) * count
    )
    width = len(str(count - 1))
    names = Names(ids if ids is not None else (f"{place:0{width}d}" for place in range(count)))
    group_names = (
        tuple(None if group is None else str(group) for group in _listed(groups)) if groups is not None else (None,) * count
    )
    pixels = images.detach().cpu() if isinstance(images, Tensor) else images
    source = Arrays(
        images=pixels,
        channels_last=last,
        labels=class_indices,
        truth=truth,
        ids=names,
        groups=group_names,
        numbers=true_numbers,
    )
    image_channels = 1 if len(shape) == 3 else shape[3] if last else shape[1]
    check_shown(show_channels, image_channels)
    description = f"arrays{Reading(show_channels=show_channels).words(image_channels)}"
    samples = check_samples(source, names, description, progress=progress)
    return replace(samples, show_channels=show_channels)


def _channels_last(shape: Sequence[int], channels: int | None) -> bool:
    """Whether channels are the last axis; refuses arrays that have another number of them."""
    if channels in (None, 1, 3):
        if len(shape) == 4 and shape[1] not in (1, 3) and shape[3] not in (1, 3):
            stated = "" if channels is None else f", and the classifier takes {channels}"
            raise SnellenError(
                f"images of shape {_times(shape)} have neither 1 nor 3 channels{stated}; "
                "a classifier with more is written as Classifier(..., channels=N)"
            )
        return len(shape) == 4 and shape[1] not in (1, 3)
    last = None if len(shape) == 3 else channels_last(shape[1:], channels or 0)
    if last is None:
        raise SnellenError(f"images of shape {_times(shape)} do not have the {channels} channels that the classifier takes")
    return last


def _listed(values: Sequence[Any] | Array) -> list[Any]:
    """Python values instead of numbers of an array, which would be written as tensor(3)."""
    return list(values.tolist()) if isinstance(values, Tensor | np.ndarray) else list(values)


def as_pixels(values: Array, channels_last: bool) -> Tensor:
    """An image as floats of shape (channels, height, width); bytes are divided by 255."""
    tensor = values if isinstance(values, Tensor) else torch.from_numpy(np.array(values))
    if tensor.dtype == torch.uint8:
        tensor = tensor.float() / 255.0
    elif not tensor.is_floating_point():
        raise SnellenError(
            f"images are bytes (uint8) or floating-point numbers in [0, 1], not {tensor.dtype}".replace("torch.", "")
        )
    if tensor.dim() == 2:
        tensor = tensor.unsqueeze(0)
    return (tensor.permute(2, 0, 1) if channels_last else tensor).float().contiguous()


def _times(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))
