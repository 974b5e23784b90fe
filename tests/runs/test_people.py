"""Study results in a run folder: stored completely, replaced per study, never mixed with simulated people."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from snellen.cards.joined_runs import JoinedRuns
from snellen.errors import SnellenError
from snellen.files.integrity import dump_record
from snellen.images import from_arrays
from snellen.plugins.checks.planted import planted_batch
from snellen.runs import Options, Run, evaluate
from snellen.runs.people import (
    COLUMNS,
    ArmContrast,
    ArmMean,
    MethodStanding,
    MetricLink,
    StudyResult,
    TaskOutcome,
    merge_studies,
    read_people,
    write_people,
)
from snellen.runs.store import Store


def people(**changes: object) -> StudyResult:
    contrast = ArmContrast("none", 0.2, 0.1, 0.3, 0.05, 0.04, 0.01, 20)
    arms = (ArmMean("gradient", "overlay", 20, 0.8, 0.7, 0.9), ArmMean("none", "photograph", 21, 0.6, math.nan, math.nan))
    standing = MethodStanding("gradient", "overlay", "pass", "better than people without a map", (contrast,), (), "")
    outcome = TaskOutcome("error-detection", "ability", "1 for right", True, "the rule", arms, (standing,))
    rows = [(f"image {at}", "gradient", "overlay", "people:error-detection", at / 4, 5, 0.1, "human") for at in range(4)]
    values = {
        "title": "A study", "digest": "d" * 32, "source": "human", "begun": "2026-01-02", "ended": "2026-01-09",
        "design": "between", "people": 41, "left_out": 3, "outcomes": (outcome,),
        "links": (MetricLink("error-detection", "deletion", "opposite", -0.5, -0.8, -0.2, 0.01, 12, 3),),
        "images": pd.DataFrame(rows, columns=list(COLUMNS)),
    }  # fmt: skip
    return StudyResult(**(values | changes))  # type: ignore[arg-type]


def text_of(study: StudyResult) -> str:
    return repr({field.name: getattr(study, field.name) for field in dataclasses.fields(study) if field.name != "images"})


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def subject():
    scene = planted_batch()
    pixels = scene.classifier.to_pixels(scene.inputs).clamp(0, 1)
    return scene.classifier, from_arrays(torch.cat([pixels, pixels.flip(3)])[:4], labels=[0, 1, 2, 0])


@pytest.fixture
def run(subject, tmp_path) -> Run:
    names = ["gradient", "random"]
    return evaluate(*subject, methods=names, metrics=["complexity"], out=tmp_path / "run", options=Options(threads=1))


def test_a_written_study_is_read_back_and_other_files_stay(run):
    before = files(run.folder)
    assert run.people() == ()
    write_people(run.folder, people())
    studies = Run(run.folder).people()
    assert [text_of(study) for study in studies] == [text_of(people())]
    pd.testing.assert_frame_equal(studies[0].images, people().images)
    after = files(run.folder)
    assert {name: content for name, content in after.items() if not name.startswith("people/")} == before
    assert sorted(Path(name).suffix for name in set(after) - set(before)) == [".json", ".parquet"]
    record = json.loads(after[f"people/{'d' * 32}.json"])
    assert record["outcomes"][0]["arms"][1]["low"] is None  # undefined is null, and never 0
    assert run.metrics == ["complexity"]
    assert set(Run(run.folder).scores()["metric"]) == {"complexity"}


def test_scores_of_people_have_the_form_of_a_metric_s_and_name_their_source(run):
    write_people(run.folder, people())
    (scores,) = run.people()[0].scores
    assert (scores.method, scores.metric, scores.source) == ("gradient", "people:error-detection", "human")
    assert scores.ids == ("image 0", "image 1", "image 2", "image 3")
    np.testing.assert_allclose(scores.values.numpy(), [0, 0.25, 0.5, 0.75])
    simulated = people(source="simulated", images=people().images.assign(source="simulated"))
    assert simulated.scores[0].source == "simulated"


def test_a_study_replaces_its_earlier_result_and_no_other(run):
    write_people(run.folder, people())
    more = people(people=60, images=people().images.assign(value=1.0))
    write_people(run.folder, more)
    assert [study.people for study in run.people()] == [60]
    assert len(files(run.folder / "people")) == 2  # nothing refers to the old table, so it is gone
    write_people(run.folder, people(digest="e" * 32, title="Another", ended="2025-12-01"))
    assert [study.title for study in run.people()] == ["Another", "A study"]
    write_people(run.folder, more)
    assert len(run.people()) == 2


def test_simulated_people_never_take_the_place_of_people(run):
    rehearsal = people(source="simulated")
    write_people(run.folder, rehearsal)
    write_people(run.folder, people())
    assert [study.source for study in run.people()] == ["human"]
    with pytest.raises(SnellenError, match="which simulated answers never replace"):
        write_people(run.folder, rehearsal)
    assert [study.source for study in run.people()] == ["human"]
    both = merge_studies([(rehearsal,), (people(),)])
    assert [study.source for study in both] == ["human"]


def test_joined_runs_have_the_studies_of_all(subject, run, tmp_path):
    other = evaluate(*subject, methods=["gradient"], metrics=["sparseness"], out=tmp_path / "other")
    write_people(run.folder, people())
    write_people(other.folder, people())
    write_people(other.folder, people(digest="f" * 32, title="Another"))
    assert [study.title for study in JoinedRuns([run, other]).people()] == ["A study", "Another"]


def test_a_folder_that_is_being_written_is_left_alone(run):
    with Store(run.folder).writing(), pytest.raises(SnellenError, match="being written by another run"):
        write_people(run.folder, people())
    assert run.people() == ()


def test_damaged_and_newer_records_are_refused_in_a_sentence(run):
    write_people(run.folder, people())
    path = run.folder / "people" / f"{'d' * 32}.json"
    whole = path.read_text()
    path.write_bytes(dump_record(json.loads(whole) | {"schema": 9}))
    with pytest.raises(SnellenError, match="newer Snellen"):
        read_people(run.folder)
    path.write_text(whole[:-20])
    with pytest.raises(SnellenError, match="damaged"):
        read_people(run.folder)
