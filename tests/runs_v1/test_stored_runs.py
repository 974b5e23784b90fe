"""Runs that version 0.1.0 wrote open, say what they said, and are not computed again."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
from pathlib import Path

import pytest
from tests.runs_v1.subject import METHODS, METRICS, classifier, samples
from typer.testing import CliRunner

from snellen import Options, Run, evaluate
from snellen.cli.main import app
from snellen.files.folder import LocalFolder
from snellen.runs.progress import Silent
from snellen.runs.record import UnitRecord, dump, read
from snellen.runs.verify import verify

HERE = Path(__file__).parent
EXPECTED = json.loads((HERE / "expected.json").read_text())
NAMES = ("judged", "fitted", "asked")


@pytest.fixture
def stored(tmp_path):
    """A copy of every stored run, with what the third was made from."""
    for name in (*NAMES, "images"):
        shutil.copytree(HERE / name, tmp_path / name)
    shutil.copy(HERE / "labels.csv", tmp_path)
    return tmp_path


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def plain(value):
    """As the expected values are written: undefined numbers are null."""
    if isinstance(value, dict):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@pytest.mark.parametrize("name", NAMES)
def test_tables_and_verdicts_are_those_of_old(stored, name):
    run = Run(stored / name)
    assert run.complete
    expected = EXPECTED[name]
    assert {method: dict(row) for method, row in run.table().to_dict("index").items()} == expected["table"]
    for _ in ("computed", "read from the folder"):
        verdicts = Run(stored / name).verdicts()
        assert plain([dataclasses.asdict(judgement) for judgement in verdicts.judgements]) == expected["judged"]


@pytest.mark.parametrize("name", NAMES)
def test_records_are_written_as_they_were(stored, name):
    folder = stored / name
    assert dump(Run(folder).record) == (folder / "run.json").read_bytes()
    for path in folder.glob("units/*.json"):
        assert dump(read(LocalFolder(folder), f"units/{path.name}", UnitRecord, "")) == path.read_bytes()
    assert verify(folder).problems == []


def test_maps_curves_costs_and_people_are_read(stored):
    run = Run(stored / "judged")
    assert run.maps("grad-cam", ["square 03", "square 01"]).shape == (2, 8, 8)
    assert run.curves("deletion(steps=4)")["gradient"].shape == (30, 5)
    assert run.costs().set_index("method").loc["gradient", "backward"] == 30
    assert run.accuracy() is not None
    assert run.picture("square 00").shape == (8, 8, 3)
    fitted = Run(stored / "fitted").record.fitted
    assert [state.images for state in fitted.values()] == [4]
    (study,) = Run(stored / "asked").people()
    assert study.outcomes[0].standings[0].verdict == "pass"


@pytest.mark.parametrize("name", NAMES)
def test_the_report_is_written(stored, name):
    page = Run(stored / name).report().read_text(encoding="utf-8")
    assert all(method.label.split("(")[0] in page for method in Run(stored / name).record.spec.methods)


@pytest.mark.parametrize(
    ("name", "count", "methods", "metrics"),
    [
        ("judged", 30, METHODS, METRICS),
        ("fitted", 4, ["iba(steps=2, samples=2)", "random"], ["complexity", "deletion(steps=4)"]),
    ],
)
def test_the_same_call_computes_nothing(stored, name, count, methods, metrics):
    folder = stored / name
    before = files(folder)
    options = Options(shard=count, threads=1, engine="eager")
    evaluate(classifier(), samples(count), methods=methods, metrics=metrics, out=folder, options=options, observer=Silent())
    new_files = {path for path in files(folder) if path not in before} - {".lock"}
    assert {path.partition("/")[0] for path in new_files} == {"tables"}, "samples and units were lists in run.json"
    assert {path for path, content in before.items() if files(folder)[path] != content} <= {"run.json"}
    old, new = json.loads(before["run.json"]), json.loads((folder / "run.json").read_bytes())
    assert [key for key in old if key != "units"] == [key for key in new if key != "plan"]
    for key, value in list(new["classifier"].items()):  # fields that are newer than these runs are empty
        if key not in old["classifier"] and value is None:
            del new["classifier"][key]
    for key in ("created", "request", "classifier", "errors", "merged"):
        assert old[key] == new[key]
    record = Run(folder).record
    assert old["units"] == [planned.as_json() for planned in record.units]
    for was, row in zip(old["samples"]["rows"], record.samples.rows, strict=True):
        assert was == {name: row.as_json()[name] for name in was}
    assert [sorted(plugin) for plugin in (*old["spec"]["methods"], *old["spec"]["metrics"])] == [
        sorted(plugin) for plugin in (*new["spec"]["methods"], *new["spec"]["metrics"])
    ]


def test_resuming_computes_nothing(stored, monkeypatch):
    monkeypatch.chdir(stored)
    before = {path for path in files(stored / "asked") if path.startswith(("units/", "maps/", "scores/"))}
    result = CliRunner().invoke(app, ["resume", "asked"])
    assert result.exit_code == 0, result.output
    assert {path for path in files(stored / "asked") if path.startswith(("units/", "maps/", "scores/"))} == before
