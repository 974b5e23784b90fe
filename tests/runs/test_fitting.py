"""Methods are fitted to the user's images: once per run, to a limited number of them, and the same in every process."""

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
STATE = METHODS.parse(IBA).fit_key()
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


def test_a_run_fits_first_and_shows_it(classifier, pictures, tmp_path):
    seen = Listening()
    run = evaluate(classifier, pictures, **REQUEST, out=tmp_path, observer=seen)
    assert [stage for stage, _ in seen.stages] == ["looking at the images", "fitting to 7 images", "explaining"]
    assert any("fitted to 7 images only, so the statistics are poor" in note for note in seen.notes)
    (facts,) = run.record.fitted.values()
    assert (facts.images, facts.cost.forward, facts.cost.backward) == (7, 7, 0)
    totals, planned = run.record.totals, run.record.planned
    assert totals.forward + totals.shared_forward == planned.forward, "fitting is counted separately"


def test_maps_are_those_of_a_fit_by_hand(classifier, pictures, alone):
    snellen.fit(classifier, pictures, methods=[IBA, "gradient"])
    assert list(classifier.fitted_state) == [STATE]
    inputs = classifier.to_inputs(torch.stack([sample.image for sample in pictures]))
    targets = classifier.logits(inputs).argmax(dim=1)
    maps = METHODS.parse(IBA)(classifier, inputs, targets, rng=snellen.Rng(0, tuple(pictures.ids)))
    np.testing.assert_allclose(alone.maps(IBA, list(pictures.ids)), maps, rtol=1e-4, atol=1e-6)


def test_a_run_leaves_no_fitted_state_in_the_classifier(classifier, pictures):
    evaluate(classifier, pictures, **REQUEST)
    assert classifier.fitted_state == {}


def test_running_again_fits_nothing_again(pictures, alone, monkeypatch):
    before = {path: path.stat().st_mtime_ns for path in alone.folder.rglob("lessons/*")}
    assert len(before) == 2, "the fitted state, and the record that names it"
    monkeypatch.setattr(fitting, "fit_state", lambda *args, **kwargs: pytest.fail("fitted twice"))
    request = REQUEST | {"methods": [IBA, f"smoothgrad(of={IBA}, samples=2)"]}
    run = evaluate(snellen.Classifier(load()), pictures, **request, out=alone.folder, options=Options(shard=3, threads=1))
    assert {path: path.stat().st_mtime_ns for path in alone.folder.rglob("lessons/*")} == before
    assert run.complete
    assert list(run.table().index) == request["methods"], "a wrapped method uses the fitted state of the method inside"


def test_a_state_that_the_user_fitted_is_used_and_gives_other_maps(classifier, pictures, alone, tmp_path):
    snellen.fit(classifier, pictures[:3], methods=[IBA])
    state = classifier.fitted_state[STATE]
    out = alone.folder.parent / "fitted"
    run = evaluate(classifier, pictures, **REQUEST, out=out, options=Options(shard=3, threads=1))
    assert run.record.fitted[STATE] == FittedRecord(images=None, digest=fitted_state.digest(state))
    assert classifier.fitted_state[STATE] is state
    ids = list(pictures.ids)
    assert not np.allclose(run.maps(IBA, ids), alone.maps(IBA, ids), rtol=1e-3)
    np.testing.assert_array_equal(run.maps("gradient", ids), alone.maps("gradient", ids))
    again = evaluate(snellen.Classifier(load()), pictures, **REQUEST, out=out, options=Options(shard=3, threads=1))
    np.testing.assert_array_equal(again.maps(IBA, ids), alone.maps(IBA, ids))  # another fitted state, other units


@pytest.mark.slow
def test_workers_fit_the_same(pictures, alone, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    evaluate(snellen.Classifier(load()), pictures, **REQUEST, out=tmp_path, options=Options(shard=3, workers=2))
    run = snellen.Run(tmp_path)
    np.testing.assert_array_equal(run.maps(IBA, list(pictures.ids)), alone.maps(IBA, list(pictures.ids)))


def test_the_fingerprint_for_workers_includes_fitted_states(classifier, pictures):
    unfitted = pickle.loads(pickle.dumps(PackedClassifier(classifier)))
    assert STATE not in unfitted.open().fitted_state
    snellen.fit(classifier, pictures, methods=[IBA])
    first = pickle.loads(pickle.dumps(PackedClassifier(classifier)))
    assert fitted_state.digest(first.open().fitted_state[STATE]) == fitted_state.digest(classifier.fitted_state[STATE])
    other = copy.copy(classifier)
    other.fitted_state = {STATE: {name: values + 1 for name, values in classifier.fitted_state[STATE].items()}}
    assert len({unfitted.fingerprint, first.fingerprint, PackedClassifier(other).fingerprint}) == 3


def test_a_fit_takes_a_limited_number_of_images_drawn_by_the_seed(classifier, pictures, monkeypatch):
    monkeypatch.setattr(fitting, "LIMIT", 4)
    chosen = {seed: fitting.fitting_samples(pictures, seed).ids for seed in range(6)}
    assert all(len(ids) == 4 and list(ids) == sorted(ids) for ids in chosen.values())
    assert len(set(map(tuple, chosen.values()))) > 1
    assert fitting.fitting_samples(pictures, 3).ids == chosen[3]
    loaded: list[int] = []

    def count(self, classifier, images, rng):
        loaded.extend(len(batch) for batch in images)
        return {"seen": torch.ones(1)}

    monkeypatch.setattr(METHODS["iba"], "fit", count)
    fitting.fit_state(METHODS.parse(IBA), classifier, fitting.fitting_samples(pictures, 0), seed=0, batch=3)
    assert loaded == [3, 1], "no more than a batch at a time"


def test_a_fitted_state_with_nan_is_refused(classifier, pictures, monkeypatch):
    monkeypatch.setattr(METHODS["iba"], "fit", lambda self, classifier, images, rng: {"mean": torch.tensor([torch.nan])})
    with pytest.raises(SnellenError, match=r"the state that iba\(.*\) fitted to the images \(mean\) holds NaN"):
        snellen.fit(classifier, pictures, methods=[IBA])


def test_a_method_that_needs_no_fit_gets_none(classifier, pictures):
    snellen.fit(classifier, pictures, methods=["gradient"])
    assert classifier.fitted_state == {}


def test_explain_fits_to_a_folder_or_to_the_bundled_photographs(tmp_path):
    from snellen.report.explain import explain_photo
    from snellen.runs.settings import Settings

    folder = write_images(tmp_path / "images", count=22)
    photo = folder / "000.png"
    progress = {}
    for name, images in (("folder", str(folder)), ("alone", "zoo:photographs")):
        seen = Listening()
        settings = Settings.of(
            {"model": "tests.runs.subject:load", "images": images, "methods": (IBA,), "mean": 0.5, "std": 0.25, "size": 32}
        )
        explain_photo(photo, settings, targets=["predicted"], out=tmp_path / f"{name}.png", seed=0, observer=seen)
        assert (tmp_path / f"{name}.png").exists()
        progress[name] = (seen.stages[0][0], seen.notes)
    assert progress["folder"] == ("fitting to 22 images", [])
    assert progress["alone"][0] == "fitting to 7 images"
    assert "so the statistics are poor; name a folder of such images with --images" in progress["alone"][1][0]
