"""One simulated participant in a served study: loads pages, answers them, and logs which answers were confirmed."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np

from snellen.errors import SnellenError
from snellen.study.folder import Study
from snellen.study.protocol import StudyCondition
from snellen.study.schedule import Page
from snellen.study.simulation.behaviour import ParticipantAnswers
from snellen.study.simulation.browser import Browser, NoResponseError, PageView, Response

TRIES = 60
"""How often a participant reloads a page that does not come, with up to a second between."""

T = TypeVar("T")


@dataclass(frozen=True)
class Faults:
    """Misuse of pages, as shares of pages on which it happens."""

    reload: float = 0.0
    """The page is loaded again before it is answered."""
    double: float = 0.0
    """The answer is sent twice at the same time."""
    back: float = 0.0
    """The page before is answered again, with another answer."""


@dataclass
class ParticipantLog:
    """What one simulated participant sent, and what the server confirmed."""

    row: int
    """The number of the participant."""
    state: Literal["started", "finished", "left", "refused"] = "started"
    """`left` where the participant stopped, `refused` where the study was closed."""
    token: str = ""
    """By which the store finds the participant."""
    arm: str = ""
    """`all` within subjects; empty until the first trial."""
    pages: int = 0
    """Of how many pages the study consists for the participant."""
    sent: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By page, the answer that was sent first."""
    confirmed: set[str] = field(default_factory=set)
    """Pages whose answer the server confirmed by a redirection."""
    unanswered: int = 0
    """Requests that got no response, and were sent again."""
    errors: list[str] = field(default_factory=list)
    """What the server did that it must not do."""


