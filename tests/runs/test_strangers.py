"""Run folders from strangers: nothing that they name is executed unless the user trusts them."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import socket
import stat
import sys
from pathlib import Path

import pytest
import torch
from tests.runs.subject import Wide, write_images, write_labelled
from typer.testing import CliRunner

import snellen
from snellen.cards import methodology
from snellen.cli.main import app
from snellen.errors import SnellenError
from snellen.files import seals
from snellen.files.integrity import digest, dump_record
from snellen.images import from_folder
from snellen.runs import Run, evaluate
from snellen.runs.progress import Silent
from snellen.runs.settings import Settings
from snellen.runs.store import Store
from snellen.runs.variant_training import pack, unpack
from snellen.study.making.make import make
from snellen.zoo.models import code_origin

HERE = Path(__file__).parent

MODEL = """
import pathlib, sys
sys.path.append({here!r})
pathlib.Path({marker!r}).touch()
from tests.runs.subject import load, recipe
"""


@pytest.fixture(scope="module")
def workshop(tmp_path_factory):
    """The folder in which somebody made a run of a model of their own; `executed` appears when the model is imported."""
    where = tmp_path_factory.mktemp("workshop")
    (where / "own_model.py").write_text(MODEL.format(here=str(HERE), marker=str(where / "executed")))
    write_images(where / "images", 4)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(where)
        patch.setattr(sys, "path", [*sys.path])
        settings = {"model": "own_model:load", "images": "images", "size": 32, "threads": 1, "out": "run"}
        Settings.of(settings | {"methods": ["gradient", "random"], "metrics": ["complexity"]}).run(Silent())
    return where


@pytest.fixture
def here(workshop, monkeypatch):
    """The workshop as it is after a restart: nothing of it has been imported."""
    monkeypatch.chdir(workshop)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path not in ("", str(workshop))])
    sys.modules.pop("own_model", None)
    (workshop / "executed").unlink(missing_ok=True)
    return workshop


def stranger(here, tmp_path, **changes):
    """The same run as somebody else would have made it: their seal is not ours."""
    folder = Path(shutil.copytree(here / "run", tmp_path / "run"))
    record = json.loads((folder / "run.json").read_bytes())
    record["request"] |= changes
    (folder / "run.json").write_bytes(dump_record(record | {"seal": "0" * 64}))
    return folder


def refused(call, *phrases):
    with pytest.raises(SnellenError) as caught:
        call()
    sentence = str(caught.value)
    assert "was not made here and would" in sentence
    assert "--trust" in sentence
    assert "\n" not in sentence
    for phrase in phrases:
        assert phrase in sentence


def invoked(*words):
    def call():
        done = CliRunner().invoke(app, [str(word) for word in words])
        if done.exception is not None:
            raise done.exception

    return call


def test_a_run_that_was_made_here_needs_no_trust(here):
    invoked("resume", here / "run")()
    assert (here / "executed").exists()


def test_nothing_of_a_stranger_is_imported(here, tmp_path):
    folder = stranger(here, tmp_path)
    words = ["load the model 'own_model:load'"]
    refused(invoked("resume", folder), *words)
    refused(invoked("cards", "--run", folder, "--out", tmp_path / "cards"), *words)
    refused(lambda: methodology.measure(Run(folder)), *words)
    refused(
        lambda: make(
            folder,
            tmp_path / "study",
            {"arms": ["gradient", "none"], "tasks": [{"task": "sharpness", "items": 2, "practice": 0}]},
        ),
        *words,
    )
    assert not (here / "executed").exists()
    assert str(here) not in sys.path[:1]


def test_only_reading_needs_no_trust(here, tmp_path):
    folder = stranger(here, tmp_path)
    invoked("report", folder)()
    invoked("verify", folder)()
    invoked("card", "gradient", "--run", folder, "--out", tmp_path / "cards")()
    assert not (here / "executed").exists()


def test_trust_is_needed_once(here, tmp_path):
    folder = stranger(here, tmp_path)
    invoked("resume", folder, "--trust")()
    assert (here / "executed").exists()
    invoked("resume", folder)()


def test_runs_without_a_seal_are_not_trusted(here, tmp_path):
    folder = stranger(here, tmp_path)
    record = json.loads((folder / "run.json").read_bytes())
    del record["seal"], record["checksum"]
    (folder / "run.json").write_text(json.dumps(record))
    refused(invoked("resume", folder))
    methodology.measure(Run(folder), images=1, seeds=2, passes=0, trust=True)
    methodology.measure(Run(folder), images=2, seeds=2, passes=0)


def test_a_seal_holds_for_the_same_files_only(here, tmp_path, monkeypatch):
    """Somebody sends a run of mine back, with a module of the same name beside it."""
    folder = Path(shutil.copytree(here / "run", tmp_path / "run"))
    (tmp_path / "own_model.py").write_text(f"import pathlib; pathlib.Path({str(tmp_path / 'executed')!r}).touch()")
    monkeypatch.chdir(tmp_path)
    refused(invoked("resume", folder))
    assert not (tmp_path / "executed").exists()


def test_a_recipe_and_a_scheduler_are_named_and_left_alone(here, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        folder = stranger(here, tmp_path, model="digits", recipe="own_model:recipe", training="images", dask=address)
        refused(invoked("resume", folder), "call the recipe 'own_model:recipe' and connect to the Dask scheduler", address)
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
            server.accept()
    assert not (here / "executed").exists()


def test_models_that_come_with_snellen_need_no_trust(tmp_path):
    settings = {"model": "digits", "images": "zoo:digits", "methods": ["random"], "metrics": ["complexity"], "shard": 600}
    Settings.of(settings | {"out": str(tmp_path / "run")}).run(Silent())
    record = json.loads((tmp_path / "run" / "run.json").read_bytes())
    assert record["seal"] is None
    invoked("resume", tmp_path / "run")()


def test_the_current_folder_comes_after_installed_packages(here):
    (here / "PIL.py").write_text("raise AssertionError('imported')")
    try:
        assert code_origin("PIL:Image") == code_origin("PIL.Image:open") != str(here / "PIL.py")
        assert sys.path.index(str(here)) == len(sys.path) - 1
        assert code_origin("own_model:load") == str(here / "own_model.py")
    finally:
        (here / "PIL.py").unlink()


# Trained variants ------------------------------------------------------------------------------------------------------


def test_variants_of_the_same_architecture_are_stored_as_weights():
    classifier = snellen.Classifier(snellen.zoo.load_classifier("digits").module)
    inputs = torch.rand(1, 3, 32, 32)
    other = snellen.zoo.digit_networks.DigitNet().eval()
    content, ending = pack(other, "another", classifier, inputs)
    assert ending == ".safetensors"
    twin = unpack(content, ending, classifier)
    assert all((first == second).all() for first, second in zip(other.parameters(), twin.parameters(), strict=True))
    assert pack(Wide(10), "wide", classifier, inputs)[1] == ".pickle"


class Hostile:
    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self):
        return open, (self.marker, "w")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run whose variant is of another architecture, so that it had to be pickled."""
    where = tmp_path_factory.mktemp("trained")
    geometry = snellen.Geometry(size=(32, 32), crop=1.0)
    images = from_folder(write_labelled(where / "images", 4), geometry=geometry)
    training = from_folder(write_labelled(where / "training", 10), geometry=geometry)
    from tests.runs.subject import load, recipe

    request = {"methods": ["gradient"], "metrics": ["reproducibility"], "recipe": recipe, "training": training}

    def compute(folder, **more):
        return evaluate(snellen.Classifier(load()), images, **request, out=folder, observer=Silent(), **more)

    return where, compute, compute(where / "run").table()


