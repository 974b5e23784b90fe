"""Entries: picture files with their labels and truth, as the rows of one Arrow table."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from snellen.files.remote import is_url
from snellen.images.columns import text_array
from snellen.images.geometry import Box
from snellen.types import Findings

FINDINGS = pa.struct([("present", pa.list_(pa.int64())), ("absent", pa.list_(pa.int64()))])
BOXES = pa.list_(pa.list_(pa.float64(), 4))


@dataclass(frozen=True)
class Entry:
    """A picture file with its label and ground truth. Paths are absolute, because a worker may run in another folder."""

    id: str
    """Name of the sample."""
    path: str
    """Absolute path or URL of the file."""
    label: int | Findings | None = None
    """Class index or findings; None if unlabelled."""
    mask: str | None = None
    """Path or URL of a mask file."""
    boxes: tuple[Box, ...] = ()
    """In pixels of the upright original."""
    group: str | None = None
    """What the image has in common with others, such as a patient."""
    number: float | None = None
    """The true number, for a classifier that estimates one."""
    member: str | None = None
    """Where the file is a shard, the path of the picture in it."""
    offset: int = 0
    """The place of its first byte in the shard."""
    size: int | None = None
    """Its length in bytes; None where the picture is the whole file."""

    @property
    def picture(self) -> str:
        """The path or URL of the picture, for messages; its ending says which kind it is."""
        return self.path if self.member is None else f"{self.path}/{self.member}"


def entry_table(entries: Sequence[Entry]) -> pa.RecordBatch:
    """The entries as a table; see `table_of`."""
    labels = [entry.label for entry in entries]
    return table_of(
        id=text_array([entry.id for entry in entries]),
        file=text_array([entry.path for entry in entries]),
        label=whole_labels(labels),
        findings=findings_array(labels),
        mask=text_array([entry.mask for entry in entries]),
        boxes=pa.array([list(map(list, entry.boxes)) if entry.boxes else None for entry in entries], BOXES),
        group=text_array([entry.group for entry in entries]),
        number=pa.array([entry.number for entry in entries], pa.float64()),
    )


def table_of(**columns: pa.Array) -> pa.RecordBatch:
    """A table of these columns, without those that are empty everywhere: they take no memory and read as None.

    Columns are those of `Entry`, with file for path and findings beside label, and mark (see `identity`). A file or a mask
    may be relative to the root of its source.
    """
    present = {name: column for name, column in columns.items() if name in ("id", "file") or column.null_count < len(column)}
    return pa.RecordBatch.from_arrays(list(present.values()), names=list(present))


def whole_labels(labels: Iterable[int | Findings | None]) -> pa.Array:
    """The labels that are one class each; the others are null."""
    return pa.array([label if isinstance(label, int) else None for label in labels], pa.int64())


def findings_array(labels: Iterable[int | Findings | None]) -> pa.Array:
    """The labels that are findings; the others are null."""
    stated = (label if isinstance(label, Findings) else None for label in labels)
    return pa.array([label and {"present": label.present, "absent": label.absent} for label in stated], FINDINGS)


def row_of(table: pa.RecordBatch, index: int, root: str = "") -> Entry:
    """One row of a table, with paths below the root."""
    values = {name: table.column(name)[index].as_py() for name in table.schema.names}
    return Entry(
        id=values["id"],
        path=below(root, values["file"]),
        label=label_in(values),
        mask=None if values.get("mask") is None else below(root, values["mask"]),
        boxes=tuple(tuple(box) for box in values.get("boxes") or ()),
        group=values.get("group"),
        number=values.get("number"),
        member=values.get("member"),
        offset=values.get("offset") or 0,
        size=values.get("size"),
    )


def label_in(values: dict[str, Any]) -> int | Findings | None:
    """The label of a row, from its values by column."""
    findings = values.get("findings")
    if findings is None:
        return values.get("label")
    return Findings(tuple(findings["present"] or ()), tuple(findings["absent"] or ()))


def below(root: str, path: str) -> str:
    """A path below the root; an absolute path or a URL stays as it is.

    >>> below("s3://bucket/photos", "a/b.jpg"), below("/data", "/other/a.jpg")
    ('s3://bucket/photos/a/b.jpg', '/other/a.jpg')
    """
    if not root or is_url(path) or os.path.isabs(path):
        return path
    return f"{root.rstrip('/')}/{path}" if is_url(root) else os.path.join(root, path)
