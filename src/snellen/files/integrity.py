"""Detection of damaged files: files named by the hash of their content, and JSON records with a checksum."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from snellen.errors import SnellenError
from snellen.files.documents import check_shape, parse_json
from snellen.files.folder import Folder

CHECKSUM = "checksum"
"""Field of a record with the checksum of all other fields; records of older versions have none."""

_NAME = re.compile(r"([0-9a-f]{32})\.[a-z0-9]+")

_CHECKED: dict[tuple[str, str], Hashable] = {}
"""Files that this process has checked, by folder and name, with the state that they had."""


class DamagedError(SnellenError):
    """A file is damaged; the sentence names its path, the damage and the remedy."""

    def __init__(self, path: Path | str, reason: str, remedy: str) -> None:
        super().__init__(f"'{path}' is damaged ({reason}); {remedy}")
        self.path, self.reason = path, reason


def digest(content: bytes) -> str:
    """Hash of this content, as 32 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()[:32]


def read_named(folder: Folder, name: str, remedy: str) -> bytes:
    """The content of a file that is named by its hash; checked once per process, and again after a change.

    Args:
        folder: where the file is.
        name: its name: perhaps a subfolder, the hash of its content, and an ending.
        remedy: what the user can do if it is damaged, for the error message.
    """
    path = f"{folder}/{name}"
    match = _NAME.fullmatch(name.rpartition("/")[2])
    if match is None:
        raise DamagedError(path, "this cannot be the name of such a file", remedy)
    try:
        state = folder.state(name)
        content = folder.read(name)
    except OSError as problem:
        raise DamagedError(path, damage(problem), remedy) from None
    if _CHECKED.get((str(folder), name)) != state:
        if digest(content) != match[1]:
            raise DamagedError(path, "its content does not match its name", remedy)
        _CHECKED[str(folder), name] = state
    return content


def dump_record(record: dict[str, Any]) -> bytes:
    """A record as JSON with a checksum."""
    plain = json.loads(json.dumps(record, allow_nan=False))
    plain.pop(CHECKSUM, None)
    return json.dumps(plain | {CHECKSUM: _checksum(plain)}, indent=1, allow_nan=False).encode()


def read_record(path: Path, remedy: str, shape: Any = dict) -> dict[str, Any]:
    """The fields of a record in a file; see `parse_record`."""
    try:
        content = path.read_bytes()
    except OSError as problem:
        raise DamagedError(path, damage(problem), remedy) from None
    return parse_record(content, path, remedy, shape)


def parse_record(content: bytes, path: Path | str, remedy: str, shape: Any = dict) -> dict[str, Any]:
    """The fields of a record without its checksum; a changed record, or one of the wrong type, is refused.

    Args:
        content: the JSON text.
        path: of its file, for the error message.
        remedy: what the user can do if it is damaged, for the error message.
        shape: the type that the record must have (see `check_shape`).
    """
    try:
        record = parse_json(content.decode(), "it")
        if not isinstance(record, dict):
            raise SnellenError("it is not a record")
        stored = record.pop(CHECKSUM, None)
        if stored is not None and stored != _checksum(record):
            raise SnellenError("its content does not match its checksum")
        check_shape(shape, record, "it")
    except UnicodeDecodeError:
        raise DamagedError(path, "it is not text", remedy) from None
    except SnellenError as problem:
        raise DamagedError(path, str(problem), remedy) from None
    return record


def has_checksum(content: bytes) -> bool:
    """Whether the text of a record has a checksum."""
    return CHECKSUM in json.loads(content)


def _checksum(plain: dict[str, Any]) -> str:
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return digest(text.encode())


def damage(problem: OSError) -> str:
    """What is wrong with a file that cannot be read, in words that follow 'it'."""
    return "it is missing" if isinstance(problem, FileNotFoundError) else (problem.strerror or "it cannot be read")
