"""Samples from image files."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from snellen.errors import SnellenError
from snellen.images import dicom, planes
from snellen.images.decoding import brightest_of_16_bits, decode_mask, frames, has_unused_channels, is_deep
from snellen.images.geometry import Box, Geometry
from snellen.images.picture_file import read_picture
from snellen.images.reading import AS_STORED, Reading, check_shown
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
    _check_reading(entries, reading)
    source = Files(entries=tuple(entries), geometry=geometry, channels=channels, reading=reading)
    ids = [entry.id for entry in entries]
    samples = check_samples(
        source, ids, f"{description}{reading.words(channels)}", unreadable=unreadable, notes=notes, progress=progress
    )
    used = [entries[place] for place in samples.places]
    remarks = (
        _first_frames(used) if reading.frame is None and channels in (1, 3) else None,
        _unused_channels(used) if channels in (1, 3) else None,
        _dark(used) if reading.range is None and channels in (1, 3) else None,
        _unwindowed(used, reading),
    )
    further = tuple(remark for remark in remarks if remark is not None)
    return replace(samples, notes=(*samples.notes, *further), show_channels=reading.show_channels)


def _check_reading(entries: Sequence[Entry], reading: Reading) -> None:
    """Refuses a window or range that none of the files would use."""
    if reading.window is not None and not any(dicom.is_dicom(Path(entry.path)) for entry in entries):
        raise SnellenError(f"--window is for DICOM files, but there are none, such as '{entries[0].id}'; leave it out")
    if reading.range is None:
        return
    others = [entry for entry in entries if not dicom.is_dicom(Path(entry.path))]
    if not others:
        raise SnellenError(f"--range is for PNG, TIFF and .npy files, but '{entries[0].id}' is DICOM; give --window")
    if not any(Path(entry.path).suffix.lower() in planes.ARRAYS or _is_deep(entry.path) for entry in others):
        raise SnellenError(
            f"--range is for pictures with more than 8 bits per channel, but '{others[0].id}' has 8; leave it out"
        )


def _is_deep(path: str) -> bool:
    """Whether a file has more than 8 bits per channel, as far as its header can be read."""
    try:
        return is_deep(path)
    except Exception:  # Pillow cannot open all files with many channels; what is damaged is reported when it is read
        return True


def _first_frames(entries: Sequence[Entry]) -> str | None:
    """A note if only the first of several frames is used."""
    animated = [entry.id for entry in entries if frames(entry.path) > 1]
    if not animated:
        return None
    which = f"'{animated[0]}' holds" if len(animated) == 1 else f"'{animated[0]}' and {len(animated) - 1} more hold"
    return f"{which} several frames; only the first is used"


def _unused_channels(entries: Sequence[Entry]) -> str | None:
    """A note if only the first channels are used."""
    partly = [entry.id for entry in entries if has_unused_channels(entry.path)]
    if not partly:
        return None
    which = f"'{partly[0]}' has" if len(partly) == 1 else f"'{partly[0]}' and {len(partly) - 1} more have"
    return f"{which} further channels, which are not used"


def _unwindowed(entries: Sequence[Entry], reading: Reading) -> str | None:
    """A note if DICOM files state no window."""
    medical = (entry for entry in entries if dicom.is_dicom(Path(entry.path)))
    missing = [(entry.id, ends) for entry in medical if (ends := dicom.unwindowed_range(Path(entry.path), reading))]
    if not missing:
        return None
    first, (low, high) = missing[0]
    which = f"'{first}' has" if len(missing) == 1 else f"'{first}' and {len(missing) - 1} more have"
    return (
        f"{which} no window, so black to white are all values that the file can hold, {low:g} to {high:g} in '{first}'; "
        "state --window centre,width if they use fewer"
    )


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
        f"scaling; multiply their values by {2**unused}, or state --range 0,{2 ** (16 - unused) - 1}, unless the classifier "
        "was trained on such dark pictures"
    )


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
