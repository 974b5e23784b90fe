"""Methods that learn from the user's images: once per run, from a few of them, and the same everywhere."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.runs.subject import load, write_images

import snellen
from snellen.errors import SnellenError
from snellen.images import from_folder
from snellen.images.geometry import AS_IS
from snellen.maps import fitted_state
from snellen.plugins.registry import METHODS
from snellen.runs import Options, evaluate, fitting
from snellen.runs.progress import Silent
from snellen.runs.record import FittedRecord
from snellen.runs.unit import PackedClassifier

IBA = "iba(steps=2, samples=2)"
LESSON = METHODS.parse(IBA).fit_key()
REQUEST = {"methods": [IBA, "gradient"], "metrics": ["complexity"]}


class Listening(Silent):
    def __init__(self) -> None:
        self.stages: list[tuple[str, int]] = []
        self.notes: list[str] = []
        self.forward = 0

    def note(self, text):
        self.notes.append(text)

    def begin(self, stage, passes, units):
        self.stages.append((stage, passes.forward))
        self.forward = 0

    def passed(self, passes):
        self.forward += passes.forward

    def end(self):
        if self.stages and self.stages[-1][0].startswith("fitting"):
            assert self.forward == self.stages[-1][1], "the bar reaches its end"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    return from_folder(write_images(tmp_path_factory.mktemp("images"), count=7), geometry=AS_IS)


@pytest.fixture
def classifier():
    return snellen.Classifier(load())


@pytest.fixture(scope="module")
def alone(pictures, tmp_path_factory):
    out = tmp_path_factory.mktemp("alone")
    return evaluate(snellen.Classifier(load()), pictures, **REQUEST, out=out, options=Options(shard=3, threads=1))


def test_a_run_learns_first_and_shows_it(classifier, pictures, tmp_path):
    seen = Listening()
    run = evaluate(classifier, pictures, **REQUEST, out=tmp_path, observer=seen)
    assert [stage for stage, _ in seen.stages] == ["looking at the images", "fitting to 7 images", "explaining"]
    assert any("fitted to 7 images only, so the statistics are poor" in note for note in seen.notes)
    (facts,) = run.record.fitted.values()
    assert (facts.images, facts.cost.forward, facts.cost.backward) == (7, 7, 0)
    totals, planned = run.record.totals, run.record.planned
    assert totals.forward + totals.shared_forward == planned.forward, "learning has an account of its own"


def test_maps_are_those_of_learning_by_hand(classifier, pictures, alone):
    snellen.fit(classifier, pictures, methods=[IBA, "gradient"])
    assert list(classifier.fitted_state) == [LESSON]
    inputs = classifier.to_inputs(torch.stack([one.image for one in pictures]))
    targets = classifier.logits(inputs).argmax(dim=1)
    maps = METHODS.parse(IBA)(classifier, inputs, targets, rng=snellen.Rng(0, tuple(pictures.ids)))
    np.testing.assert_allclose(alone.maps(IBA, list(pictures.ids)), maps, rtol=1e-4, atol=1e-6)


def test_a_run_leaves_the_classifier_as_ignorant_as_it_was(classifier, pictures):
    evaluate(classifier, pictures, **REQUEST)
    assert classifier.fitted_state == {}


def test_running_again_learns_nothing_again(pictures, alone, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in alone.folder.rglob("lessons/*")}
    assert len(before) == 2, "the lesson, and the record that names it"
    monkeypatch.setattr(fitting, "fit_state", lambda *args, **kwargs: pytest.fail("learnt twice"))
    request = REQUEST | {"methods": [IBA, f"smoothgrad(of={IBA}, samples=2)"]}
    run = evaluate(snellen.Classifier(load()), pictures, **request, out=alone.folder, options=Options(shard=3, threads=1))
    assert {path: path.stat().st_mtime_ns for path in alone.folder.rglob("lessons/*")} == before
    assert run.complete
    assert list(run.table().index) == request["methods"], "a wrapped method finds the lesson of the one inside"


def test_what_the_user_taught_is_used_and_gives_other_maps(classifier, pictures, alone, tmp_path):
    snellen.fit(classifier, pictures[:3], methods=[IBA])
    taught = classifier.fitted_state[LESSON]
    out = alone.folder.parent / "taught"
    run = evaluate(classifier, pictures, **REQUEST, out=out, options=Options(shard=3, threads=1))
    assert run.record.fitted[LESSON] == FittedRecord(images=None, digest=fitted_state.digest(taught))
    assert classifier.fitted_state[LESSON] is taught
    ids = list(pictures.ids)
    assert not np.allclose(run.maps(IBA, ids), alone.maps(IBA, ids), rtol=1e-3)
    np.testing.assert_array_equal(run.maps("gradient", ids), alone.maps("gradient", ids))
    again = evaluate(snellen.Classifier(load()), pictures, **REQUEST, out=out, options=Options(shard=3, threads=1))
    np.testing.assert_array_equal(again.maps(IBA, ids), alone.maps(IBA, ids))  # another lesson, other units


@pytest.mark.slow
def test_workers_learn_the_same(pictures, alone, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    evaluate(snellen.Classifier(load()), pictures, **REQUEST, out=tmp_path, options=Options(shard=3, workers=2))
    run = snellen.Run(tmp_path)
    np.testing.assert_array_equal(run.maps(IBA, list(pictures.ids)), alone.maps(IBA, list(pictures.ids)))


def test_a_worker_does_not_mistake_a_classifier_that_learnt_for_one_that_did_not(classifier, pictures):
    ignorant = pickle.loads(pickle.dumps(PackedClassifier(classifier)))
    assert LESSON not in ignorant.open().fitted_state
    snellen.fit(classifier, pictures, methods=[IBA])
    first = pickle.loads(pickle.dumps(PackedClassifier(classifier)))
    assert fitted_state.digest(first.open().fitted_state[LESSON]) == fitted_state.digest(classifier.fitted_state[LESSON])
    other = copy.copy(classifier)
    other.fitted_state = {LESSON: {name: one + 1 for name, one in classifier.fitted_state[LESSON].items()}}
    assert len({ignorant.fingerprint, first.fingerprint, PackedClassifier(other).fingerprint}) == 3


def test_a_lesson_takes_a_limited_number_of_images_drawn_by_the_seed(classifier, pictures, monkeypatch):
    monkeypatch.setattr(fitting, "LIMIT", 4)
    chosen = {seed: fitting.fitting_samples(pictures, seed).ids for seed in range(6)}
    assert all(len(ids) == 4 and list(ids) == sorted(ids) for ids in chosen.values())
    assert len(set(chosen.values())) > 1
    assert fitting.fitting_samples(pictures, 3).ids == chosen[3]
    loaded: list[int] = []

    def count(self, classifier, images, rng):
        loaded.extend(len(one) for one in images)
        return {"seen": torch.ones(1)}

    monkeypatch.setattr(METHODS["iba"], "fit", count)
    fitting.fit_state(METHODS.parse(IBA), classifier, fitting.fitting_samples(pictures, 0), seed=0, batch=3)
    assert loaded == [3, 1], "no more than a batch at a time"


def test_nan_is_not_learnt(classifier, pictures, monkeypatch):
    monkeypatch.setattr(METHODS["iba"], "fit", lambda self, classifier, images, rng: {"mean": torch.tensor([torch.nan])})
    with pytest.raises(SnellenError, match=r"the state that iba\(.*\) fitted to the images \(mean\) holds NaN"):
        snellen.fit(classifier, pictures, methods=[IBA])


def test_a_method_that_needs_no_images_learns_nothing(classifier, pictures):
    snellen.fit(classifier, pictures, methods=["gradient"])
    assert classifier.fitted_state == {}


def test_explain_learns_from_a_folder_or_from_the_photo_alone(tmp_path):
    from snellen.report.explain import explain_photo
    from snellen.runs.settings import Settings

    folder = write_images(tmp_path / "images", count=22)
    photo = folder / "000.png"
    said = {}
    for name, images in (("folder", str(folder)), ("alone", "zoo:photographs")):
        seen = Listening()
        settings = Settings.of(
            {"model": "tests.runs.subject:load", "images": images, "methods": (IBA,), "mean": 0.5, "std": 0.25, "size": 32}
        )
        explain_photo(photo, settings, target="predicted", out=tmp_path / f"{name}.png", seed=0, observer=seen)
        assert (tmp_path / f"{name}.png").exists()
        said[name] = (seen.stages[0][0], seen.notes)
    assert said["folder"] == ("fitting to 22 images", [])
    assert said["alone"][0] == "fitting to 7 images"
    assert "so the statistics are poor; name a folder of such images with --images" in said["alone"][1][0]
