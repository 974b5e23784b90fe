"""A seventh task, added by one file, goes the whole way: from the protocol to the analysis."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from tests.study.analysed import by_name
from tests.study.planted_study import plant
from tests.study.visitor import Fields, Read, Visitor, filled

from snellen.errors import SnellenError
from snellen.runs.progress import Silent
from snellen.runs.settings import Settings
from snellen.study.analysis import analyse
from snellen.study.analysis.page import page
from snellen.study.answers.export import write_export
from snellen.study.answers.store import AnswerStore
from snellen.study.folder import Study
from snellen.study.making.make import make, read_tasks
from snellen.study.participation import collect_data
from snellen.study.simulation.behaviour import simulate_answers
from snellen.study.simulation.effect import Effect
from snellen.study.simulation.participant import Faults
from snellen.study.simulation.simulate import served_study, simulate
from snellen.study.tasks import TASKS, find_task
from snellen.study.web.application import application
from snellen.study.web.sentences import check_texts

FILE = '''
"""Task: how unsure is the model."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from snellen.study.tasks import AnswerBatch, ChosenItem, Percent, Task, Truth, task

ENGLISH = """
title: How unsure is the program?
introduction: Please estimate the program's doubt.
maps: The map shows what the answer rests on.
question: How unsure is the program of this answer?
unit: Per cent
low: sure
high: unsure
told: The doubt was {doubt} %.
"""


@task(
    "doubt",
    title="Doubt",
    score="distance from the model's doubt, in points of 100",
    mean="mean distance from the model's doubt, in points of 100",
    unit="points",
    bounds=(0.0, 100.0),
    higher_is_better=False,
    seconds=30,
    texts={"en": ENGLISH},
)
@dataclass(frozen=True)
class Doubt(Task):
    """Participants see an image with the model's prediction and estimate the model's doubt."""

    form = Percent()
    feedback_html = """
<p>{{ t("tasks.*.told", task, doubt=truth) }}</p>
"""

    def truth(self, item: ChosenItem, accuracy: Mapping[int, float]) -> Truth:
        return round(100 - 100 * item.images[0].probability, 2)

    def score(self, truth, answers: AnswerBatch):
        return np.abs(answers.value - truth)
'''

DECISION = '''
"""Task: is the model right, with a number from another range than the tasks that are shipped."""

from dataclasses import dataclass

import numpy as np

from snellen.study.tasks import Decision, Task, task

ENGLISH = """
title: Right or wrong?
introduction: Please decide.
maps: The map shows what the answer rests on.
question: Is the answer right or wrong?
beside: How sure are you?
unit: A number
low: little
high: much
"""


@task(
    "hunch",
    title="Hunch",
    score="the number, with a minus for a wrong answer",
    mean="mean of the numbers, with a minus for wrong answers",
    unit="points",
    bounds=(-100.0, 100.0),
    higher_is_better=True,
    texts={"en": ENGLISH},
)
@dataclass(frozen=True)
class Hunch(Task):
    """Participants decide whether the model is right, and say how sure they are."""

    form = Decision(RANGE)

    def truth(self, item, accuracy):
        return float(item.images[0].right is False)

    def score(self, truth, answers):
        return answers.beside * np.where(answers.value == truth, 1.0, -1.0)
