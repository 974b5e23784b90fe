"""Folder: where a run keeps its files. All reading and writing goes through it, so that object storage can be one too."""

from __future__ import annotations

import builtins
import os
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import filelock

from snellen.files.atomic import PREFIX, write_whole
from snellen.files.remote import is_url

LOCK = ".lock"
"""The file in a local folder that its writer locks."""


class InUseError(Exception):
    """Another writer has locked the folder; `remedy` says in words what to do."""

    def __init__(self, remedy: str = "wait until it ends or choose another --out") -> None:
        super().__init__(remedy)
        self.remedy = remedy


class Folder(ABC):
    """Files by name, such as `maps/0123.safetensors`. A file appears whole or not at all.

    Files that readers rely on are never changed, only replaced as a whole. `str(folder)` is its path or URL in messages.
    A missing file is a FileNotFoundError; other problems are OSErrors of a disk, or SnellenErrors of a store.
    """

    appends = False
    """Whether files can be lengthened; elsewhere they are written as a whole."""

    def append(self, name: str, content: bytes) -> None:
        """Lengthens a file, where `appends`; the bytes are on the disk when it returns. Only one process writes to it."""
        raise NotImplementedError(f"files of {self} cannot be lengthened")

    @abstractmethod
    def read(self, name: str) -> bytes:
        """All bytes of a file; FileNotFoundError where there is none."""

    @abstractmethod
    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Some bytes of a file; fewer where it ends before."""

    @abstractmethod
    def write_whole(self, name: str, content: bytes) -> None:
        """Writes a file, in place of an earlier one of this name."""

    @abstractmethod
    def draft(self) -> AbstractContextManager[Path]:
        """A new file on the local disk, to be written in pieces; removed at the end of the body unless it was adopted."""

    @abstractmethod
    def adopt(self, draft: Path, name: str) -> None:
        """Makes a draft the file of this name."""

    @abstractmethod
    def list(self, part: str) -> dict[str, int]:
        """The names of the files directly in a subfolder, each with its size; empty where there is no such subfolder."""

    @abstractmethod
    def parts(self, part: str) -> builtins.list[str]:
        """The subfolders of a subfolder, such as `truth/0123`."""

    @property
    def name(self) -> str:
        """The last part of its path."""
        return str(self).rpartition("/")[2]

    @abstractmethod
    def below(self, part: str) -> Folder:
        """A subfolder as a folder of its own."""

    @abstractmethod
    def find(self, name: str) -> builtins.list[str]:
        """The sorted paths of all files of this name, here and in any subfolder, such as `first/run.json`."""

    @abstractmethod
    def size(self, name: str) -> int:
        """Of a file in bytes."""

    @abstractmethod
    def state(self, name: str) -> Hashable:
        """A value that changes whenever the file does; FileNotFoundError where there is none."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Removes a file, where there is one."""

    @abstractmethod
    def move(self, name: str, target: str) -> None:
        """Gives a file another name."""

    @abstractmethod
    def lock(self) -> AbstractContextManager[None]:
        """Creates the folder and keeps other writers out until the body ends; InUseError where another writer is in it."""

    @abstractmethod
    def sweep(self) -> None:
        """Removes unfinished files that a killed writer left."""

    @abstractmethod
    def delete(self) -> None:
        """Removes the folder with everything in it."""

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        try:
            self.state(name)
        except FileNotFoundError:
            return False
        return True


class LocalFolder(Folder):
    """A folder on a disk.

    Args:
        path: where it is.
        durable: writing ends when the bytes are on the disk, so that they outlast a loss of power.
    """

    appends = True

    def __init__(self, path: str | Path, *, durable: bool = True) -> None:
        self.path, self._durable = Path(path), durable

    def __str__(self) -> str:
        return str(self.path)

    def __reduce__(
        self,
    ) -> tuple[Callable[[str], LocalFolder], tuple[str]]:  # a process elsewhere may have another working directory
        return partial(LocalFolder, durable=self._durable), (str(self.path.absolute()),)

    def read(self, name: str) -> bytes:
        """All bytes of a file."""
        return (self.path / name).read_bytes()

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Some bytes of a file."""
        with open(self.path / name, "rb") as file:
            file.seek(start)
            return file.read(length)

    def write_whole(self, name: str, content: bytes) -> None:
        """Writes a file by renaming a temporary one."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content, durable=self._durable)

    def append(self, name: str, content: bytes) -> None:
        """Lengthens a file."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "ab", buffering=0) as file:
            left = memoryview(content)
            while left:
                left = left[file.write(left) :]
            self._sync(file.fileno())

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """A temporary file beside the others, so that adopting it is a rename."""
        self.path.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=PREFIX, dir=self.path)
        os.close(handle)
        path = Path(name)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def adopt(self, draft: Path, name: str) -> None:
        """Renames a draft, once its bytes are on the disk."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(draft, "rb+") as file:
            self._sync(file.fileno())
        draft.chmod(0o644)  # temporary files are readable for their owner only
        draft.replace(path)

    def _sync(self, file: int) -> None:
        if self._durable:
            os.fsync(file)

    def list(self, part: str) -> dict[str, int]:
        """The files of a subfolder."""
        folder, files = self.path / part, {}
        if folder.is_dir():
            with os.scandir(folder) as entries:
                files = {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
        return {name: files[name] for name in sorted(files) if not name.startswith(PREFIX)}

    def parts(self, part: str) -> builtins.list[str]:
        """The subfolders of a subfolder."""
        return [f"{part}/{path.name}" for path in sorted((self.path / part).glob("*/"))]

    @property
    def name(self) -> str:
        """The last part of its path, also where that is relative."""
        return Path(os.path.abspath(self.path)).name

    def below(self, part: str) -> LocalFolder:
        """A subfolder as a folder of its own."""
        return LocalFolder(self.path / part, durable=self._durable)

    def find(self, name: str) -> builtins.list[str]:
        """The paths of all files of this name."""
        return sorted(path.relative_to(self.path).as_posix() for path in self.path.rglob(name) if path.is_file())

    def size(self, name: str) -> int:
        """Of a file in bytes."""
        return (self.path / name).stat().st_size

    def state(self, name: str) -> Hashable:
        """Inode, time of the last change, and size."""
        status = (self.path / name).stat()
        return status.st_ino, status.st_mtime_ns, status.st_size

    def remove(self, name: str) -> None:
        """Removes a file, where there is one."""
        (self.path / name).unlink(missing_ok=True)

    def move(self, name: str, target: str) -> None:
        """Renames a file."""
        (self.path / target).parent.mkdir(parents=True, exist_ok=True)
        (self.path / name).replace(self.path / target)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Holds a lock of the operating system, which ends with this process."""
        self.path.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(self.path / LOCK, blocking=False)
        try:
            lock.acquire()
        except filelock.Timeout:
            raise InUseError from None
        try:
            yield
        finally:
            lock.release()

    def sweep(self) -> None:
        """Removes temporary files."""
        for leftover in self.path.rglob(f"{PREFIX}*"):
            leftover.unlink(missing_ok=True)

    def delete(self) -> None:
        """Removes the folder; what cannot be removed stays."""
        shutil.rmtree(self.path, ignore_errors=True)


def folder_at(place: str | Path | Folder) -> Folder:
    """The folder at a path or a URL, such as s3://bucket/runs/mine."""
    if isinstance(place, Folder):
        return place
    if is_url(place):
        from snellen.files.remote_folder import RemoteFolder

        return RemoteFolder(str(place))
    return LocalFolder(place)
