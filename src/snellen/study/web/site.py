"""What all pages of a served study share: texts, templates, static files, cookies and languages."""

from __future__ import annotations

import asyncio
import hashlib
import re
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from threading import Lock
from typing import TypeVar

import anyio
import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from snellen.errors import SnellenError
from snellen.study.answers.store import AnswerStore, Participant
from snellen.study.folder import Study
from snellen.study.schedule import Page
from snellen.study.tasks import find_task
from snellen.study.web.example import examples
from snellen.study.web.security import REHEARSAL, Rates, Seal, address_of, same
from snellen.study.web.sentences import Sentences, check_texts
from snellen.study.web.session import Sessions

T = TypeVar("T")

TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "png": "image/png"}
PERSON_SECONDS = 20.0
"""How long the participant of a token is cached, for pictures and error pages; other pages ask the store every time."""

THREADS = 12
"""How many requests may wait for the database at once; more would only slow each other down."""

_TOKEN = re.compile(r"[A-Za-z0-9_-]{20,64}")


@dataclass(frozen=True)
class StaticFile:
    """A file of the pages, in memory."""

    content: bytes
    type: str
    """Its media type."""
    version: str
    """A hash of the content."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Site:
    """A study that is being served."""

    study: Study
    store: AnswerStore
    sentences: Mapping[str, Sentences]
    """By language."""
    files: Mapping[str, StaticFile]
    """By name."""
    templates: jinja2.Environment
    """All pages, compiled."""
    pages: Callable[[int, int], tuple[Page, ...]]
    """`Study.pages`, cached: the pages of a participant, by group and number."""
    seal: Seal
    sessions: Sessions
    rates: Rates
    secure: bool
    """Whether the study is reached by https only."""
    threads: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(THREADS, "page"))
    """For work that waits for the database."""
    password_limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))
    """Passwords are checked one at a time, so that guessing them cannot use up the whole machine."""
    _participants: dict[str, tuple[float, Participant]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @staticmethod
    def of(study: Study, store: AnswerStore, *, secure: bool) -> Site:
        """Reads and checks everything that pages are made of, once.

        Args:
            study: The study.
            store: Its answers.
            secure: Whether the study is reached by https only.

        """
        files = _files()
        environment = jinja2.Environment(
            loader=jinja2.FunctionLoader(_template),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=jinja2.StrictUndefined,
            auto_reload=False,
        )
        environment.globals["static"] = {name: f"/static/{name}?{file.version}" for name, file in files.items()}
        environment.globals["title"] = study.protocol.title
        # Compiled now, because after a crash all participants come back in the same second and would wait for it.
        for path in resources.files("snellen.study.web").joinpath("pages").iterdir():
            if path.name.endswith(".html"):
                environment.get_template(path.name)
        for plan in study.protocol.tasks:
            for part in ("question", "feedback"):
                environment.get_template(f"task/{plan.task}/{part}")
        pages = lru_cache(maxsize=4096)(study.pages)
        _check_link(study)
        return Site(
            study=study,
            store=store,
            sentences=check_texts(study),
            files=files,
            templates=environment,
            pages=pages,
            seal=Seal(study),
            sessions=Sessions(study, store),
            rates=Rates(),
            secure=secure,
        )

    async def in_thread(self, work: Callable[..., T], *arguments: object) -> T:
        """Runs work that may wait for the database in a thread; cheaper than anyio's threads."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, work, *arguments)

    # Requests -------------------------------------------------------------------------------------------------------------

    def cookie(self, name: str) -> str:
        """The name of a cookie; two studies at one address must not read each other's."""
        return f"{'__Host-' if self.secure else ''}{name}-{self.study.sign('cookie')[:8]}"

    def token(self, request: Request) -> str | None:
        """The participant's token in the cookie, if it has the form of one."""
        result = request.cookies.get(self.cookie("snellen"), "")
        # Cookies of earlier versions have no signature; the store decides whether such a token is valid.
        return self.seal.issued(result) or (result if _TOKEN.fullmatch(result) else None)

    def issued(self, request: Request) -> str | None:
        """The token in the cookie, if this server signed it."""
        return self.seal.issued(request.cookies.get(self.cookie("snellen"), ""))

    def is_simulated(self, request: Request) -> bool:
        """Whether a request comes from a simulated participant."""
        return same(request.headers.get(REHEARSAL), self.study.rehearsal)

    def address(self, request: Request) -> str:
        """The address to which the limits of a request apply."""
        return address_of(request)

    async def person(self, token: str | None) -> Participant | None:
        """The participant who holds a token, cached for some seconds."""
        if token is None:
            return None
        cached, now = self._participants.get(token), time.monotonic()
        if cached is not None and now < cached[0]:
            return cached[1]
        participant = await self.in_thread(self.store.find, token)
        with self._lock:
            if len(self._participants) >= 4096:
                self._participants.clear()
            if participant is not None:
                self._participants[token] = (now + PERSON_SECONDS, participant)
        return participant

    def forget(self) -> None:
        """Clears the cache of participants."""
        with self._lock:
            self._participants.clear()

    async def session(self, request: Request) -> str | None:
        """The valid login of the experimenter in a request, or None."""
        result = request.cookies.get(self.cookie("snellen-desk"))
        return await self.in_thread(self.sessions.login, result) if result else None

    def language(self, request: Request) -> str:
        """The language of the link, or of the browser, or else the first of the study."""
        choice = request.query_params.get("lang", "")
        if choice in self.sentences:
            return choice
        for accepted in _accepted(request.headers.get("accept-language", "")):
            for language in self.sentences:
                if accepted.partition("-")[0] == language.partition("-")[0].lower():
                    return language
        return next(iter(self.sentences))

    # Responses -------------------------------------------------------------------------------------------------------------

    def render(self, template: str, language: str, facts: Mapping[str, object], status: int = 200) -> HTMLResponse:
        """A page.

        Args:
            template: The name of its file.
            language: Of its sentences.
            facts: The values of the template.
            status: The HTTP status.
        """
        sentences = self.sentences[language]
        text = self.templates.get_template(template).render(facts, t=sentences, language=language)
        return HTMLResponse(text, status)

    def message(self, language: str, kind: str, name: str, status: int, **words: object) -> HTMLResponse:
        """A small page of a heading and a text, such as `problem.missing` and `problem.missing_text`.

        Args:
            language: Of the sentences.
            kind: `problem` or `closed`.
            name: Of the sentence, such as `missing`.
            status: The HTTP status.
            words: What is filled into the text.
        """
        return self.render("message.html", language, {"kind": kind, "name": name, "words": words}, status)

    def set_cookie(self, response: Response, name: str, value: str, *, strict: bool, seconds: int) -> None:
        """Sets a cookie that scripts and other sites cannot use; a `strict` one is not sent with links from other sites."""
        response.set_cookie(
            self.cookie(name),
            value,
            max_age=seconds,
            path="/",
            secure=self.secure,
            httponly=True,
            samesite="strict" if strict else "lax",
        )


