"""People who take part in a study in a real Chromium: the server as a process that can be killed, and hands on the pages.

Pages are found by what a person perceives: roles, names and sentences of the text file. How a page is styled is no matter.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Locator, Page, Playwright, expect, sync_playwright

from snellen.study import schedule
from snellen.study.answers.store import AnswerStore, Participant
from snellen.study.folder import Study
from snellen.study.participation import Participation
from snellen.study.tasks import Decision, Percent, Rating, Selection, find_task
from snellen.study.web.sentences import Sentences, check_texts

REQUIRED = "SNELLEN_REQUIRE_CHROMIUM"
"""Where this is set in the environment, a missing Chromium is a failure and no reason to skip."""
SCREENSHOTS = "SNELLEN_SCREENSHOTS"
"""Where this is set in the environment, it names a folder for pictures of every kind of page."""

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
PATIENCE = 30_000
"""Milliseconds that a page may take on a busy machine."""

expect.set_options(timeout=PATIENCE)


class MissingError(Exception):
    """Chromium is not installed."""


def program() -> str:
    """Where Chromium is."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    raise MissingError(f"these tests need one of {', '.join(NAMES)} on the PATH")


@dataclass(frozen=True)
class Chromium:
    """A running browser, and the means to start another with a profile of its own."""

    playwright: Playwright
    browser: Browser

    @contextmanager
    def person(self, server: Server, **settings: Any) -> Iterator[Visitor]:
        """Somebody with a fresh browser: no cookies, nothing kept."""
        context = self.browser.new_context(base_url=server.link, **{"locale": "en-GB", **settings})
        try:
            yield Visitor.of(server, context)
        finally:
            context.close()

    @contextmanager
    def profile(self, server: Server, folder: Path) -> Iterator[Visitor]:
        """A browser that keeps what it knows in a folder, as the one of a person does when it is closed."""
        context = self.playwright.chromium.launch_persistent_context(
            folder, executable_path=program(), args=OPTIONS, base_url=server.link, locale="en-GB"
        )
        try:
            yield Visitor.of(server, context)
        finally:
            context.close()


@contextmanager
def chromium() -> Iterator[Chromium]:
    """A Chromium for these tests alone."""
    path = program()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=OPTIONS)
        try:
            yield Chromium(playwright, browser)
        finally:
            browser.close()


# The server ----------------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Server:
    """`snellen study serve` as a process of its own, always at the same port, so that it can die and come back."""

    study: Study
    password: str
    port: int
    process: subprocess.Popen[bytes] | None = None
    _store: AnswerStore | None = None

    @property
    def link(self) -> str:
        """What participants are given."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """What the server said."""
        return self.study.folder.with_name(f"{self.study.folder.name}.log")

    @cached_property
    def sentences(self) -> dict[str, Sentences]:
        """Every sentence, by language."""
        return check_texts(self.study)

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        command = [str(Path(sys.executable).with_name("snellen")), "study", "serve", str(self.study.folder)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*command, "--port", str(self.port)], stdout=log, stderr=log)
        end = time.monotonic() + 90
        while True:
            try:
                with urllib.request.urlopen(f"{self.link}/health", timeout=10) as answer:
                    assert answer.status == 200
                    return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                assert self.process.poll() is None, self.log.read_text()
                assert time.monotonic() < end, "the server does not answer"
                time.sleep(0.05)

    def kill(self) -> None:
        """Death without warning; nobody else holds its files open."""
        assert self.process is not None
        self._close()
        self.process.kill()
        self.process.wait(60)

    def pause(self) -> None:
        """It no longer does anything, but whoever asks still gets through to it."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    @property
    def store(self) -> AnswerStore:
        """What the server has stored, as another process sees it."""
        if self._store is None:
            self._store = AnswerStore.open(self.study)
        return self._store

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None


@contextmanager
def serving(study: Study, password: str) -> Iterator[Server]:
    """A server for a study; afterwards, nothing may have gone wrong inside it."""
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        port = some.getsockname()[1]
    server = Server(study, password, port)
    try:
        server.start()
        yield server
        assert "Traceback" not in server.log.read_text(), server.log.read_text()
    finally:
        if server.process is not None:
            server.kill()


