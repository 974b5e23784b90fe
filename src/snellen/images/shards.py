"""Samples from WebDataset shards: tar files in which the members of a sample share their name up to the first dot."""

from __future__ import annotations

import io
import json
import re
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from snellen.errors import SnellenError, nearest, short_repr
from snellen.files.documents import is_unicode
from snellen.images.geometry import AS_IS, Geometry
from snellen.images.picture_file import SUFFIXES, read_picture
from snellen.images.planes import ARRAYS
from snellen.images.reading import AS_STORED, Reading, check_shown
from snellen.images.remarks import StoredPicture, check_reading, remarks
from snellen.images.samples import Progress, Samples, UnreadablePictureError, as_label, as_number, check_samples
from snellen.images.tables import ClassIndices
from snellen.types import Findings, Sample

MOST_TEXT = 1_000_000
"""Largest label file in a shard, in bytes."""
MOST_SHARDS = 100_000
"""Most shards that a pattern such as train-{0000..0099}.tar may name."""

_BRACES = re.compile(r"\{(\d+)\.\.(\d+)\}")


@dataclass(frozen=True)
class Member:
    """Where a member is in an uncompressed tar file."""

    shard: str
    """Path of the tar file."""
    name: str
    """Path of the member in it."""
    offset: int
    """Place of its first byte in the tar file."""
    size: int
    """Its length in bytes."""

    def read(self) -> bytes:
        """Its content."""
        try:
            with open(self.shard, "rb") as opened:
                opened.seek(self.offset)
                content = opened.read(self.size)
        except OSError as problem:
            raise UnreadablePictureError(f"'{self.shard}' cannot be read ({problem.strerror})") from None
        if len(content) < self.size:
            raise UnreadablePictureError(f"'{self.shard}' ends inside '{self.name}'; it was not copied completely")
        return content


@dataclass(frozen=True)
class ShardItems:
    """Samples that are read from tar files each time they are loaded."""

    ids: tuple[str, ...]
    """Name of each sample."""
    images: tuple[Member, ...]
    """The picture of each sample."""
    labels: tuple[int | Findings | None, ...]
    """Class index or findings of each sample."""
    numbers: tuple[float | None, ...]
    """The true number of each sample, for a classifier that estimates one."""
    geometry: Geometry
    """How images are cropped and resized."""
    channels: int
    """Number of channels of the classifier."""
    reading: Reading
    """How stored values become pixels."""

    def load(self, index: int) -> Sample:
        """The sample at this index."""
        member = self.images[index]
        image, _ = read_picture(
            Path(member.shard) / member.name,
            geometry=self.geometry,
            channels=self.channels,
            reading=self.reading,
            content=io.BytesIO(member.read()),
        )
        return Sample(id=self.ids[index], image=image, label=self.labels[index], number=self.numbers[index])

    def take(self, indices: Sequence[int]) -> ShardItems:
        """A source of these samples."""
        parts: dict[str, Any] = {
            name: tuple(getattr(self, name)[index] for index in indices) for name in ("ids", "images", "labels", "numbers")
        }
        return replace(self, **parts)


