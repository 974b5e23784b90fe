"""Stores participants and their answers in a database.

Every event is added and never changed. The event of an answer has the key (participant, page), so an answer that is sent
twice, by two tabs or to a server that was killed meanwhile, is stored once. When `AnswerStore.reply` returns, the answer
is on disk. `allocation.py` decides which group a new participant is put into.
"""

from __future__ import annotations

import hashlib
import json
import math
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Column, ColumnElement, Connection, and_, bindparam, func, or_, select
from sqlalchemy.exc import IntegrityError, OperationalError, SQLAlchemyError

from snellen.charts.numbers import count
from snellen.errors import SnellenError
from snellen.study.answers.allocation import next_group
from snellen.study.answers.database import PATIENCE, Database, lock_opening
from snellen.study.answers.tables import EVENTS, LOGOUTS, PARTICIPANTS, STUDY
from snellen.study.folder import Study
from snellen.study.participation import Participation, ParticipationState, Reply

FILE = "answers.sqlite"
"""The database in the study's folder, which is used unless another address is given."""

LONGEST = 200
"""Characters of a recruiting id that are stored."""

Openness = Literal["open", "paused", "closed"]


class ClosedError(Exception):
    """No new participants are admitted; `state` says why."""

    def __init__(self, state: Literal["paused", "closed", "full"]) -> None:
        super().__init__(state)
        self.state = state


@dataclass(frozen=True)
class Participant:
    """A participant who was admitted."""

    participant: str
    """A random name."""
    number: int
    """In the order of arrival, from 0."""
    group: int
    """Index of the group."""
    language: str
    simulated: bool
    state: ParticipationState
    code: str
    """For the recruiting platform, after the last page."""


_PARTICIPANT = [PARTICIPANTS.c[field.name] for field in fields(Participant)]
_PARTICIPATION = [PARTICIPANTS.c[field.name] for field in fields(Participation) if field.name != "replies"]
_REPLY = [EVENTS.c.page, *(EVENTS.c[field.name] for field in fields(Reply))]

# Statements that every page needs are built once.
_FIND = select(*_PARTICIPANT).where(PARTICIPANTS.c.token == bindparam("digest"))
_REPLIES = select(*_REPLY).where(EVENTS.c.participant == bindparam("name"), EVENTS.c.kind == "reply").order_by(EVENTS.c.id)
_ANSWERED = select(EVENTS.c.page).where(EVENTS.c.participant == bindparam("name"), EVENTS.c.page.is_not(None))
_EVENT = EVENTS.insert().inline()
_STARTED = PARTICIPANTS.update().where(PARTICIPANTS.c.participant == bindparam("name"), PARTICIPANTS.c.state == "started")
_SEEN = _STARTED.values(seen=bindparam("at"))
_LAST = _STARTED.values(seen=bindparam("at"), finished=bindparam("at"), state="finished")
_LEAVE = _STARTED.values(seen=bindparam("at"), state="withdrawn")


