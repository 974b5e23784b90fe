"""The experimenter's pages: progress of the study, pausing and closing it, export, and erasing a participant."""

from __future__ import annotations

import io
import secrets
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlencode

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from snellen.charts import numbers
from snellen.errors import SnellenError
from snellen.study.answers.export import export_files
from snellen.study.answers.overview import Overview, overview
from snellen.study.answers.store import Openness
from snellen.study.web.security import FormFields, first, read_form
from snellen.study.web.session import HOURS
from snellen.study.web.site import Site, redirect

_ORDERS: dict[str, Openness] = {"pause": "paused", "resume": "open", "close": "closed"}


@dataclass(frozen=True, eq=False)
class ExperimenterPages:
    """The experimenter's pages; all but the login page need a login."""

    site: Site

    def routes(self) -> list[Route]:
        """The routes."""
        return [
            Route("/admin", self.desk, methods=["GET"]),
            Route("/admin/login", self.login, methods=["POST"]),
            Route("/admin/logout", self.logout, methods=["POST"]),
            Route("/admin/state", self.state, methods=["POST"]),
            Route("/admin/export", self.export, methods=["GET"]),
            Route("/admin/erase", self.erase, methods=["GET", "POST"]),
            Route("/admin/scrub", self.scrub, methods=["POST"]),
        ]

    # Logging in -----------------------------------------------------------------------------------------------------------

    async def login(self, request: Request) -> Response:
        """Checks the password, one at a time: each check is slow on purpose."""
        form = await read_form(request)
        visitor = request.cookies.get(self.site.cookie("snellen-door"), "")
        if not visitor or not self.site.seal.verifies(form, visitor, "login"):
            raise HTTPException(403)
        password = first(form, "password") or ""
        if not await anyio.to_thread.run_sync(self.site.study.admits, password, limiter=self.site.password_limiter):
            return self._login_page(request, status=403, wrong=True)
        response = redirect("/admin")
        self.site.set_cookie(response, "snellen-desk", self.site.sessions.begin(), strict=True, seconds=HOURS * 3600)
        return response

    def _login_page(self, request: Request, *, status: int = 200, wrong: bool = False) -> Response:
        visitor = secrets.token_urlsafe(24)
        facts = {"csrf": self.site.seal.form(visitor, "login"), "wrong": wrong}
        response = self.site.render("door.html", self.site.language(request), facts, status)
        self.site.set_cookie(response, "snellen-door", visitor, strict=True, seconds=3600)
        return response

    async def logout(self, request: Request) -> Response:
        """Ends the login, also for copies of its cookie."""
        session, _ = await self._allowed(request, "logout")
        await self.site.in_thread(self.site.sessions.end, session)
        response = redirect("/admin")
        response.delete_cookie(self.site.cookie("snellen-desk"), secure=self.site.secure, httponly=True, samesite="strict")
        return response

    async def _allowed(self, request: Request, page: str) -> tuple[str, FormFields]:
        """The login and the form of a request that changes something; anything else is refused."""
        form, session = await read_form(request), await self.site.session(request)
        if session is None or not self.site.seal.verifies(form, session, f"desk/{page}"):
            raise HTTPException(403)
        return session, form

    # Reading ---------------------------------------------------------------------------------------------------------------

    async def desk(self, request: Request) -> Response:
        """The progress of the study; without a login, the login page."""
        session = await self.site.session(request)
        if session is None:
            return self._login_page(request)
        return await run_in_threadpool(self._desk, request, session)

    def _desk(self, request: Request, session: str) -> Response:
        site = self.site
        real, simulated = self._overview(simulated=False), self._overview(simulated=True)
        notices = {name: request.query_params.get(name, "")[:64] for name in ("erased", "unerased", "unknown")}
        facts = {
            "csrf": {page: site.seal.form(session, f"desk/{page}") for page in ("state", "logout", "scrub")},
            "state": site.store.state,
            "real": real,
            "simulated": simulated,
            "protocol": site.study.protocol,
            "link": f"{'https' if site.secure else 'http'}://{request.url.netloc}/",
            "time": datetime.now(UTC).strftime("%H:%M:%S UTC"),
            "notices": notices,
            "lingering": site.store.lingering,
            "short": numbers.short,
            "amount": numbers.amount,
        }
        return site.render("desk.html", site.language(request), facts)

    def _overview(self, *, simulated: bool) -> Overview:
        store = self.site.store
        return overview(
            self.site.study,
            store.participations(simulated=simulated),
            store.recruited(simulated=simulated),
            simulated=simulated,
            erased=store.erased(simulated=simulated),
            pages=self.site.pages,
        )

    async def export(self, request: Request) -> Response:
        """Everything that was collected, as one ZIP file; real and simulated answers are never in the same file."""
        if await self.site.session(request) is None:
            return redirect("/admin")
        simulated = request.query_params.get("data") == "simulated"
        name = f"{'simulated-' if simulated else ''}answers-{datetime.now(UTC):%Y-%m-%d}.zip"
        content = await run_in_threadpool(self._export, simulated)
        return Response(
            content, media_type="application/zip", headers={"content-disposition": f'attachment; filename="{name}"'}
        )

    def _export(self, simulated: bool) -> bytes:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as zipped:
            for name, content in export_files(self.site.study, self.site.store, simulated=simulated).items():
                zipped.writestr(name, content)
        return out.getvalue()

    # Changing --------------------------------------------------------------------------------------------------------------

    async def state(self, request: Request) -> Response:
        """Pauses, closes or opens the study."""
        _, form = await self._allowed(request, "state")
        order = first(form, "order") or ""
        if order not in _ORDERS:
            raise HTTPException(400)
        await run_in_threadpool(self.site.store.set_state, _ORDERS[order])
        return redirect("/admin")

    async def erase(self, request: Request) -> Response:
        """Asks whether a participant should really be erased, and does it."""
        if request.method != "POST":
            session, name = await self.site.session(request), request.query_params.get("participant", "").strip()[:64]
            if session is None or not name:
                return redirect("/admin")
            existing = await run_in_threadpool(self._exists, name)
            if not existing:
                return redirect(f"/admin?{urlencode({'unknown': name})}")
            facts = {"csrf": self.site.seal.form(session, "desk/erase"), "participant": name}
            return self.site.render("erase.html", self.site.language(request), facts)
        _, form = await self._allowed(request, "erase")
        name = (first(form, "participant") or "")[:64]
        try:
            done = await run_in_threadpool(self.site.store.erase, name)
        except SnellenError:
            return redirect(f"/admin?{urlencode({'unerased': name})}")
        finally:
            self.site.forget()
        return redirect(f"/admin?{urlencode({'erased' if done else 'unknown': name})}")

    async def scrub(self, request: Request) -> Response:
        """Tries again to remove from the database's files what is left of erased participants."""
        await self._allowed(request, "scrub")
        await run_in_threadpool(self.site.store.scrub)
        return redirect("/admin")

    def _exists(self, name: str) -> bool:
        return any(
            visit.participant == name
            for simulated in (False, True)
            for visit in self.site.store.participations(simulated=simulated)
        )
