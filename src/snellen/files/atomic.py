"""Atomic writing: a file is written under a temporary name and then renamed, so it is never half-written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = ".writing-"
"""Prefix of temporary names, by which remains of killed processes can be found."""


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[Path]:
    """A temporary path in the same folder, renamed to `path` after the body; removed if the body raises.

    A `private` file can be read only by its owner, also while it is being written.
    """
    handle, name = tempfile.mkstemp(prefix=PREFIX, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        if not private:
            temporary.chmod(0o644)  # temporary files are readable for their owner only
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes, *, private: bool = False, durable: bool = True) -> None:
    """Writes a file that is complete on disk before it appears under its name.

    Args:
        path: where it appears; a file that is there is replaced.
        content: all bytes of the file.
        private: whether only its owner may read it.
        durable: whether it must outlast a loss of power; else it is only never seen half-written.
    """
    with replacing(path, private=private) as temporary, open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        if durable:
            os.fsync(file.fileno())
