"""Samples from picture files, on disk or on object storage."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from snellen.errors import SnellenError
from snellen.files.remote import ObjectPart, is_url, read_part, read_parts
from snellen.images import identity
from snellen.images.columns import Names, index_array
from snellen.images.decoding import decode_mask
from snellen.images.entries import Entry, entry_table, row_of, table_of
from snellen.images.geometry import Geometry
from snellen.images.identity import Identified
from snellen.images.picture_file import read_picture
from snellen.images.reading import AS_STORED, Reading, check_shown
from snellen.images.remarks import StoredPicture, check_reading, remarks
from snellen.images.samples import Progress, Samples, UnreadablePictureError, check_samples, checks_all
from snellen.types import Sample

FETCHED = 32
"""How many pictures are fetched from object storage at the same time, and are in memory as files."""

REMARKED = 64
"""How many pictures remarks are made of, where not all are checked first."""


@dataclass(frozen=True, eq=False)
class Files:
    """Samples that are decoded from files each time they are loaded."""

    table: pa.RecordBatch
    """A row per picture (see `entries.table_of`)."""
    root: str
    """The folder or URL that its paths are relative to; empty where they are whole."""
    geometry: Geometry
    """How images and masks are cropped and resized."""
    channels: int
    """Number of channels of the classifier."""
    reading: Reading = AS_STORED
    """How stored values become pixels."""
    contents: Mapping[ObjectPart, bytes | SnellenError] = field(default_factory=dict, repr=False)
    """What was fetched just now."""

    def load(self, index: int) -> Sample:
        """The sample at this index; image and truth are cropped and resized in the same way."""
        entry = self.entry(index)
        try:
            return self._decoded(entry, index)
        except SnellenError as problem:
            if is_url(entry.path):  # a Path writes one slash where a URL has two
                raise type(problem)(str(problem).replace(str(Path(entry.picture)), entry.picture)) from None
            raise

    def entry(self, index: int) -> Entry:
        """The row at this index."""
        return row_of(self.table, index, self.root)

    def take(self, indices: Sequence[int]) -> Files:
        """A source of these samples."""
        return replace(self, table=self.table.take(pa.array(index_array(indices))), contents={})

    def fetched(self, places: Sequence[int]) -> tuple[Files, int]:
        """The same source with the first of these pictures and masks in memory, and how many; local files stay on disk."""
        parts: list[ObjectPart] = []
        for place in places[:FETCHED]:
            entry = self.entry(place)
            if is_url(entry.path):
                parts.append(_part(entry, self._mark("mark", place)))
            if entry.mask is not None and is_url(entry.mask):
                parts.append(ObjectPart(entry.mask, _tag(self._mark("mask_mark", place))))
        if not parts:
            return self, len(places)
        return replace(self, contents=dict(zip(parts, read_parts(parts), strict=True))), len(places[:FETCHED])

    def identified(self) -> Identified:
        """The same source with marks, and checksums that are made of them."""
        columns = dict(zip(self.table.schema.names, self.table.columns, strict=True))
        if "mark" not in columns:
            columns["mark"] = identity.marks(self.table, "file", self.root)
        if "mask" in columns:
            columns["mask_mark"] = identity.marks(self.table, "mask", self.root)
        table = table_of(**columns)
        how = repr((self.geometry, self.channels, self.reading))
        return Identified(
            source=replace(self, table=table),
            digests=identity.digests_of(table, self.root, how),
            words=identity.words_for(table, self.root),
        )

    def stored(self, index: int) -> StoredPicture:
        """The file at this index, for remarks."""
        entry = self.entry(index)
        elsewhere = is_url(entry.path) or entry.member is not None
        mark = self._mark("mark", index)
        read = (lambda: self._content(_part(entry, mark), mark) or b"") if elsewhere else None
        return StoredPicture(id=entry.id, path=Path(entry.picture), read=read)

    def _decoded(self, entry: Entry, index: int) -> Sample:
        mark = self._mark("mark", index)
        content = self._content(_part(entry, mark), mark)
        if content is not None and entry.size is not None and len(content) < entry.size:
            raise UnreadablePictureError(f"'{entry.path}' ends inside '{entry.member}'; it was not copied completely")
        image, (width, height) = read_picture(
            Path(entry.picture),
            geometry=self.geometry,
            channels=self.channels,
            reading=self.reading,
            content=None if content is None else io.BytesIO(content),
        )
        truth = None
        if entry.mask is not None:
            mask_mark = self._mark("mask_mark", index)
            masked = self._content(ObjectPart(entry.mask, _tag(mask_mark)), mask_mark)
            marked = decode_mask(entry.mask, None if masked is None else io.BytesIO(masked))
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

    def _mark(self, column: str, index: int) -> str | None:
        mark: str | None = self.table.column(column)[index].as_py() if column in self.table.schema.names else None
        return mark

    def _content(self, part: ObjectPart, mark: str | None) -> bytes | None:
        """What an object, a member of a shard or a file with a checksum holds; None for others. Another mark is refused."""
        path, stated = part.url, mark is not None and mark.startswith(identity.SHA256)
        content: bytes | SnellenError | None = None
        if is_url(path):
            content = self.contents[part] if part in self.contents else read_part(part)
        else:
            if mark is not None and not stated and mark != identity.mark_of_file(path):
                raise SnellenError(f"'{path}' was changed while the run was under way; start it again in another folder")
            if part.length is not None or stated:
                content = _bytes_of(part)
        if isinstance(content, SnellenError):
            raise content
        if stated and content is not None and mark != identity.checksum(content):
            raise SnellenError(f"'{path}' does not have the SHA-256 checksum that the list states; correct one of them")
        return content


def _part(entry: Entry, mark: str | None) -> ObjectPart:
    """Where the bytes of a picture are."""
    return ObjectPart(entry.path, mark=_tag(mark), start=entry.offset, length=entry.size)


def _tag(mark: str | None) -> str | None:
    """The mark that a store can compare; None where it is a checksum that a list states."""
    return None if mark is None or mark.startswith(identity.SHA256) else mark


def _bytes_of(part: ObjectPart) -> bytes:
    """A local file, or some bytes of it."""
    identity.mark_of_file(part.url)  # refuses what is not an ordinary file
    try:
        with open(part.url, "rb") as opened:
            opened.seek(part.start)
            return opened.read(-1 if part.length is None else part.length)
    except OSError as problem:
        raise UnreadablePictureError(f"'{part.url}' cannot be read ({problem.strerror})") from None


def from_entries(
    entries: Sequence[Entry],
    description: str,
    *,
    geometry: Geometry,
    channels: int = 3,
    reading: Reading = AS_STORED,
    unreadable: str = "refuse",
    check: str | None = None,
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
        check: "all" or "first"; decided from their number where None (see `check_samples`).
        notes: sentences for the user, stored with the samples.
        progress: called with (images checked, images in total).
    """
    return from_table(
        Files(table=entry_table(entries), root="", geometry=geometry, channels=channels, reading=reading),
        description,
        unreadable=unreadable,
        check=check,
        notes=notes,
        progress=progress,
    )


