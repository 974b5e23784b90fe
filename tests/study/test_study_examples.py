"""The studies that `make study-demo` makes."""

from __future__ import annotations

import csv
import importlib.util
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch
from PIL import Image

from snellen.runs import Run
from snellen.runs.plan import parse_methods, parse_metrics
from snellen.runs.progress import Silent
from snellen.runs.settings import Settings
from snellen.study.making.make import make
from snellen.study.making.preview import groups
from snellen.study.protocol import NONE

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def letters() -> ModuleType:
    spec = importlib.util.spec_from_file_location("letters", ROOT / "examples" / "letters.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def pictures(letters: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("letters")
    letters.write(folder)
    return folder


def test_the_reader_of_letters_errs_on_a_quarter_and_for_the_reason_that_is_told(
    letters: ModuleType, pictures: Path
) -> None:
    with open(pictures / "labels.csv", newline="") as file:
        labels = {row["file"]: row["label"] for row in csv.DictReader(file)}
    assert Counter(labels.values()) == {"A": 4 * letters.EACH, "B": 4 * letters.EACH}
    classifier = letters.reader()
    wrong = 0
    for name, label in labels.items():
        pixels = np.asarray(Image.open(pictures / "images" / name).convert("RGB"))
        image = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None] / 255
        prediction = letters.LETTERS[int(classifier.logits(classifier.to_inputs(image)).argmax())]
        mask = np.asarray(Image.open(pictures / "masks" / name)) > 0
        # Where the small box is shown it is looked at: sixteen pixels, and a hundred more of the large one.
        looks_at_boxes = int(mask.sum()) in (16, 116)
        assert prediction == label or looks_at_boxes
        wrong += prediction != label
    assert wrong == pytest.approx(len(labels) / 4, abs=2)


@pytest.mark.parametrize("name", ["photographs", "textbox"])
def test_example_studies_ask_for_methods_that_their_runs_have(name: str) -> None:
    protocol = Settings.read(ROOT / "examples" / f"study-{name}.yaml")
    source = {"photographs": ROOT / "demo.yaml", "textbox": ROOT / "examples" / "letters.yaml"}[name]
    settings = Settings.of(Settings.read(source))
    assert settings.out == protocol["run"]
    names = [str(method).partition("(")[0] for method in settings.methods]
    assert all(arm == NONE or names.count(arm) == 1 for arm in protocol["arms"])
    assert parse_methods(settings.methods)
    assert parse_metrics(settings.metrics)


@pytest.mark.exhaustive
def test_the_study_on_textbox_can_be_made_as_the_demonstration_makes_it(
    pictures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    values = Settings.read(ROOT / "examples" / "letters.yaml")
    places = {
        "images": str(pictures / "images"),
        "labels": str(pictures / "labels.csv"),
        "masks": str(pictures / "masks"),
        "out": str(tmp_path / "run"),
    }
    run = Settings.of(values | places).run(Silent())
    assert isinstance(run, Run)
    protocol = Settings.read(ROOT / "examples" / "study-textbox.yaml")
    study = make(run.folder, tmp_path / "study", protocol, observer=Silent())
    assert len(groups(study)) == 5
    for item in study.items:
        if item.task == "forward-selection":
            assert isinstance(item.truth, tuple)
            assert 2 <= sum(not right for right in item.truth) <= 4
        if item.task == "class-accuracy":
            assert item.truth == pytest.approx(75, abs=4)