def shard_paths(path: str | Path) -> list[Path]:
    """The tar files that a path names: itself, those of a pattern like train-{0000..0003}.tar, or those of a folder.

    >>> [str(shard) for shard in shard_paths("a-{08..10}.tar")]
    ['a-08.tar', 'a-09.tar', 'a-10.tar']
    """
    text = str(path)
    if not text.endswith(".tar"):
        return sorted(Path(path).glob("*.tar")) if Path(path).is_dir() else []
    match = _BRACES.search(text)
    if match is None:
        return [Path(path)]
    first, last = match.groups()
    count = int(last) - int(first) + 1
    if not 1 <= count <= MOST_SHARDS:
        raise SnellenError(f"'{path}' must count upwards and name at most {MOST_SHARDS} files")
    numbers = (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
    return [Path(text[: match.start()] + number + text[match.end() :]) for number in numbers]


def from_shards(
    path: str | Path,
    *,
    geometry: Geometry = AS_IS,
    channels: int = 3,
    classes: Sequence[str] | None = None,
    numbers: bool = False,
    reading: Reading = AS_STORED,
    unreadable: str = "refuse",
    progress: Progress | None = None,
) -> Samples:
    """Samples from tar shards with `key.jpg` (or another picture), and the label in `key.cls` or `key.json`.

    Args:
        path: a .tar file, a pattern like train-{0000..0003}.tar, or a folder of .tar files.
        geometry: how images are cropped and resized.
        channels: of the classifier.
        classes: names of the classifier's classes, for labels that are names.
        numbers: whether labels are numbers, for a classifier that estimates one.
        reading: how stored values become pixels.
        unreadable: "refuse" or "skip" pictures that cannot be decoded.
        progress: called with (images checked, images in total).
    """
    check_shown(reading.show_channels, channels)
    images: dict[str, Member] = {}
    labels: dict[str, int | Findings | None] = {}
    true_numbers: dict[str, float | None] = {}
    for shard in shard_paths(path):
        for key, members in _grouped(shard).items():
            endings = [ending for ending in members if f".{ending.lower()}" in SUFFIXES]
            endings = endings or [ending for ending in members if f".{ending.lower()}" in ARRAYS]
            if not endings:
                continue
            if len(endings) > 1:
                raise SnellenError(f"'{key}' in '{shard}' has several pictures ({', '.join(endings)}); keep one")
            picture = members[endings[0]]
            if key in images:
                raise SnellenError(f"'{key}' is in '{images[key].shard}' and in '{shard}'; every sample needs its own key")
            images[key] = picture
            owner = f"'{key}' in '{shard}'"
            stated = _stated(members, owner)
            if numbers:
                true_numbers[key] = as_number(stated, owner)
            else:
                labels[key] = _label(stated, classes, owner)
    if not images:
        raise SnellenError(f"'{path}' holds no pictures; members of a shard are called key.jpg, key.cls and the like")
    stored = [
        StoredPicture(id=key, path=Path(member.shard) / member.name, read=member.read) for key, member in images.items()
    ]
    check_reading(stored, reading)
    ids = tuple(images)
    source = ShardItems(
        ids=ids,
        images=tuple(images.values()),
        labels=tuple(labels.get(key) for key in ids),
        numbers=tuple(true_numbers.get(key) for key in ids),
        geometry=geometry,
        channels=channels,
        reading=reading,
    )
    samples = check_samples(source, ids, f"'{path}'{reading.words(channels)}", unreadable=unreadable, progress=progress)
    notes = remarks([stored[place] for place in samples.places], reading, channels)
    return replace(samples, notes=(*samples.notes, *notes), show_channels=reading.show_channels)


def _grouped(shard: Path) -> dict[str, dict[str, Member]]:
    """The members of each key by their ending; only headers are read, and nothing is unpacked."""
    groups: dict[str, dict[str, Member]] = {}
    try:
        with tarfile.open(shard, "r:") as archive:
            for info in archive:
                if not info.isreg() or info.issparse() or Path(info.name).name.startswith("."):
                    continue
                name = info.name.removeprefix("./")
                if not is_unicode(name):
                    raise SnellenError(f"{short_repr(name)} in '{shard}' has a name that is not UTF-8; rename it")
                folder, _, last = name.rpartition("/")
                stem, _, ending = last.partition(".")
                key = f"{folder}/{stem}" if folder else stem
                member = Member(shard=str(shard.absolute()), name=name, offset=info.offset_data, size=info.size)
                if groups.setdefault(key, {}).setdefault(ending, member) is not member:
                    raise SnellenError(f"'{name}' is twice in '{shard}'; every member needs its own name")
    except FileNotFoundError:
        raise SnellenError(f"there is no file '{shard}'") from None
    except (tarfile.TarError, OSError, EOFError):
        raise SnellenError(f"'{shard}' cannot be read as an uncompressed tar file; unpack or repair it") from None
    return groups


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
    if member.size > MOST_TEXT:
        raise SnellenError(f"'{member.name}' of {owner} is too large for a label")
    try:
        return member.read().decode("utf-8")
    except UnicodeDecodeError:
        raise SnellenError(f"'{member.name}' of {owner} is not a text file") from None
