"""As much of a browser as simulated participants need: open connections, cookies, a cache, and parsed pages.

It runs on the same machine as the server, so it does as little as possible.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlencode, urlsplit

PATIENCE = 60.0
"""Seconds after which a request is given up."""

_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class NoResponseError(Exception):
    """The server could not be reached, closed the connection, or did not answer in time."""


@dataclass(frozen=True)
class Response:
    """A response of the server."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def location(self) -> str:
        """Where it redirects to; empty where it does not."""
        return self.headers.get("location", "") if self.status in (301, 302, 303, 307, 308) else ""


@dataclass
class PageView:
    """A parsed page: its kind, its form, its pictures, and its words."""

    kind: str = ""
    """As in `schedule.Page`; also consent, end and withdrawn."""
    page: str = ""
    """The id of the page."""
    heading: str = ""
    text: str = ""
    """The words of its paragraphs."""
    fields: dict[str, str] = field(default_factory=dict)
    """Hidden fields of its form."""
    pictures: list[str] = field(default_factory=list)
    """Names of pictures of the study, in order."""
    ahead: list[str] = field(default_factory=list)
    """Names of pictures of the next pages, which a browser loads in advance."""
    files: list[str] = field(default_factory=list)
    """Addresses of style sheets and scripts."""
    pages: int = 0
    number: int = 0
    """The progress on the page: its number from 1, of so many pages."""

    @staticmethod
    def of(body: bytes) -> PageView:
        """A page from its HTML."""
        reader = _Reader()
        reader.feed(body.decode())
        reader.close()
        return reader.view


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.view, self._open, self._form = PageView(), "", ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes, view = {name: value or "" for name, value in attrs}, self.view
        if tag == "main":
            view.kind, view.page = attributes.get("data-kind", ""), attributes.get("data-page", "")
            view.ahead = attributes.get("data-ahead", "").split()
        elif tag == "form":
            self._form = attributes.get("action", "")
        elif tag == "input" and attributes.get("type") == "hidden" and self._form in ("/page", "/consent"):
            view.fields[attributes.get("name", "")] = attributes.get("value", "")
        elif tag == "img" and attributes.get("src", "").startswith("/picture/"):
            view.pictures.append(attributes["src"].removeprefix("/picture/"))
        elif tag in ("img", "script", "link") and (link := attributes.get("src") or attributes.get("href", "")):
            view.files.append(link)
        elif tag == "progress":
            view.number, view.pages = int(attributes.get("value", 0)), int(attributes.get("max", 0))
        elif tag in ("h1", "p"):
            self._open = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self._open:
            self._open = ""
        elif tag == "form":
            self._form = ""

    def handle_data(self, data: str) -> None:
        if self._open == "h1":
            self.view.heading += data
        elif self._open == "p" and self.view.kind:
            self.view.text += data


@dataclass(eq=False)
class Browser:
    """The browser of one participant."""

    link: str
    """The address of the study."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with every request."""
    times: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """By kind of request, seconds; shared by many browsers."""
    cookies: dict[str, str] = field(default_factory=dict)
    _idle: list[_Connection] = field(default_factory=list)
    _cached: set[str] = field(default_factory=set)

    async def get(self, path: str, kind: str) -> Response:
        """Fetches an address; `kind` names the request in `times`."""
        return await self._request("GET", path, None, kind)

    async def post(self, path: str, fields: Sequence[tuple[str, str]], kind: str) -> Response:
        """Sends a form; `kind` names the request in `times`."""
        return await self._request("POST", path, urlencode(fields).encode(), kind)

    async def load(self, path: str, kind: str) -> Response | None:
        """Fetches a picture or a file, unless it is in the cache."""
        if path in self._cached:
            return None
        response = await self.get(path, kind)
        age = re.search(r"max-age=(\d+)", response.headers.get("cache-control", ""))
        if response.status == 200 and age and int(age[1]) > 3600:
            self._cached.add(path)
        return response

    def close(self) -> None:
        """Closes all connections."""
        while self._idle:
            self._idle.pop()[1].close()

    async def _request(self, method: str, path: str, body: bytes | None, kind: str) -> Response:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(PATIENCE):
                response = await self._exchange(self._request_bytes(method, path, body))
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError) as problem:
            raise NoResponseError(f"{method} {path}: {problem or type(problem).__name__}") from None
        self.times[kind].append(time.perf_counter() - began)
        return response

    async def _exchange(self, request: bytes) -> Response:
        while self._idle:
            connection = self._idle.pop()
            try:
                return await self._send(connection, request)
            except (OSError, asyncio.IncompleteReadError):
                # An idle connection may have been closed; browsers then try once more on a new one.
                connection[1].close()
        parts = urlsplit(self.link)
        secure = parts.scheme == "https"
        connection = await asyncio.open_connection(parts.hostname, parts.port or (443 if secure else 80), ssl=secure or None)
        try:
            return await self._send(connection, request)
        except BaseException:
            connection[1].close()
            raise

    async def _send(self, connection: _Connection, request: bytes) -> Response:
        reader, writer = connection
        writer.write(request)
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {}
        for header in head[1:-2]:
            name, _, value = header.partition(":")
            if name.lower() == "set-cookie":
                cookie, _, secret = value.partition(";")[0].strip().partition("=")
                self.cookies[cookie] = secret
            headers[name.lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if headers.get("connection", "").lower() == "close":
            writer.close()
        else:
            self._idle.append(connection)
        return Response(int(head[0].split(" ", 2)[1]), headers, body)

    def _request_bytes(self, method: str, path: str, body: bytes | None) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {urlsplit(self.link).netloc}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if self.cookies:
            lines.append("Cookie: " + "; ".join(f"{name}={value}" for name, value in self.cookies.items()))
        if body is not None:
            lines += ["Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", ""]).encode() + (body or b"")
