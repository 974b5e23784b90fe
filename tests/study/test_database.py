from __future__ import annotations

import re
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import create_engine, event, text
from tests.study import postgres
from tests.study.crowds import admit
from tests.study.planted_study import plant

from snellen.errors import SnellenError
from snellen.study.answers.database import Database
from snellen.study.answers.store import AnswerStore
from snellen.study.answers.tables import METADATA
from snellen.study.folder import Study


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return plant(tmp_path / "study")[0]


def test_answers_are_on_disk_when_they_are_kept(study: Study, url: str) -> None:
    store = AnswerStore.open(study, url)
    settings = {"sqlite": ("synchronous", 2), "postgresql": ("fsync", "on")}
    name, value = settings[store.database.engine.dialect.name]
    with store.database.writing() as connection:
        assert connection.execute(text(f"{'PRAGMA' if store.database.sqlite else 'SHOW'} {name}")).scalar_one() == value
        if store.database.sqlite:
            assert connection.execute(text("PRAGMA journal_mode")).scalar_one() == "wal"
    store.close()


def test_a_postgresql_that_answers_before_it_has_written_is_refused(study: Study, cluster: postgres.Cluster) -> None:
    with pytest.raises(SnellenError, match="synchronous_commit = off"):
        AnswerStore.open(study, cluster.fresh() + "&options=-csynchronous_commit%3Doff")


def test_a_postgresql_that_was_restarted_is_found_again(study: Study, cluster: postgres.Cluster) -> None:
    url = cluster.fresh()
    store = AnswerStore.open(study, url)
    person = admit(store, "a")
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        others = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        assert connection.execute(text(f"SELECT pg_terminate_backend(pid) {others}")).all()
    engine.dispose()
    assert store.reply(person, "p000", {}, 1.0, last=False)
    store.close()


def test_a_database_belongs_to_one_study(study: Study, url: str, tmp_path: Path) -> None:
    AnswerStore.open(study, url).close()
    with pytest.raises(SnellenError, match="another study"):
        AnswerStore.open(plant(tmp_path / "other")[0], url)


def test_a_study_may_be_changed_until_somebody_has_begun(study: Study, url: str) -> None:
    AnswerStore.open(study, url).close()
    changed = _changed(study, "seed: 1")
    store = AnswerStore.open(changed, url)
    person = admit(store, "a")
    store.close()
    again = AnswerStore.open(_changed(study, "title: Other words"), url)  # what answers do not depend on may change
    again.close()
    with pytest.raises(SnellenError, match="after 1 participant had begun"):
        AnswerStore.open(_changed(study, "seed: 2"), url)
    store = AnswerStore.open(changed, url)
    assert store.find("a") == person
    store.close()


def test_after_a_rehearsal_alone_a_changed_study_begins_anew(study: Study, url: str) -> None:
    store = AnswerStore.open(study, url)
    admit(store, "a", simulated=True)
    store.close()
    with pytest.raises(SnellenError, match=r"rehearsal with 1 simulated participant; (remove '.*sqlite'|begin anew with)"):
        AnswerStore.open(_changed(study, "seed: 2"), url)


def _changed(study: Study, line: str) -> Study:
    path = study.folder / "study.yaml"
    name = line.split(":", maxsplit=1)[0]
    kept = [line for line in path.read_text().splitlines() if not line.startswith(f"{name}:")]
    path.write_text("\n".join([*kept, line]) + "\n")
    return Study.read(study.folder)


def test_tables_made_step_by_step_are_the_tables_of_the_code(url: str, tmp_path: Path) -> None:
    database = Database.open(url, tmp_path)
    with database.reading() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": "snellen_version"})
        assert context.get_current_heads() == ("0002",)
        assert compare_metadata(context, METADATA) == []
    database.close()
    Database.open(url, tmp_path).close()  # nothing is left to do


def test_a_database_of_the_first_version_opens_with_its_answers(study: Study, url: str) -> None:
    with closing(AnswerStore.open(study, url)) as store:
        person = admit(store, "a")
        store.reply(person, "p000", {"value": 1}, 1.0, last=False)
        with store.database.writing() as connection:
            connection.execute(text("DROP TABLE logouts"))
            connection.execute(text("UPDATE snellen_version SET version_num = '0001'"))
    with closing(AnswerStore.open(study, url)) as store:
        assert store.find("a") == person
        assert list(store.replies(person)) == ["p000"]
        assert not store.logged_out("somebody")


