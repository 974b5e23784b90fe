"""Samples from image files."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from snellen.errors import SnellenError
from snellen.images.decoding import brightest_of_16_bits, decode, decode_mask, frames
from snellen.images.geometry import Box, Geometry
from snellen.images.samples import Progress, Samples, check_samples
from snellen.types import Findings, Sample

DARK = 0.25
"""Share of 65535 that 14-bit data fills; 16-bit images that do not exceed it are mentioned in a note."""

DARK_CHECKED = 20
"""Number of 16-bit images that are checked for dark values."""


@dataclass(frozen=True)
class Entry:
    """An image file with its label and ground truth. Paths are absolute, because a worker may run in another folder."""

    id: str
    path: str
    label: int | Findings | None = None
    mask: str | None = None
    """Path of a mask file."""
    boxes: tuple[Box, ...] = ()
    """In pixels of the upright original."""
    group: str | None = None


@dataclass(frozen=True)
class Files:
    """Samples that are decoded from files each time they are loaded."""

    entries: tuple[Entry, ...]
    geometry: Geometry
    channels: int

    def load(self, index: int) -> Sample:
        """The sample at this index; image and truth are cropped and resized in the same way."""
        entry = self.entries[index]
        decoded = decode(entry.path, at_least=_at_least(self.geometry))
        image = self.geometry.picture(decoded.image, self.channels)
        width, height = decoded.size
        truth = None
        if entry.mask is not None:
            marked = decode_mask(entry.mask)
            if marked.shape != (height, width):
                raise SnellenError(
                    f"the mask '{entry.mask}' is {marked.shape[1]}×{marked.shape[0]} pixels, "
                    f"but its picture '{entry.id}' is {width}×{height}"
                )
            truth = self.geometry.mask(marked)
        elif entry.boxes:
            for x0, y0, x1, y1 in entry.boxes:
                if not (0 <= x0 < x1 <= width and 0 <= y0 < y1 <= height):
                    raise SnellenError(
                        f"the box ({x0:g}, {y0:g}, {x1:g}, {y1:g}) of '{entry.id}' does not lie within its "
                        f"{width}×{height} pixels"
                    )
            truth = self.geometry.boxes(entry.boxes, width, height)
        return Sample(id=entry.id, image=image, label=entry.label, truth=truth, group=entry.group)

    def take(self, indices: Sequence[int]) -> Files:
        """A source of these samples."""
        return Files(tuple(self.entries[index] for index in indices), self.geometry, self.channels)


def from_entries(
    entries: Sequence[Entry],
    description: str,
    *,
    geometry: Geometry,
    channels: int = 3,
    unreadable: str = "refuse",
    notes: Sequence[str] = (),
    progress: Progress | None = None,
) -> Samples:
    """Samples from image files with labels and truth.

    Args:
        entries: the files.
        description: where they come from, for reports.
        geometry: how images are cropped and resized.
        channels: 3, or 1 for greyscale.
        unreadable: "refuse" or "skip" files that cannot be decoded.
        notes: sentences for the user, stored with the samples.
        progress: called with (images checked, images in total).
    """
    source = Files(tuple(entries), geometry, channels)
    ids = [entry.id for entry in entries]
    samples = check_samples(source, ids, description, unreadable=unreadable, notes=notes, progress=progress)
    animated = [entries[place].id for place in samples.places if frames(entries[place].path) > 1]
    if animated:
        which = f"'{animated[0]}' holds" if len(animated) == 1 else f"'{animated[0]}' and {len(animated) - 1} more hold"
        samples = replace(samples, notes=(*samples.notes, f"{which} several frames; only the first is used"))
    if dark := _dark([entries[place] for place in samples.places]):
        samples = replace(samples, notes=(*samples.notes, dark))
    return samples


def _dark(entries: Sequence[Entry]) -> str | None:
    """A note if the values of the first 16-bit files would all fit into fewer bits; None otherwise."""
    deep = ((entry, brightest_of_16_bits(entry.path)) for entry in entries)
    measured = list(islice(((entry, share) for entry, share in deep if share is not None), DARK_CHECKED))
    brightest = max((share for _, share in measured), default=1.0)
    if brightest > DARK or brightest == 0:
        return None
    unused = math.floor(-math.log2(brightest) + 1e-3)  # 4095 / 65535 is slightly more than 2 to the power of -4
    first = measured[0][0].id
    which = f"'{first}' uses" if len(measured) == 1 else f"'{first}' and {len(measured) - 1} more use"
    return (
        f"{which} only the darkest 1/{2**unused} of the 16-bit range, like {16 - unused}-bit data that was saved without "
        f"scaling; multiply their values by {2**unused}, unless the classifier was trained on such dark pictures"
    )


def from_files(
    paths: Sequence[str | Path],
    *,
    geometry: Geometry,
    channels: int = 3,
    unreadable: str = "refuse",
    progress: Progress | None = None,
) -> Samples:
    """Unlabelled samples from a list of image files."""
    if not paths:
        raise SnellenError("there are no pictures: the list of files is empty")
    entries = [Entry(str(path), os.path.abspath(path)) for path in paths]
    return from_entries(entries, "files", geometry=geometry, channels=channels, unreadable=unreadable, progress=progress)


def _at_least(geometry: Geometry) -> tuple[int, int] | None:
    """The size to which a JPEG may be reduced: two pixels for each pixel of the classifier's input."""
    if geometry.size is None:
        return None
    side = round(2 * max(geometry.size) / geometry.crop)
    return (side, side)
