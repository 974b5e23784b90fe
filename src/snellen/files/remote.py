"""Objects on object storage, by URL, through fsspec: reading, listing, and one sentence for whatever goes wrong."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeVar

from snellen.errors import SnellenError, first_line

MOST_BYTES = 512 << 20
"""Largest object that is read as a whole, where that is a picture or a list."""

PACKAGES = {
    "s3": "snellen[remote]",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "memory": "snellen[remote]",
}
"""Schemes of URLs, and what to install for each."""

ATTEMPTS = 3
"""How often a request to S3 is tried, with growing pauses; also where the store asks for fewer requests."""
SECONDS = {"connect_timeout": 10, "read_timeout": 20}
"""Limits of each attempt."""

T = TypeVar("T")

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")
_CREDENTIALS = re.compile(r"://[^/@]*:.*@")
_CUT_OFF = ("ClientPayloadError", "IncompleteRead", "IncompleteReadError", "ResponseStreamingError")
_NO_CREDENTIALS = ("NoCredentialsError", "PartialCredentialsError", "TokenRetrievalError", "DefaultCredentialsError")
_REFUSED = ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "403")


class MissingObjectError(SnellenError):
    """There is no such object."""


class ChangedObjectError(SnellenError):
    """An object is another than when it was listed."""


@dataclass(frozen=True)
class Listed:
    """An object below a URL."""

    name: str
    """Its path below the URL."""
    size: int
    """In bytes."""
    mark: str
    """Changes with its content: an entity tag where the store gives one; empty where it gives nothing of the kind."""


def is_url(path: object) -> bool:
    """Whether a text is a URL such as s3://bucket/folder.

    >>> is_url("s3://bucket/photos"), is_url("zoo:photographs"), is_url("photos")
    (True, False, False)
    """
    return isinstance(path, str) and _URL.match(path) is not None


def check_url(url: str) -> str:
    """The URL without a slash at its end; refuses schemes that are not read, and credentials inside of it."""
    scheme = url.partition("://")[0]
    if _CREDENTIALS.search(url):
        raise SnellenError(
            f"a URL that starts with '{scheme}://' holds credentials, which would be written into records; leave them out "
            "and set the variables or the configuration file that your store's own tools read"
        )
    if scheme not in PACKAGES:
        schemes = ", ".join(f"{name}://" for name in PACKAGES)
        raise SnellenError(f"'{url}' cannot be read: {scheme}:// is none of {schemes}; copy it to a folder first")
    if "::" in url:
        raise SnellenError(f"'{url}' chains several URLs, which is not read; name one")
    rest = url.partition("://")[2].strip("/")
    if not rest:
        raise SnellenError(f"'{url}' names no bucket; write {scheme}://bucket/folder")
    if ".." in rest.split("/"):
        raise SnellenError(f"'{url}' holds '..', which object storage takes as a name; write the path that it means")
    return f"{scheme}://{rest}"


# Reading ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ObjectPart:
    """An object that is to be read, or some bytes of it."""

    url: str
    """Of the object."""
    mark: str | None = None
    """The mark that it was listed with; another object is a `ChangedObjectError`. None compares nothing."""
    start: int = 0
    """The first byte."""
    length: int | None = None
    """How many bytes; fewer are read where the object ends before. None reads all of it, at most `MOST_BYTES`."""


def read_url(url: str, mark: str | None = None) -> bytes:
    """All bytes of an object; see `ObjectPart`."""
    return read_part(ObjectPart(url, mark))


def read_part(part: ObjectPart) -> bytes:
    """What a part holds."""
    content = read_parts([part])[0]
    if isinstance(content, SnellenError):
        raise content
    return content


def read_parts(parts: Sequence[ObjectPart]) -> list[bytes | SnellenError]:
    """What several parts hold, fetched at the same time; an error in place of a part that cannot be read."""
    results: dict[int, bytes | SnellenError] = {}
    for scheme in {part.url.partition("://")[0] for part in parts}:
        places = [place for place, part in enumerate(parts) if part.url.startswith(f"{scheme}://")]
        store = store_of(parts[places[0]].url)
        read = _from_s3 if is_s3(store) else _from_other
        for place, content in zip(places, read(store, [parts[place] for place in places]), strict=True):
            try:
                with sentences(parts[place].url):
                    results[place] = _whole(parts[place], content)
            except SnellenError as problem:
                results[place] = problem
    return [results[place] for place in range(len(parts))]


def open_url(url: str, *, ahead: int = 1 << 20) -> Any:
    """An object as a file, of which some bytes are read ahead."""
    store = store_of(url)
    with sentences(url):
        return store.open(path_of(store, url), "rb", block_size=ahead, cache_type="readahead")


def _from_s3(store: Any, parts: Sequence[ObjectPart]) -> list[bytes | BaseException]:
    import asyncio

    async def together() -> list[bytes | BaseException]:
        return await asyncio.gather(*(_object(store, part) for part in parts), return_exceptions=True)

    return in_loop(store, together)


async def _object(store: Any, part: ObjectPart) -> bytes:
    """A part of an object of S3, if that still has its mark; what was cut off by the network is asked for once more."""
    bucket, key, _ = store.split_path(path_of(store, part.url))
    settings = {} if part.mark is None else {"IfMatch": f'"{part.mark}"'}
    if part.length is not None:
        settings["Range"] = f"bytes={part.start}-{part.start + max(1, part.length) - 1}"
    for last in (False, True):
        try:
            response = await store._call_s3("get_object", Bucket=bucket, Key=key, **settings)
            async with response["Body"] as body:
                if response["ContentLength"] > MOST_BYTES:
                    raise _too_large(part.url)
                content: bytes = await body.read()
                return content
        except Exception as problem:
            if "PreconditionFailed" in codes_of(problem):
                raise _changed(part.url) from None
            if last or not any(type(cause).__name__ in _CUT_OFF for cause in _causes(problem)):
                raise
    raise AssertionError


def _from_other(store: Any, parts: Sequence[ObjectPart]) -> list[bytes | BaseException]:
    paths = [path_of(store, part.url) for part in parts]
    ends = [part.start + (MOST_BYTES + 1 if part.length is None else part.length) for part in parts]
    contents: list[bytes | BaseException] = store.cat_ranges(paths, [part.start for part in parts], ends, on_error="return")
    for place, part in enumerate(parts):
        if part.mark is not None and not isinstance(contents[place], BaseException):
            try:
                changed = mark_of(store.info(paths[place])) != part.mark
                contents[place] = _changed(part.url) if changed else contents[place]
            except Exception as problem:
                contents[place] = problem
    return contents


def _whole(part: ObjectPart, content: bytes | BaseException) -> bytes:
    if isinstance(content, BaseException):
        if codes_of(content) & {"InvalidRange", "416"}:  # it begins behind the end
            return b""
        raise content
    if len(content) > MOST_BYTES:
        raise _too_large(part.url)
    return bytes(content if part.length is None else content[: part.length])


def _too_large(url: str) -> SnellenError:
    return SnellenError(f"'{url}' is larger than {MOST_BYTES >> 20} MiB; make it smaller first")


def _changed(url: str) -> ChangedObjectError:
    return ChangedObjectError(f"'{url}' was changed while the run was under way; start it again in another folder")


# Listing ------------------------------------------------------------------------------------------------------------


def list_url(url: str, *, deep: bool = True) -> Iterator[Listed]:
    """The objects below a URL, sorted by name, some at a time, so that millions need little memory.

    Args:
        url: the folder.
        deep: whether to go into subfolders.
    """
    store = store_of(url)
    root = path_of(store, url)
    with sentences(url):
        for path, size, mark in _of_s3(store, root, deep=deep) if is_s3(store) else _of_other(store, root, deep=deep):
            name = path[len(root) :].strip("/")
            if name and not path.endswith("/"):
                yield Listed(name=name, size=size, mark=mark)


def _of_s3(store: Any, root: str, *, deep: bool) -> Iterator[tuple[str, int, str]]:
    bucket, key, _ = store.split_path(root)
    settings = {"Bucket": bucket, "Prefix": f"{key}/" if key else ""} | ({} if deep else {"Delimiter": "/"})
    while True:
        page = store.call_s3("list_objects_v2", **settings)
        for entry in page.get("Contents", ()):
            yield f"{bucket}/{entry['Key']}", int(entry["Size"]), mark_of(entry)
        if not page.get("IsTruncated"):
            return
        settings["ContinuationToken"] = page["NextContinuationToken"]


def _of_other(store: Any, root: str, *, deep: bool) -> Iterator[tuple[str, int, str]]:
    entries = store.find(root, maxdepth=None if deep else 1, detail=True)
    for path in sorted(entries):
        if path != root and entries[path].get("type") == "file":
            yield path, int(entries[path].get("size") or 0), mark_of(entries[path])


def mark_of(info: dict[str, Any]) -> str:
    """What a store says about an object that changes with its content; empty where it says nothing of the kind."""
    for name in ("ETag", "etag", "md5Hash", "generation"):
        if info.get(name):
            return str(info[name]).strip('"')
    for name in ("LastModified", "last_modified", "mtime", "created"):
        if info.get(name):
            moment = info[name].timestamp() if isinstance(info[name], datetime) else info[name]  # a listing may give either
            return f"{info.get('size')} {moment}"
    return ""


# Stores -------------------------------------------------------------------------------------------------------------


def store_of(url: str) -> Any:
    """The fsspec file system of a URL."""
    return _opened(check_url(url).partition("://")[0], os.getpid())


def path_of(store: Any, url: str) -> str:
    """What the store calls an object: bucket/name."""
    path: str = store._strip_protocol(check_url(url))
    return path


def is_s3(store: Any) -> bool:
    """Whether a store speaks the protocol of S3, whose conditions and pages are used directly."""
    return store.protocol == "s3" or (not isinstance(store.protocol, str) and "s3" in store.protocol)


def in_loop(store: Any, call: Callable[[], Awaitable[T]]) -> T:
    """The result of a coroutine in the loop that the store's connections belong to."""
    from fsspec.asyn import sync

    async def awaited() -> T:
        return await call()

    result: T = sync(store.loop, awaited)
    return result


