"""The catalogue: the file says what the decorators say, packages of others are listed, and torch stays out of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console

from snellen.catalogue.listed import KINDS, document, kind_of, read_document
from snellen.catalogue.printed_list import PrintedList
from snellen.catalogue.registered import registered
from snellen.catalogue.shipped import shipped
from snellen.errors import SnellenError

SCHEMAS = Path(__file__).parents[2] / "docs" / "schema"

PLUGIN = '''
from dataclasses import dataclass

from snellen.plugins.registry import method
from snellen.types import WithoutClassifier


@method("bright-edges", cite="mine2026", control=True, class_specific=False)
@dataclass(frozen=True)
class BrightEdges(WithoutClassifier):
    """How bright each pixel is."""

    def __call__(self, classifier, inputs, targets, *, rng):
        return inputs.mean(dim=1)
'''


def as_text(listed) -> str:
    console = Console(width=100, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(PrintedList(listed))
    console.file.close()
    return console.export_text()


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_holds_what_the_decorators_state(kind):
    own = registered(kind, "snellen.")
    assert len(own) > 3
    expected = json.loads(json.dumps(document(kind, own), allow_nan=False))
    assert document(kind, shipped(kind)) == expected, "the catalogue is out of date; run: make docs"
    assert as_text(shipped(kind)) == as_text(own)


def test_traits_are_read_with_their_types():
    gradient = next(entry for entry in shipped("methods") if entry.traits.name == "gradient")
    original = next(entry for entry in registered("methods") if entry.traits.name == "gradient")
    for name in ("needs", "implementation_invariant", "complete", "family", "version"):
        assert getattr(gradient.traits, name) == getattr(original.traits, name)
    bounds = {entry.traits.name: entry.traits.bounds for entry in shipped("metrics")}
    assert bounds == {entry.traits.name: entry.traits.bounds for entry in registered("metrics", "snellen.")}


def test_what_is_written_is_read_again():
    for kind in KINDS:
        values = document(kind, shipped(kind))
        assert document(kind, read_document(kind, json.loads(json.dumps(values)))) == values


@pytest.mark.parametrize("kind", KINDS)
def test_the_schema_describes_the_document(kind):
    described = json.loads((SCHEMAS / f"list-{kind}.json").read_text())
    described["properties"][kind]["items"]["additionalProperties"] = False
    values = json.loads(json.dumps(document(kind, shipped(kind)), allow_nan=False))
    jsonschema.Draft202012Validator(described).validate(values)


def test_positive_controls_come_last_and_controls_before_them():
    families = ["truth" if entry.traits.positive else entry.traits.family for entry in shipped("methods")]
    assert families.index("control") == len(families) - families.count("control") - 2
    assert families[-2:] == ["truth", "truth"]


def test_an_unknown_kind_is_refused_with_the_nearest():
    with pytest.raises(SnellenError, match=r"cannot list 'metric'; did you mean 'metrics'\?"):
        kind_of("metric")


@pytest.mark.slow
def test_plugins_of_other_packages_are_listed(tmp_path):
    (tmp_path / "mine.py").write_text(PLUGIN)
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[snellen.plugins]\nmine = mine\n")
    path = os.pathsep.join(filter(None, [str(tmp_path), str(Path("src").resolve()), os.environ.get("PYTHONPATH", "")]))
    done = subprocess.run(
        [sys.executable, "-m", "snellen", "list", "methods", "--json"],
        capture_output=True, text=True, timeout=120, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    entries = {entry["name"]: entry for entry in json.loads(done.stdout)["methods"]}
    assert entries["bright-edges"]["summary"] == "How bright each pixel is."
    assert entries["bright-edges"]["citation"] == "mine2026"
    assert len(entries) > 40
