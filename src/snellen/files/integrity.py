"""Files that show when they are damaged: content named by its own hash, and JSON records that carry a checksum."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

from snellen.errors import SnellenError
from snellen.files.documents import check_shape, parse_json

CHECKSUM = "checksum"
"""The field of a record that stands for all its other fields; records of older versions have none."""

_NAME = re.compile(r"([0-9a-f]{32})\.[a-z0-9]+")

_INTACT: dict[Path, tuple[int, int, int]] = {}
"""What this process has compared with its name already: inode, time of the last change, and size."""


class DamagedError(SnellenError):
    """A file does not hold what was written: one sentence with its path, what is wrong, and what to do."""

    def __init__(self, path: Path, reason: str, remedy: str) -> None:
        super().__init__(f"'{path}' is damaged ({reason}); {remedy}")
        self.path, self.reason = path, reason


def digest(content: bytes) -> str:
    """The 32 hexadecimal digits that stand for this content."""
    return hashlib.sha256(content).hexdigest()[:32]


def read_named(folder: Path, name: str, remedy: str) -> bytes:
    """The content of a file that is named by its content; compared once per process, and again after any change."""
    path, match = folder / name, _NAME.fullmatch(name)
    if match is None:
        raise DamagedError(path, "this cannot be the name of such a file", remedy)
    try:
        facts = path.stat()
        content = path.read_bytes()
    except OSError as problem:
        raise DamagedError(path, _reason(problem), remedy) from None
    state = facts.st_ino, facts.st_mtime_ns, facts.st_size
    if _INTACT.get(path) != state:
        if digest(content) != match[1]:
            raise DamagedError(path, "its content does not match its name", remedy)
        _INTACT[path] = state
    return content


def dump_record(record: dict[str, Any]) -> bytes:
    """A record as JSON with its checksum."""
    plain = json.loads(json.dumps(record, allow_nan=False))
    plain.pop(CHECKSUM, None)
    return json.dumps(plain | {CHECKSUM: _checksum(plain)}, indent=1, allow_nan=False).encode()


def read_record(path: Path, remedy: str, shape: Any = dict) -> dict[str, Any]:
    """The fields of a record without its checksum; one that was changed, or has not the declared shape, is refused."""
    try:
        record = parse_json(path.read_bytes().decode(), "it")
        if not isinstance(record, dict):
            raise SnellenError("it is not a record")
        known = record.pop(CHECKSUM, None)
        if known is not None and known != _checksum(record):
            raise SnellenError("its content does not match its checksum")
        check_shape(shape, record, "it")
    except OSError as problem:
        raise DamagedError(path, _reason(problem), remedy) from None
    except UnicodeDecodeError:
        raise DamagedError(path, "it is not text", remedy) from None
    except SnellenError as problem:
        raise DamagedError(path, str(problem), remedy) from None
    return record


def has_checksum(path: Path) -> bool:
    """Whether an intact record carries a checksum."""
    return CHECKSUM in json.loads(path.read_bytes())


def _checksum(plain: dict[str, Any]) -> str:
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return digest(text.encode())


def _reason(problem: OSError) -> str:
    return "it is missing" if isinstance(problem, FileNotFoundError) else (problem.strerror or "it cannot be read")