class SimulatedParticipant:
    """One simulated participant with a browser.

    Args:
        study: The study folder.
        link: The address at which the study is served.
        answers: The answers of the participant.
        draw: Random numbers for language, pauses and faults.
        think: Mean seconds before an answer is sent.
        faults: How often pages are misused.
        times: By kind of request, seconds; shared by all participants.
    """

    def __init__(
        self,
        study: Study,
        link: str,
        answers: ParticipantAnswers,
        *,
        draw: np.random.Generator,
        think: float,
        faults: Faults,
        times: defaultdict[str, list[float]],
    ) -> None:
        self.study, self.answers, self.draw, self.think, self.faults = study, answers, draw, think, faults
        language = study.protocol.languages[int(draw.integers(len(study.protocol.languages)))]
        self.browser = Browser(link, {"X-Snellen-Rehearsal": study.rehearsal, "Accept-Language": language}, times)
        self.log = ParticipantLog(answers.row)
        self._condition: StudyCondition | None = None
        self._checks: dict[str, int] = {}
        self._previous: tuple[Page, PageView] | None = None

    async def take_part(self) -> None:
        """From the link to the last page, or until the participant leaves."""
        view = await self._arrive()
        while view is not None and view.kind not in ("end", "withdrawn"):
            self.log.pages = view.pages
            if self.answers.leaves(view.number - 1, view.pages):
                self.log.state = "left"
                return
            view = await self._step(view)
        if view is not None:
            self.log.state = "finished"

    async def _arrive(self) -> PageView | None:
        response = await self._retry(lambda: self.browser.get("/", "arrive"))
        if response.status == 403:
            self.log.state = "refused"
            return None
        # Another study's server would take these participants for real ones.
        name = f"snellen-{self.study.sign('cookie')[:8]}"
        token = self.browser.cookies.get(name) or self.browser.cookies.get(f"__Host-{name}")
        if token is None:
            raise SnellenError(
                f"what is served at {self.browser.link} is not '{self.study.folder}'; "
                "give the address of this study, or none to have it served"
            )
        self.log.token = token.partition(".")[0]  # what follows is the server's signature
        view = PageView.of(response.body)
        await self._load(view)
        response = await self._retry(lambda: self.browser.post("/consent", list(view.fields.items()), "consent"))
        if response.status == 403:
            self.log.state = "refused"
            return None
        return await self._show(response.location)

    async def _step(self, view: PageView) -> PageView:
        """Loads a page, answers it, and returns the next."""
        await self._load(view)
        if self._happens(self.faults.reload):
            reloaded = await self._show("/page")
            if reloaded.page != view.page:
                self.log.errors.append(f"{view.page} became {reloaded.page} by reloading")
            view = reloaded
        if self.think:
            await asyncio.sleep(self.draw.exponential(self.think))
        page = self._page(view)
        content = self.answers.content(page, self._checks.get(view.page, 0))
        self.log.sent.setdefault(view.page, content)
        clock = asyncio.get_running_loop().time
        began = clock()
        unanswered = self.log.unanswered
        following = await self._send(view, self._filled(page, view, content))
        if unanswered == self.log.unanswered:
            self.browser.times["step"].append(clock() - began)
        if self._previous is not None and self._happens(self.faults.back):
            following = await self._go_back(*self._previous, following)
        self._previous = page, view
        return following

    async def _send(self, view: PageView, fields: list[tuple[str, str]]) -> PageView:
        """Sends an answer until it is confirmed, or until the next page shows that it was stored."""
        for attempt in range(TRIES):
            try:
                if self._happens(self.faults.double):
                    response, _ = await asyncio.gather(*(self.browser.post("/page", fields, "answer") for _ in range(2)))
                else:
                    response = await self.browser.post("/page", fields, "answer")
            except NoResponseError:
                await self._pause(attempt)
                if self._happens(0.5):
                    continue  # the same form once more; otherwise the page is loaded anew
                now = await self._show("/page")
                if now.page != view.page:
                    return now
                fields = [
                    (name, now.fields.get(name, value) if name in ("csrf", "shown") else value) for name, value in fields
                ]
                continue
            if response.status != 303:
                raise SnellenError(
                    f"the server answered {response.status} to the answer of a simulated participant on {view.page} "
                    f"({view.kind}); the study folder and the served study may differ"
                )
            self.log.confirmed.add(view.page)
            return await self._show(response.location)
        raise self._no_server()

    async def _go_back(self, page: Page, old: PageView, following: PageView) -> PageView:
        """Answers the page before once more, with another answer; that must change nothing."""
        content: dict[str, Any] = {"value": 1, "beside": 50, "chosen": [0]} if page.kind in ("trial", "attention") else {}
        if page.kind == "scale":
            content = {"answers": [1] * self.study.scales[page.scale].items}
        fields = self._filled(page, old, content)
        response = await self._retry(lambda: self.browser.post("/page", fields, "answer"))
        if response.status != 303:
            self.log.errors.append(f"{page.id} once more was answered by {response.status}")
        now = await self._show(response.location or "/page")
        if now.page != following.page:
            self.log.errors.append(f"{page.id} once more led from {following.page} to {now.page}")
        return now

    def _page(self, view: PageView) -> Page:
        """The page of the schedule, recognised by its pictures."""
        item = self.study.by_picture.get(view.pictures[0]) if view.pictures else None
        if view.kind == "trial":
            matching = [
                condition
                for condition in self.study.protocol.conditions
                if item and [picture.name for picture in item.pictures[condition.name]] == view.pictures[: len(item.samples)]
            ]
            if item is None or not matching:
                raise SnellenError(
                    f"the study served at {self.browser.link} shows pictures that '{self.study.folder}' lacks"
                )
            self._condition = matching[0]
            self.log.arm = matching[0].arm if self.study.protocol.design == "between" else "all"
        condition = self._condition or self.study.protocol.conditions[0]
        expected = 0
        if view.kind == "attention":
            self._checks.setdefault(view.page, len(self._checks))
            expected = int((re.findall(r"\d+", view.text) or ["1"])[0])
        scale = ""
        if view.kind == "scale":
            heading = view.heading.strip()
            scale = next(name for name, scale in self.study.scales.items() if heading in scale.titles.values())
        task = item.task if item else ""
        return Page(
            id=view.page, kind=view.kind, condition=condition, task=task, item=item, scale=scale, requested=expected,  # type: ignore[arg-type]
        )  # fmt: skip

    def _filled(self, page: Page, view: PageView, content: dict[str, Any]) -> list[tuple[str, str]]:
        """The fields of a form with an answer; the time is that of the simulated participant."""
        fields = list((view.fields | {"ms": str(round(1000 * self.answers.seconds(page)))}).items())
        fields += [(name, str(content[name])) for name in ("value", "beside") if content.get(name) is not None]
        fields += [("chosen", str(image)) for image in content.get("chosen", ())]
        return fields + [(f"s{item}", str(answer)) for item, answer in enumerate(content.get("answers", ()), 1)]

    async def _load(self, view: PageView) -> None:
        """Loads the files and pictures of a page, and the pictures of the next trials."""
        for path in view.files:
            await self._retry(lambda path=path: self.browser.load(path, "file"))  # type: ignore[misc]
        for name in (*view.pictures, *view.ahead):
            response = await self._retry(lambda name=name: self.browser.load(f"/picture/{name}", "picture"))  # type: ignore[misc]
            if response is not None and response.status != 200:
                self.log.errors.append(f"picture {name} was answered by {response.status}")

    async def _show(self, path: str) -> PageView:
        for _ in range(5):
            response = await self._retry(lambda path=path: self.browser.get(path, "page"))  # type: ignore[misc]
            if not response.location:
                return PageView.of(response.body)
            path = response.location
        raise SnellenError(f"the server at {self.browser.link} redirects in a circle at {path}")

    async def _retry(self, request: Callable[[], Awaitable[T]]) -> T:
        """Repeats a request until there is a response."""
        for attempt in range(TRIES):
            try:
                result = await request()
            except NoResponseError:
                await self._pause(attempt)
                continue
            if isinstance(result, Response) and result.status >= 500:
                self.log.errors.append(f"the server answered {result.status}")
                await self._pause(attempt)
                continue
            return result
        raise self._no_server()

    async def _pause(self, attempt: int) -> None:
        self.log.unanswered += 1
        await asyncio.sleep(min(1.0, 0.05 * 2**attempt) * (0.5 + self.draw.random()))

    def _happens(self, share: float) -> bool:
        return share > 0 and bool(self.draw.random() < share)

    def _no_server(self) -> SnellenError:
        return SnellenError(f"the server at {self.browser.link} does not answer; start it again, and simulate again")
