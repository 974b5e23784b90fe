"""Files that are written whole or not at all: under a temporary name beside their own, and then renamed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = ".writing-"
"""How temporary names begin; what a killed process leaves behind is known by it."""


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[Path]:
    """A temporary name that takes the place of `path` when the body ends well, and is gone when it does not.

    A `private` file is for its owner alone from the first moment on.
    """
    handle, name = tempfile.mkstemp(prefix=PREFIX, dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        if not private:
            temporary.chmod(0o644)  # temporary files are for their owner alone; what is kept is for others to read
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes, *, private: bool = False) -> None:
    """Writes a file that has reached the disk before anybody finds it under its name."""
    with replacing(path, private=private) as temporary, open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
