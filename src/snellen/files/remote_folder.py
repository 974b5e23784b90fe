"""RemoteFolder: a run folder on object storage."""

from __future__ import annotations

import builtins
import os
import tempfile
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from snellen.errors import SnellenError
from snellen.files.folder import LOCK, Folder, InUseError
from snellen.files.lease import Lease
from snellen.files.remote import (
    MissingObjectError,
    ObjectPart,
    check_url,
    is_s3,
    list_url,
    mark_of,
    path_of,
    read_part,
    sentences,
    store_of,
)

_IN_MEMORY: set[str] = set()
"""Folders of memory:// that this process writes to."""


class RemoteFolder(Folder):
    """A folder on object storage.

    An object appears once all of it has arrived, so a killed writer leaves nothing that is half-written. A missing file is a
    FileNotFoundError as on a disk; every other problem is a `SnellenError`, so that a network that fails for a moment is
    never taken for a damaged file.
    """

    def __init__(self, url: str) -> None:
        self.url = check_url(url)
        self._lease: Lease | None = None
        self._has_bucket = False

    def __str__(self) -> str:
        return self.url

    def __reduce__(self) -> tuple[type[RemoteFolder], tuple[str]]:
        return RemoteFolder, (self.url,)

    def read(self, name: str) -> bytes:
        """All bytes of an object, of any size."""
        with self._reading(name) as store:
            content: bytes = store.cat_file(self._path(store, name))
        return bytes(content)

    def read_range(self, name: str, start: int, length: int) -> bytes:
        """Some bytes of an object."""
        with self._reading(name):
            return read_part(ObjectPart(self._url(name), start=start, length=length))

    def write_whole(self, name: str, content: bytes) -> None:
        """Writes an object."""
        with self._writing(name) as store:
            store.pipe_file(self._path(store, name), content)

    @contextmanager
    def draft(self) -> Iterator[Path]:
        """A temporary file on the local disk."""
        handle, name = tempfile.mkstemp(prefix="snellen-draft-")
        os.close(handle)
        path = Path(name)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def adopt(self, draft: Path, name: str) -> None:
        """Uploads a draft, a large one in parts, which become an object when the last has arrived."""
        with self._writing(name) as store:
            store.put_file(str(draft), self._path(store, name))
        if self._lease is not None:  # a long upload
            self._lease.check()

    def list(self, part: str) -> dict[str, int]:
        """The objects of a subfolder."""
        return {entry.name: entry.size for entry in list_url(self._url(part), deep=False)}

    def parts(self, part: str) -> builtins.list[str]:
        """The subfolders of a subfolder."""
        with self._reading(part) as store:
            path = self._path(store, part)
            try:
                entries = store.ls(path, detail=True)
            except FileNotFoundError:
                return []
        names = (entry["name"].rstrip("/").rpartition("/")[2] for entry in entries if entry["type"] == "directory")
        return sorted(f"{part}/{name}" for name in names)

    def below(self, part: str) -> RemoteFolder:
        """A subfolder as a folder of its own."""
        return RemoteFolder(self._url(part))

    def find(self, name: str) -> builtins.list[str]:
        """The paths of all objects of this name, in any subfolder."""
        return [entry.name for entry in list_url(self.url) if entry.name.rpartition("/")[2] == name]

    def size(self, name: str) -> int:
        """Of an object in bytes."""
        return int(self._info(name)["size"])

    def state(self, name: str) -> Hashable:
        """Entity tag and size, or what else the store says."""
        info = self._info(name)
        return mark_of(info), int(info["size"])

    def remove(self, name: str) -> None:
        """Removes an object, where there is one."""
        try:
            with self._writing(name) as store:
                store.rm_file(self._path(store, name))
        except FileNotFoundError:
            return

    def move(self, name: str, target: str) -> None:
        """Copies an object within the store, then removes it under its earlier name."""
        with self._writing(name) as store:
            store.cp_file(self._path(store, name), self._path(store, target))
            store.rm_file(self._path(store, name))

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Holds a lock object (see `Lease`); refuses stores that could not keep a second writer out."""
        store = store_of(self.url)
        if is_s3(store):
            with Lease(self._url(LOCK)).held() as lease:
                self._lease = lease
                try:
                    yield
                finally:
                    self._lease = None
        elif store.protocol == "memory":
            if self.url in _IN_MEMORY:
                raise InUseError
            _IN_MEMORY.add(self.url)
            try:
                yield
            finally:
                _IN_MEMORY.discard(self.url)
        else:
            scheme = self.url.partition("://")[0]
            raise SnellenError(
                f"runs are not written to {scheme}://, where a second writer could not be kept out of '{self.url}'; choose "
                "a local --out, or one on s3://"
            )

    def sweep(self) -> None:
        """Gives up uploads in parts that a killed writer left, which nobody sees but which cost money."""
        with self._writing("") as store:
            if not is_s3(store):
                return
            bucket, key, _ = store.split_path(self._path(store, ""))
            left = store.call_s3("list_multipart_uploads", Bucket=bucket, Prefix=f"{key}/").get("Uploads", ())
            for upload in left:
                store.call_s3("abort_multipart_upload", Bucket=bucket, Key=upload["Key"], UploadId=upload["UploadId"])

    def delete(self) -> None:
        """Removes everything in the folder."""
        with self._writing("") as store:
            store.rm(self._path(store, ""), recursive=True)

    def _url(self, name: str) -> str:
        return f"{self.url}/{name}" if name else self.url

    def _path(self, store: Any, name: str) -> str:
        return path_of(store, self._url(name))

    def _info(self, name: str) -> dict[str, Any]:
        with self._reading(name) as store:
            info: dict[str, Any] = store.info(self._path(store, name))
            if info["type"] != "file":
                raise FileNotFoundError(name)
        return info

    @contextmanager
    def _reading(self, name: str) -> Iterator[Any]:
        """The store; an object that is missing in a bucket that is not raises a FileNotFoundError."""
        url = self._url(name)
        try:
            with sentences(url):
                yield store_of(url)
        except MissingObjectError:
            self._check_bucket()
            raise FileNotFoundError(url) from None

    @contextmanager
    def _writing(self, name: str) -> Iterator[Any]:
        """The store, if nobody else has taken over the lock of this writer."""
        url = self._url(name)
        if self._lease is not None:
            self._lease.check()
        try:
            with sentences(url, "written to"):
                yield store_of(url)
        except MissingObjectError:
            self._check_bucket()
            raise FileNotFoundError(url) from None

    def _check_bucket(self) -> None:
        """Refuses a bucket that does not exist, which stores do not tell apart from a missing object."""
        if not self._has_bucket:
            next(list_url(self.url, deep=False), None)
            self._has_bucket = True
