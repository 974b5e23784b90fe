"""What stands between the pages and the world: headers, signatures of forms, rates, and the size of what is sent."""

from __future__ import annotations

import hmac
import ipaddress
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal
from urllib.parse import parse_qsl

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from snellen.study.folder import Study

REHEARSAL = "x-snellen-rehearsal"
"""The header that marks a simulated participant."""

LARGEST = 16_384
"""Bytes of a form; the longest that a page asks for has a few hundred."""

FIELDS = 64
"""Fields of a form."""

_POLICY = (
    "default-src 'none'; img-src 'self'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: dict[str, str] = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "x-robots-tag": "noindex, nofollow",
}
"""What every response carries."""


@dataclass(frozen=True, eq=False)
class Guarded:
    """An application whose every response carries `HEADERS`, and is kept by nobody unless it says so."""

    app: ASGIApp
    secure: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        always = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
        if self.secure:
            always.append((b"strict-transport-security", b"max-age=31536000"))

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = message.setdefault("headers", [])
                kept = [] if any(name.lower() == b"cache-control" for name, _ in own) else [(b"cache-control", b"no-store")]
                message["headers"] = [*own, *always, *kept]
            await send(message)

        await self.app(scope, receive, guarded)


# Forms -------------------------------------------------------------------------------------------------------------------

Form = Mapping[str, list[str]]
"""What a form sent: every field with all its values."""


async def read_form(request: Request) -> Form:
    """The fields of a form; what is too large or no form is refused before it is read."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise HTTPException(415)
    body = b""
    try:
        async for part in request.stream():
            body += part
            if len(body) > LARGEST:
                raise HTTPException(413)
    except ClientDisconnect:
        raise HTTPException(400) from None
    try:
        pairs = parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=FIELDS)
    except ValueError:
        raise HTTPException(400) from None
    form: dict[str, list[str]] = {}
    for name, value in pairs:
        form.setdefault(name, []).append(value)
    return form


def first(form: Form, name: str) -> str | None:
    """The first value of a field."""
    return form[name][0] if form.get(name) else None


def same(one: str | None, other: str) -> bool:
    """Whether two secrets are the same, in a time that does not tell how far they are."""
    return one is not None and hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())


@dataclass(frozen=True, eq=False)
class Seal:
    """Marks that a form came from this server, for this visitor and this page, and when."""

    study: Study
    now: Callable[[], float] = time.time

    def form(self, token: str, page: str) -> str:
        """The mark of a form."""
        return self.study.sign("form", token, page)

    def holds(self, form: Form, token: str, page: str) -> bool:
        """Whether a form carries the mark."""
        return same(first(form, "csrf"), self.form(token, page))

    def shown(self, token: str, page: str) -> str:
        """When a page was shown: now, signed."""
        at = str(round(self.now() * 1000))
        return f"{at}.{self.study.sign('shown', token, page, at)[:32]}"

    def since(self, shown: str | None, token: str, page: str) -> float | None:
        """Seconds since a page was shown; None where that is not signed by this server."""
        at, _, mark = (shown or "").partition(".")
        if not re.fullmatch(r"[0-9]{1,16}", at) or not same(mark, self.study.sign("shown", token, page, at)[:32]):
            return None
        return max(0.0, self.now() - int(at) / 1000)


# Rates -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rate:
    """So many at once, and then so many per second."""

    burst: int
    per_second: float


Kind = Literal["view", "send", "arrive", "login"]
RATES: dict[Kind, Rate] = {
    "view": Rate(6000, 600.0),
    "send": Rate(1000, 100.0),
    "arrive": Rate(400, 5.0),
    "login": Rate(10, 0.1),
}
"""Per address. A lecture hall of three hundred behind one address gets through; somebody who tries passwords does not."""

ADDRESSES = 20_000
"""Addresses whose rates are remembered; the ones that were quiet longest are forgotten first."""


@dataclass(frozen=True, eq=False)
class Rates:
    """How much each address has left of each rate, in memory."""

    rates: Mapping[Kind, Rate] = field(default_factory=lambda: RATES)
    now: Callable[[], float] = time.monotonic
    _left: OrderedDict[tuple[Kind, str], tuple[float, float]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def wait(self, kind: Kind, address: str) -> int:
        """Seconds to wait; 0 where the request may pass, and then it is counted."""
        rate, now = self.rates[kind], self.now()
        with self._lock:
            left, at = self._left.pop((kind, address), (float(rate.burst), now))
            left = min(float(rate.burst), left + (now - at) * rate.per_second)
            passes = left >= 1
            self._left[kind, address] = (left - 1 if passes else left, now)
            while len(self._left) > ADDRESSES:
                self._left.popitem(last=False)
        return 0 if passes else math.ceil((1 - left) / rate.per_second)


def address_of(request: Request, *, behind_proxy: bool) -> str:
    """Whom a request is counted for. A proxy's word is taken only where one was announced, and only its own last entry."""
    host = request.client.host if request.client else ""
    if behind_proxy:
        host = request.headers.get("x-forwarded-for", "").rpartition(",")[2].strip() or host
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return host[:64]
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    # Who has one address of version 6 has 2**64 of them, unless it is one of version 4 in disguise.
    return str(found.ipv4_mapped or ipaddress.ip_network((found, 64), strict=False))
