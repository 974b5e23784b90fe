from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import count
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
def fresh(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], str]:
    """Makes addresses of new, empty databases, of either kind."""
    if request.param == "sqlite":
        numbers = count()
        return lambda: f"sqlite:///{tmp_path}/{next(numbers)}.sqlite"
    found: postgres.Cluster = request.getfixturevalue("cluster")
    return found.fresh


@pytest.fixture
def url(fresh: Callable[[], str]) -> str:
    """The address of a new, empty database, of either kind."""
    return fresh()
