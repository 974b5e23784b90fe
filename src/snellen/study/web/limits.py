"""How much of the server one visitor may use: connections, time to send a request, and the size of its parts.

uvicorn's own limits are not enough: `limit_concurrency` also counts idle connections, and so refuses the requests of
others; and its parser accepts heads of any size, in any time. So its protocol is limited here.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from snellen.study.web.security import LARGEST, Proxies, network_of

RESERVED = 128
"""File descriptors that are reserved for the database, files and the server itself."""

SENDING = 262_144
"""Bytes of a response that the system buffers; with megabytes the server could not see whether a slow visitor reads any."""

MOST = 2000
"""Connections at once, also where there are more descriptors."""

_WORDS = {
    413: b"This is more than a form of this study holds.\n",
    431: b"The head of this request is too long.\n",
    503: b"Too many people are here at this moment. Please try again in a few seconds; nothing is lost.\n",
}


@dataclass(frozen=True, eq=False)
class Limits:
    """What the connections of a server may use."""

    connections: int
    """How many there may be at once. A further connection ends the one that has waited longest for a request."""
    per_address: int
    """How many of them may come from one address; proxies that are trusted may have them all."""
    head: int = 32_768
    """Bytes of a request's first line and headers."""
    body: int = 4 * LARGEST
    """Bytes that may follow; pages refuse forms of more than `LARGEST` themselves, with an explanation."""
    patience: float = 30.0
    """Seconds in which a whole request must arrive, and in which a visitor must read some part of a response."""
    pipelined: int = 16
    """Requests that may wait behind each other on one connection; browsers send none."""
    proxies: Proxies = field(default_factory=Proxies)
    """Those whose connections are not limited by address."""

    @staticmethod
    def of(per_address: int | None = None, proxies: Proxies | None = None) -> Limits:
        """As many as this process has file descriptors for, and half of them for one address."""
        connections = max(8, min(MOST, _descriptors() - RESERVED))
        return Limits(connections, per_address or connections // 2, proxies=proxies or Proxies())


def _descriptors() -> int:
    try:
        import resource
    except ImportError:  # Windows, whose own limit is higher
        return MOST
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST + RESERVED if most == resource.RLIM_INFINITY else most


class LimitedProtocol(HttpToolsProtocol):
    """uvicorn's protocol within limits; `within` makes the class of one server."""

    limits: ClassVar[Limits]
    counts: ClassVar[Counter[str]]
    """By address, how many connections."""
    address = ""
    """Empty for a trusted proxy."""
    waiting: float | None = None
    """Since when this connection waits for a whole request; None while a request is being answered."""
    _in_head, _left = True, 0
    _unsent: tuple[float, int] | None = None
    _watching: asyncio.TimerHandle | None = None

    @staticmethod
    def within(limits: Limits) -> type[LimitedProtocol]:
        """The protocol of a server with these limits."""
        return type("LimitedProtocol", (LimitedProtocol,), {"limits": limits, "counts": Counter()})

    # The connection --------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:  # uvloop's does not derive from asyncio's
        super().connection_made(transport)
        host = self.client[0] if self.client else ""
        self.address = "" if host in self.limits.proxies else network_of(host)
        self.counts[self.address] += 1
        self.waiting, self._left = self.loop.time(), self.limits.head
        if self.address and self.counts[self.address] > self.limits.per_address:
            self._end_longest_idle(
                [connection for connection in self.connections if getattr(connection, "address", None) == self.address]
            )
        elif len(self.connections) > self.limits.connections:
            self._end_longest_idle(self.connections)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.counts[self.address] -= 1
        if not self.counts[self.address]:
            del self.counts[self.address]
        if self._watching is not None:
            self._watching.cancel()

    def _end_longest_idle(self, others: Iterable[Any]) -> None:
        """Ends the connection that has waited longest; where all are being answered, this one is refused."""
        idle = [
            other for other in others if other is not self and other.waiting is not None and not other.transport.is_closing()
        ]
        if idle:
            min(idle, key=lambda connection: connection.waiting).transport.abort()
        else:
            self._refuse(503)

    def _refuse(self, status: int) -> None:
        if self.cycle is None or self.cycle.response_complete:
            words = _WORDS[status]
            head = b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\nretry-after: 5\r\ncontent-length: "
            self.transport.write(STATUS_LINE[status] + head + str(len(words)).encode() + b"\r\n\r\n" + words)
        self.transport.close()

    def _watch(self) -> None:
        """Checks a few times per `patience` whether anything was sent or received."""
        now, patience, size = self.loop.time(), self.limits.patience, self.transport.get_write_buffer_size()
        if self.waiting is not None and now - self.waiting > patience and not self.transport.is_closing():
            self.transport.close()
        if not size:
            self._unsent = None
        elif self._unsent is None or size < self._unsent[1]:
            self._unsent = now, size
        elif now - self._unsent[0] > patience:
            self.transport.abort()
        self._watching = self.loop.call_later(patience / 4, self._watch)

    # The request -----------------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        while data and not self.transport.is_closing():
            part, data = data[: self._left], data[self._left :]
            self._left -= len(part)
            super().data_received(part)
            if self._left <= 0 and not self.transport.is_closing():
                self._refuse(431 if self._in_head else 413)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.waiting = self.loop.time()

    def on_headers_complete(self) -> None:
        self._in_head, self._left = False, self.limits.body
        if len(self.pipeline) >= self.limits.pipelined:
            self.transport.abort()
        if not self.transport.is_closing():
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_head, self._left, self.waiting = True, self.limits.head, None
        super().on_message_complete()
        if self.cycle.response_complete:
            self.waiting = self.loop.time()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.waiting is None and self.cycle.response_complete:
            self.waiting = self.loop.time()