'''

PROTOCOL: dict[str, Any] = {
    "arms": ["gradient", "random", "none"],
    "tasks": [{"task": "doubt", "items": 4, "practice": 1}, {"task": "sharpness", "items": 2, "practice": 0}],
    "languages": ["en"],
    "scales": ["trust"],
    "attention": 1,
}


@pytest.fixture(scope="module")
def doubt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An installed package whose entry point names the file; other processes find it, and this one forgets it at the end."""
    folder = tmp_path_factory.mktemp("package")
    (folder / "doubtful.py").write_text(FILE)
    facts = folder / "doubtful-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: doubtful\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[snellen.plugins]\ndoubt = doubtful\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join((str(folder), *sys.path)))
        patch.syspath_prepend(str(folder))
        patch.setattr(TASKS, "_classes", dict(TASKS._classes))
        importlib.import_module("doubtful")
        yield
    sys.modules.pop("doubtful")
    find_task.cache_clear()


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "digits"
    values = {"model": "digits", "images": "zoo:digits", "methods": ("gradient", "random"), "metrics": ("sparseness",)}
    Settings.of({**values, "out": str(out)}).run(Silent())
    return out


@pytest.fixture(scope="module")
def study(doubt: None, run: Path, tmp_path_factory: pytest.TempPathFactory) -> Study:
    return make(run, tmp_path_factory.mktemp("studies") / "doubt", PROTOCOL, observer=Silent())


def test_the_command_line_and_the_protocol_know_it_once_its_file_is_imported(doubt: None) -> None:
    assert read_tasks("doubt:3:1") == [{"task": "doubt", "items": 3, "practice": 1}]
    assert len(TASKS) == 7


def test_its_items_have_its_truth_and_its_texts_can_be_edited(study: Study) -> None:
    items = [item for item in study.items if item.task == "doubt"]
    assert [item.practice for item in items] == [True, False, False, False, False]
    assert all(isinstance(item.truth, float) and 0 <= item.truth <= 100 for item in items)
    path = study.folder / "texts" / "en.yaml"
    text = path.read_text()
    assert "Please estimate the program's doubt." in text
    try:
        path.write_text(text.replace("the program's doubt", "its DOUBT"))
        assert check_texts(Study.read(study.folder))["en"]("tasks.doubt.introduction") == "Please estimate its DOUBT."
        path.write_text(text.replace("    unit: Per cent\n", ""))
        with pytest.raises(SnellenError, match=r"has no 'tasks\.doubt\.unit'"):
            check_texts(Study.read(study.folder))
    finally:
        path.write_text(text)


def test_a_language_in_which_it_has_no_texts_is_refused_with_a_remedy(doubt: None, run: Path, tmp_path: Path) -> None:
    with pytest.raises(SnellenError, match=r"'doubt' has no texts in 'de', only in en; give --languages en"):
        make(run, tmp_path / "s", PROTOCOL | {"languages": ["en", "de"]}, observer=Silent())


def test_people_answer_it_on_its_page_and_the_answer_is_scored_and_exported(study: Study, tmp_path: Path) -> None:
    with closing(AnswerStore.open(study, f"sqlite:///{tmp_path}/answers.sqlite")) as store:
        visitor = Visitor(TestClient(application(study, store)))
        visitor.arrive()

        def answer(read: Read) -> Fields:
            return filled(read) | ({"value": "70"} if "How unsure" in read.words and read.kind == "trial" else {})

        visitor.take_part(answer)
        practice = next(item for item in study.items if item.practice)
        assert isinstance(practice.truth, float)
        feedback = next(read for read in visitor.seen if read.kind == "feedback")
        assert f"The doubt was {round(practice.truth)}" in feedback.words
        data = collect_data(study, store.participations(simulated=False), simulated=False)
        rows = data.answers[data.answers["task"] == "doubt"]
        assert len(rows) == 5
        assert rows["score"].tolist() == pytest.approx([abs(70 - truth) for truth in rows["truth"]])
        files = {path.name: path for path in write_export(study, store, tmp_path / "out", simulated=False)}
        book = json.loads(files["codebook.json"].read_text())
        assert book["tasks"]["doubt"]["columns"] == {"value": "the estimate, in per cent"}
        assert "points of 100" in files["codebook.md"].read_text()
        assert files["answers.csv"].read_text().count(",doubt,") == 5


@pytest.mark.slow
def test_simulated_people_answer_it_over_the_web(study: Study, tmp_path: Path) -> None:
    with served_study(study, database=f"sqlite:///{tmp_path}/simulated.sqlite") as served:
        simulation = asyncio.run(
            simulate(study, served.link, 6, Effect(), seed=1, concurrency=3, think=0.0, faults=Faults())
        )
        check = served.compare(simulation)
    assert check is not None
    assert check.clean


def test_a_declared_difference_in_it_is_found_by_the_analysis(study: Study) -> None:
    data = simulate_answers(study, 150, Effect({"doubt": {"gradient": 2.0}}), seed=3)
    outcome = by_name(analyse(study, data))["doubt"]
    assert outcome.facts.title == "Doubt"
    assert outcome.facts.better == "low"
    assert outcome.conclusion == "differ"


def test_a_task_without_a_text_of_its_form_is_refused_when_it_is_registered(doubt: None, tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text(FILE.replace("low: sure\n", "").replace('"doubt"', '"doubt-too"'))
    spec = importlib.util.spec_from_file_location("broken", path)
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(SnellenError, match="the task 'doubt-too' has no text 'low' in 'en'"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert "doubt-too" not in TASKS


def planted_hunch(folder: Path, form: str) -> Study:
    """A study with betting, error detection and the task of `DECISION`, whose form has these arguments."""
    path = folder / "hunch.py"
    path.write_text(DECISION.replace("RANGE", form))
    spec = importlib.util.spec_from_file_location("hunch", path)
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    tasks = [{"task": name, "items": 6, "practice": 0} for name in ("betting", "hunch", "error-detection")]
    return plant(folder / "study", tasks=tasks, languages=["en"])[0]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forgets tasks that a test registers."""
    monkeypatch.setattr(TASKS, "_classes", dict(TASKS._classes))
    yield
    find_task.cache_clear()


def test_its_stakes_are_analysed_as_bets(registry: None, tmp_path: Path) -> None:
    study = planted_hunch(tmp_path, '0, 20, "stake"')
    analysis = analyse(study, simulate_answers(study, 60, Effect(), seed=3))
    arms = list(study.protocol.arms)
    assert [(row.task, row.arm) for row in analysis.bets] == [(task, arm) for task in ("betting", "hunch") for arm in arms]
    assert {row.task for row in analysis.calibrations} == {"error-detection"}
    hunch = [row for row in analysis.bets if row.task == "hunch"]
    assert {(part.low, part.high) for row in hunch for part in row.bins} <= {(0, 0), (1, 6), (7, 13), (14, 19), (20, 20)}
    assert all(sum(part.n for part in row.bins) == row.answers for row in hunch)
    assert all(row.insight.n > 0 and row.points.mean > 0 for row in hunch)
    assert any(row.stake.mean > 10 for row in hunch)
    assert analysis.as_values()["calibration_tasks"]["bets"] == ["betting"] * 3 + ["hunch"] * 3
    text = page(analysis)
    assert text.count("stakes against the share of right answers") == 2
    assert "Hunch <small>stakes against" in text


def test_its_certainties_are_analysed_as_calibration(registry: None, tmp_path: Path) -> None:
    study = planted_hunch(tmp_path, '0, 100, "certainty"')
    data = simulate_answers(study, 60, Effect(), seed=3)
    analysis = analyse(study, data)
    assert {row.task for row in analysis.bets} == {"betting"}
    hunch = [row for row in analysis.calibrations if row.task == "hunch"]
    assert [row.arm for row in hunch] == list(study.protocol.arms)
    rows = data.counted.answers.query("task == 'hunch' and arm == 'none'")
    stated = rows.assign(stated=rows["beside"].astype(float) / 100).groupby("participant")["stated"].mean()
    assert hunch[2].certainty.mean == pytest.approx(stated.mean())
    assert {(part.low, part.high) for row in hunch for part in row.bins} <= {
        (0, 19), (20, 39), (40, 59), (60, 79), (80, 100)
    }  # fmt: skip
    assert all(sum(part.n for part in row.bins) == row.answers for row in hunch)
    assert "Hunch <small>certainty against" in page(analysis)
