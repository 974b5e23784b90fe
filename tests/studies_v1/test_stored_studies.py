"""Studies that an older Snellen wrote: they open, and their answers give the same tables and the same numbers.

`digits` was made and answered by simulated participants before study tasks were plug-ins. Its pictures were then replaced by
pictures of one pixel; nothing else was changed. `expected.json` holds digests of its exported tables and its analysis.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.study.visitor import Visitor

from snellen.study.analysis import analyse
from snellen.study.answers.export import export_files
from snellen.study.answers.store import AnswerStore
from snellen.study.folder import Study
from snellen.study.participation import collect_data
from snellen.study.web.application import application

HERE = Path(__file__).parent
EXPECTED = json.loads((HERE / "expected.json").read_text())


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study.read(shutil.copytree(HERE / "digits", tmp_path / "digits"))


@pytest.fixture
def store(study: Study) -> Iterator[AnswerStore]:
    with closing(AnswerStore.open(study)) as opened:
        yield opened


def _compare(actual: Any, expected: Any, path: str) -> None:
    if isinstance(expected, dict):
        assert set(actual) == set(expected), path
        for name, value in expected.items():
            _compare(actual[name], value, f"{path}.{name}")
    elif isinstance(expected, list):
        assert len(actual) == len(expected), path
        for place, value in enumerate(expected):
            _compare(actual[place], value, f"{path}.{place}")
    elif isinstance(expected, float):
        assert actual == pytest.approx(expected, rel=1e-6, abs=1e-9), path
    else:
        assert actual == expected, path


def test_answers_are_exported_byte_for_byte(study: Study, store: AnswerStore) -> None:
    files = export_files(study, store, simulated=True)
    for name, digest in EXPECTED["export"].items():
        assert hashlib.sha256(files[f"simulated-{name}.csv"]).hexdigest() == digest, name


def test_the_analysis_gives_the_same_numbers(study: Study, store: AnswerStore) -> None:
    data = collect_data(study, store.participations(simulated=True), simulated=True)
    values = analyse(study, data).as_values()
    _compare({name: values[name] for name in EXPECTED["analysis"]}, EXPECTED["analysis"], "analysis")


def test_participants_can_still_take_part(study: Study, store: AnswerStore) -> None:
    visitor = Visitor(TestClient(application(study, store)))
    visitor.arrive()
    assert visitor.take_part().kind == "end"
