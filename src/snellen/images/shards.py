"""Samples from WebDataset shards: tar files in which the members of a sample share their name up to the first dot.

Shards are read once for the names, places and labels of their members; a picture is then read from its place alone.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from snellen.errors import SnellenError, nearest, short_repr
from snellen.files.documents import is_unicode
from snellen.files.remote import check_url, is_url, list_url, open_url, sentences
from snellen.images.columns import Names, text_array
from snellen.images.entries import findings_array, table_of, whole_labels
from snellen.images.files import Files, from_table
from snellen.images.geometry import AS_IS, Geometry
from snellen.images.numbered import numbered
from snellen.images.picture_file import SUFFIXES
from snellen.images.planes import ARRAYS
from snellen.images.reading import AS_STORED, Reading
from snellen.images.samples import Progress, Samples, as_label, as_number
from snellen.images.tables import ClassIndices
from snellen.types import Findings

MOST_TEXT = 1_000_000
"""Largest label file in a shard, in bytes."""

AT_ONCE = 8
"""How many shards are looked through at the same time on object storage."""

LOOKED_AT = 1000
"""How many objects of a folder on object storage are looked at for shards."""


@dataclass(frozen=True)
class Member:
    """Where a member is in an uncompressed tar file."""

    name: str
    """Path of the member in it."""
    offset: int
    """Place of its first byte in the tar file."""
    size: int
    """Its length in bytes."""
    text: bytes | None
    """What it holds, where it is a label."""


def shard_paths(path: str | Path) -> list[str]:
    """The tar files that a path or URL names: itself, those of a pattern, or those of a folder.

    >>> shard_paths("a-{08..10}.tar")
    ['a-08.tar', 'a-09.tar', 'a-10.tar']
    """
    text = str(path)
    if text.endswith(".tar"):
        return numbered(text)
    if is_url(text):
        url = check_url(text)
        return [f"{url}/{entry.name}" for entry in list_url(url, deep=False) if entry.name.endswith(".tar")]
    return sorted(map(str, Path(path).glob("*.tar"))) if Path(path).is_dir() else []


def is_folder_of_shards(url: str) -> bool:
    """Whether the first objects of a folder on object storage are shards, rather than pictures."""
    names = [entry.name for entry in islice(list_url(url, deep=False), LOOKED_AT)]
    return any(name.endswith(".tar") for name in names) and not any(Path(name).suffix.lower() in SUFFIXES for name in names)


def from_shards(
    path: str | Path,
    *,
    geometry: Geometry = AS_IS,
    channels: int = 3,
    classes: Sequence[str] | None = None,
    numbers: bool = False,
    reading: Reading = AS_STORED,
    unreadable: str = "refuse",
    check: str | None = None,
    progress: Progress | None = None,
) -> Samples:
    """Samples from tar shards with `key.jpg` (or another picture), and the label in `key.cls` or `key.json`.

    Args:
        path: a .tar file, a pattern like train-{0000..0003}.tar, or a folder of .tar files; or the URL of one of them.
        geometry: how images are cropped and resized.
        channels: of the classifier.
        classes: names of the classifier's classes, for labels that are names.
        numbers: whether labels are numbers, for a classifier that estimates one.
        reading: how stored values become pixels.
        unreadable: "refuse" or "skip" pictures that cannot be decoded.
        check: "all" or "first"; decided from their number where None (see `check_samples`).
        progress: called with (images checked, images in total).
    """
    shards = shard_paths(path)
    with ThreadPoolExecutor(AT_ONCE if is_url(str(path)) else 1) as pool:
        tables = [
            table for table in pool.map(lambda shard: _table(shard, classes, numbers=numbers), shards) if table.num_rows
        ]
    if not tables:
        raise SnellenError(f"'{path}' holds no pictures; members of a shard are called key.jpg, key.cls and the like")
    columns = {name: pa.concat_arrays([table.column(name) for table in tables]) for name in tables[0].schema.names}
    if (key := Names(columns["id"]).duplicate()) is not None:
        first, second = [table.column("file")[0].as_py() for table in tables if key in Names(table.column("id"))][:2]
        raise SnellenError(f"'{key}' is in '{first}' and in '{second}'; every sample needs its own key")
    return from_table(
        Files(table=table_of(**columns), root="", geometry=geometry, channels=channels, reading=reading),
        f"'{path}'",
        unreadable=unreadable,
        check=check,
        progress=progress,
    )


def _table(shard: str, classes: Sequence[str] | None, *, numbers: bool) -> pa.RecordBatch:
    """A row for each picture in a shard; all columns, so that tables of shards can be put together."""
    pictures: dict[str, Member] = {}
    labels: list[int | Findings | None] = []
    true_numbers: list[float | None] = []
    for key, members in _grouped(shard).items():
        endings = [ending for ending in members if f".{ending.lower()}" in SUFFIXES]
        endings = endings or [ending for ending in members if f".{ending.lower()}" in ARRAYS]
        if not endings:
            continue
        if len(endings) > 1:
            raise SnellenError(f"'{key}' in '{shard}' has several pictures ({', '.join(endings)}); keep one")
        pictures[key] = members[endings[0]]
        owner = f"'{key}' in '{shard}'"
        stated = _stated(members, owner)
        labels.append(None if numbers else _label(stated, classes, owner))
        true_numbers.append(as_number(stated, owner) if numbers else None)
    place = shard if is_url(shard) else str(Path(shard).absolute())
    return pa.RecordBatch.from_pydict(
        {
            "id": text_array(list(pictures)),
            "file": text_array([place] * len(pictures)),
            "member": text_array([member.name for member in pictures.values()]),
            "offset": pa.array([member.offset for member in pictures.values()], pa.int64()),
            "size": pa.array([member.size for member in pictures.values()], pa.int64()),
            "label": whole_labels(labels),
            "findings": findings_array(labels),
            "number": pa.array(true_numbers, pa.float64()),
        }
    )


def _grouped(shard: str) -> dict[str, dict[str, Member]]:
    """The members of each key by their ending; only headers and labels are read, and nothing is unpacked."""
    groups: dict[str, dict[str, Member]] = {}
    with _archive(shard) as archive:
        for info in archive:
            if not info.isreg() or info.issparse() or Path(info.name).name.startswith("."):
                continue
            name = info.name.removeprefix("./")
            if not is_unicode(name):
                raise SnellenError(f"{short_repr(name)} in '{shard}' has a name that is not UTF-8; rename it")
            folder, _, last = name.rpartition("/")
            stem, _, ending = last.partition(".")
            key = f"{folder}/{stem}" if folder else stem
            text = None
            if ending in ("cls", "json"):
                if info.size > MOST_TEXT:
                    raise SnellenError(f"'{name}' of '{key}' in '{shard}' is too large for a label")
                opened = archive.extractfile(info)
                text = b"" if opened is None else opened.read()
            member = Member(name=name, offset=info.offset_data, size=info.size, text=text)
            if groups.setdefault(key, {}).setdefault(ending, member) is not member:
                raise SnellenError(f"'{name}' is twice in '{shard}'; every member needs its own name")
    return groups


@contextmanager
def _archive(shard: str) -> Iterator[tarfile.TarFile]:
    """A shard, opened to look at its members; whatever is wrong with it is a sentence."""
    with sentences(shard) if is_url(shard) else _disk_errors(shard):
        try:
            with (
                open_url(shard) if is_url(shard) else open(shard, "rb") as opened,
                tarfile.open(fileobj=opened, mode="r:") as archive,
            ):
                yield archive
        except (tarfile.TarError, EOFError) as problem:
            if "unexpected end of data" in str(problem):
                raise SnellenError(f"'{shard}' is cut off: it ends inside of a member; copy it again") from None
            raise SnellenError(f"'{shard}' cannot be read as an uncompressed tar file; unpack or repair it") from None


@contextmanager
def _disk_errors(shard: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise SnellenError(f"there is no file '{shard}'") from None
    except OSError as problem:
        raise SnellenError(f"'{shard}' cannot be read ({problem.strerror})") from None


def _stated(members: dict[str, Member], owner: str) -> Any:
    """The label in `cls`, or in `json` under label or cls, as it is written; None where there is none."""
    if "cls" in members:
        return _text(members["cls"], owner).strip()
    if "json" not in members:
        return None
    try:
        stated = json.loads(_text(members["json"], owner))
    except ValueError:
        raise SnellenError(f"the JSON of {owner} cannot be read") from None
    return stated.get("label", stated.get("cls")) if isinstance(stated, dict) else stated


def _label(value: Any, classes: Sequence[str] | None, owner: str) -> int | Findings | None:
    if isinstance(value, list):
        return as_label([_index(part, classes, owner) for part in value], owner)
    return _index(value, classes, owner)


def _index(value: Any, classes: Sequence[str] | None, owner: str) -> int | Findings | None:
    if not isinstance(value, str):
        return as_label(value, owner)
    if not value:
        return None
    if value.isdecimal():
        return int(value)
    index_of = ClassIndices(classes or ())
    if value not in index_of:
        raise SnellenError(f"the label of {owner} is {short_repr(value)}, which is no class{nearest(value, classes or ())}")
    return index_of[value]


def _text(member: Member, owner: str) -> str:
    try:
        return (member.text or b"").decode("utf-8")
    except UnicodeDecodeError:
        raise SnellenError(f"'{member.name}' of {owner} is not a text file") from None
