"""The database of a study: SQLite by default, PostgreSQL by its address; opened and brought up to date."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
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
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError, SQLAlchemyError

from snellen.errors import SnellenError

T = TypeVar("T")

WAIT = 30
"""Seconds that a writer waits for the others before it gives up."""

PATIENCE = 10.0
"""Seconds that removing traces of deleted rows waits for those who read."""

_ATTEMPT_MILLISECONDS = 250
"""Milliseconds of one attempt at that; meanwhile nobody else can write."""

_OTHER_READERS = """
SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
            AND backend_type <> 'autovacuum worker' AND age(backend_xmin) >= age(CAST(:xid AS xid)))
     + (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()
            AND age(transaction) >= age(CAST(:xid AS xid)))
     + (SELECT count(*) FROM pg_replication_slots WHERE age(xmin) >= age(CAST(:xid AS xid)))
"""
"""How many of PostgreSQL's transactions may still see rows that were deleted before this one."""

_OPENING_LOCK = 0x736E656C
"""Number of PostgreSQL's advisory lock under which tables are made and their first row is written."""


@dataclass(eq=False)
class _QueuedWork:
    """Work that waits for a transaction, and its result or exception."""

    work: Callable[[Connection], Any]
    result: Any = None
    problem: Exception | None = None
    done: bool = False
    """Whether it was tried."""


@dataclass(frozen=True, eq=False)
class Database:
    """Connections to one database. SQLite has one writer at a time; PostgreSQL locks the rows of a transaction."""

    engine: Engine
    _turn: threading.Lock = field(default_factory=threading.Lock)
    _waiting: deque[_QueuedWork] = field(default_factory=deque)

    @staticmethod
    def open(url: str | None, default: Path) -> Database:
        """Opens the database at this address, or else in the file `default`, and brings its tables up to date."""
        address = _address(url, default)
        database = Database(_engine(address))
        try:
            if database.sqlite:
                _refuse_damaged_file(database.engine, address)
            with database.writing() as connection:
                _refuse_unsafe_settings(connection)
                _migrate(connection)
        except SnellenError:
            database.close()
            raise
        except CommandError:
            database.close()
            raise SnellenError(f"{_name(address)} was written by a newer version of Snellen; update Snellen") from None
        except SQLAlchemyError as problem:
            database.close()
            reason = str(getattr(problem, "orig", None) or problem).strip().splitlines() or ["no reason given"]
            raise SnellenError(
                f"cannot open {_name(address)}: {_without_secrets(reason[0].strip(), address)}; "
                "check the address, and that the database is running and may be written to"
            ) from None
        return database

    @property
    def sqlite(self) -> bool:
        """Whether the database is a SQLite file."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection on which every statement sees the data that is stored when the statement begins."""
        with self.engine.connect() as connection:
            if not self.sqlite:
                connection.execution_options(isolation_level="AUTOCOMMIT")
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction: on disk when the body ends, undone where the body raises."""
        # Threads queue here: SQLite itself would let them sleep and try again.
        with self._turn if self.sqlite else nullcontext(), self._transaction() as connection:
            yield connection

    def write(self, work: Callable[[Connection], T], *, queued: bool = False) -> T:
        """Runs `work` in a transaction and returns its result, which is on disk by then; what fails changes nothing.

        Writing to disk is slow. So SQLite writes the work of all threads that wait in one transaction. PostgreSQL does so by
        itself, unless they wait for the same row (`queued`).

        """
        if not (self.sqlite or queued):
            with self.writing() as connection:
                return work(connection)
        queued_work = _QueuedWork(work)
        self._waiting.append(queued_work)
        with self._turn:
            if not queued_work.done:
                self._write([self._waiting.popleft() for _ in range(len(self._waiting))])
        if queued_work.problem is not None:
            raise queued_work.problem
        result: T = queued_work.result
        return result

    def _write(self, jobs: list[_QueuedWork]) -> None:
        try:
            with self._transaction() as connection:
                for job in jobs:
                    try:
                        with connection.begin_nested() if len(jobs) > 1 else nullcontext():
                            job.result = job.work(connection)
                    except Exception as problem:
                        job.problem = problem
                        if len(jobs) == 1:
                            raise
        except Exception as problem:
            for job in jobs:
                job.problem = problem
        finally:
            for job in jobs:
                job.done = True

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self.engine.connect() as connection:
            connection.execution_options(writing=True)
            with connection.begin():
                yield connection

    def scrub(self, patience: float) -> bool:
        """Removes deleted rows from the files for good; returns whether that was possible.

        Other readers may still need them: this waits up to `patience` seconds for these, while others can write. The log and
        the backups of PostgreSQL are not reached.

        """
        attempts = self._scrub_sqlite() if self.sqlite else self._scrub_postgresql()
        return _succeeds_within(attempts, patience)

    def _scrub_sqlite(self) -> Iterator[bool]:
        vacuumed = False
        while True:
            clean = False
            with self._turn, self._with_short_timeout() as connection, suppress(OperationalError):
                if not vacuumed:
                    connection.execute(text("VACUUM"))
                    vacuumed = True
                clean = _log_emptied(connection)
            yield clean

    def _scrub_postgresql(self) -> Iterator[bool]:
        with self.reading() as connection:
            xid = connection.execute(text("SELECT pg_current_xact_id()::xid::text")).scalar_one()
            while True:
                clean = False
                # What an old transaction may still see is copied into the new table, dead or not.
                if not connection.execute(text(_OTHER_READERS), {"xid": xid}).scalar_one():
                    connection.execute(text(f"SET lock_timeout = {_ATTEMPT_MILLISECONDS}"))
                    with suppress(OperationalError):
                        connection.execute(text("VACUUM FULL events, participants"))
                        clean = True
                    connection.execute(text(f"SET lock_timeout = {WAIT * 1000}"))
                yield clean

    @contextmanager
    def _with_short_timeout(self) -> Iterator[Connection]:
        """A connection to SQLite that waits only `_ATTEMPT_MILLISECONDS` for other connections."""
        with self.engine.connect() as connection:
            connection.execute(text(f"PRAGMA busy_timeout = {_ATTEMPT_MILLISECONDS}"))
            try:
                yield connection
            finally:
                connection.execute(text(f"PRAGMA busy_timeout = {WAIT * 1000}"))

    def close(self, patience: float = 1.0) -> None:
        """Closes every connection; SQLite's write-ahead log is emptied into its file, unless somebody reads for longer."""
        if self.sqlite:
            with suppress(SQLAlchemyError, sqlite3.Error):
                _succeeds_within(self._empty_log(), patience)
        self.engine.dispose()

    def _empty_log(self) -> Iterator[bool]:
        while True:
            with self._turn, self._with_short_timeout() as connection:
                emptied = _log_emptied(connection)
            yield emptied


