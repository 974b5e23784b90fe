from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.study import analysed, postgres

from snellen.study.folder import Study

if TYPE_CHECKING:
    from tests.study.browsing import Chromium, Server


@pytest.fixture(scope="session")
def cluster() -> Iterator[postgres.Cluster]:
    """A PostgreSQL server for these tests alone."""
    try:
        postgres.programs()
    except postgres.MissingError as missing:
        if postgres.REQUIRED in os.environ:
            raise
        pytest.skip(str(missing))
    with postgres.running() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a new, empty database, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/url.sqlite"
    server: postgres.Cluster = request.getfixturevalue("cluster")
    return server.fresh()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """A Chromium for these tests alone."""
    from tests.study import browsing

    try:
        browsing.program()
    except browsing.MissingError as missing:
        if browsing.REQUIRED in os.environ:
            raise
        pytest.skip(str(missing))
    with browsing.chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def between(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return analysed.study_between(tmp_path_factory.mktemp("study") / "between")


@pytest.fixture(scope="module")
def within(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return analysed.study_within(tmp_path_factory.mktemp("study") / "within")


@pytest.fixture(scope="module")
def crossed(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return analysed.study_crossed(tmp_path_factory.mktemp("study") / "crossed")


def _served(factory: pytest.TempPathFactory, name: str) -> Iterator[Server]:
    from tests.study import browsing, photographed_study

    study, password = photographed_study.plant_photographs(factory.mktemp("study") / name, photographed_study.STUDIES[name])
    with browsing.serving(study, password) as server:
        yield server


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A served study with every task."""
    yield from _served(tmp_path_factory, "whole")


@pytest.fixture(scope="session")
def changing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A served study in which everybody meets all kinds of maps, and none."""
    yield from _served(tmp_path_factory, "changing")


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A served study of five pages; tests may kill its server, if they start it again."""
    yield from _served(tmp_path_factory, "small")
