"""Lease: the right to write below a URL of S3, held by a lock object that is only ever replaced under its entity tag.

The owner renews the lock every `BEAT` seconds. Whoever finds a lock that nobody has renewed for `EXPIRES` seconds, by the
clock of the store, may replace it; of several the store lets in one, because each says which version it replaces. An owner
that has not renewed its lock for `FRESH` seconds renews it before it writes anything, or stops. What it has begun to send by
then is given up (see the limits in `remote`) before another writer may come in.
"""

from __future__ import annotations

import json
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from snellen.errors import SnellenError
from snellen.files.folder import InUseError
from snellen.files.remote import codes_of, in_loop, path_of, sentences, store_of

BEAT = 15.0
"""Seconds between renewals."""
FRESH = 60.0
"""Seconds after a renewal in which its owner may begin to write."""
EXPIRES = 300.0
"""Seconds after a renewal at which another writer may take the lock over."""

_UNMET = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}
_UNSUPPORTED = {"NotImplemented", "501"}


@dataclass(frozen=True)
class Held:
    """What a lock object says."""

    owner: str | None
    """None once it was released."""
    count: int
    """How often its owner has written it."""
    host: str
    """The computer of the owner."""
    tag: str
    """Entity tag of this version."""
    age: float
    """Seconds since it was written, by the clock of the store."""


class Lease:
    """The lock of one writer.

    Args:
        url: of the lock object.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._owner = secrets.token_hex(16)
        self._count = 0
        self._tag = ""
        self._renewed = (0.0, 0.0)
        self._lost = False
        self._turn = threading.Lock()
        self._ended = threading.Event()

    @contextmanager
    def held(self) -> Iterator[Lease]:
        """Takes the lock, renews it in the background, and releases it."""
        self._acquire()
        beat = threading.Thread(target=self._beat, name="snellen-lease", daemon=True)
        beat.start()
        try:
            yield self
        finally:
            self._ended.set()
            beat.join()
            with suppress(SnellenError):  # it expires by itself
                self._release()

    def check(self) -> None:
        """Makes sure that this writer has the lock for long enough to write something."""
        with self._turn:
            if not self._lost and not self._is_fresh():
                self._renew()
            if self._lost:
                raise SnellenError(
                    f"another run has taken over '{self.url.rpartition('/')[0]}', because this one was silent for more than "
                    f"{EXPIRES:.0f} seconds; wait until it ends and give the same command again: finished work is kept"
                )

    def _acquire(self) -> None:
        started = _now()
        tag = self._put("*")
        if tag is None:
            held = self._read()
            if held.owner != self._owner and (held.owner is None or held.age >= EXPIRES):
                tag = self._put(held.tag)
                held = held if tag is not None else self._read()
            if tag is None and held.owner == self._owner:  # it was written, but the answer of the store was lost
                tag = held.tag
            if tag is None:
                rest = max(1, round(EXPIRES - held.age))
                raise InUseError(
                    f"wait until it ends or choose another --out; if it was killed on '{held.host}', its lock ends by "
                    f"itself in {rest} seconds"
                )
        self._tag, self._renewed = tag, started
        if self._put("*") is not None or self._put("0" * 32) is not None:
            raise self._unsupported()

    def _renew(self) -> None:
        started = _now()
        tag = self._put(self._tag)
        if tag is None:
            held = self._read()
            if (held.owner, held.count) != (self._owner, self._count):
                self._lost = True
                return
            tag = held.tag
        self._tag, self._renewed = tag, started

    def _beat(self) -> None:
        while not self._ended.wait(BEAT):
            with self._turn, suppress(SnellenError):  # it is tried again, and before the next writing
                if self._lost:
                    return
                self._renew()

    def _release(self) -> None:
        with self._turn:
            if not self._lost:
                self._put(self._tag, released=True)

    def _is_fresh(self) -> bool:
        """Whether the last renewal is recent; both clocks are asked, as one of them stops while a computer sleeps."""
        return all(0 <= now - before < FRESH for now, before in zip(_now(), self._renewed, strict=True))

    def _put(self, condition: str, *, released: bool = False) -> str | None:
        """Writes the lock if there is none (`*`), or if it has this tag; returns the new tag, or None if that is not so."""
        self._count += 1
        facts = {"owner": None if released else self._owner, "count": self._count, "host": socket.gethostname()}
        store = store_of(self.url)
        bucket, key, _ = store.split_path(path_of(store, self.url))
        conditions = {"IfNoneMatch": "*"} if condition == "*" else {"IfMatch": f'"{condition}"'}
        with sentences(self.url, "written to"):
            try:
                content = json.dumps(facts).encode()
                tag: str = store.call_s3("put_object", Bucket=bucket, Key=key, Body=content, **conditions)["ETag"].strip('"')
            except Exception as problem:
                if codes_of(problem) & _UNSUPPORTED:
                    raise self._unsupported() from None
                if codes_of(problem) & _UNMET:
                    return None
                raise
        return tag

    def _read(self) -> Held:
        store = store_of(self.url)
        bucket, key, _ = store.split_path(path_of(store, self.url))

        async def get() -> tuple[dict[str, Any], bytes]:
            response = await store._call_s3("get_object", Bucket=bucket, Key=key)
            async with response["Body"] as body:
                return response, await body.read()

        with sentences(self.url):
            response, content = in_loop(store, get)
        try:
            facts = json.loads(content)
            owner, count, host = facts["owner"], int(facts["count"]), str(facts["host"])
        except (ValueError, TypeError, KeyError):
            raise SnellenError(f"'{self.url}' is not the lock of a run; remove it if no run writes there") from None
        now = parsedate_to_datetime(response["ResponseMetadata"]["HTTPHeaders"]["date"])
        age = (now - response["LastModified"]).total_seconds()
        return Held(owner=owner, count=count, host=host, tag=response["ETag"].strip('"'), age=age)

    def _unsupported(self) -> SnellenError:
        bucket = "/".join(self.url.split("/", 3)[:3])
        return SnellenError(
            f"the store of '{bucket}' does not keep to the conditions of a write, so two runs could write to one folder; "
            "choose a local --out"
        )


def _now() -> tuple[float, float]:
    return time.monotonic(), time.time()
