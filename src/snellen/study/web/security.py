"""Security of the pages: response headers, form signatures, rate limits, proxies, and the size of requests."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal
from urllib.parse import parse_qsl

from itsdangerous import BadSignature, Signer
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from snellen.errors import SnellenError
from snellen.study.folder import Study

log = logging.getLogger("snellen.study")

IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

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
"""Sent with every response."""


@dataclass(frozen=True, eq=False)
class SecureHeaders:
    """Middleware that adds `HEADERS` to every response and forbids caching unless the response allows it."""

    app: ASGIApp
    secure: bool
    """Whether the study is reached by https only."""

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
                caching = (
                    [] if any(name.lower() == b"cache-control" for name, _ in own) else [(b"cache-control", b"no-store")]
                )
                message["headers"] = [*own, *always, *caching]
            await send(message)

        await self.app(scope, receive, guarded)


# Forms -------------------------------------------------------------------------------------------------------------------

FormFields = Mapping[str, list[str]]
"""What a form sent: every field with all its values."""


async def read_form(request: Request) -> FormFields:
    """The fields of a form; raises HTTPException where the body is no form or too large."""
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


def first(form: FormFields, name: str) -> str | None:
    """The first value of a field."""
    return form[name][0] if form.get(name) else None


def same(first_secret: str | None, other: str) -> bool:
    """Whether two secrets are equal, compared in constant time."""
    return first_secret is not None and hmac.compare_digest(first_secret.encode("utf-8", "replace"), other.encode())


@dataclass(frozen=True, eq=False)
class Seal:
    """Signs what the server sends: tokens of participants, forms (by visitor and page), and when a page was sent."""

    study: Study
    now: Callable[[], float] = time.time
    """The clock, in seconds since 1970; tests set another."""

    def _signer(self, *context: str) -> Signer:
        return Signer(self.study.key, "\0".join(context), key_derivation="hmac", digest_method=hashlib.sha256)

    def signed(self, token: str) -> str:
        """A participant's token with its signature, for a cookie."""
        return self._signer("participant").sign(token).decode()

    def issued(self, cookie: str) -> str | None:
        """The token of a cookie that this server made; None for all others."""
        try:
            return self._signer("participant").unsign(cookie).decode()
        except BadSignature:
            return None

    def form(self, token: str, page: str) -> str:
        """The signature of a form: of a page, for the holder of a token."""
        return self._signer("form", token).get_signature(page).decode()

    def verifies(self, form: FormFields, token: str, page: str) -> bool:
        """Whether a form carries the signature of this page and token."""
        signature = first(form, "csrf") or ""
        # A form that was open while the server was updated carries a signature in an earlier format.
        return self._signer("form", token).verify_signature(page, signature) or same(
            signature, self.study.sign("form", token, page)
        )

    def shown(self, token: str, page: str) -> str:
        """The current time, signed: when a page was sent."""
        return self._signer("shown", token, page).sign(str(round(self.now() * 1000))).decode()

    def since(self, shown: str | None, token: str, page: str) -> float | None:
        """Seconds since a page was sent, from the result of `shown`; None where this server did not sign it."""
        at, _, signature = (shown or "").partition(".")
        signed = self._signer("shown", token, page).validate(shown or "")
        if not signed and not same(signature, self.study.sign("shown", token, page, at)[:32]):  # as in `verifies`
            return None
        return max(0.0, self.now() - int(at) / 1000)


# Rates -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rate:
    """A rate limit of one address."""

    burst: int
    """Requests at once."""
    per_second: float
    """Requests per second after these."""


RequestKind = Literal["view", "send", "arrive", "login"]
RATES: dict[RequestKind, Rate] = {
    "view": Rate(6000, 600.0),
    "send": Rate(1000, 100.0),
    "arrive": Rate(400, 5.0),
    "login": Rate(10, 0.1),
}
"""Per address: enough for three hundred participants behind one address, and not enough to guess passwords."""

ADDRESSES = 20_000
"""Addresses whose rates are in memory; those without requests for longest are dropped first."""


@dataclass(frozen=True, eq=False)
class Rates:
    """How much each address has left of each rate, in memory."""

    rates: Mapping[RequestKind, Rate] = field(default_factory=lambda: RATES)
    now: Callable[[], float] = time.monotonic
    """The clock, in seconds; tests set another."""
    _left: OrderedDict[tuple[RequestKind, str], tuple[float, float]] = field(default_factory=OrderedDict)
    _lock: Lock = field(default_factory=Lock)

    def wait(self, kind: RequestKind, address: str) -> int:
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


@dataclass(frozen=True)
class Proxies:
    """Networks of proxies whose X-Forwarded-For header is trusted."""

    networks: tuple[IPNetwork, ...] = ()

    @staticmethod
    def of(names: str) -> Proxies:
        """Reads comma-separated addresses and networks, such as `127.0.0.1,10.2.0.0/16`."""
        try:
            return Proxies(tuple(ipaddress.ip_network(part.strip()) for part in names.split(",")))
        except ValueError as problem:
            raise SnellenError(
                f"--proxies must be addresses or networks, comma-separated, such as 127.0.0.1,10.2.0.0/16: {problem}"
            ) from None

    def __contains__(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return any((mapped or address) in network for network in self.networks)

    @property
    def names(self) -> list[str]:
        """All networks for uvicorn, with IPv4 networks also as IPv4-mapped IPv6 ones."""
        mapped = [
            f"::ffff:{network.network_address}/{96 + network.prefixlen}" for network in self.networks if network.version == 4
        ]
        return [*map(str, self.networks), *mapped]


class Forwarded(ProxyHeadersMiddleware):
    """Replaces the address of a trusted proxy by the last address before all such proxies, from X-Forwarded-For.

    The header is ignored where it comes from any other address; a warning is logged once.
    """

    def __init__(self, app: ASGIApp, proxies: Proxies) -> None:
        super().__init__(app, proxies.names)  # type: ignore[arg-type]
        self.proxies, self.warned = proxies, False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # type: ignore[override]
        """Passes a request on."""
        stranger = scope["type"] == "http" and (scope.get("client") or ("",))[0] not in self.proxies
        if stranger and not self.warned and any(name == b"x-forwarded-for" for name, _ in scope["headers"]):
            self.warned = True
            log.warning(
                "X-Forwarded-For came from an address that is no trusted proxy, and is ignored; "
                "if there is a proxy in front, give its address: --behind-proxy --proxies ADDRESS"
            )
        await super().__call__(scope, receive, send)  # type: ignore[arg-type]


def address_of(request: Request) -> str:
    """The address to which the rate limits of a request apply."""
    return network_of(request.client.host if request.client else "")


def network_of(host: str) -> str:
    """The address itself, or the /64 network of an IPv6 address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host[:64]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    # A visitor usually owns all 2**64 addresses of an IPv6 network; an IPv4-mapped address is a single one.
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))
