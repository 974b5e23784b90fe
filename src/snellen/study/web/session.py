"""The experimenter's login: a signed cookie that expires, and is invalid as soon as the password changes."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from itsdangerous import BadSignature, TimestampSigner

from snellen.study.answers.store import AnswerStore
from snellen.study.folder import Study

HOURS = 12
"""How long a login lasts."""


@dataclass(frozen=True, eq=False)
class Sessions:
    """The logins of one study. The store holds those that were ended early, so that other servers refuse them too."""

    study: Study
    store: AnswerStore
    now: Callable[[], float] = time.time
    """The clock, in seconds since 1970; tests set another."""

    def begin(self) -> str:
        """A new login, for a cookie."""
        return self._signer().sign(secrets.token_urlsafe(16)).decode()

    def end(self, login: str) -> None:
        """Ends a login before its time."""
        self.store.log_out(login, timedelta(hours=HOURS))

    def login(self, cookie: str | None) -> str | None:
        """The login that a cookie holds; None where it holds none, or one that has ended."""
        try:
            result = self._signer().unsign(cookie or "", max_age=HOURS * 3600).decode()
        except BadSignature:
            return None
        return None if self.store.logged_out(result) else result

    def _signer(self) -> _Signer:
        salt = f"session\0{self.study.password_mark}"
        return _Signer(self.now, self.study.key, salt)


class _Signer(TimestampSigner):
    """itsdangerous' signer with a clock that tests can set."""

    def __init__(self, now: Callable[[], float], key: bytes, salt: str) -> None:
        super().__init__(key, salt, key_derivation="hmac", digest_method=hashlib.sha256)
        self.now = now

    def get_timestamp(self) -> int:
        return int(self.now())
