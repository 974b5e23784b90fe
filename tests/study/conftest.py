from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import postgres
import pytest


@pytest.fixture(scope="session")
def cluster() -> Iterator[postgres.Cluster]:
    """A PostgreSQL server for these tests alone."""
    try:
        postgres.programs()
    except postgres.MissingError as missing:
        if postgres.REQUIRED in os.environ:
            raise
        pytest.skip(str(missing))
    with postgres.running() as found:
        yield found


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a new, empty database, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/url.sqlite"
    found: postgres.Cluster = request.getfixturevalue("cluster")
    return found.fresh()
