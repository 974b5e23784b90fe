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
from snellen.files.remote import is_url
from snellen.images.arrays import from_arrays
from snellen.images.dataset import from_dataset
from snellen.images.files import from_files
from snellen.images.folder import from_folder, holds_pictures
from snellen.images.geometry import AS_IS, Geometry
from snellen.images.hugging_face import from_hugging_face, is_dataset, is_saved_dataset
from snellen.images.loader import from_loader
from snellen.images.manifest import SUFFIX, from_manifest
from snellen.images.picture_file import SUFFIXES
from snellen.images.reading import AS_STORED, Reading
from snellen.images.samples import Progress, Samples, from_list
from snellen.images.shards import from_shards, is_folder_of_shards, shard_paths
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
    check: str | None = None,
    root: str | Path | None = None,
    progress: Progress | None = None,
) -> Samples:
    """Samples of what a path or URL names.

    That is a folder of images (see `from_folder`), a folder of a Hugging Face data set, WebDataset shards (`from_shards`),
    or a manifest (`from_manifest`, which alone takes a root).
    """
    kind = _kind(path)
    if root is not None and kind != "manifest":
        raise SnellenError(f"--root is for manifests, whose rows are below it, but '{path}' is {_KINDS[kind]}; leave it out")
    if kind == "folder":
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
            check=check,
            progress=progress,
        )
    what = _KINDS[kind]
    for option, value in (("labels", labels), ("masks", masks), ("boxes", boxes)):
        if value is not None:
            raise SnellenError(f"'{path}' is {what}, which brings its own labels; leave out --{option} '{value}'")
    if kind == "saved":
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
    if kind == "manifest":
        return from_manifest(
            path,
            geometry=geometry,
            channels=channels,
            root=root,
            classes=classes,
            numbers=numbers,
            reading=reading,
            unreadable=unreadable,
            check=check,
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
        check=check,
        progress=progress,
    )


_KINDS = {
    "folder": "a folder of pictures",
    "saved": "a Hugging Face data set",
    "shards": "made of tar shards",
    "manifest": "a manifest",
}


def _kind(path: str | Path) -> str:
    """Which of `_KINDS` a path or URL names."""
    text = str(path)
    if text.endswith(SUFFIX):
        return "manifest"
    if text.endswith(".tar"):
        return "shards"
    if is_url(text):
        return "shards" if is_folder_of_shards(text) else "folder"
    if is_saved_dataset(Path(path)):
        return "saved"
    return "shards" if shard_paths(path) and not holds_pictures(Path(path)) else "folder"


def as_samples(
    source: Any,
    *,
    geometry: Geometry = AS_IS,
    channels: int = 3,
    classes: Sequence[str] | None = None,
    numbers: bool = False,
    reading: Reading = AS_STORED,
    check: str | None = None,
    progress: Progress | None = None,
) -> Samples:
    """Samples from whatever holds images: see `source`.

    Args:
        source: a folder, a file, a list of files or of `Sample`, arrays, (images, labels), a torch Dataset or DataLoader, a
            Hugging Face Dataset or its folder, WebDataset shards, a manifest, the URL of any of these, or `Samples`.
        geometry: how image files and PIL images are cropped and resized.
        channels: of the classifier.
        classes: names of the classifier's classes, for class sub-folders.
        numbers: whether labels are numbers, for a classifier that estimates one.
        reading: how stored values of files become pixels, and which channels pages show.
        check: "all" or "first" pictures of a folder, shards or a manifest; decided from their number where None.
        progress: called with (images checked, images in total).
    """
    if isinstance(source, Samples):
        return source
    if isinstance(source, Sample):
        return from_list([source], numbers=numbers, progress=progress)
    show = reading.show_channels
    if isinstance(source, str | Path):
        if _is_picture(source):
            return from_files([source], geometry=geometry, channels=channels, reading=reading, progress=progress)
        return from_path(
            source,
            geometry=geometry,
            channels=channels,
            classes=classes,
            numbers=numbers,
            reading=reading,
            check=check,
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
            return from_files(source, geometry=geometry, channels=channels, reading=reading, check=check, progress=progress)
        return replace(from_list(source, numbers=numbers, progress=progress), show_channels=show)
    if hasattr(source, "__getitem__"):
        return from_dataset(
            source, geometry=geometry, channels=channels, numbers=numbers, show_channels=show, progress=progress
        )
    raise SnellenError(
        f"samples come from a folder, arrays, a torch Dataset or a list of Sample, not from a {type(source).__name__}"
    )


def _is_picture(source: str | Path) -> bool:
    """Whether a path or URL names one picture, rather than a folder or a list."""
    if str(source).endswith((".tar", SUFFIX)):
        return False
    return Path(str(source)).suffix.lower() in SUFFIXES if is_url(source) else Path(source).is_file()
