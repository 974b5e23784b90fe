from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyarrow import parquet
from tests.study.planted_study import plant
from typer.testing import CliRunner

from snellen.cli.study import app
from snellen.errors import SnellenError
from snellen.study.answers import export
from snellen.study.answers.codebook import ABOUT, SIMULATED
from snellen.study.answers.export import write_export
from snellen.study.answers.store import AnswerStore, Participant
from snellen.study.folder import Study
from snellen.study.participation import collect_data
from snellen.study.schedule import Page

TASKS = [
    {"task": "error-detection", "items": 3, "practice": 1},
    {"task": "forward-selection", "items": 2, "practice": 1},
    {"task": "sharpness", "items": 2, "practice": 0},
]
TABLES = (*ABOUT, "recruiting")


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return plant(tmp_path / "study", tasks=TASKS, recruiting=["PROLIFIC_PID", "STUDY_ID"])[0]


@pytest.fixture
def store(study: Study) -> Iterator[AnswerStore]:
    opened = AnswerStore.open(study)
    yield opened
    opened.close()


def take_part(
    store: AnswerStore, token: str, *, simulated: bool = False, pages: int = 1000, **recruited: str
) -> Participant:
    person = store.admit(token=token, language="de", simulated=simulated, recruited=recruited)
    draw = np.random.default_rng(person.number)
    schedule = store.study.pages(person.group, person.number)
    for place, page in enumerate(schedule[:pages]):
        store.reply(person, page.id, _answer(page, draw), float(draw.uniform(1, 9)), last=place + 1 == len(schedule))
    return person


def _answer(page: Page, draw: np.random.Generator) -> dict[str, Any]:
    if page.kind == "scale":
        return {"answers": [int(rating) for rating in draw.integers(1, 6, 8)]}
    if page.kind == "attention":
        return {"value": page.requested}
    if page.task == "forward-selection":
        return {"value": None, "beside": None, "chosen": [0, 4]}
    if page.task == "sharpness":
        return {"value": int(draw.integers(1, 8)), "beside": None, "chosen": []}
    return {"value": int(draw.integers(2)), "beside": 70, "chosen": []}


def crowd(store: AnswerStore, *, simulated: bool = False) -> list[Participant]:
    people = [
        take_part(store, f"{simulated} {number}", simulated=simulated, PROLIFIC_PID=f"pid-{number}", EMAIL="a@example.org")
        for number in range(5)
    ]
    people.append(take_part(store, f"{simulated} early", simulated=simulated, pages=4))
    return people


def content(path: Path) -> str:
    """Everything in a file as text; Parquet is compressed."""
    if path.suffix == ".parquet":
        table = parquet.read_table(path)
        return f"{table.schema.metadata} {table.to_pydict()}"
    return path.read_text()


