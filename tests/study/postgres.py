"""A PostgreSQL of the tests' own: a cluster in a temporary folder, reached through a socket in it, gone afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psycopg

REQUIRED = "SNELLEN_REQUIRE_POSTGRESQL"
"""Where this is set in the environment, a missing PostgreSQL is a failure and no reason to skip."""


class MissingError(Exception):
    """PostgreSQL's programs are not installed."""


@dataclass(frozen=True)
class Cluster:
    """A running server."""

    folder: Path
    numbers: Iterator[int] = field(default_factory=count)

    def fresh(self) -> str:
        """The address of a new, empty database."""
        name = f"t{next(self.numbers)}"
        with psycopg.connect(f"host={self.folder} user=postgres dbname=postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return f"postgresql+psycopg://postgres@/{name}?host={self.folder}"


@contextmanager
def running() -> Iterator[Cluster]:
    """A cluster that is started here and stopped afterwards; as by default, what is committed is on disk."""
    where = programs()
    # Its path ends up in the name of a socket, which must be short; pytest's own folders are not.
    folder = Path(tempfile.mkdtemp(prefix="snellen-pg-"))
    try:
        if os.getuid() == 0:
            shutil.chown(folder, "postgres")
        data = folder / "data"
        _run(where / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        settings = f"-c listen_addresses= -c unix_socket_directories={folder} -c max_connections=200"
        _run(where / "pg_ctl", "-D", data, "-l", folder / "log", "-o", settings, "-w", "start")
        try:
            yield Cluster(folder)
        finally:
            _run(where / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def programs() -> Path:
    """The folder with the programs of the newest PostgreSQL that is installed."""
    folders = [Path(program).parent for program in (shutil.which("pg_ctl"),) if program] + sorted(
        Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name), reverse=True
    )
    for folder in folders:
        if (folder / "initdb").exists():
            return folder
    raise MissingError("PostgreSQL is not installed (no initdb)")


def _run(*words: str | Path) -> None:
    # PostgreSQL refuses to run as root.
    user = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
    done = subprocess.run([*user, *map(str, words)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd="/")
    if done.returncode:
        raise RuntimeError(f"{words[0]}: {done.stderr.decode()}")
