"""Samples from any kind of source that users have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader

from snellen.errors import SnellenError
from snellen.images.arrays import from_arrays
from snellen.images.dataset import from_dataset
from snellen.images.files import from_files
from snellen.images.folder import from_folder, holds_pictures
from snellen.images.geometry import AS_IS, Geometry
from snellen.images.hugging_face import from_hugging_face, is_dataset, is_saved_dataset
from snellen.images.loader import from_loader
from snellen.images.reading import AS_STORED, Reading
from snellen.images.samples import Progress, Samples, from_list
from snellen.images.shards import from_shards, shard_paths
from snellen.types import Sample


def from_path(
    path: str | Path,
    *,
    geometry: Geometry,
    channels: int = 3,
    labels: str | Path | None = None,
    masks: str | Path | None = None,
    boxes: str | Path | None = None,
    classes: Sequence[str] | None = None,
    numbers: bool = False,
    reading: Reading = AS_STORED,
    unreadable: str = "refuse",
    progress: Progress | None = None,
) -> Samples:
    """Samples from a folder of images, a folder of a Hugging Face data set, or WebDataset shards; see `from_folder`."""
    saved, shards = is_saved_dataset(Path(path)), shard_paths(path)
    if not saved and (not shards or (Path(path).is_dir() and holds_pictures(Path(path)))):
        return from_folder(
            path,
            geometry=geometry,
            channels=channels,
            labels=labels,
            masks=masks,
            boxes=boxes,
            classes=classes,
            numbers=numbers,
            reading=reading,
            unreadable=unreadable,
            progress=progress,
        )
    what = "a Hugging Face data set" if saved else "made of tar shards"
    for option, value in (("labels", labels), ("masks", masks), ("boxes", boxes)):
        if value is not None:
            raise SnellenError(f"'{path}' is {what}, which brings its own labels; leave out --{option} '{value}'")
    if saved:
        if reading.window is not None:
            raise SnellenError(f"--window is for DICOM files, but '{path}' is {what}; leave it out")
        if unreadable == "skip":
            raise SnellenError(f"'{path}' is {what}, of which nothing can be skipped; leave out unreadable: skip")
        return from_hugging_face(
            path,
            geometry=geometry,
            channels=channels,
            classes=classes,
            numbers=numbers,
            reading=reading,
            progress=progress,
        )
    return from_shards(
        path,
        geometry=geometry,
        channels=channels,
        classes=classes,
        numbers=numbers,
        reading=reading,
        unreadable=unreadable,
        progress=progress,
    )


def as_samples(
    source: Any,
    *,
    geometry: Geometry = AS_IS,
    channels: int = 3,
    classes: Sequence[str] | None = None,
    numbers: bool = False,
    reading: Reading = AS_STORED,
    progress: Progress | None = None,
) -> Samples:
    """Samples from whatever holds images: see `source`.

    Args:
        source: a folder, a file, a list of files or of `Sample`, arrays, (images, labels), a torch Dataset or DataLoader, a
            Hugging Face Dataset or its folder, WebDataset shards, or `Samples`.
        geometry: how image files and PIL images are cropped and resized.
        channels: of the classifier.
        classes: names of the classifier's classes, for class sub-folders.
        numbers: whether labels are numbers, for a classifier that estimates one.
        reading: how stored values of files become pixels, and which channels pages show.
        progress: called with (images checked, images in total).
    """
    if isinstance(source, Samples):
        return source
    if isinstance(source, Sample):
        return from_list([source], numbers=numbers, progress=progress)
    show = reading.show_channels
    if isinstance(source, str | Path):
        if Path(source).is_file() and not shard_paths(source):
            return from_files([source], geometry=geometry, channels=channels, reading=reading, progress=progress)
        return from_path(
            source,
            geometry=geometry,
            channels=channels,
            classes=classes,
            numbers=numbers,
            reading=reading,
            progress=progress,
        )
    if isinstance(source, np.ndarray | Tensor):
        return from_arrays(source, channels=channels, show_channels=show, progress=progress)
    if isinstance(source, tuple) and 2 <= len(source) <= 3 and isinstance(source[0], np.ndarray | Tensor):
        return from_arrays(*source, numbers=numbers, channels=channels, show_channels=show, progress=progress)
    if isinstance(source, DataLoader):
        return from_loader(
            source, geometry=geometry, channels=channels, numbers=numbers, show_channels=show, progress=progress
        )
    if is_dataset(source):
        return from_hugging_face(
            source,
            geometry=geometry,
            channels=channels,
            classes=classes,
            numbers=numbers,
            reading=reading,
            progress=progress,
        )
    if isinstance(source, list | tuple):
        if source and all(isinstance(item, str | Path) for item in source):
            return from_files(source, geometry=geometry, channels=channels, reading=reading, progress=progress)
        return replace(from_list(source, numbers=numbers, progress=progress), show_channels=show)
    if hasattr(source, "__getitem__"):
        return from_dataset(
            source, geometry=geometry, channels=channels, numbers=numbers, show_channels=show, progress=progress
        )
    raise SnellenError(
        f"samples come from a folder, arrays, a torch Dataset or a list of Sample, not from a {type(source).__name__}"
    )