def test_a_database_of_a_newer_version_is_refused(url: str, tmp_path: Path) -> None:
    database = Database.open(url, tmp_path)
    with database.writing() as connection:
        connection.execute(text("UPDATE snellen_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(SnellenError, match="newer version of Snellen"):
        Database.open(url, tmp_path)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        (
            "postgresql+psycopg://user:hidden@127.0.0.1:1/answers",
            "cannot open the database 'postgresql://127.0.0.1:1/answers'",
        ),
        ("postgresql+psycopg://127.0.0.1:1/answers?password=hidden", "cannot open"),
        ("postgresql+psycopg://user:hidden@127.0.0.1:1/answers?nonsense=hidden", "cannot open"),
        ("sqlite:////nowhere/at/all.sqlite", "cannot open"),
        ("sqlite:////dev/null/hidden", "cannot open"),
        ("sqlite://", "no file named"),
        ("sqlite:///:memory:", "answers cannot be kept"),
        ("mysql://user:hidden@there/answers", "answers cannot be kept in 'mysql'"),
        ("hidden", "address cannot be read"),
        ("postgresql://user:hidden@there:port/x", "address cannot be read"),
    ],
)
def test_a_database_that_cannot_be_opened_says_so_in_a_sentence_without_its_password(
    study: Study, address: str, words: str
) -> None:
    with pytest.raises(SnellenError, match=re.escape(words)) as refused:
        AnswerStore.open(study, address)
    sentence = str(refused.value)
    assert "hidden" not in sentence.replace("/dev/null/hidden", "")
    assert "\n" not in sentence
    assert refused.value.__cause__ is None


def test_the_file_in_the_folder_is_for_its_owner_alone(study: Study) -> None:
    store = AnswerStore.open(study)
    admit(store, "a")
    files = list(study.folder.glob("answers.sqlite*"))
    assert len(files) == 3
    assert {path.stat().st_mode & 0o077 for path in files} == {0}
    store.close()


def test_answers_that_wait_for_each_other_are_written_together_and_a_refused_one_changes_no_other(study: Study) -> None:
    with closing(AnswerStore.open(study)) as store:
        people = [store.admit(token=f"{place:020d}", language="en", simulated=False, recruited={}) for place in range(6)]
        store.reply(people[0], "p000", {"value": 1}, 1.0, last=False)
        commits: list[int] = []
        event.listen(store.database.engine, "commit", lambda _: commits.append(1))
        with ThreadPoolExecutor(6) as threads:
            with store.database._turn:
                waiting = [threads.submit(store.reply, person, "p000", {"value": 2}, 1.0, last=False) for person in people]
                while len(store.database._waiting) < len(people):
                    time.sleep(0.001)
            kept = [future.result() for future in waiting]
        assert kept == [False, True, True, True, True, True]
        assert len(commits) == 1
        contents = [participation.replies["p000"].content for participation in store.participations(simulated=False)]
        assert contents == [{"value": 1}] + [{"value": 2}] * 5


def test_where_the_disk_refuses_nobody_is_told_that_an_answer_was_kept(study: Study) -> None:
    with closing(AnswerStore.open(study)) as store:
        people = [store.admit(token=f"{place:020d}", language="en", simulated=False, recruited={}) for place in range(3)]

        def full(_: object) -> None:
            raise OSError("no space left")

        event.listen(store.database.engine, "commit", full)
        with ThreadPoolExecutor(3) as threads:
            with store.database._turn:
                waiting = [threads.submit(store.reply, person, "p000", {}, 1.0, last=False) for person in people]
                while len(store.database._waiting) < len(people):
                    time.sleep(0.001)
            problems = [future.exception() for future in waiting]
        assert [str(problem) for problem in problems] == ["no space left"] * 3
        event.remove(store.database.engine, "commit", full)
        assert store.reply_count(simulated=False) == 0
        assert store.reply(people[0], "p000", {}, 1.0, last=False)