@cache
def _opened(scheme: str, process: int) -> Any:
    """The file system of a scheme, made anew in each process: a fork inherits connections that it must not use."""
    try:
        import fsspec

        settings: dict[str, Any] = {} if scheme == "memory" else {"skip_instance_cache": True, "use_listings_cache": False}
        if scheme == "s3":
            retries = {"total_max_attempts": ATTEMPTS, "mode": "standard"}
            settings["config_kwargs"] = {"retries": retries, **SECONDS}
        store = fsspec.filesystem(scheme, **settings)
    except ImportError:
        raise SnellenError(f"{scheme}:// needs a package that is not installed; install {PACKAGES[scheme]}") from None
    if scheme == "s3":
        store.retries = 2  # of s3fs, for what is cut off on its way; the client tries other requests again by itself
    return store


# Errors -------------------------------------------------------------------------------------------------------------


def codes_of(problem: BaseException) -> set[str]:
    """What a store calls an error, such as NoSuchBucket and the HTTP status."""
    codes = set()
    for cause in _causes(problem):
        response = getattr(cause, "response", None)
        if isinstance(response, dict):
            codes |= {str(response.get("Error", {}).get("Code"))}
            codes |= {str(response.get("ResponseMetadata", {}).get("HTTPStatusCode"))}
    return codes


