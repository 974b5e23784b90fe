"""The database of a study: SQLite by default, PostgreSQL by its address; opened and brought up to date."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from alembic import command
from alembic.config import Config
from alembic.util import CommandError
from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url, text
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from snellen.errors import SnellenError

T = TypeVar("T")

WAIT = 30
"""Seconds that a writer waits for the others before it gives up."""

_MIGRATING = 0x736E656C
"""Number of PostgreSQL's advisory lock under which tables are made."""


@dataclass(eq=False)
class _Work:
    """What a thread waits to have written, and what came of it."""

    work: Callable[[Connection], Any]
    found: Any = None
    problem: Exception | None = None
    done: bool = False


@dataclass(frozen=True, eq=False)
class Database:
    """Connections to one database. Whoever writes has it alone (SQLite), or locks the rows that it is about (PostgreSQL)."""

    engine: Engine
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _waiting: deque[_Work] = field(default_factory=deque)

    @staticmethod
    def open(url: str | None, otherwise: Path) -> Database:
        """The database at this address, or else in this file, with all tables in their newest form."""
        address = _address(url, otherwise)
        database = Database(_engine(address))
        try:
            with database.writing() as connection:
                _durable(connection)
                _migrate(connection)
        except SnellenError:
            database.close()
            raise
        except CommandError:
            database.close()
            raise SnellenError(f"{_name(address)} was written by a newer version of Snellen; update Snellen") from None
        except SQLAlchemyError as problem:
            database.close()
            why = str(getattr(problem, "orig", None) or problem).strip().splitlines() or ["no reason given"]
            raise SnellenError(
                f"cannot open {_name(address)}: {_without_secrets(why[0].strip(), address)}; "
                "check the address, and that the database is running and may be written to"
            ) from None
        return database

    @property
    def sqlite(self) -> bool:
        """Whether this is a file."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection on which every statement sees what is there when it begins."""
        with self.engine.connect() as connection:
            if not self.sqlite:
                connection.execution_options(isolation_level="AUTOCOMMIT")
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that is on disk when the body ends well, and never was when it does not."""
        # Threads queue here: SQLite itself would let them sleep and try again.
        with self._turn if self.sqlite else nullcontext(), self._transaction() as connection:
            yield connection

    def write(self, work: Callable[[Connection], T], *, queued: bool = False) -> T:
        """Does work that is on disk when this returns; what fails changes nothing, and raises here.

        A disk is slow at making sure. PostgreSQL lets those who wait share that by itself, unless they wait for one row
        (`queued`). Otherwise whoever has the turn writes the work of all who came meanwhile, in one transaction.
        """
        if not (self.sqlite or queued):
            with self.writing() as connection:
                return work(connection)
        mine = _Work(work)
        self._waiting.append(mine)
        with self._turn:
            if not mine.done:
                self._write([self._waiting.popleft() for _ in range(len(self._waiting))])
        if mine.problem is not None:
            raise mine.problem
        found: T = mine.found
        return found

    def _write(self, every: list[_Work]) -> None:
        try:
            with self._transaction() as connection:
                for one in every:
                    try:
                        with connection.begin_nested() if len(every) > 1 else nullcontext():
                            one.found = one.work(connection)
                    except Exception as problem:
                        one.problem = problem
                        if len(every) == 1:
                            raise
        except Exception as problem:
            for one in every:
                one.problem = problem
        finally:
            for one in every:
                one.done = True

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self.engine.connect() as connection:
            connection.execution_options(writing=True)
            with connection.begin():
                yield connection

    def scrub(self) -> None:
        """Removes from the files what was deleted; PostgreSQL's log alone keeps it until that is recycled."""
        if not self.sqlite:
            with self.reading() as connection:
                connection.execute(text("VACUUM FULL events, participants"))
            return
        with self._turn, self.engine.connect() as connection:
            connection.execute(text("VACUUM"))
            if connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)")).one()[0]:
                raise SnellenError(
                    "erased, but the database's log keeps a copy for those who are reading; stop the server once"
                )

    def close(self) -> None:
        """Closes every connection."""
        self.engine.dispose()


def _address(url: str | None, otherwise: Path) -> URL:
    if url is None:
        return URL.create("sqlite", database=str(otherwise))
    try:
        address = make_url(url)
    except (ArgumentError, ValueError):
        raise SnellenError(
            "the database's address cannot be read; write it as postgresql+psycopg://USER:PASSWORD@HOST/NAME"
        ) from None
    if address.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return address.set(drivername="postgresql+psycopg")
    if address.drivername in ("sqlite", "sqlite+pysqlite") and address.database not in (None, "", ":memory:"):
        return address
    raise SnellenError(
        f"answers cannot be kept in '{address.drivername}' ({address.database or 'no file named'}); "
        "give sqlite:///FILE or postgresql+psycopg://USER:PASSWORD@HOST/NAME"
    )


def _engine(address: URL) -> Engine:
    if address.get_backend_name() == "postgresql":
        return create_engine(
            address,
            pool_size=12,
            max_overflow=12,
            pool_timeout=WAIT,
            pool_pre_ping=True,
            connect_args={"connect_timeout": 10},
        )
    _private(Path(str(address.database)))
    engine = create_engine(address, pool_size=24, max_overflow=40, pool_timeout=WAIT, connect_args={"timeout": WAIT})

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        # The driver would begin transactions on its own, and too late for a lock.
        connection.isolation_level = None
        for setting in (
            f"busy_timeout = {WAIT * 1000}",
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
            "temp_store = MEMORY",
        ):
            connection.execute(f"PRAGMA {setting}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get("writing"):
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _durable(connection: Connection) -> None:
    """Refuses a PostgreSQL that reports as written what is not on disk yet; SQLite does as it was told above."""
    if connection.dialect.name == "postgresql":
        for setting in ("fsync", "synchronous_commit"):
            if connection.execute(text(f"SHOW {setting}")).scalar_one() == "off":
                raise SnellenError(f"the database has {setting} = off and could lose answers in a crash; switch it on")


def _migrate(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _MIGRATING})
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _name(address: URL) -> str:
    """The database without user, password and options."""
    host = f"{address.host or ''}{f':{address.port}' if address.port else ''}"
    return f"the database '{address.get_backend_name()}://{host}/{address.database or ''}'"


def _without_secrets(why: str, address: URL) -> str:
    for secret in (address.password, address.query.get("password")):
        if secret:
            why = why.replace(str(secret), "…")
    return why


def _private(path: Path) -> None:
    """Makes an empty file that only its owner may read, where there is none yet; SQLite's own would be for everybody."""
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
