"""Whatever a user has at hand, as samples."""

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
    anything: Any,
    *,
    geometry: Geometry = AS_IS,
    channels: int = 3,
    classes: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Samples:
    """Samples from Samples, a list of Sample or of files, arrays, (images, labels), a torch Dataset, a folder or a file."""
    if isinstance(anything, Samples):
        return anything
    if isinstance(anything, Sample):
        return from_list([anything], progress=progress)
    if isinstance(anything, str | Path):
        if Path(anything).is_file():
            return from_files([anything], geometry=geometry, channels=channels, progress=progress)
        return from_folder(anything, geometry=geometry, channels=channels, classes=classes, progress=progress)
    if isinstance(anything, np.ndarray | Tensor):
        return from_arrays(anything, progress=progress)
    if isinstance(anything, tuple) and 2 <= len(anything) <= 3 and isinstance(anything[0], np.ndarray | Tensor):
        return from_arrays(*anything, progress=progress)
    if isinstance(anything, list | tuple):
        if anything and all(isinstance(one, str | Path) for one in anything):
            return from_files(anything, geometry=geometry, channels=channels, progress=progress)
        return from_list(anything, progress=progress)
    if hasattr(anything, "__getitem__"):
        return from_dataset(anything, geometry=geometry, channels=channels, progress=progress)
    raise SnellenError(
        f"samples come from a folder, arrays, a torch Dataset or a list of Sample, not from a {type(anything).__name__}"
    )
