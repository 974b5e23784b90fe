"""Picture files as samples."""

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
from snellen.types import Sample

DARK = 0.25
"""The share of 16 bits that 14-bit data fills; 12-bit data fills a sixteenth. Pictures that fill no more are spoken of."""

LOOKED_AT = 20
"""How many pictures with 16 bits are looked at for values that use only some of them."""


@dataclass(frozen=True)
class Entry:
    """One picture file and what is known about it; boxes are in pixels of the upright original.

    Paths should be absolute, because a worker may run in another folder.
    """

    id: str
    path: str
    label: int | None = None
    mask: str | None = None
    boxes: tuple[Box, ...] = ()
    group: str | None = None


@dataclass(frozen=True)
class Files:
    """Samples that are decoded from files each time they are asked for."""

    entries: tuple[Entry, ...]
    geometry: Geometry
    channels: int

    def load(self, index: int) -> Sample:
        """Decodes the picture and its truth, through one geometry."""
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
        return Sample(entry.id, image, entry.label, truth, entry.group)

    def take(self, indices: Sequence[int]) -> Files:
        """These entries alone: paths, not pictures."""
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
    """Samples from files whose labels and truth are known already."""
    source = Files(tuple(entries), geometry, channels)
    ids = [entry.id for entry in entries]
    found = check_samples(source, ids, description, unreadable=unreadable, notes=notes, progress=progress)
    moving = [entries[place].id for place in found.places if frames(entries[place].path) > 1]
    if moving:
        which = f"'{moving[0]}' holds" if len(moving) == 1 else f"'{moving[0]}' and {len(moving) - 1} more hold"
        found = replace(found, notes=(*found.notes, f"{which} several frames; only the first is used"))
    if dark := _dark([entries[place] for place in found.places]):
        found = replace(found, notes=(*found.notes, dark))
    return found


def _dark(entries: Sequence[Entry]) -> str | None:
    """A sentence about files of 16 bits whose values would fit into fewer, where all of the first ones are like that."""
    deep = ((entry, brightest_of_16_bits(entry.path)) for entry in entries)
    seen = list(islice(((entry, share) for entry, share in deep if share is not None), LOOKED_AT))
    brightest = max((share for _, share in seen), default=1.0)
    if brightest > DARK or brightest == 0:
        return None
    unused = math.floor(-math.log2(brightest) + 1e-3)  # 4095 of 65535 is a hair more than 2 to the power of -4
    which = f"'{seen[0][0].id}' uses" if len(seen) == 1 else f"'{seen[0][0].id}' and {len(seen) - 1} more use"
    return (
        f"{which} only the darkest 1/{2**unused} of 16 bits, as {16 - unused}-bit data does that was saved without scaling; "
        f"the classifier sees them that dark: multiply their values by {2**unused}, unless it was trained on such pictures"
    )


def from_files(
    paths: Sequence[str | Path],
    *,
    geometry: Geometry,
    channels: int = 3,
    unreadable: str = "refuse",
    progress: Progress | None = None,
) -> Samples:
    """Unlabelled samples from a list of picture files."""
    if not paths:
        raise SnellenError("there are no pictures: the list of files is empty")
    entries = [Entry(str(path), os.path.abspath(path)) for path in paths]
    return from_entries(entries, "files", geometry=geometry, channels=channels, unreadable=unreadable, progress=progress)


def _at_least(geometry: Geometry) -> tuple[int, int] | None:
    """The reduced size that still has two pixels for each one that the classifier sees of the short side."""
    if geometry.size is None:
        return None
    side = round(2 * max(geometry.size) / geometry.crop)
    return (side, side)