def redirect(path: str) -> RedirectResponse:
    """Redirects to another page, so that reloading sends no form twice."""
    return RedirectResponse(path, 303)


def _check_link(study: Study) -> None:
    link = study.protocol.return_link
    if link and not link.startswith(("https://", "http://")):
        raise SnellenError(f"'return_link' in study.yaml must begin with https://, not '{link}'")


def _accepted(header: str) -> list[str]:
    """The languages of a browser, the preferred first.

    >>> _accepted("fr;q=0.4, de-AT, en;q=0.8")
    ['de-at', 'en', 'fr']
    """
    weighted = []
    for part in header[:500].lower().split(","):
        name, _, rest = part.strip().partition(";")
        weight = re.fullmatch(r"\s*q=([01](?:\.[0-9]{0,3})?)\s*", rest)
        weighted.append((-(float(weight[1]) if weight else 1.0), name.strip()))
    return [name for _, name in sorted(weighted, key=lambda pair: pair[0])]


def _template(name: str) -> str:
    """The source of a template: a file of pages/, or the part of a task as in `task/betting/question`."""
    if not name.startswith("task/"):
        return _read(name).decode()
    _, task, part = name.split("/")
    plugin = find_task(task)
    html = plugin.form.html if part == "question" else f"{plugin.form.feedback_html}{plugin.feedback_html.lstrip()}"
    return f'{{% import "parts.html" as parts %}}\n{html.lstrip()}\n'  # Jinja removes the last line break


def _read(name: str) -> bytes:
    return resources.files("snellen.study.web").joinpath("pages", name).read_bytes()


def _files() -> dict[str, StaticFile]:
    contents = {name: _read(name) for name in ("study.css", "study.js", "desk.js", "icon.svg")} | examples()
    return {
        name: StaticFile(content, TYPES[name.rpartition(".")[2]], hashlib.sha256(content).hexdigest()[:12])
        for name, content in contents.items()
    }
