"""Manifest: a Parquet table with a row for each picture, of millions of rows, which are never Python objects.

Columns: file (or url), the path of a picture below the root; and optionally id, label, group, mask, boxes, sha256. A label
is a class index or name, or a list of them, or a number for a model that estimates one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from snellen.errors import SnellenError, first_line, short_repr
from snellen.files.remote import check_url, is_url, open_url, sentences
from snellen.images.entries import BOXES, FINDINGS, findings_array, table_of, whole_labels
from snellen.images.files import Files, from_table
from snellen.images.geometry import Geometry
from snellen.images.identity import SHA256
from snellen.images.numbered import numbered
from snellen.images.reading import AS_STORED, Reading
from snellen.images.samples import Progress, Samples, as_number
from snellen.images.tables import label_in_cell
from snellen.types import Findings

SUFFIX = ".parquet"
"""The ending of manifests."""

ROWS = 65_536
"""How many rows are read at a time."""

_COLUMNS = ("file", "url", "id", "label", "group", "mask", "boxes", "sha256")
_WHOLE = r"^([A-Za-z][A-Za-z0-9+.-]+://|/)"


def from_manifest(
    path: str | Path,
    *,
    geometry: Geometry,
    channels: int = 3,
    root: str | Path | None = None,
    classes: Sequence[str] | None = None,
    numbers: bool = False,
    reading: Reading = AS_STORED,
    unreadable: str = "refuse",
    check: str | None = None,
    progress: Progress | None = None,
) -> Samples:
    """Samples from a Parquet table with a row for each picture.

    Args:
        path: the table or its URL; several are named like part-{000..099}.parquet.
        geometry: how images are cropped and resized.
        channels: of the classifier: 3, 1 for greyscale, or any number for TIFF and .npy files.
        root: the folder, or its URL, that all pictures and masks are below; that of the table where None.
        classes: names of the classifier's classes, for labels that are names.
        numbers: whether labels are numbers, for a classifier that estimates one.
        reading: how stored values become pixels.
        unreadable: "refuse" or "skip" files that cannot be decoded.
        check: "all" or "first"; decided from their number where None (see `check_samples`).
        progress: called with (images checked, images in total).
    """
    paths = numbered(str(path))
    folder = _root(root, paths[0])
    notes: list[str] = []
    parts = [part for each in paths for part in _parts(each, folder, classes, notes, numbers=numbers)]
    if not parts:
        raise SnellenError(f"'{path}' has no rows; there is nothing to explain")
    table = pa.Table.from_batches(parts).combine_chunks().to_batches()[0]
    columns = dict(zip(table.schema.names, table.columns, strict=True))
    return from_table(
        Files(table=table_of(**columns), root=folder, geometry=geometry, channels=channels, reading=reading),
        f"'{path}'",
        unreadable=unreadable,
        check=check,
        notes=list(dict.fromkeys(notes)),
        progress=progress,
    )


def _root(root: str | Path | None, path: str) -> str:
    """The root as a URL or an absolute path."""
    if root is None:
        return check_url(path).rpartition("/")[0] if is_url(path) else os.path.dirname(os.path.abspath(path))
    return check_url(str(root)) if is_url(root) else os.path.abspath(root)


def _parts(path: str, root: str, classes: Sequence[str] | None, notes: list[str], *, numbers: bool) -> list[pa.RecordBatch]:
    """The rows of a table, some at a time, as columns of `entries.table_of`."""
    owner = f"'{path}'"
    with _opened(path) as file:
        names = file.schema_arrow.names
        if ("file" in names) == ("url" in names):
            both = "has both" if "file" in names else f"has neither (it has: {', '.join(names[:8])})"
            raise SnellenError(f"{owner} needs a column file or a column url with the pictures, but {both}")
        unread = [name for name in names if name not in _COLUMNS]
        if unread:
            notes.append(f"{owner} has columns that are not read: {', '.join(map(repr, unread[:4]))}")
        columns = [name for name in names if name in _COLUMNS]
        return [
            _batch(batch, owner, root, classes, numbers=numbers)
            for batch in file.iter_batches(batch_size=ROWS, columns=columns)
            if batch.num_rows
        ]


@contextmanager
def _opened(path: str) -> Any:
    """A table to read from; whatever is wrong with it is a sentence."""
    with sentences(path) if is_url(path) else nullcontext():
        try:
            with open_url(path) if is_url(path) else open(path, "rb") as opened:
                yield pq.ParquetFile(opened)
        except pa.ArrowException as problem:
            raise SnellenError(f"'{path}' cannot be read as a Parquet table ({first_line(problem)})") from None
        except OSError as problem:
            if is_url(path):
                raise
            raise SnellenError(f"'{path}' cannot be read ({problem.strerror or first_line(problem)})") from None


def _batch(batch: pa.RecordBatch, owner: str, root: str, classes: Sequence[str] | None, *, numbers: bool) -> pa.RecordBatch:
    def texts(name: str) -> pa.Array:
        if name not in batch.schema.names:
            return pa.nulls(batch.num_rows, pa.large_string())
        try:
            return batch.column(name).cast(pa.large_string())
        except pa.ArrowException:
            raise SnellenError(f"{owner}: the column {name} holds {batch.column(name).type}, not text") from None

    name = "file" if "file" in batch.schema.names else "url"
    files = _inside(texts(name), owner, root)
    if files.null_count:
        raise SnellenError(f"{owner} has a row without a {name}; remove the row")
    ids = texts("id")
    whole, findings, true_numbers = _labels(batch, owner, classes, numbers=numbers)
    group = texts("group")
    return pa.RecordBatch.from_pydict(
        {
            "id": pc.coalesce(ids, files),
            "file": files,
            "label": whole,
            "findings": findings,
            "mask": _inside(texts("mask"), owner, root),
            "boxes": _boxes(batch, owner),
            "group": pc.if_else(pc.equal(group, ""), None, group),
            "number": true_numbers,
            "mark": _checksums(texts("sha256"), owner),
        }
    )


def _inside(paths: pa.Array, owner: str, root: str) -> pa.Array:
    """Paths relative to the root; a row that names something elsewhere is refused, whoever wrote the list."""
    base = root.rstrip("/") + "/"
    inside = pc.if_else(pc.starts_with(paths, base), pc.replace_substring_regex(paths, f"^{_quoted(base)}", ""), paths)
    outside = pc.or_(
        pc.match_substring_regex(inside, _WHOLE), pc.match_substring_regex(inside, r"(^|[/\\\\])\.\.([/\\\\]|$)")
    )
    if pc.any(outside).as_py():
        first = paths.filter(outside)[0].as_py()
        if is_url(first):
            check_url(first)  # which does not repeat credentials
        raise SnellenError(
            f"{owner} names {short_repr(first)}, which is not below {short_repr(root)}; name the folder that its pictures "
            "are in with --root"
        )
    return inside


def _quoted(text: str) -> str:
    return "".join(f"\\x{{{ord(letter):x}}}" for letter in text)


def _labels(
    batch: pa.RecordBatch, owner: str, classes: Sequence[str] | None, *, numbers: bool
) -> tuple[pa.Array, pa.Array, pa.Array]:
    """The labels that are classes, those that are findings, and those that are numbers."""
    count = batch.num_rows
    none = pa.nulls(count, pa.int64()), pa.nulls(count, FINDINGS), pa.nulls(count, pa.float64())
    if "label" not in batch.schema.names:
        return none
    column = batch.column("label")
    where = f"{owner}, label"
    if numbers:
        if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
            column = column.cast(pa.float64())
            return *none[:2], pc.if_else(pc.is_nan(column), None, column)
        return *none[:2], pa.array([as_number(value, where) for value in column.to_pylist()], pa.float64())
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        labels = [_listed(value, classes, where) for value in column.to_pylist()]
        return whole_labels(labels), findings_array(labels), none[2]
    if pa.types.is_floating(column.type):  # as pandas writes whole numbers of which some are missing
        column = pc.if_else(pc.is_nan(column), None, column)
        if not pc.all(pc.equal(column, pc.round(column)), min_count=0).as_py():
            raise SnellenError(f"{where}: a label is a class index or a class name, not a number with decimals")
        column = column.cast(pa.int64())
    encoded = column.dictionary_encode()
    values = [
        None if value is None else label_in_cell(str(value), classes, where) for value in encoded.dictionary.to_pylist()
    ]
    return whole_labels(values).take(encoded.indices), findings_array(values).take(encoded.indices), none[2]


def _listed(value: Sequence[Any] | None, classes: Sequence[str] | None, where: str) -> int | Findings | None:
    if not value:
        return None
    labels = {label_in_cell(str(part), classes, where) for part in value}
    present = sorted(label for label in labels if isinstance(label, int))
    return present[0] if len(present) == 1 else Findings(tuple(present))


def _boxes(batch: pa.RecordBatch, owner: str) -> pa.Array:
    if "boxes" not in batch.schema.names:
        return pa.nulls(batch.num_rows, BOXES)
    try:
        boxes = pa.array(batch.column("boxes").to_pylist(), BOXES)
    except (pa.ArrowException, TypeError, ValueError):
        raise SnellenError(f"{owner}: boxes are lists of x0, y0, x1, y1 in pixels, such as [[4, 4, 20, 12]]") from None
    return pc.if_else(pc.equal(pc.list_value_length(boxes), 0), None, boxes)


def _checksums(texts: pa.Array, owner: str) -> pa.Array:
    if texts.null_count == len(texts):
        return texts
    texts = pc.utf8_lower(texts)
    right = pc.fill_null(pc.match_substring_regex(texts, "^[0-9a-f]{64}$"), False)
    if not pc.all(right).as_py():
        wrong = texts.filter(pc.invert(right))[0].as_py()
        raise SnellenError(
            f"{owner}: sha256 is {'empty in a row' if wrong is None else short_repr(wrong)}; give the 64 hexadecimal digits "
            "of every file, or leave the column out"
        )
    return pc.binary_join_element_wise(pa.scalar(SHA256, pa.large_string()), texts, pa.scalar("", pa.large_string()))