def _causes(problem: BaseException | None) -> Iterator[BaseException]:
    for _ in range(10):
        if problem is None:
            return
        yield problem
        problem = problem.__cause__ or problem.__context__


@contextmanager
def sentences(url: str, what: str = "read") -> Iterator[None]:
    """Whatever a store raises in the body, as a sentence that does not hold credentials.

    Args:
        url: the object or folder.
        what: what is done to it: read, or written to.
    """
    bucket = "/".join(url.split("/", 3)[:3])
    try:
        yield
    except SnellenError:
        raise
    except Exception as problem:
        raise _sentence(problem, url, bucket, what) from None


def _sentence(problem: Exception, url: str, bucket: str, what: str) -> SnellenError:
    codes, names = codes_of(problem), {type(cause).__name__ for cause in _causes(problem)}
    if "NoSuchBucket" in codes or "bucket does not exist" in str(problem):
        return SnellenError(f"there is no bucket '{bucket}'; check its name and the endpoint of your store")
    if isinstance(problem, FileNotFoundError):
        return MissingObjectError(f"there is nothing at '{url}'; check its name and the endpoint of your store")
    if isinstance(problem, PermissionError) or codes & set(_REFUSED):
        return SnellenError(f"'{url}' may not be {what} with your credentials; ask for the right to, or use others")
    if names & set(_NO_CREDENTIALS):
        return SnellenError(
            f"there are no credentials for '{bucket}'; set those that your store's own tools read, such as AWS_PROFILE, "
            "or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    if "SlowDown" in codes or "503" in codes:
        return SnellenError(f"the store of '{bucket}' asks for fewer requests; wait, and give the same command again")
    if isinstance(problem, TimeoutError | ConnectionError) or any(
        part in name for name in names for part in ("Connect", "Timeout", "HTTPClient", "ClientPayload")
    ):
        return SnellenError(
            f"the store of '{bucket}' does not answer; check the network and its endpoint, and give the same command again"
        )
    return SnellenError(f"'{url}' cannot be {what} ({first_line(problem)})")