def read(folder: Path, name: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    return pd.read_csv(folder / f"{name}.csv"), pd.read_parquet(folder / f"{name}.parquet")


def test_tables_are_read_back_as_they_were_collected(study: Study, store: AnswerStore, tmp_path: Path) -> None:
    crowd(store)
    written = write_export(study, store, tmp_path / "out", simulated=False)
    assert sorted(path.name for path in written) == sorted(
        [*(f"{table}.{kind}" for table in TABLES for kind in ("csv", "parquet")), "codebook.json", "codebook.md"]
    )
    collected = collect_data(study, store.participations(simulated=False), simulated=False)
    for name in ABOUT:
        expected = getattr(collected, name)
        for table in read(tmp_path / "out", name):
            assert list(table.columns) == list(expected.columns)
            assert len(table) == len(expected) > 5
            for column in expected:
                same(table[column], expected[column])


def same(actual: pd.Series[Any], expected: pd.Series[Any]) -> None:
    """The same values, where an empty text is read back as missing."""
    for value, other in zip(actual.tolist(), expected.tolist(), strict=True):
        missing = other is None or other == "" or (isinstance(other, float) and np.isnan(other))
        assert (pd.isna(value) or value == "") if missing else str(value) == str(other) or float(value) == float(other)


def test_an_empty_study_has_the_columns_and_kinds_of_a_full_one(study: Study, store: AnswerStore, tmp_path: Path) -> None:
    write_export(study, store, tmp_path / "empty", simulated=False)
    crowd(store)
    write_export(study, store, tmp_path / "full", simulated=False)
    for name in TABLES:
        empty, full = (parquet.read_schema(tmp_path / folder / f"{name}.parquet") for folder in ("empty", "full"))
        assert empty.remove_metadata() == full.remove_metadata()
        assert len(pd.read_csv(tmp_path / "empty" / f"{name}.csv")) == 0


@pytest.mark.parametrize("simulated", [False, True])
def test_the_codebook_names_every_column_of_every_table(
    study: Study, store: AnswerStore, tmp_path: Path, simulated: bool
) -> None:
    crowd(store, simulated=simulated)
    write_export(study, store, tmp_path, simulated=simulated)
    prefix = "simulated-" if simulated else ""
    book = json.loads((tmp_path / f"{prefix}codebook.json").read_text())
    text = (tmp_path / f"{prefix}codebook.md").read_text()
    for name in TABLES:
        table = book["tables"][name]
        columns = [column["name"] for column in table["columns"]]
        for path in table["files"]:
            read_back = pd.read_csv(tmp_path / path) if path.endswith("csv") else pd.read_parquet(tmp_path / path)
            assert list(read_back.columns) == columns
            assert len(read_back) == table["rows"]
        part = text.split(f"## {prefix}{name}.csv")[1].split("\n## ")[0]
        for column in table["columns"]:
            assert f"| `{column['name']}` | {column['kind']} | {column['meaning']} |" in part
            assert column["meaning"]
    assert len(book["groups"]) == len(study.protocol.groups)
    for word in ("error-detection", "forward-selection", "sharpness", "satisfaction", "trust", "guided-backprop"):
        assert f"`{word}" in text


def test_a_simulated_export_says_so_everywhere_and_a_real_one_holds_nobody_of_it(
    study: Study, store: AnswerStore, tmp_path: Path
) -> None:
    real = {person.participant for person in crowd(store)}
    nobody = {person.participant for person in crowd(store, simulated=True)}
    for simulated, people, others in ((False, real, nobody), (True, nobody, real)):
        written = write_export(study, store, tmp_path, simulated=simulated)
        assert {path.name.startswith("simulated-") for path in written} == {simulated}
        for path in written:
            text = content(path)
            assert not [other for other in others if other in text]
            assert (SIMULATED in text) == (simulated and path.suffix != ".csv")
        for name in TABLES:
            for table in read(tmp_path, f"{'simulated-' if simulated else ''}{name}"):
                assert set(table["participant"]) <= people
                assert ("simulated" in table) == (simulated or name == "participants")
                if "simulated" in table:
                    assert set(table["simulated"]) == {simulated}
        facts = parquet.read_schema(written[1]).metadata
        assert facts[b"snellen.simulated"] == (b"true" if simulated else b"false")


def test_rows_of_the_wrong_kind_are_never_written(
    study: Study, store: AnswerStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crowd(store, simulated=True)
    # Whatever the store lists: first what it must never list, then tables that claim to be real.
    participations = store.participations(simulated=True)
    monkeypatch.setattr(AnswerStore, "participations", lambda self, *, simulated: participations)
    with pytest.raises(ValueError, match="never put into one table"):
        write_export(study, store, tmp_path / "out", simulated=False)
    monkeypatch.setattr(export, "collect_data", lambda *some, simulated: collect_data(*some, simulated=True))
    with pytest.raises(ValueError, match="never exported together"):
        write_export(study, store, tmp_path / "out", simulated=False)
    assert not (tmp_path / "out").exists()


def test_nothing_that_others_know_people_by_leaves_the_table_for_recruiting(
    study: Study, store: AnswerStore, tmp_path: Path
) -> None:
    people = crowd(store)
    for path in write_export(study, store, tmp_path, simulated=False):
        text, recruiting = content(path), path.name.startswith("recruiting")
        assert "example.org" not in text
        assert "False 0" not in text  # the token
        assert ("pid-3" in text) == recruiting
        assert (people[3].code in text) == recruiting
    for table in read(tmp_path, "recruiting"):
        assert list(table.columns) == ["participant", "completion_code", "id_PROLIFIC_PID", "id_STUDY_ID"]
        rows = table.set_index("participant")
        assert rows.loc[people[3].participant, "completion_code"] == people[3].code
        assert rows.loc[people[3].participant, "id_PROLIFIC_PID"] == "pid-3"
        early = rows.loc[people[5].participant]
        assert not [code for code in early if not pd.isna(code) and code != ""]  # who has not finished has seen no code


@pytest.mark.parametrize("formula", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_id_from_a_link_becomes_a_formula_in_a_spreadsheet(
    study: Study, store: AnswerStore, tmp_path: Path, formula: str
) -> None:
    take_part(store, "a", PROLIFIC_PID=formula, STUDY_ID="plain=1")
    write_export(study, store, tmp_path, simulated=False)
    table = pd.read_csv(tmp_path / "recruiting.csv", dtype=str)
    assert table["id_PROLIFIC_PID"][0] == f"'{formula.strip()}"
    assert table["id_STUDY_ID"][0] == "plain=1"
    assert pd.read_parquet(tmp_path / "recruiting.parquet")["id_PROLIFIC_PID"][0] == formula.strip()


def test_who_was_erased_is_in_no_file(study: Study, store: AnswerStore, tmp_path: Path) -> None:
    people = crowd(store)
    store.erase(people[2].participant)
    for path in write_export(study, store, tmp_path, simulated=False):
        assert people[2].participant not in content(path)
        assert "pid-2" not in content(path)
    assert json.loads((tmp_path / "codebook.json").read_text())["erased"] == 1
    assert "Erased, and in no table: 1 participant." in (tmp_path / "codebook.md").read_text()


def test_a_folder_that_cannot_be_made_is_told_in_a_sentence(study: Study, store: AnswerStore, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SnellenError, match="give another --out"):
        write_export(study, store, tmp_path / "file" / "out", simulated=False)


def command(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_commands_on_a_running_study(study: Study, store: AnswerStore, tmp_path: Path) -> None:
    people = crowd(store)
    store.withdraw(people[5])
    assert command("pause", study.folder).startswith("paused")
    assert store.state == "paused"
    assert command("resume", study.folder).startswith("open")
    assert command("close", study.folder).startswith("closed")
    assert store.state == "closed"
    shown = command("status", study.folder)
    assert "closed; 5 finished" in shown
    assert "left: 1 at " in shown
    assert "SIMULATED" not in shown
    store.set_state("open")
    crowd(store, simulated=True)
    assert "SIMULATED participants" in command("status", study.folder)
    url = f"sqlite:///{study.folder}/answers.sqlite"
    output = command("export", study.folder, "--out", tmp_path / "out", "--simulated", "--database", url)
    assert {Path(path).name.split("-")[0] for path in output.split()} == {"simulated"}
    command("export", study.folder)
    assert (study.folder / "export" / "codebook.md").exists()
    assert "erased" in command("erase", study.folder, people[0].participant)
    assert "1 participant erased" in command("status", study.folder)
    with pytest.raises(SnellenError, match="nobody in"):
        command("erase", study.folder, people[0].participant)