# A participant -------------------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class Visitor:
    """Somebody at a browser, and everything that the browser noticed meanwhile."""

    server: Server
    context: BrowserContext
    page: Page
    requested_urls: list[str] = field(default_factory=list)
    """The addresses that were fetched."""
    complaints: list[str] = field(default_factory=list)
    """What the console complained of."""

    @staticmethod
    def of(server: Server, context: BrowserContext) -> Visitor:
        """A person with this browser."""
        context.set_default_timeout(PATIENCE)
        visitor = Visitor(server, context, context.pages[0] if context.pages else context.new_page())
        context.on("request", lambda request: visitor.requested_urls.append(request.url))
        context.on("console", lambda message: visitor._heard(message.type, message.text))
        context.on("weberror", lambda problem: visitor.complaints.append(str(problem.error)))
        return visitor

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(text)

    # Where they are --------------------------------------------------------------------------------------------------------

    @property
    def main(self) -> Locator:
        """The part of the page that matters."""
        return self.page.get_by_role("main")

    @property
    def kind(self) -> str:
        """The kind of page that is shown."""
        return self.main.get_attribute("data-kind") or ""

    @property
    def place(self) -> str:
        """The id of the page that is shown; nothing where it is none of the schedule."""
        return self.main.get_attribute("data-page") or ""

    @property
    def token(self) -> str:
        """The secret that the browser keeps."""
        return next(
            str(cookie["value"]).partition(".")[0]
            for cookie in self.context.cookies()
            if str(cookie["name"]).startswith("snellen-")
        )

    def person(self) -> Participant:
        """Who this is for the server."""
        person = self.server.store.find(self.token)
        assert person is not None
        return person

    @cached_property
    def pages(self) -> dict[str, schedule.Page]:
        """What this participant is shown, by page."""
        person = self.person()
        return {page.id: page for page in self.server.study.pages(person.group, person.number)}

    def visit(self) -> Participation:
        """What is stored of this participant."""
        name = self.person().participant
        return next(
            participation
            for participation in self.server.store.participations(simulated=False)
            if participation.participant == name
        )

    def stored(self) -> dict[str, Any]:
        """The stored answers by page."""
        return {page: dict(reply.content) for page, reply in self.visit().replies.items()}

    def t(self, name: str, *places: str, **words: object) -> str:
        """A sentence in the language of the page."""
        language = self.page.locator("html").get_attribute("lang") or ""
        return self.server.sentences[language](name, *places, **words)

    # What they do ----------------------------------------------------------------------------------------------------------

    def arrive(self, link: str = "/") -> None:
        """Opens the link and agrees."""
        self.page.goto(link)
        self.main.get_by_role("button", name=self.t("consent.agree")).click()
        expect(self.main).to_have_attribute("data-kind", "instructions")

    def send(self) -> None:
        """Presses the button, and waits for the page that follows."""
        before = self.place
        self.button().click()
        self.past(before)

    def past(self, page: str) -> None:
        """Waits until another page is shown."""
        expect(self.main).not_to_have_attribute("data-page", page)

    def button(self) -> Locator:
        """The button that sends the answer."""
        return self.main.get_by_role("button")

    def go(self) -> dict[str, Any]:
        """Answers the page that is shown with the mouse, and goes on; returns the answer."""
        shown = self.pages[self.place]
        answer = intended(self.server.study, shown)
        self.fill(shown, answer)
        self.send()
        return answer

    def go_to(self, kind: str, task: str = "", *, practice: bool | None = None) -> schedule.Page:
        """Answers everything up to a page of this kind."""
        while True:
            shown = self.pages[self.place]
            if shown.kind == kind and task in ("", shown.task) and practice in (None, shown.practice):
                return shown
            self.go()

    def finish(self) -> None:
        """Answers everything that is left."""
        while self.place:
            self.go()

    def fill(self, shown: schedule.Page, answer: dict[str, Any]) -> None:
        """Enters an answer with the mouse and by typing."""
        for control, value in self.controls(shown, answer):
            if isinstance(value, bool):
                control.set_checked(value)
            else:
                control.fill(str(value))

    def controls(self, shown: schedule.Page, answer: dict[str, Any]) -> list[tuple[Locator, int | bool]]:
        """What has to be used for an answer, in the order of the page: numbers with their value, ticks with True."""
        main = self.main
        if shown.kind == "scale":
            scale, language = self.server.study.scales[shown.scale], self.person().language
            pairs = zip(scale.statements[language], answer["answers"], strict=True)
            return [
                (main.get_by_role("radiogroup", name=statement).get_by_role("radio").nth(rating - 1), True)
                for statement, rating in pairs
            ]
        if shown.kind == "attention":
            return [(main.get_by_role("radio", name=str(answer["value"]), exact=True), True)]
        if shown.kind != "trial" or shown.item is None:
            return []
        form = find_task(shown.item.task).form
        if isinstance(form, Selection):
            return [(main.get_by_role("checkbox").nth(place), place in answer["chosen"]) for place in range(6)]
        if isinstance(form, Rating):
            return [(main.get_by_role("radio", name=str(answer["value"]), exact=True), True)]
        number = main.get_by_role("spinbutton")
        if isinstance(form, Percent):
            return [(number, answer["value"])]
        names = (self.t("trial.right"), self.t("trial.wrong"))
        return [(main.get_by_role("radio", name=names[answer["value"]]), True), (number, answer["beside"])]

    # Keys ------------------------------------------------------------------------------------------------------------------

    def press(self, key: str, times: int = 1) -> None:
        """A key, as a person presses it."""
        for _ in range(times):
            self.page.keyboard.press(key)

    def tab_to(self, control: Locator) -> None:
        """Presses Tab until a control has the focus."""
        for _ in range(40):
            if control.evaluate("one => one === document.activeElement"):
                return
            self.press("Tab")
        raise AssertionError(f"Tab does not lead to {control}")


def intended(study: Study, page: schedule.Page) -> dict[str, Any]:
    """An answer that is this page's own, so that answers to two pages cannot be mistaken for each other."""
    number = int(page.id[1:])
    if page.kind == "attention":
        return {"value": page.requested}
    if page.kind == "scale":
        scale = study.scales[page.scale]
        return {"answers": [1 + (number + 3 * place) % scale.points for place in range(scale.items)]}
    if page.kind != "trial" or page.item is None:
        return {}
    form = find_task(page.item.task).form
    if isinstance(form, Selection):
        return {"value": None, "beside": None, "chosen": [place for place in range(6) if (number + place) % 3 == 0]}

    def within(low: int, high: int, step: int) -> int:
        return low + number * step % (high - low + 1)

    if isinstance(form, Decision):
        return {"value": within(0, 1, 13), "beside": within(form.low, form.high, 7), "chosen": []}
    assert isinstance(form, Percent | Rating)
    return {"value": within(form.low, form.high, 13), "beside": None, "chosen": []}


def screenshots() -> Path | None:
    """Where pictures of the pages are wanted."""
    folder = os.environ.get(SCREENSHOTS)
    return Path(folder) if folder else None