def test_a_pickle_of_a_stranger_is_never_opened(trained, tmp_path):
    where, compute, table = trained
    folder = Path(shutil.copytree(where / "run", tmp_path / "run"))
    path = next(folder.glob("relatives/*.json"))
    record = json.loads(path.read_bytes())
    assert record["file"].endswith(".pickle")
    evil = pickle.dumps(Hostile(str(tmp_path / "executed")))
    (folder / "relatives" / f"{digest(evil)}.pickle").write_bytes(evil)
    path.write_bytes(dump_record(record | {"file": f"{digest(evil)}.pickle"}))
    refused(lambda: compute(folder), "unpickle the trained variant")
    (folder / "relatives" / record["file"]).write_bytes(evil)
    path.write_bytes(dump_record(record))
    assert compute(folder).table().equals(table), "content that does not match its name is trained again"
    assert not (tmp_path / "executed").exists()


def test_pickles_of_older_versions_open_with_trust_and_are_sealed_then(trained, tmp_path):
    where, compute, table = trained
    folder = Path(shutil.copytree(where / "run", tmp_path / "run"))
    path = next(folder.glob("relatives/*.json"))
    record = json.loads(path.read_bytes())
    del record["seal"], record["checksum"]
    path.write_text(json.dumps(record))
    refused(lambda: compute(folder))
    assert compute(folder, trust=True).table().equals(table)
    assert Store(folder).unsealed_variants() == []
    assert compute(folder).table().equals(table)


# The user's folder ------------------------------------------------------------------------------------------------------


def test_the_key_is_the_users_alone(tmp_path, monkeypatch):
    monkeypatch.setenv(seals.HOME, str(tmp_path / "home"))
    mark = seals.seal(["x"])
    assert seals.is_sealed(["x"], mark)
    assert not seals.is_sealed(["y"], mark)
    assert not seals.is_sealed(["x"], None)
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["key"]
    assert stat.S_IMODE((tmp_path / "home" / "key").stat().st_mode) == 0o600
    monkeypatch.setenv(seals.HOME, str(tmp_path / "another"))
    assert not seals.is_sealed(["x"], mark)


