"""The web application of a study: routes, error pages and the server."""

from __future__ import annotations

import errno
import logging
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil

import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from snellen.errors import SnellenError
from snellen.study.answers.store import AnswerStore
from snellen.study.folder import Study
from snellen.study.web.experimenter_pages import ExperimenterPages
from snellen.study.web.limits import MOST, SENDING, LimitedProtocol, Limits
from snellen.study.web.page_context import pictures_of
from snellen.study.web.participant_pages import ParticipantPages
from snellen.study.web.security import Forwarded, Proxies, RequestKind, SecureHeaders
from snellen.study.web.site import THREADS, Site

FOREVER = "max-age=31536000, immutable"

_PROBLEMS = {404: "missing", 405: "method", 413: "large", 429: "often", 500: "server"}
_PICTURES = {"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp"}

log = logging.getLogger("snellen.study")


def application(
    study: Study, store: AnswerStore, *, secure: bool = False, proxies: Proxies | None = None, per_address: int | None = None
) -> Starlette:
    """The web application of a study.

    Args:
        study: The study.
        store: Its answers.
        secure: Whether it is reached by https only.
        proxies: The proxies in front of it, if any.
        per_address: How many requests of one address are answered at once. Connections are limited too, but those of a
            proxy belong to many visitors.
    """
    site = Site.of(study, store, secure=secure)

    async def problem(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return await _problem(site, request, error.status_code, dict(error.headers or {}))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = THREADS
        yield

    app = Starlette(
        routes=[*ParticipantPages(site).routes(), *ExperimenterPages(site).routes(), *StudyFiles(site).routes()],
        middleware=[
            Middleware(SecureHeaders, secure=secure),
            Middleware(Forwarded, proxies=proxies or Proxies()),
            Middleware(RateLimited, site=site, most=per_address or MOST),
        ],
        exception_handlers={HTTPException: problem},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False
    return app


async def _problem(site: Site, request: Request, status: int, headers: dict[str, str], **words: object) -> Response:
    """An error page in the visitor's language."""
    try:
        person = await site.person(site.token(request))
    except Exception:
        person = None
    language = person.language if person is not None and person.language in site.sentences else site.language(request)
    response = site.message(language, "problem", _PROBLEMS.get(status, "form"), status, **words)
    response.headers.update(headers)
    return response


@dataclass(frozen=True, eq=False)
class RateLimited:
    """Middleware that applies the rate limits, and answers exceptions with an error page."""

    app: ASGIApp
    site: Site
    most: int
    """Requests of one address at once."""
    _inside: Counter[str] = field(default_factory=Counter)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, within the limits."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        address = self.site.address(Request(scope))
        self._inside[address] += 1
        try:
            await self._answer(scope, receive, send, address)
        finally:
            self._inside[address] -= 1
            if not self._inside[address]:
                del self._inside[address]

    async def _answer(self, scope: Scope, receive: Receive, send: Send, address: str) -> None:
        request, begun = Request(scope), False

        async def send_and_note(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        kind = _kind(request)
        free = kind != "login" and self.site.is_simulated(request)
        wait = 5 if self._inside[address] > self.most else 0 if free else self.site.rates.wait(kind, address)
        if wait:
            response = await _problem(self.site, request, 429, {"retry-after": str(wait)}, seconds=wait)
            await response(scope, receive, send)
            return
        try:
            await self.app(scope, receive, send_and_note)
        except Exception:
            log.exception("%s %s failed", request.method, request.url.path)
            if begun:
                raise
            response = await _problem(self.site, request, 500, {})
            await response(scope, receive, send)


def _kind(request: Request) -> RequestKind:
    if request.method in ("GET", "HEAD"):
        return "view"
    return {"/consent": "arrive", "/admin/login": "login"}.get(request.scope["path"], "send")  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class StudyFiles:
    """Serves static files to everybody, and pictures to the participants who see them."""

    site: Site

    def routes(self) -> list[Route]:
        """The routes."""
        read = lru_cache(maxsize=1024)(lambda name: (self.site.study.folder / "pictures" / name).read_bytes())
        visible = lru_cache(maxsize=64)(self._visible)

        async def picture(request: Request) -> Response:
            """A picture, for a participant who is to see it, and for the experimenter."""
            name = request.path_params["name"]
            person = await self.site.person(self.site.token(request))
            allowed = person is not None and name in visible(person.group)
            if not allowed and (name not in self.site.study.by_picture or await self.site.session(request) is None):
                raise HTTPException(404)
            kind = _PICTURES.get(name.rpartition(".")[2], "application/octet-stream")
            return Response(read(name), media_type=kind, headers={"cache-control": f"private, {FOREVER}"})

        return [
            Route("/picture/{name}", picture, methods=["GET"]),
            Route("/static/{name}", self.static, methods=["GET"]),
            Route("/health", self.health, methods=["GET"]),
        ]

    def _visible(self, group: int) -> frozenset[str]:
        """The pictures that participants of a group are shown."""
        return frozenset(picture.name for page in self.site.pages(group, 0) for picture in pictures_of(page))

    async def static(self, request: Request) -> Response:
        """A style sheet, a script or a drawing."""
        file = self.site.files.get(request.path_params["name"])
        if file is None:
            raise HTTPException(404)
        return Response(file.content, media_type=file.type, headers={"cache-control": f"public, {FOREVER}"})

    def health(self, request: Request) -> Response:
        """Whether the server and its database answer."""
        return PlainTextResponse(f"ok, {self.site.store.state}\n")


def serve(
    study: Study,
    store: AnswerStore,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    secure: bool = False,
    proxies: Proxies | None = None,
    per_address: int | None = None,
) -> None:
    """Serves the study until it is interrupted; every answer is stored by then.

    Args:
        study: The study.
        store: Its answers.
        host: The address to listen at.
        port: The port to listen at; 0 for any that is free.
        secure: Whether it is reached by https only, through a proxy.
        proxies: The proxies in front of it, if any.
        per_address: Connections and requests of one address at once; by default half of all connections.
    """
    limits = Limits.of(per_address, proxies)
    app = application(study, store, secure=secure, proxies=proxies, per_address=limits.per_address)
    listening = listen(host, port)
    for line in _greeting(study, store, _link(host, listening.getsockname()[1], secure)):
        print(line, flush=True)
    try:
        with _stoppable():
            server(app, limits).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()
    print("stopped; every answer is stored")


def server(app: Starlette, limits: Limits) -> uvicorn.Server:
    """A server within limits that logs no addresses."""
    config = uvicorn.Config(
        app,
        http=LimitedProtocol.within(limits),
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        timeout_keep_alive=ceil(limits.patience),
        timeout_graceful_shutdown=5,
    )
    return uvicorn.Server(config)


@contextmanager
def _stoppable() -> Iterator[None]:
    """Lets SIGTERM, and the end of a terminal, stop the server as Ctrl-C does, so that the database is closed."""

    def stop(*_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    # uvicorn ends its work at SIGTERM, and then sends the signal again to the handler before its own. A signal that is
    # ignored (`nohup`) stays ignored.
    ending = [number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None)) is not None]
    ending = [number for number in ending if signal.getsignal(number) is signal.SIG_DFL]
    for number in ending:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in ending:
            signal.signal(number, signal.SIG_DFL)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens at this address."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SENDING)  # connections inherit it
    try:
        listening.bind((host, port))
        listening.listen(1024)  # from here on the links work: early visitors wait until the server is up
    except (OSError, OverflowError) as problem:
        listening.close()
        why = "is in use" if getattr(problem, "errno", 0) == errno.EADDRINUSE else f"cannot be opened ({problem})"
        raise SnellenError(f"port {port} of {host} {why}; choose another with --port") from None
    listening.set_inheritable(True)
    return listening


def _link(host: str, port: int, secure: bool) -> str:
    name = {"0.0.0.0": "localhost", "::": "localhost"}.get(host, f"[{host}]" if ":" in host else host)
    return f"{'https' if secure else 'http'}://{name}:{port}"


def _greeting(study: Study, store: AnswerStore, link: str) -> list[str]:
    counts = dict.fromkeys(("finished", "started", "withdrawn"), 0)
    for participation in store.participations(simulated=False):
        counts[participation.state] += 1
    return [
        f"study: {study.protocol.title} ({store.state}; {counts['finished']} finished, {counts['started']} begun)",
        f"participants: {link}/",
        f"experimenter: {link}/admin (a lost password: `snellen study password {study.folder}` makes a new one)",
    ]
