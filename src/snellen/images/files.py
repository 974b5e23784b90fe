"""Samples from image files."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from snellen.errors import SnellenError
from snellen.images.decoding import decode_mask
from snellen.images.geometry import Box, Geometry
from snellen.images.picture_file import read_picture
from snellen.images.reading import AS_STORED, Reading, check_shown
from snellen.images.remarks import StoredPicture, check_reading, remarks
from snellen.images.samples import Progress, Samples, check_samples
from snellen.types import Findings, Sample


@dataclass(frozen=True)
class Entry:
    """An image file with its label and ground truth. Paths are absolute, because a worker may run in another folder."""

    id: str
    """Name of the sample."""
    path: str
    """Absolute path of the file."""
    label: int | Findings | None = None
    """Class index or findings; None if unlabelled."""
    mask: str | None = None
    """Path of a mask file."""
    boxes: tuple[Box, ...] = ()
    """In pixels of the upright original."""
    group: str | None = None
    """What the image has in common with others, such as a patient."""
    number: float | None = None
    """The true number, for a classifier that estimates one."""


@dataclass(frozen=True)
class Files:
    """Samples that are decoded from files each time they are loaded."""

    entries: tuple[Entry, ...]
    """The files."""
    geometry: Geometry
    """How images and masks are cropped and resized."""
    channels: int
    """Number of channels of the classifier."""
    reading: Reading = AS_STORED
    """How stored values become pixels."""

    def load(self, index: int) -> Sample:
        """The sample at this index; image and truth are cropped and resized in the same way."""
        entry = self.entries[index]
        image, (width, height) = read_picture(
            Path(entry.path), geometry=self.geometry, channels=self.channels, reading=self.reading
        )
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
        return Sample(id=entry.id, image=image, label=entry.label, truth=truth, group=entry.group, number=entry.number)

    def take(self, indices: Sequence[int]) -> Files:
        """A source of these samples."""
        return replace(self, entries=tuple(self.entries[index] for index in indices))


def from_entries(
    entries: Sequence[Entry],
    description: str,
    *,
    geometry: Geometry,
    channels: int = 3,
    reading: Reading = AS_STORED,
    unreadable: str = "refuse",
    notes: Sequence[str] = (),
    progress: Progress | None = None,
) -> Samples:
    """Samples from image files with labels and truth.

    Args:
        entries: the files.
        description: where they come from, for reports.
        geometry: how images are cropped and resized.
        channels: of the classifier: 3, 1 for greyscale, or any number for TIFF and .npy files.
        reading: how stored values become pixels.
        unreadable: "refuse" or "skip" files that cannot be decoded.
        notes: sentences for the user, stored with the samples.
        progress: called with (images checked, images in total).
    """
    check_shown(reading.show_channels, channels)
    stored = [StoredPicture(id=entry.id, path=Path(entry.path)) for entry in entries]
    check_reading(stored, reading)
    source = Files(entries=tuple(entries), geometry=geometry, channels=channels, reading=reading)
    ids = [entry.id for entry in entries]
    samples = check_samples(
        source, ids, f"{description}{reading.words(channels)}", unreadable=unreadable, notes=notes, progress=progress
    )
    further = remarks([stored[place] for place in samples.places], reading, channels)
    return replace(samples, notes=(*samples.notes, *further), show_channels=reading.show_channels)


def from_files(
    paths: Sequence[str | Path],
    *,
    geometry: Geometry,
    channels: int = 3,
    reading: Reading = AS_STORED,
    unreadable: str = "refuse",
    progress: Progress | None = None,
) -> Samples:
    """Unlabelled samples from a list of image files.

    Args:
        paths: the files; a path is also the id of its sample.
        geometry: how images are cropped and resized.
        channels: of the classifier: 3, 1 for greyscale, or any number for TIFF and .npy files.
        reading: how stored values become pixels.
        unreadable: "refuse" or "skip" files that cannot be decoded.
        progress: called with (images checked, images in total).
    """
    if not paths:
        raise SnellenError("there are no pictures: the list of files is empty")
    entries = [Entry(str(path), os.path.abspath(path)) for path in paths]
    return from_entries(
        entries,
        "files",
        geometry=geometry,
        channels=channels,
        reading=reading,
        unreadable=unreadable,
        progress=progress,
    )