def test_without_a_home_nothing_is_sealed_and_a_sentence_says_so(here, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv(seals.HOME, str(tmp_path / "file"))
    assert seals.seal(["x"]) is None
    assert not seals.is_sealed(["x"], "0" * 64)
    refused(invoked("resume", here / "run"), "no key could be stored in")
    monkeypatch.delenv(seals.HOME)
    monkeypatch.setattr("typer.get_app_dir", lambda name: "~/.config/snellen")
    assert seals.user_folder() is None
    assert seals.seal(["x"]) is None
    assert seals.first_time("x")


def test_the_note_that_models_are_code_comes_once(here, tmp_path, monkeypatch):
    monkeypatch.setenv(seals.HOME, str(tmp_path / "home"))
    notes = []

    class Listening(Silent):
        def note(self, text):
            notes.append(text)

    for model in ("digits", "own_model:load", "model.pt"):
        Settings.of({"model": model}).note_code(Listening())
    assert len(notes) == 1
    assert "'own_model:load' is code" in notes[0]
    assert os.listdir(tmp_path / "home") == ["said-models-are-code"]


OWN = """
import pathlib
pathlib.Path({marker!r}).touch()
def bright(classifier, inputs, targets):
    '''How bright a pixel is.'''
    return inputs.mean(dim=1)
def largest(case):
    '''The largest value of a map.'''
    return case.maps.flatten(1).amax(dim=1)
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """A folder with a run whose method and metric come from a file there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "own_plugins.py").write_text(OWN.format(marker=str(tmp_path / "executed")))
    write_images(tmp_path / "images", 4)
    settings = {"model": "digits", "images": "images", "size": 32, "threads": 1, "out": "run"}
    methods = ["smoothgrad(of=own_plugins.py:bright, samples=2)", "random"]
    Settings.of(settings | {"methods": methods, "metrics": ["own_plugins.py:largest"]}).run(Silent())
    return tmp_path


def test_methods_and_metrics_in_files_of_a_stranger_are_not_executed(own):
    invoked("card", "smoothgrad", "--run", "run")()
    folder = stranger(own, own / "elsewhere")
    (own / "own_plugins.py").write_text(OWN.format(marker=str(own / "executed")) + "# now another file\n")
    (own / "executed").unlink()
    words = ["execute the code of 'smoothgrad(of=own_plugins.py:bright, samples=2)'", "'own_plugins.py:largest'"]
    refused(invoked("resume", folder), *words)
    for command in (
        ["card", "random"],
        ["cards"],
        ["compare", "random", "smoothgrad"],
        ["recommend", "--need", "determinism"],
    ):
        refused(invoked(*command, "--run", folder), *words)
    invoked("report", folder)()
    invoked("verify", folder)()
    assert not (own / "executed").exists()
    invoked("resume", folder, "--trust")()
    assert (own / "executed").exists()


def test_adapters_of_a_run_that_was_made_here_need_no_trust_and_hidden_ones_do(tmp_path, monkeypatch):
    """The settings of an adapter name code, which is imported; the seal is of the request, not of the list of methods."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    write_images(tmp_path / "images", 4)
    (tmp_path / "evil.py").write_text(OWN.format(marker=str(tmp_path / "executed")))
    method = "captum(attribution=captum.attr:InputXGradient)"
    settings = {"model": "digits", "images": "images", "size": 32, "threads": 1, "out": "run"}
    Settings.of(settings | {"methods": [method, "captum", "random"], "metrics": ["sparseness"]}).run(Silent())
    for command in (["cards"], ["card", "random"]):
        invoked(*command, "--run", "run")()
    record = json.loads((tmp_path / "run" / "run.json").read_bytes())
    changed = json.dumps(record["spec"]).replace("captum.attr:InputXGradient", "evil:bright")
    shutil.rmtree(tmp_path / "run" / "methodology")
    (tmp_path / "run" / "run.json").write_bytes(dump_record(record | {"spec": json.loads(changed)}))
    for command in (["cards"], ["card", "random"], ["recommend", "--need", "determinism"]):
        refused(invoked(*command, "--run", "run"), "execute the code of 'evil:bright'")
    assert not (tmp_path / "executed").exists()


def test_a_changed_file_is_noticed_and_nothing_of_it_is_mixed(own, capsys):
    before = Run("run").scores()
    file = own / "own_plugins.py"
    changed = file.stat().st_mtime
    file.write_text(file.read_text().replace("amax", "amin"))
    os.utime(file, (changed, changed))  # as where a file is saved twice within a second
    with pytest.raises(SnellenError, match="has changed since 'run' was made; `snellen resume run` computes it again"):
        invoked("card", "random", "--run", "run")()
    invoked("resume", "run")()
    after = Run("run").scores()
    assert len(after) == len(before)
    assert not (set(after["value"]) & set(before["value"]))
