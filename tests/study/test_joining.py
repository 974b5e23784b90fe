"""A study joined to its run: per-image scores by hand, the right run only, and what nobody answered."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.study.linked_study import ARMS, answers, linked, real
from tests.study.planted_study import plant
from typer.testing import CliRunner

from snellen.cli.main import app
from snellen.errors import SnellenError
from snellen.images import from_arrays
from snellen.plugins.checks.planted import planted_batch
from snellen.runs import Run, evaluate
from snellen.study.answers.store import AnswerStore
from snellen.study.folder import Study
from snellen.study.joining.join import image_scores, refuse_other_run, study_result
from snellen.study.simulation.effect import Effect


@pytest.fixture(scope="module")
def study_and_run(tmp_path_factory):
    tasks = [{"task": "error-detection", "items": 5, "practice": 1}, {"task": "class-accuracy", "items": 3, "practice": 1}]
    return linked(tmp_path_factory.mktemp("joined") / "study", tasks=tasks)


@pytest.fixture(scope="module")
def collected(study_and_run):
    return real(answers(study_and_run[0], 24, Effect()))


def test_an_item_gives_its_score_to_each_of_its_images(study_and_run, collected):
    study, _ = study_and_run
    scores = image_scores(study, collected)
    counted = collected.counted.answers
    for task, images in (("error-detection", 1), ("class-accuracy", 3)):
        rows = scores[scores["metric"] == f"people:{task}"]
        items = [item for item in study.items if item.task == task and not item.practice]
        assert len(rows) == len(items) * images * (len(ARMS) + 1)
        item = items[0]
        mine = counted[(counted["item"] == item.id) & (counted["arm"] == "lime")]["score"]
        of = rows[(rows["method"] == "lime") & rows["sample"].isin(item.samples)]
        assert len(of) == images
        for _, row in of.iterrows():
            assert (row["value"], row["n"]) == (pytest.approx(mine.mean()), len(mine))
            assert row["error"] == pytest.approx(mine.std(ddof=1) / len(mine) ** 0.5)
            assert row["source"] == "human"


def test_an_image_of_several_items_gets_the_answers_of_all(study_and_run, collected):
    study, _ = study_and_run
    first, second = [item for item in study.items if item.task == "class-accuracy" and not item.practice][:2]
    again = tuple(replace(item, samples=(first.samples[0],)) if item is second else item for item in study.items)
    shared = replace(study, items=again)
    scores = image_scores(shared, collected)
    row = scores[(scores["sample"] == first.samples[0]) & (scores["method"] == "lime")].iloc[0]
    counted = collected.counted.answers
    both = counted[counted["item"].isin([first.id, second.id]) & (counted["arm"] == "lime")]
    assert (row["value"], row["n"]) == (pytest.approx(both["score"].mean()), len(both))


def test_two_presentations_are_told_apart(tmp_path):
    study, _ = linked(tmp_path / "s", presentation=["overlay", "map"], tasks=[{"task": "betting", "items": 3}])
    scores = image_scores(study, answers(study, 28, Effect()))
    assert set(scores["metric"]) == {"people:betting/overlay", "people:betting/map", "people:betting"}
    assert set(scores[scores["metric"] == "people:betting"]["method"]) == {"none"}


def test_what_the_study_says_is_marked_by_who_answered(study_and_run, collected):
    study, run = study_and_run
    evidence = study_result(study, collected, run)
    assert (evidence.source, evidence.people, evidence.left_out) == ("human", 24, 0)
    assert evidence.begun <= evidence.ended
    assert len(evidence.ended) == len("2026-01-01")
    assert [outcome.kind for outcome in evidence.outcomes] == ["ability", "ability", "scale", "scale"]
    rehearsed = study_result(study, answers(study, 24, Effect()), run)
    assert rehearsed.source == "simulated"
    assert {score.source for score in rehearsed.scores} == {"simulated"}
    assert set(rehearsed.images["source"]) == {"simulated"}


def test_only_a_run_of_the_same_model_and_images_fits(study_and_run):
    study, run = study_and_run
    subject = study.subject | {
        "fingerprint": run.record.classifier.fingerprint,
        "digest": run.record.samples.digest,
    }

    def of(**changes: str) -> Study:
        return replace(study, subject=subject | changes)

    refuse_other_run(of(), run)
    with pytest.raises(SnellenError, match="a run of another model"):
        refuse_other_run(of(fingerprint="0" * 32), run)
    with pytest.raises(SnellenError, match="a run of other images"):
        refuse_other_run(of(digest="0" * 32), run)
    strange = replace(run, methods=[method for method in run.methods if method.control])
    with pytest.raises(SnellenError, match="none of the methods"):
        refuse_other_run(of(), strange)


def test_nobody_is_said_to_be_nobody(study_and_run, collected):
    study, run = study_and_run
    nobody = replace(collected, participants=collected.participants.assign(excluded="attention"))
    with pytest.raises(SnellenError, match=r"no participant of .* counts yet"):
        study_result(study, nobody, run)


def test_a_run_a_study_answers_and_the_command_that_joins_them(tmp_path: Path):
    run, study = real_study(tmp_path)
    with closing(AnswerStore.open(study)) as store:
        for at in range(24):
            answer(study, store, at)
    result = CliRunner().invoke(app, ["study", "join", str(study.folder), "--run", str(run.folder)])
    assert result.exit_code == 0, result.output
    (evidence,) = run.people()
    assert (evidence.title, evidence.source, evidence.people) == (study.protocol.title, "human", 24)
    assert {row.sample for row in evidence.images.itertuples()} <= set(run.samples()["sample"])
    assert {link.metric for link in evidence.links} == {"complexity", "sparseness"}
    assert "Error detection" in result.output
    assert "Do metrics predict people?" in result.output
    nobody = CliRunner().invoke(app, ["study", "join", str(study.folder), "--run", str(run.folder), "--simulated"])
    assert "counts yet" in str(nobody.exception)


def real_study(folder: Path) -> tuple[Run, Study]:
    """A run of a small network, and a study of its own images."""
    scene = planted_batch()
    pixels = scene.classifier.to_pixels(scene.inputs).clamp(0, 1)
    samples = from_arrays(torch.cat([pixels, pixels.flip(3), pixels.flip(2)])[:6], labels=[0, 1, 2, 0, 1, 2])
    methods = ["gradient", "input-x-gradient", "random"]
    run = evaluate(scene.classifier, samples, methods=methods, metrics=["complexity", "sparseness"], out=folder / "run")
    tasks = [{"task": "error-detection", "items": 5, "practice": 1}]
    study, _ = plant(folder / "study", arms=["gradient", "input-x-gradient", "none"], tasks=tasks, scales=["trust"])
    made = json.loads((study.folder / "stimuli.json").read_text())
    for item, name in zip(made["items"], run.samples()["sample"], strict=True):
        item["samples"] = [name]
    made["subject"] |= {
        "fingerprint": run.record.classifier.fingerprint,
        "digest": run.record.samples.digest,
    }
    (study.folder / "stimuli.json").write_text(json.dumps(made))
    return run, Study.read(study.folder)


def answer(study: Study, store: AnswerStore, at: int) -> None:
    """Somebody who is right more often with maps of the gradient."""
    person = store.admit(token=f"token {at}", language="en", simulated=False, recruited={})
    pages = study.pages(person.group, person.number)
    for place, page in enumerate(pages):
        content: dict[str, object] = {}
        if page.kind == "trial" and page.item:
            right = page.condition.arm == "gradient" or (at + place) % 3 > 0
            content = {"value": int(page.item.truth if right else 1 - page.item.truth), "beside": 80, "chosen": []}
        elif page.kind == "attention":
            content = {"value": page.requested}
        elif page.kind == "scale":
            content = {"answers": [4] * 8}
        store.reply(person, page.id, content, 5.0, last=place == len(pages) - 1)
