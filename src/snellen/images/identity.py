"""Identity: how pictures that nobody has loaded yet are told apart, so that a list of millions can be run at once.

The checksum of a sample is otherwise that of its pixels, label and truth. Here it is that of what a picture's file is known
by (its mark), of its label and truth, and of how it is read. The same file gives the same checksum; a file that was changed
gives another. A worker that loads a picture compares the mark again, where that costs nothing.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snellen.errors import SnellenError
from snellen.files.remote import is_url, list_url
from snellen.images.columns import Digests, text_array
from snellen.images.entries import below
from snellen.images.samples import Source, UnreadablePictureError

SHA256 = "sha256:"
"""Start of a mark that is the SHA-256 checksum of a whole file."""

LISTINGS = 16
"""How many folders of object storage are listed at the same time."""

SOME = 4096
"""How many rows are Python objects at a time."""


@dataclass(frozen=True)
class Identified:
    """A source whose pictures are identified without loading them."""

    source: Source
    """The source, which compares marks when it loads."""
    digests: Digests
    """Checksum of each sample."""
    words: str
    """What pictures are identified by."""


def mark_of_file(path: str) -> str:
    """Size and time of the last change of a local file."""
    try:
        status = os.stat(path)
    except OSError as problem:
        raise UnreadablePictureError(
            f"there is no file '{path}'"
            if isinstance(problem, FileNotFoundError)
            else f"'{path}' cannot be read ({problem.strerror})"
        ) from None
    if not stat.S_ISREG(status.st_mode):
        raise UnreadablePictureError(f"'{path}' is not an ordinary file and cannot be read")
    return f"{status.st_size} {status.st_mtime_ns}"


def checksum(content: bytes) -> str:
    """The mark of a file by its whole content."""
    return SHA256 + hashlib.sha256(content).hexdigest()


def marks(table: pa.RecordBatch, column: str, root: str) -> pa.Array:
    """The marks of the files in a column: null where there is no file."""
    listed = _listed_marks(table, column, root)

    def of_each() -> Iterator[str | None]:
        last, its_mark = "", ""  # a shard is named by many rows, one after the other
        for name, mark in zip(_values(table, column), _array_values(listed, table.num_rows), strict=True):
            path = None if name is None else below(root, name)
            if path is None or is_url(path):
                yield mark if path is None else _of_object(path, mark)
            else:
                if path != last:
                    last, its_mark = path, mark_of_file(path)
                yield its_mark

    return text_array(of_each())


def digests_of(table: pa.RecordBatch, root: str, how: str) -> Digests:
    """A checksum per row, of everything in the row but its id and group, and of `how` files are read.

    Size and time of a file could be those of another, so its path counts too; an entity tag or a SHA-256 names the content.
    """
    start = hashlib.sha256(how.encode())
    names = [name for name in table.schema.names if name not in ("id", "group", "file", "mask")]
    paths = (_path_that_counts(root, file, mark) for file, mark in _pairs(table, "file", "mark"))
    masks = (_path_that_counts(root, file, mark) for file, mark in _pairs(table, "mask", "mask_mark"))
    digests = bytearray()
    for row in zip(paths, masks, *(_values(table, name) for name in names), strict=True):
        content = start.copy()
        content.update(repr((*names, *row)).encode())
        digests += content.digest()
    return Digests(np.frombuffer(digests, dtype=np.uint8))


def words_for(table: pa.RecordBatch, root: str) -> str:
    """What the files of a table are identified by, from the first of them."""
    mark = table.column("mark")[0].as_py()
    if mark.startswith(SHA256):
        return "the SHA-256 checksums of the list"
    return "size and time of the last change" if _is_of_file(mark) else "the entity tags of the store"


def _pairs(table: pa.RecordBatch, column: str, marks_column: str) -> Iterator[tuple[str | None, str | None]]:
    return zip(_values(table, column), _values(table, marks_column), strict=True)


def _path_that_counts(root: str, path: str | None, mark: str | None) -> str | None:
    return below(root, path) if path is not None and mark is not None and _is_of_file(mark) else None


def _is_of_file(mark: str) -> bool:
    """Whether a mark is size and time."""
    return " " in mark


def _values(table: pa.RecordBatch, column: str) -> Iterator[Any]:
    """The values of a column, some at a time; None everywhere where the table has none."""
    return _array_values(table.column(column) if column in table.schema.names else None, table.num_rows)


def _array_values(array: pa.Array | None, count: int) -> Iterator[Any]:
    for start in range(0, count, SOME):
        part = min(SOME, count - start)
        yield from [None] * part if array is None else array.slice(start, part).to_pylist()


def _listed_marks(table: pa.RecordBatch, column: str, root: str) -> pa.Array | None:
    """What the stores say about the objects of a column, by listing each folder; None where the column names no URL."""
    paths = text_array(None if name is None else below(root, name) for name in _values(table, column))
    urls = pc.filter(paths, pc.fill_null(pc.match_substring(paths, "://"), False))
    if len(urls) == 0:
        return None
    folders = pc.unique(pc.replace_substring_regex(urls, "/[^/]*$", "")).to_pylist()
    with ThreadPoolExecutor(LISTINGS) as pool:
        listings = list(pool.map(_listing, folders))
    names, stated = (pa.concat_arrays(columns) for columns in zip(*listings, strict=True))
    return stated.take(pc.index_in(paths, value_set=names))


def _listing(folder: str) -> tuple[pa.Array, pa.Array]:
    """The URLs and marks of the objects of a folder."""
    names, stated, listed = [text_array([])], [text_array([])], list_url(folder, deep=False)
    while some := list(islice(listed, SOME)):
        names.append(text_array([f"{folder}/{entry.name}" for entry in some]))
        stated.append(text_array([entry.mark for entry in some]))
    return pa.concat_arrays(names), pa.concat_arrays(stated)


def _of_object(url: str, mark: str | None) -> str:
    if mark is None:
        raise UnreadablePictureError(f"there is nothing at '{url}'")
    if not mark:
        raise SnellenError(
            f"the store of '{url}' gives neither tags nor times, by which pictures could be identified; say --check all"
        )
    return mark
