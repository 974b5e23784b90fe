"""Samples from any kind of source that users have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from snellen.errors import SnellenError
from snellen.images.arrays import from_arrays
from snellen.images.dataset import from_dataset
from snellen.images.files import from_files
from snellen.images.folder import from_folder
from snellen.images.geometry import AS_IS, Geometry
from snellen.images.samples import Progress, Samples, from_list
from snellen.types import Sample


def as_samples(
    source: Any,
    *,
    geometry: Geometry = AS_IS,
    channels: int = 3,
    classes: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Samples:
    """Samples from a folder, a file, a list of files or of `Sample`, arrays, (images, labels), a Dataset, or `Samples`.

    Args:
        source: any of these.
        geometry: how image files and PIL images are cropped and resized.
        channels: 3, or 1 for greyscale.
        classes: names of the classifier's classes, for class sub-folders.
        progress: called with (images checked, images in total).
    """
    if isinstance(source, Samples):
        return source
    if isinstance(source, Sample):
        return from_list([source], progress=progress)
    if isinstance(source, str | Path):
        if Path(source).is_file():
            return from_files([source], geometry=geometry, channels=channels, progress=progress)
        return from_folder(source, geometry=geometry, channels=channels, classes=classes, progress=progress)
    if isinstance(source, np.ndarray | Tensor):
        return from_arrays(source, progress=progress)
    if isinstance(source, tuple) and 2 <= len(source) <= 3 and isinstance(source[0], np.ndarray | Tensor):
        return from_arrays(*source, progress=progress)
    if isinstance(source, list | tuple):
        if source and all(isinstance(item, str | Path) for item in source):
            return from_files(source, geometry=geometry, channels=channels, progress=progress)
        return from_list(source, progress=progress)
    if hasattr(source, "__getitem__"):
        return from_dataset(source, geometry=geometry, channels=channels, progress=progress)
    raise SnellenError(
        f"samples come from a folder, arrays, a torch Dataset or a list of Sample, not from a {type(source).__name__}"
    )
