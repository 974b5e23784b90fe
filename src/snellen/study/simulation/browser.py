"""As much of a browser as simulated participants need: connections that are kept, cookies, a cache, and pages taken apart.

The work is shared with the server on one machine when a study is simulated, so that there is no more here than is needed.
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
"""Seconds after which nobody waits for an answer any longer."""

_Line = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class NoResponseError(Exception):
    """The server could not be reached, broke off, or was silent for too long."""


@dataclass(frozen=True)
class Response:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def location(self) -> str:
        """Where it leads on to; nothing where it does not."""
        return self.headers.get("location", "") if self.status in (301, 302, 303, 307, 308) else ""


@dataclass
class PageView:
    """What a page shows: the kind of page, its form, its pictures, and its words."""

    kind: str = ""
    page: str = ""
    heading: str = ""
    text: str = ""
    """The words of its paragraphs."""
    fields: dict[str, str] = field(default_factory=dict)
    """Hidden fields of its form."""
    pictures: list[str] = field(default_factory=list)
    """Names of pictures of the study, in order."""
    ahead: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    pages: int = 0
    place: int = 0
    """The progress that is shown, from 1."""

    @staticmethod
    def of(body: bytes) -> PageView:
        """A page from its HTML."""
        reader = _Reader()
        reader.feed(body.decode())
        reader.close()
        return reader.shown


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.shown, self._open, self._form = PageView(), "", ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given, shown = {name: value or "" for name, value in attrs}, self.shown
        if tag == "main":
            shown.kind, shown.page = given.get("data-kind", ""), given.get("data-page", "")
            shown.ahead = given.get("data-ahead", "").split()
        elif tag == "form":
            self._form = given.get("action", "")
        elif tag == "input" and given.get("type") == "hidden" and self._form in ("/page", "/consent"):
            shown.fields[given.get("name", "")] = given.get("value", "")
        elif tag == "img" and given.get("src", "").startswith("/picture/"):
            shown.pictures.append(given["src"].removeprefix("/picture/"))
        elif tag in ("img", "script", "link") and (link := given.get("src") or given.get("href", "")):
            shown.files.append(link)
        elif tag == "progress":
            shown.place, shown.pages = int(given.get("value", 0)), int(given.get("max", 0))
        elif tag in ("h1", "p"):
            self._open = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self._open:
            self._open = ""
        elif tag == "form":
            self._form = ""

    def handle_data(self, data: str) -> None:
        if self._open == "h1":
            self.shown.heading += data
        elif self._open == "p" and self.shown.kind:
            self.shown.text += data


@dataclass(eq=False)
class Browser:
    """One person's browser. `times` collects the seconds of every kind of request, over many browsers."""

    link: str
    headers: Mapping[str, str] = field(default_factory=dict)
    times: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    cookies: dict[str, str] = field(default_factory=dict)
    _free: list[_Line] = field(default_factory=list)
    _kept: set[str] = field(default_factory=set)

    async def get(self, path: str, kind: str) -> Response:
        """Fetches an address."""
        return await self._request("GET", path, None, kind)

    async def post(self, path: str, fields: Sequence[tuple[str, str]], kind: str) -> Response:
        """Sends a form."""
        return await self._request("POST", path, urlencode(fields).encode(), kind)

    async def load(self, path: str, kind: str) -> Response | None:
        """Fetches a picture or a file, unless the cache may still have it."""
        if path in self._kept:
            return None
        found = await self.get(path, kind)
        age = re.search(r"max-age=(\d+)", found.headers.get("cache-control", ""))
        if found.status == 200 and age and int(age[1]) > 3600:
            self._kept.add(path)
        return found

    def close(self) -> None:
        """Closes all connections."""
        while self._free:
            self._free.pop()[1].close()

    async def _request(self, method: str, path: str, body: bytes | None, kind: str) -> Response:
        began = time.perf_counter()
        try:
            async with asyncio.timeout(PATIENCE):
                found = await self._exchange(self._written(method, path, body))
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError) as problem:
            raise NoResponseError(f"{method} {path}: {problem or type(problem).__name__}") from None
        self.times[kind].append(time.perf_counter() - began)
        return found

    async def _exchange(self, request: bytes) -> Response:
        while self._free:
            line = self._free.pop()
            try:
                return await self._asked(line, request)
            except (OSError, asyncio.IncompleteReadError):
                # A kept connection may have ended meanwhile; every browser then tries once more on a new one.
                line[1].close()
        parts = urlsplit(self.link)
        secure = parts.scheme == "https"
        line = await asyncio.open_connection(parts.hostname, parts.port or (443 if secure else 80), ssl=secure or None)
        try:
            return await self._asked(line, request)
        except BaseException:
            line[1].close()
            raise

    async def _asked(self, line: _Line, request: bytes) -> Response:
        reader, writer = line
        writer.write(request)
        await writer.drain()
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {}
        for one in head[1:-2]:
            name, _, value = one.partition(":")
            if name.lower() == "set-cookie":
                cookie, _, secret = value.partition(";")[0].strip().partition("=")
                self.cookies[cookie] = secret
            headers[name.lower()] = value.strip()
        found = await reader.readexactly(int(headers.get("content-length", 0)))
        if headers.get("connection", "").lower() == "close":
            writer.close()
        else:
            self._free.append(line)
        return Response(int(head[0].split(" ", 2)[1]), headers, found)

    def _written(self, method: str, path: str, body: bytes | None) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", f"Host: {urlsplit(self.link).netloc}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if self.cookies:
            lines.append("Cookie: " + "; ".join(f"{name}={value}" for name, value in self.cookies.items()))
        if body is not None:
            lines += ["Content-Type: application/x-www-form-urlencoded", f"Content-Length: {len(body)}"]
        return "\r\n".join([*lines, "", ""]).encode() + (body or b"")
