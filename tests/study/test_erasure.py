from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from http.cookiejar import CookieJar
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import IntegrityError
from tests.study import postgres
from tests.study.crowds import admit
from tests.study.planted_study import plant
from tests.study.visitor import Read, Served
from typer.testing import CliRunner

from snellen.cli.study import app
from snellen.errors import SnellenError
from snellen.study.answers.store import FILE, AnswerStore
from snellen.study.folder import Study
from snellen.study.web.application import application

ID = "recruit-4711-of-somebody"


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return plant(tmp_path / "study", recruiting=["PID"])[0]


def _traces(folder: Path) -> list[str]:
    """The files of a folder that hold the recruiting id."""
    return [path.name for path in sorted(folder.rglob("*")) if path.is_file() and ID.encode() in path.read_bytes()]


@contextmanager
def _reader(study: Study) -> Iterator[None]:
    """Another program that reads the database, and does not come to an end."""
    with closing(sqlite3.connect(study.folder / FILE, isolation_level=None)) as connection:
        connection.execute("BEGIN")
        connection.execute("SELECT count(*) FROM participants").fetchone()
        yield


def test_an_erasure_that_somebody_reads_past_is_told_and_completed_later(study: Study) -> None:
    with closing(replace(AnswerStore.open(study), patience=0.3)) as store:
        person, other = admit(store, "a", PID=ID), admit(store, "b")
        with _reader(study):
            began = time.monotonic()
            assert store.erase(person.participant)
            assert time.monotonic() - began < 10
            assert store.lingering
            assert _traces(study.folder)
            assert store.reply(other, "p000", {}, 1.0, last=False)  # nobody else is held up
            assert not store.scrub()
        assert store.scrub()
        assert not store.lingering
        assert _traces(study.folder) == []
        assert [participation.participant for participation in store.participations(simulated=False)] == [other.participant]


@pytest.mark.slow
def test_what_an_erasure_left_is_removed_when_the_store_is_closed_or_opened(study: Study) -> None:
    store = replace(AnswerStore.open(study), patience=0.0)
    person = admit(store, "a", PID=ID)
    with _reader(study):
        store.erase(person.participant)
        store.close()
        assert _traces(study.folder)
        result = CliRunner().invoke(app, ["status", str(study.folder)])
        assert "still hold a copy of an erased participant" in " ".join(result.stdout.split())
    result = CliRunner().invoke(app, ["status", str(study.folder)])
    assert "still hold" not in result.stdout
    assert _traces(study.folder) == []


