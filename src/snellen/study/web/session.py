"""Who is logged in at the experimenter's desk: a signed cookie that expires, and ends with the password it came from."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from snellen.study.folder import Study
from snellen.study.web.guard import same

HOURS = 12
"""How long a login lasts."""


@dataclass(frozen=True, eq=False)
class Sessions:
    """The logins of one study. Only those that were ended early are remembered, until this server stops."""

    study: Study
    now: Callable[[], float] = time.time
    _ended: set[str] = field(default_factory=set)

    def begin(self) -> str:
        """A new login."""
        return self._signed(str(round(self.now()) + HOURS * 3600), secrets.token_urlsafe(16))

    def end(self, session: str) -> None:
        """Ends a login before its time."""
        if self.holds(session):
            self._ended.add(session)

    def holds(self, session: str | None) -> bool:
        """Whether somebody is logged in with this."""
        parts = (session or "").split(".")
        if len(parts) != 3 or not parts[0].isascii() or not parts[0].isdigit() or len(parts[0]) > 12:
            return False
        real = same(session, self._signed(parts[0], parts[1]))
        return real and int(parts[0]) > self.now() and session not in self._ended

    def _signed(self, until: str, name: str) -> str:
        return f"{until}.{name}.{self.study.sign('session', self.study.password_mark, until, name)}"
