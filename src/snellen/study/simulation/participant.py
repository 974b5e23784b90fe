"""One simulated participant in a served study: looks at pages, answers them, and keeps book of what was confirmed."""

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
from snellen.study.protocol import Condition
from snellen.study.schedule import Page
from snellen.study.simulation.behaviour import ParticipantAnswers
from snellen.study.simulation.browser import Browser, NoResponseError, PageView, Response

TRIES = 60
"""How often somebody reloads a page that does not come, with up to a second between."""

T = TypeVar("T")


@dataclass(frozen=True)
class Faults:
    """What people do to pages that nobody should do: the share of pages on which it happens."""

    reload: float = 0.0
    """The page is loaded again before it is answered."""
    double: float = 0.0
    """The answer is sent twice at the same time."""
    back: float = 0.0
    """The page before is answered once more, otherwise than the first time."""


@dataclass
class ParticipantLog:
    """One simulated participant's own book."""

    row: int
    state: Literal["started", "finished", "left", "refused"] = "started"
    token: str = ""
    arm: str = ""
    pages: int = 0
    sent: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By page, the answer that was sent first."""
    confirmed: set[str] = field(default_factory=set)
    """Pages whose answer the server confirmed by leading on."""
    broken: int = 0
    """Requests that got no answer, and were tried again."""
    wrong: list[str] = field(default_factory=list)
    """What the server did that it must not do."""


class SimulatedParticipant:
    """One simulated participant at a browser."""

    def __init__(
        self,
        study: Study,
        link: str,
        replies: ParticipantAnswers,
        draw: np.random.Generator,
        think: float,
        faults: Faults,
        times: defaultdict[str, list[float]],
    ) -> None:
        self.study, self.replies, self.draw, self.think, self.faults = study, replies, draw, think, faults
        language = study.protocol.languages[int(draw.integers(len(study.protocol.languages)))]
        self.browser = Browser(link, {"X-Snellen-Rehearsal": study.rehearsal, "Accept-Language": language}, times)
        self.ledger = ParticipantLog(replies.row)
        self._condition: Condition | None = None
        self._checks: dict[str, int] = {}
        self._before: tuple[Page, PageView] | None = None

    async def take_part(self) -> None:
        """From the link to the last page, or to where this person leaves."""
        shown = await self._arrive()
        while shown is not None and shown.kind not in ("end", "withdrawn"):
            self.ledger.pages = shown.pages
            if self.replies.leaves(shown.place - 1, shown.pages):
                self.ledger.state = "left"
                return
            shown = await self._step(shown)
        if shown is not None:
            self.ledger.state = "finished"

    async def _arrive(self) -> PageView | None:
        answered = await self._again(lambda: self.browser.get("/", "arrive"))
        if answered.status == 403:
            self.ledger.state = "refused"
            return None
        # Another study's server would take these participants for real ones.
        name = f"snellen-{self.study.sign('cookie')[:8]}"
        token = self.browser.cookies.get(name) or self.browser.cookies.get(f"__Host-{name}")
        if token is None:
            raise SnellenError(
                f"what is served at {self.browser.link} is not '{self.study.folder}'; "
                "give the address of this study, or none to have it served"
            )
        self.ledger.token = token.partition(".")[0]  # what follows is the server's mark
        shown = PageView.of(answered.body)
        await self._load(shown)
        answered = await self._again(lambda: self.browser.post("/consent", list(shown.fields.items()), "consent"))
        if answered.status == 403:
            self.ledger.state = "refused"
            return None
        return await self._show(answered.location)

    async def _step(self, shown: PageView) -> PageView:
        """Looks at a page, answers it, and comes to the next."""
        await self._load(shown)
        if self._happens(self.faults.reload):
            again = await self._show("/page")
            if again.page != shown.page:
                self.ledger.wrong.append(f"{shown.page} became {again.page} by reloading")
            shown = again
        if self.think:
            await asyncio.sleep(self.draw.exponential(self.think))
        page = self._page(shown)
        content = self.replies.content(page, self._checks.get(shown.page, 0))
        self.ledger.sent.setdefault(shown.page, content)
        clock = asyncio.get_running_loop().time
        began = clock()
        broken = self.ledger.broken
        following = await self._send(shown, self._filled(page, shown, content))
        if broken == self.ledger.broken:
            self.browser.times["step"].append(clock() - began)
        if self._before is not None and self._happens(self.faults.back):
            following = await self._go_back(*self._before, following)
        self._before = page, shown
        return following

    async def _send(self, shown: PageView, fields: list[tuple[str, str]]) -> PageView:
        """Sends an answer until it is confirmed, or another page shows that it had arrived."""
        for turn in range(TRIES):
            try:
                if self._happens(self.faults.double):
                    answered, _ = await asyncio.gather(*(self.browser.post("/page", fields, "answer") for _ in range(2)))
                else:
                    answered = await self.browser.post("/page", fields, "answer")
            except NoResponseError:
                await self._pause(turn)
                if self._happens(0.5):
                    continue  # the same form once more; otherwise the page is loaded anew
                now = await self._show("/page")
                if now.page != shown.page:
                    return now
                fields = [
                    (name, now.fields.get(name, value) if name in ("csrf", "shown") else value) for name, value in fields
                ]
                continue
            if answered.status != 303:
                raise SnellenError(
                    f"the server answered {answered.status} to the answer of a simulated participant on {shown.page} "
                    f"({shown.kind}); the study folder and the served study may differ"
                )
            self.ledger.confirmed.add(shown.page)
            return await self._show(answered.location)
        raise self._gone()

    async def _go_back(self, page: Page, old: PageView, following: PageView) -> PageView:
        """Answers the page before once more, otherwise; that must change nothing."""
        content: dict[str, Any] = {"value": 1, "beside": 50, "chosen": [0]} if page.kind in ("trial", "attention") else {}
        if page.kind == "scale":
            content = {"answers": [1] * self.study.scales[page.scale].items}
        fields = self._filled(page, old, content)
        answered = await self._again(lambda: self.browser.post("/page", fields, "answer"))
        if answered.status != 303:
            self.ledger.wrong.append(f"{page.id} once more was answered by {answered.status}")
        now = await self._show(answered.location or "/page")
        if now.page != following.page:
            self.ledger.wrong.append(f"{page.id} once more led from {following.page} to {now.page}")
        return now

    def _page(self, shown: PageView) -> Page:
        """The page as the schedule knows it, recognised by what is shown."""
        known = self.study.by_picture
        item = known.get(shown.pictures[0]) if shown.pictures else None
        if shown.kind == "trial":
            found = [
                one
                for one in self.study.protocol.conditions
                if item and [picture.name for picture in item.pictures[one.name]] == shown.pictures[: len(item.samples)]
            ]
            if item is None or not found:
                raise SnellenError(
                    f"the study served at {self.browser.link} shows pictures that '{self.study.folder}' lacks"
                )
            self._condition = found[0]
            self.ledger.arm = found[0].arm if self.study.protocol.design == "between" else "all"
        condition = self._condition or self.study.protocol.conditions[0]
        wanted = 0
        if shown.kind == "attention":
            self._checks.setdefault(shown.page, len(self._checks))
            wanted = int((re.findall(r"\d+", shown.text) or ["1"])[0])
        scale = ""
        if shown.kind == "scale":
            heading = shown.heading.strip()
            scale = next(name for name, one in self.study.scales.items() if heading in one.titles.values())
        task = item.task if item else ""
        return Page(shown.page, shown.kind, condition, task, item, scale, wanted)  # type: ignore[arg-type]

    def _filled(self, page: Page, shown: PageView, content: dict[str, Any]) -> list[tuple[str, str]]:
        """The fields of a form with the answer in it; the time is the one that a person would have taken."""
        fields = dict(shown.fields) | {"ms": str(round(1000 * self.replies.seconds(page)))}
        found = list(fields.items())
        found += [(name, str(content[name])) for name in ("value", "beside") if content.get(name) is not None]
        found += [("chosen", str(one)) for one in content.get("chosen", ())]
        return found + [(f"s{place}", str(one)) for place, one in enumerate(content.get("answers", ()), 1)]

    async def _load(self, shown: PageView) -> None:
        """Whatever a browser loads with a page, the pictures of the next trials included."""
        for path in shown.files:
            await self._again(lambda path=path: self.browser.load(path, "file"))  # type: ignore[misc]
        for name in (*shown.pictures, *shown.ahead):
            found = await self._again(lambda name=name: self.browser.load(f"/picture/{name}", "picture"))  # type: ignore[misc]
            if found is not None and found.status != 200:
                self.ledger.wrong.append(f"picture {name} was answered by {found.status}")

    async def _show(self, path: str) -> PageView:
        for _ in range(5):
            answered = await self._again(lambda path=path: self.browser.get(path, "page"))  # type: ignore[misc]
            if not answered.location:
                return PageView.of(answered.body)
            path = answered.location
        raise SnellenError(f"the server at {self.browser.link} leads round in circles at {path}")

    async def _again(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Reloads until there is an answer, as often as a patient person does."""
        for turn in range(TRIES):
            try:
                found = await ask()
            except NoResponseError:
                await self._pause(turn)
                continue
            if isinstance(found, Response) and found.status >= 500:
                self.ledger.wrong.append(f"the server answered {found.status}")
                await self._pause(turn)
                continue
            return found
        raise self._gone()

    async def _pause(self, turn: int) -> None:
        self.ledger.broken += 1
        await asyncio.sleep(min(1.0, 0.05 * 2**turn) * (0.5 + self.draw.random()))

    def _happens(self, share: float) -> bool:
        return share > 0 and bool(self.draw.random() < share)

    def _gone(self) -> SnellenError:
        return SnellenError(f"the server at {self.browser.link} does not answer; start it again, and simulate again")