def _utc() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, eq=False)
class AnswerStore:
    """The answers of one study. Threads and processes may use the same database at once."""

    study: Study
    database: Database
    now: Callable[[], datetime] = _utc
    """The clock; tests set another."""
    patience: float = PATIENCE
    """Seconds that an erasure waits for other readers of the database."""

    @staticmethod
    def open(study: Study, url: str | None = None, *, now: Callable[[], datetime] = _utc) -> AnswerStore:
        """Opens the store in the study's folder or at an address; it must belong to this study in its present form."""
        store = AnswerStore(study, Database.open(url, study.folder / FILE), now)
        try:
            with store.database.writing() as connection:
                _claim(connection, study)
            if store.lingering:
                store.scrub(patience=1.0)
        except BaseException:
            store.close()
            raise
        return store

    def close(self) -> None:
        """Closes every connection, after removing what is left of erased participants if possible."""
        try:
            if self.lingering:
                self.scrub(patience=1.0)
        except SQLAlchemyError:
            pass  # a database that cannot be reached can still be left
        finally:
            self.database.close()

    # The study.

    @property
    def state(self) -> Openness:
        """Whether new participants are admitted."""
        with self.database.reading() as connection:
            state: Openness = connection.execute(select(STUDY.c.state)).scalar_one()
        return state

    def set_state(self, state: Openness) -> None:
        """Opens, pauses or closes the study for new participants; those who have begun may always finish."""
        with self.database.writing() as connection:
            connection.execute(STUDY.update().values(state=state))
            connection.execute(_EVENT, {"kind": "state", "content": {"state": state}, "at": self.time()})

    def log_out(self, login: str, remaining: timedelta) -> None:
        """Stores that a login has ended, until it would have expired."""
        row = {"login": _digest(login), "until": _text(self.now() + remaining)}
        with self.database.writing() as connection:
            connection.execute(LOGOUTS.delete().where(or_(LOGOUTS.c.until < self.time(), LOGOUTS.c.login == row["login"])))
            connection.execute(LOGOUTS.insert(), row)

    def logged_out(self, login: str) -> bool:
        """Whether a login has ended before its time."""
        query = select(func.count()).select_from(LOGOUTS).where(LOGOUTS.c.login == _digest(login))
        with self.database.reading() as connection:
            return bool(connection.execute(query).scalar_one())

    # One participant.

    def admit(self, *, token: str, language: str, simulated: bool, recruited: Mapping[str, str]) -> Participant:
        """Admits the participant who holds this token; asking again returns the same participant.

        Raises `ClosedError` where the study is closed or full.

        """
        digest = _digest(token)
        ids = {name: _clean(recruited[name]) for name in self.study.protocol.recruiting if recruited.get(name)}
        return self.database.write(lambda connection: self._admit(connection, digest, language, simulated, ids), queued=True)

    def _admit(
        self, connection: Connection, digest: str, language: str, simulated: bool, recruited: Mapping[str, str]
    ) -> Participant:
        state = connection.execute(select(STUDY.c.state).with_for_update()).scalar_one()
        participant = _participant(connection, digest)
        if participant is not None:
            return participant
        if state != "open":
            raise ClosedError(state)
        counting = self._counting(connection, simulated)
        people = self.study.protocol.people
        if people is not None and sum(counting.values()) >= people:
            raise ClosedError("full")
        last = select(func.max(PARTICIPANTS.c.number)).where(PARTICIPANTS.c.simulated == simulated)
        number = connection.execute(last).scalar_one()
        participant = Participant(
            participant=secrets.token_hex(12),
            number=0 if number is None else number + 1,
            group=next_group(self.study.protocol, counting, simulated=simulated),
            language=language,
            simulated=simulated,
            state="started",
            code=secrets.token_hex(4).upper(),
        )
        at = self.time()
        own = {"token": digest, "recruited": recruited, "started": at, "finished": "", "seen": at}
        connection.execute(PARTICIPANTS.insert(), {**vars(participant), **own})
        content = {"number": participant.number, "group": participant.group, "language": language}
        connection.execute(
            _EVENT, {"participant": participant.participant, "kind": "admitted", "content": content, "at": at}
        )
        return participant

    def find(self, token: str) -> Participant | None:
        """The participant who holds this token."""
        with self.database.reading() as connection:
            return _participant(connection, _digest(token))

    def replies(self, participant: Participant) -> dict[str, Reply]:
        """The replies of a participant, by page, in the order of arrival."""
        with self.database.reading() as connection:
            return {page: Reply(*reply) for page, *reply in connection.execute(_REPLIES, {"name": participant.participant})}

    def progress(self, token: str) -> tuple[Participant, frozenset[str]] | None:
        """The participant who holds this token, and the pages that are answered."""
        with self.database.reading() as connection:
            participant = _participant(connection, _digest(token))
            if participant is None:
                return None
            return participant, frozenset(connection.execute(_ANSWERED, {"name": participant.participant}).scalars())

    def reply(self, participant: Participant, page: str, content: Mapping[str, Any], seconds: float, *, last: bool) -> bool:
        """Stores an answer; returns False and stores nothing where the page has one or the participant has finished or left.

        When this returns True, the answer is on disk, and with `last` the participant has finished.
        """
        if not math.isfinite(seconds):
            raise ValueError(f"{seconds} seconds are no time")
        json.dumps(content, allow_nan=False)
        at, name = self.time(), participant.participant
        reply = {"participant": name, "kind": "reply", "page": page, "content": dict(content), "seconds": seconds, "at": at}
        try:
            return self.database.write(lambda connection: _write(connection, reply, last=last))
        except IntegrityError:
            return False

    def withdraw(self, participant: Participant) -> None:
        """Ends a participation that has not finished; the participant no longer counts when groups are filled."""
        at, name = self.time(), participant.participant
        with self.database.writing() as connection:
            if connection.execute(_LEAVE, {"name": name, "at": at}).rowcount:
                connection.execute(_EVENT, {"participant": name, "kind": "withdrawn", "content": {}, "at": at})

    def erase(self, participant: str) -> bool:
        """Erases a participant: answers, times, ids, token and name; number and group stay, without a name.

        Returns False where nobody has this name. The files of the database then hold nothing of it, unless `lingering`.
        """
        if not participant.isalnum() or not participant.isascii():
            return False
        try:
            erased = self._erase(participant)
        except OperationalError as problem:
            why = str(problem.orig).strip().splitlines()[0]
            raise SnellenError(
                f"'{participant}' was not erased, because the database cannot be written to now ({why}); "
                "end what else is writing to it, and erase again"
            ) from None
        if erased:
            self.scrub()
        return erased

    def _erase(self, participant: str) -> bool:
        blank: dict[str, Any] = {
            "language": "",
            "code": "",
            "token": None,
            "recruited": {},
            "started": "",
            "finished": "",
            "seen": "",
        }
        own = PARTICIPANTS.c.participant == participant
        with self.database.writing() as connection:
            query = select(PARTICIPANTS).where(own, PARTICIPANTS.c.state != "erased").with_for_update()
            row = connection.execute(query).one_or_none()
            if row is None:
                return False
            connection.execute(EVENTS.delete().where(EVENTS.c.participant == participant))
            connection.execute(
                PARTICIPANTS.update().where(own).values(participant=secrets.token_hex(12), state="erased", **blank)
            )
            content = {"number": row.number, "group": row.group, "simulated": row.simulated}
            connection.execute(_EVENT, {"kind": "erased", "content": content, "at": self.time()})
        return True

    @property
    def lingering(self) -> bool:
        """Whether files of the database may still hold data of an erased participant."""
        return self._unscrubbed() is not None

    def scrub(self, patience: float | None = None) -> bool:
        """Removes data of erased participants from the files; False where other readers still need them."""
        last = self._unscrubbed()
        if last is None:
            return True
        if not self.database.scrub(self.patience if patience is None else patience):
            return False
        try:
            with self.database.writing() as connection:
                connection.execute(_EVENT, {"kind": "scrubbed", "content": {"erased": last}, "at": self.time()})
        except OperationalError:
            return False
        return True

    def _unscrubbed(self) -> int | None:
        """The event of the last erasure whose traces were not removed yet."""
        latest = {}
        with self.database.reading() as connection:
            for kind in ("erased", "scrubbed"):
                query = (
                    select(EVENTS.c.id, EVENTS.c.content).where(EVENTS.c.kind == kind).order_by(EVENTS.c.id.desc()).limit(1)
                )
                latest[kind] = connection.execute(query).one_or_none()
        erased, scrubbed = latest["erased"], latest["scrubbed"]
        if erased is None or (scrubbed is not None and scrubbed.content["erased"] >= erased.id):
            return None
        return int(erased.id)

    # All of them.

    def participations(self, *, simulated: bool) -> list[Participation]:
        """All real or all simulated participants with their replies, in the order of arrival, without erased ones."""
        joined = PARTICIPANTS.outerjoin(
            EVENTS, and_(EVENTS.c.participant == PARTICIPANTS.c.participant, EVENTS.c.kind == "reply")
        )
        query = (
            select(*_PARTICIPATION, *_REPLY)
            .select_from(joined)
            .where(PARTICIPANTS.c.simulated == simulated, PARTICIPANTS.c.state != "erased")
            .order_by(PARTICIPANTS.c.number, EVENTS.c.id)
        )
        replies_of: dict[tuple[Any, ...], dict[str, Reply]] = {}
        with self.database.reading() as connection:
            for row in connection.execute(query):
                page, *reply = row[len(_PARTICIPATION) :]
                replies = replies_of.setdefault(tuple(row[: len(_PARTICIPATION)]), {})
                if page is not None:
                    replies[page] = Reply(*reply)
        return [Participation(*(*facts, replies)) for facts, replies in replies_of.items()]

    def reply_count(self, *, simulated: bool) -> int:
        """The number of stored replies; `participations` holds as many, unless one is stored twice."""
        own = select(PARTICIPANTS.c.participant).where(PARTICIPANTS.c.simulated == simulated)
        query = select(func.count()).where(EVENTS.c.kind == "reply", EVENTS.c.participant.in_(own))
        with self.database.reading() as connection:
            return int(connection.execute(query).scalar_one())

    def erased(self, *, simulated: bool = False) -> int:
        """How many participants were erased."""
        query = select(func.count()).where(PARTICIPANTS.c.simulated == simulated, PARTICIPANTS.c.state == "erased")
        with self.database.reading() as connection:
            return int(connection.execute(query).scalar_one())

    def recruited(self, *, simulated: bool) -> dict[str, dict[str, str]]:
        """The recruiting ids that were stored, by participant, in the order of arrival."""
        return self._each(PARTICIPANTS.c.recruited, PARTICIPANTS.c.simulated == simulated, PARTICIPANTS.c.state != "erased")

    def codes(self, *, simulated: bool) -> dict[str, str]:
        """The completion codes of those who have finished, by participant, in the order of arrival."""
        return self._each(PARTICIPANTS.c.code, PARTICIPANTS.c.simulated == simulated, PARTICIPANTS.c.state == "finished")

    def _each(self, column: Column[Any], *conditions: ColumnElement[bool]) -> dict[str, Any]:
        query = select(PARTICIPANTS.c.participant, column).where(*conditions).order_by(PARTICIPANTS.c.number)
        with self.database.reading() as connection:
            return {row[0]: row[1] for row in connection.execute(query)}

    def _counting(self, connection: Connection, simulated: bool) -> dict[int, int]:
        """How many participants count in each group: those who have finished, and those who answered lately."""
        since = _text(self.now() - timedelta(minutes=self.study.protocol.abandoned))
        active = and_(PARTICIPANTS.c.state == "started", PARTICIPANTS.c.seen >= since)
        query = (
            select(PARTICIPANTS.c.group, func.count())
            .where(PARTICIPANTS.c.simulated == simulated, or_(PARTICIPANTS.c.state == "finished", active))
            .group_by(PARTICIPANTS.c.group)
        )
        return {row[0]: row[1] for row in connection.execute(query)}

    def time(self) -> str:
        """The present time as it is stored."""
        return _text(self.now())


