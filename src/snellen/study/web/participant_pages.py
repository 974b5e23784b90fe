"""The participant's pages: consent, the pages of the schedule, withdrawal and the end.

The current page of a participant is not stored: it is the first page of the schedule without a reply in the store.
"""

from __future__ import annotations

import secrets
from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil
from urllib.parse import quote, urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from snellen.charts.html_page import TemplateValues
from snellen.study.answers.store import LONGEST, ClosedError, Participant
from snellen.study.duration import minutes
from snellen.study.participation import Reply
from snellen.study.schedule import Page
from snellen.study.tasks import Answer, find_task
from snellen.study.web.form import FormReply, read_reply, seconds
from snellen.study.web.page_context import ahead, page_context
from snellen.study.web.security import FormFields, first, read_form
from snellen.study.web.site import Site, redirect

MONTH = 30 * 86_400
"""Seconds after which the participant's cookie expires."""


@dataclass(frozen=True, eq=False)
class ParticipantPages:
    """The pages of participants."""

    site: Site

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            Route("/", self.arrive, methods=["GET"]),
            Route("/consent", self.consent, methods=["POST"]),
            Route("/page", self.page, methods=["GET", "POST"]),
            Route("/withdraw", self.withdraw, methods=["GET", "POST"]),
            Route("/end", self.end, methods=["GET"]),
        ]

    # Arriving --------------------------------------------------------------------------------------------------------------

    async def arrive(self, request: Request) -> Response:
        """The consent page; participants who have begun continue where they stopped."""
        return await self.site.in_thread(self._arrive, request)

    def _arrive(self, request: Request) -> Response:
        site, token = self.site, self.site.token(request)
        person = site.store.find(token) if token else None
        if person is not None and person.state == "started":
            return redirect("/page?notice=resumed")
        if person is not None and "next" not in request.query_params:
            return redirect("/end")
        language, state = site.language(request), site.store.state
        if state != "open":
            return site.message(language, "closed", state, 403)
        token = site.issued(request)
        if token is None or person is not None:
            token = secrets.token_urlsafe(32)
        recruited = self._recruited({name: [value] for name, value in request.query_params.items()})
        facts = {
            "csrf": site.seal.form(token, "consent"),
            "minutes": self.minutes,
            "recruited": recruited,
            "languages": {language: f"/?{urlencode({**recruited, 'lang': language})}" for language in site.sentences},
            "names": {name: t("language") for name, t in site.sentences.items()},
        }
        response = site.render("consent.html", language, facts)
        site.set_cookie(response, "snellen", site.seal.signed(token), strict=False, seconds=MONTH)
        return response

    async def consent(self, request: Request) -> Response:
        """Admits a participant, once even if the form is sent several times."""
        form, token = await read_form(request), self.site.issued(request)
        if token is None or not self.site.seal.verifies(form, token, "consent"):
            raise HTTPException(403)
        language = first(form, "lang") or ""
        if language not in self.site.sentences:
            language = self.site.language(request)
        simulated = self.site.is_simulated(request)
        try:
            recruited = self._recruited(form)
            admit = partial(self.site.store.admit, token=token, language=language, simulated=simulated, recruited=recruited)
            await self.site.in_thread(admit)
        except ClosedError as closed:
            return self.site.message(language, "closed", closed.state, 403)
        return redirect("/page")

    def _recruited(self, form: FormFields) -> dict[str, str]:
        """The recruiting ids that the protocol names, without control characters."""
        result = {name: first(form, name) or "" for name in self.site.study.protocol.recruiting}
        clean = {name: "".join(filter(str.isprintable, value))[:LONGEST] for name, value in result.items()}
        return {name: value for name, value in clean.items() if value}

    @cached_property
    def minutes(self) -> int:
        """Estimated duration, rounded up to five minutes."""
        groups = range(len(self.site.study.protocol.groups))
        return 5 * ceil(max(minutes(self.site.pages(group, 0)) for group in groups) / 5)

    # Page by page ----------------------------------------------------------------------------------------------------------

    async def page(self, request: Request) -> Response:
        """The participant's current page, and the answer to it."""
        form = await read_form(request) if request.method == "POST" else None
        return await self.site.in_thread(self._page, request, form)

    def _page(self, request: Request, form: FormFields | None) -> Response:
        site, token = self.site, self.site.token(request)
        result = site.store.progress(token) if token else None
        if token is None or result is None:
            return redirect("/")
        person, answered = result
        if person.state != "started":
            return redirect("/end")
        pages = site.pages(person.group, person.number)
        position = current(pages, answered)
        if form is not None:
            return self._answer(token, person, pages, position, form)
        if position is None:
            return redirect("/end")
        notice = request.query_params.get("notice", "")
        notice = notice if notice in ("answered", "resumed") and answered else ""
        return self._show(token, person, pages, position, notice=notice)

    def _answer(
        self, token: str, person: Participant, pages: tuple[Page, ...], awaited: int | None, form: FormFields
    ) -> Response:
        site, name = self.site, first(form, "page") or ""
        position = next((index for index, page in enumerate(pages) if page.id == name), None)
        since = site.seal.since(first(form, "shown"), token, name) if position is not None else None
        if position is None or since is None or not site.seal.verifies(form, token, name):
            raise HTTPException(403)
        if position != awaited:
            return redirect("/page?notice=answered")
        filled = read_reply(site.study, pages[position], form)
        if filled.refused:
            return self._show(token, person, pages, position, form=form, filled=filled)
        last = position == len(pages) - 1
        if not site.store.reply(person, name, filled.content, seconds(form, since), last=last):
            return redirect("/page?notice=answered")
        return redirect("/end" if last else "/page")

    def _show(
        self,
        token: str,
        person: Participant,
        pages: tuple[Page, ...],
        position: int,
        *,
        notice: str = "",
        form: FormFields | None = None,
        filled: FormReply | None = None,
    ) -> Response:
        site, page = self.site, pages[position]
        sent = form or {}
        facts: TemplateValues = {
            "kind": page.kind,
            "page": page.id,
            "progress": (position + 1, len(pages)),
            "csrf": site.seal.form(token, page.id),
            # A form that is shown again after a refusal keeps the time of its first showing.
            "shown": (first(sent, "shown") if form else None) or site.seal.shown(token, page.id),
            "ms": first(sent, "ms") or "",
            "notice": notice,
            "refused": filled.refused if filled else {},
            "focus": next(iter(filled.refused)) if filled else "",
            "entered": {name: values[0][:20] for name, values in sent.items() if values},
            "chosen": sent.get("chosen", []),
            "ahead": ahead(pages, position),
        }
        replies = site.store.replies(person) if page.kind == "feedback" else {}
        facts |= page_context(site.study, person.language, pages, position, replies)
        return site.render(f"{page.kind}.html", person.language, facts, 422 if filled else 200)

    # Withdrawing -----------------------------------------------------------------------------------------------------------

    async def withdraw(self, request: Request) -> Response:
        """Asks for confirmation, and ends the participation."""
        form = await read_form(request) if request.method == "POST" else None
        return await self.site.in_thread(self._withdraw, request, form)

    def _withdraw(self, request: Request, form: FormFields | None) -> Response:
        site, token = self.site, self.site.token(request)
        person = site.store.find(token) if token else None
        if token is None or person is None:
            return redirect("/")
        if person.state != "started":
            return redirect("/end")
        if form is None:
            return site.render("withdraw.html", person.language, {"csrf": site.seal.form(token, "withdraw")})
        if not site.seal.verifies(form, token, "withdraw"):
            raise HTTPException(403)
        site.store.withdraw(person)
        return redirect("/end")

    async def end(self, request: Request) -> Response:
        """The last page: what the study was about, and the completion code; after withdrawing, that no answer is used."""
        return await self.site.in_thread(self._end, request)

    def _end(self, request: Request) -> Response:
        site, token = self.site, self.site.token(request)
        person = site.store.find(token) if token else None
        if person is None:
            return redirect("/")
        if person.state == "withdrawn":
            return site.render("withdrawn.html", person.language, {"participant": person.participant})
        pages, replies = site.pages(person.group, person.number), site.store.replies(person)
        if person.state == "started" and current(pages, replies) is not None:
            return redirect("/page")
        link, won = site.study.protocol.return_link, points(pages, replies)
        facts = {
            "code": person.code,
            "participant": person.participant,
            "points": None if won is None else str(won).replace("-", "−"),
            "link": link.replace("{code}", quote(person.code)) if link else "",
        }
        return site.render("end.html", person.language, facts)


def current(pages: tuple[Page, ...], answered: Container[str]) -> int | None:
    """The position (from 0) of the first page without a reply; None where all have one."""
    return next((position for position, page in enumerate(pages) if page.id not in answered), None)


def points(pages: tuple[Page, ...], replies: Mapping[str, Reply]) -> int | None:
    """The sum of all scores that count in tasks whose points are shown at the end; None without such a task."""
    scores: list[float] = []
    has_points = False
    for page in pages:
        if page.kind == "trial" and page.item and not page.practice and find_task(page.task).traits.points_at_end:
            has_points = True
            if page.id in replies:
                answer = Answer.of(replies[page.id].content)
                scores.append(find_task(page.task).score_answer(page.item.truth, answer))
    return round(sum(scores)) if has_points else None