def _log_emptied(connection: Connection) -> bool:
    """Moves SQLite's write-ahead log into the file and empties it; False where another connection still reads it."""
    return not connection.execute(text("PRAGMA wal_checkpoint(TRUNCATE)")).one()[0]


def _succeeds_within(attempts: Iterator[bool], patience: float) -> bool:
    """Whether one of the attempts succeeds within so many seconds; the first is always made."""
    end = time.monotonic() + patience
    for success in attempts:
        if success or time.monotonic() >= end:
            return success
        time.sleep(_ATTEMPT_MILLISECONDS / 1000)
    return False


def _address(url: str | None, default: Path) -> URL:
    if url is None:
        return URL.create("sqlite", database=str(default))
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
    # An error that names its parameters would put participants' ids into the log.
    if address.get_backend_name() == "postgresql":
        engine = create_engine(
            address,
            pool_size=12,
            max_overflow=12,
            pool_timeout=WAIT,
            pool_pre_ping=True,
            connect_args={"connect_timeout": 10},
            hide_parameters=True,
        )

        @event.listens_for(engine, "connect")
        def limit(connection: Any, _record: Any) -> None:
            connection.execute(f"SET lock_timeout = {WAIT * 1000}")
            connection.commit()

        return engine
    _make_private(Path(str(address.database)))
    engine = create_engine(
        address, pool_size=24, max_overflow=40, pool_timeout=WAIT, connect_args={"timeout": WAIT}, hide_parameters=True
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: Any) -> None:
        # The driver would begin transactions on its own, and too late for a lock.
        connection.isolation_level = None
        for setting in (
            f"busy_timeout = {WAIT * 1000}",
            "synchronous = FULL",
            "foreign_keys = ON",
            "temp_store = MEMORY",
        ):
            connection.execute(f"PRAGMA {setting}")
        _write_ahead(connection)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get("writing"):
            connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Gives a file of SQLite a write-ahead log. Where another server is doing so, SQLite refuses without waiting."""
    end = time.monotonic() + WAIT
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as problem:
            if problem.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= end:
                raise
        time.sleep(0.02)


def _refuse_damaged_file(engine: Engine, address: URL) -> None:
    """Refuses a file of SQLite whose structure is damaged, before anything is written into it."""
    try:
        with engine.connect() as connection:
            problem = str(connection.execute(text("PRAGMA quick_check(1)")).scalar_one())
    except (DBAPIError, sqlite3.DatabaseError) as error:
        cause = getattr(error, "orig", None) or error
        if getattr(cause, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise
        problem = str(cause)
    if problem != "ok":
        path = address.database
        raise SnellenError(
            f"{_name(address)} is damaged ({' '.join(problem.split())[:200]}), and nothing was changed in it; put a backup "
            f"in its place and remove '{path}-wal' and '{path}-shm', or save what can be read: sqlite3 '{path}' .recover"
        )


def _refuse_unsafe_settings(connection: Connection) -> None:
    """Refuses a PostgreSQL that reports data as written before they are on disk; SQLite is set up by `_engine`."""
    if connection.dialect.name == "postgresql":
        for setting in ("fsync", "synchronous_commit"):
            if connection.execute(text(f"SHOW {setting}")).scalar_one() == "off":
                raise SnellenError(f"the database has {setting} = off and could lose answers in a crash; switch it on")


def lock_opening(connection: Connection) -> None:
    """Keeps other servers from preparing the database until this transaction ends; SQLite has one writer anyway."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _OPENING_LOCK})


def _migrate(connection: Connection) -> None:
    lock_opening(connection)
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _name(address: URL) -> str:
    """The database without user, password and options."""
    host = f"{address.host or ''}{f':{address.port}' if address.port else ''}"
    return f"the database '{address.get_backend_name()}://{host}/{address.database or ''}'"


def _without_secrets(reason: str, address: URL) -> str:
    for secret in (address.password, address.query.get("password")):
        if secret:
            reason = reason.replace(str(secret), "…")
    return reason


def _make_private(path: Path) -> None:
    """Creates the file, readable by its owner only, where it is missing; SQLite itself would make it readable by all.

    Files that exist lose the access of other users, which a copy may have given them.

    """
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    for file in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        with suppress(OSError):
            mode = file.stat().st_mode
            if stat.S_ISREG(mode) and mode & 0o007:
                file.chmod(stat.S_IMODE(mode) & ~0o007)