def _text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")


def _clean(text: str) -> str:
    """The printable characters of an id that came with a link, up to `LONGEST`."""
    return "".join(character for character in text if character.isprintable())[:LONGEST]


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _participant(connection: Connection, digest: str) -> Participant | None:
    row = connection.execute(_FIND, {"digest": digest}).one_or_none()
    return None if row is None else Participant(*tuple(row))


def _write(connection: Connection, reply: Mapping[str, Any], *, last: bool) -> bool:
    own, at = reply["participant"], reply["at"]
    if not connection.execute(_LAST if last else _SEEN, {"name": own, "at": at}).rowcount:
        return False
    connection.execute(_EVENT, reply)
    if last:
        connection.execute(_EVENT, {"participant": own, "kind": "finished", "content": {}, "at": at})
    return True


def _claim(connection: Connection, study: Study) -> None:
    """Writes to which study the database belongs, or refuses a database of another study or form of it."""
    lock_opening(connection)
    identity = study.sign("database")[:32]
    row = connection.execute(select(STUDY)).one_or_none()
    if row is None:
        connection.execute(STUDY.insert(), {"id": 1, "identity": identity, "digest": study.digest, "state": "open"})
        return
    if row.identity != identity:
        raise SnellenError(f"the database belongs to another study than '{study.folder}'; give each its own with --database")
    if row.digest == study.digest:
        return
    query = select(PARTICIPANTS.c.simulated, func.count()).group_by(PARTICIPANTS.c.simulated)
    people: dict[bool, int] = {row[0]: row[1] for row in connection.execute(query)}
    if people.get(False):
        raise SnellenError(
            f"'{study.folder}' was changed after {count(people[False], 'participant')} had begun, and new answers would not "
            "be comparable with theirs; put study.yaml, stimuli.json and questionnaires back, or begin with another database"
        )
    if people:
        file = connection.engine.url.database if connection.dialect.name == "sqlite" else None
        raise SnellenError(
            f"'{study.folder}' was changed after a rehearsal with {count(people[True], 'simulated participant')}; "
            + (f"remove '{file}' to begin anew" if file else "begin anew with an empty database")
        )
    connection.execute(STUDY.update().values(digest=study.digest))