@pytest.mark.slow
def test_the_command_says_what_is_left(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(AnswerStore.open(study)) as store:
        name = admit(store, "a", PID=ID).participant
    monkeypatch.setattr(
        AnswerStore, "open", lambda *arguments, open_store=AnswerStore.open: replace(open_store(*arguments), patience=0.0)
    )
    with _reader(study):
        result = CliRunner().invoke(app, ["erase", str(study.folder), name])
    assert isinstance(result.exception, SnellenError)
    assert f"'{name}' is erased from the tables, but the database's files still hold a copy" in str(result.exception)
    result = CliRunner().invoke(app, ["erase", str(study.folder), name])
    assert f"is called '{name}'" in str(result.exception)
    assert _traces(study.folder) == []


def test_the_desk_says_what_is_left_and_tries_again(tmp_path: Path) -> None:
    study, password = plant(tmp_path / "study", recruiting=["PID"])
    with closing(replace(AnswerStore.open(study), patience=0.2)) as store:
        name = admit(store, "a", PID=ID).participant
        experimenter = Served(study, password, store, application(study, store)).experimenter(**{"accept-language": "en"})
        question = experimenter.get(f"/admin/erase?participant={name}")
        with _reader(study):
            response = experimenter.client.post("/admin/erase", data=question.fields)
            assert response.status_code == 200
            read_page = Read(response.text)
            assert f"{name} has been erased" in read_page.words
            assert "the files of the database still hold a copy" in read_page.words
        part = read_page.text.split('action="/admin/scrub"')[1]
        mark = part.split('name="csrf" value="')[1].split('"')[0]
        assert experimenter.client.post("/admin/scrub", data={"csrf": "x"}).status_code == 403
        assert "still hold" not in experimenter.client.post("/admin/scrub", data={"csrf": mark}).text
        assert _traces(study.folder) == []


def test_where_somebody_else_writes_the_desk_says_that_nobody_was_erased(tmp_path: Path) -> None:
    study, password = plant(tmp_path / "study", recruiting=["PID"])
    with closing(AnswerStore.open(study)) as store:
        name = admit(store, "a", PID=ID).participant
        event.listen(store.database.engine, "connect", lambda connection, _: connection.execute("PRAGMA busy_timeout = 100"))
        store.database.engine.dispose()
        experimenter = Served(study, password, store, application(study, store)).experimenter(**{"accept-language": "en"})
        question = experimenter.get(f"/admin/erase?participant={name}")
        with closing(sqlite3.connect(study.folder / FILE, isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            with pytest.raises(SnellenError, match=r"was not erased, because .*locked.*; end what else is writing"):
                store.erase(name)
            response = experimenter.client.post("/admin/erase", data=question.fields)
        assert response.status_code == 200
        assert f"{name} was not erased" in Read(response.text).words
        assert len(store.participations(simulated=False)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("table", ["study", "events"])
def test_an_old_transaction_of_postgresql_keeps_no_trace_unnoticed(
    study: Study, cluster: postgres.Cluster, table: str
) -> None:
    url = cluster.fresh()
    with closing(replace(AnswerStore.open(study, url), patience=0.6)) as store:
        person, other = admit(store, "a", PID=ID), admit(store, "b")
        with store.database.reading() as connection:
            number = connection.execute(text("SELECT oid FROM pg_database WHERE datname = current_database()")).scalar_one()
        folder = cluster.folder / "data" / "base" / str(number)
        with psycopg.connect(url.replace("+psycopg", "")) as reader:
            reader.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            reader.execute(f"SELECT * FROM {table}").fetchall()
            began = time.monotonic()
            assert store.erase(person.participant)
            assert time.monotonic() - began < 10
            assert store.lingering
            assert store.reply(other, "p000", {}, 1.0, last=False)
        assert store.scrub(patience=10.0)
        assert not store.lingering
        with store.database.reading() as connection:
            connection.execute(text("CHECKPOINT"))
        assert _traces(folder) == []


def _serve(folder: Path) -> tuple[subprocess.Popen[str], str]:
    words = [sys.executable, "-c", "from snellen.cli.main import main; main()", "study", "serve", str(folder), "--port", "0"]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert server.stdout is not None
    lines = [server.stdout.readline() for _ in range(3)]
    return server, lines[1].removeprefix("participants: ").strip()


@pytest.mark.slow
def test_a_server_that_is_told_to_end_leaves_no_trace_of_who_was_erased(study: Study) -> None:
    server, link = _serve(study.folder)
    try:
        browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        with browser.open(f"{link}?PID={ID}", timeout=30) as response:
            fields = Read(response.read().decode()).fields
        with browser.open(f"{link}consent", urllib.parse.urlencode(fields).encode(), timeout=30) as response:
            assert response.status == 200
        with closing(replace(AnswerStore.open(study), patience=0.0)) as store, _reader(study):
            assert store.erase(store.participations(simulated=False)[0].participant)
            assert store.lingering
        server.send_signal(signal.SIGTERM)
        rest, _ = server.communicate(timeout=30)
    finally:
        server.kill()
    assert (rest, server.returncode) == ("stopped; every answer is stored\n", 0)
    assert _traces(study.folder) == []
    assert [path.name for path in study.folder.glob(f"{FILE}*")] == [FILE]


def test_an_error_of_the_database_names_nobody(study: Study) -> None:
    with closing(AnswerStore.open(study)) as store:
        admit(store, "a", PID=ID)
        with store.database.writing() as connection:
            refusing = "CREATE TRIGGER refusing BEFORE INSERT ON participants BEGIN SELECT RAISE(ABORT, 'planted'); END"
            connection.execute(text(refusing))
        with pytest.raises(IntegrityError, match="planted") as problem:
            admit(store, "b", PID=ID)
        assert ID not in str(problem.value)