def from_table(
    source: Files,
    description: str,
    *,
    unreadable: str = "refuse",
    check: str | None = None,
    notes: Sequence[str] = (),
    progress: Progress | None = None,
) -> Samples:
    """Samples of a table of picture files; arguments are those of `from_entries`."""
    reading, channels = source.reading, source.channels
    check_shown(reading.show_channels, channels)
    count = source.table.num_rows
    first = count if checks_all(count, check, unreadable) else min(count, REMARKED)
    near, looked_at = source.fetched(range(first))  # on object storage only some, which are in memory then
    check_reading(StoredList(near, range(looked_at)), reading)
    samples = check_samples(
        source,
        Names(source.table.column("id")),
        f"{description}{reading.words(channels)}",
        unreadable=unreadable,
        check=check,
        identify=source.identified,
        notes=notes,
        progress=progress,
    )
    further = remarks(StoredList(near, samples.places[:looked_at].tolist()), reading, channels)
    return replace(samples, notes=(*samples.notes, *further), show_channels=reading.show_channels)


class StoredList(Sequence[StoredPicture]):
    """Some files of a source, each made when it is asked for."""

    def __init__(self, source: Files, places: Sequence[int]) -> None:
        self._source, self._places = source, places

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        return self._source.stored(self._places[index])


def from_files(
    paths: Sequence[str | Path],
    *,
    geometry: Geometry,
    channels: int = 3,
    reading: Reading = AS_STORED,
    unreadable: str = "refuse",
    check: str | None = None,
    progress: Progress | None = None,
) -> Samples:
    """Unlabelled samples from a list of image files.

    Args:
        paths: the files; a path is also the id of its sample.
        geometry: how images are cropped and resized.
        channels: of the classifier: 3, 1 for greyscale, or any number for TIFF and .npy files.
        reading: how stored values become pixels.
        unreadable: "refuse" or "skip" files that cannot be decoded.
        check: "all" or "first"; decided from their number where None (see `check_samples`).
        progress: called with (images checked, images in total).
    """
    if not paths:
        raise SnellenError("there are no pictures: the list of files is empty")
    entries = [Entry(str(path), str(path) if is_url(path) else os.path.abspath(path)) for path in paths]
    return from_entries(
        entries,
        "files",
        geometry=geometry,
        channels=channels,
        reading=reading,
        unreadable=unreadable,
        check=check,
        progress=progress,
    )
