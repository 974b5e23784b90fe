"""Reasoners as folders: written whole, read back in half precision, and refused in a sentence when something is wrong."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.textbox.tiny import QUICK, TINY

from snellen.errors import SnellenError
from snellen.textbox.networks.architectures import build_network
from snellen.textbox.networks.trained_network import (
    ACCURACY,
    LOG,
    RECORD,
    WEIGHTS,
    TrainedNetwork,
    find_network,
    read_network,
    refuse_other_content,
    shipped_folder,
    shipped_names,
    write_network,
)
from snellen.textbox.networks.training import TrainingResult, TrainingStep, to_inputs
from snellen.textbox.scenes.settings import RULES

STEPS = [
    TrainingStep(attempt=1, images=64, seconds=0.5, loss=0.69, rate=1e-4, mean=0.5, worst=0.0),
    TrainingStep(attempt=1, images=128, seconds=1.0, loss=0.01, rate=1e-3, mean=1.0, worst=1.0),
]


@pytest.fixture
def trained() -> TrainingResult:
    module = build_network("small-cnn", classes=2, side=TINY.side, seed=3).eval()
    return TrainingResult(module=module, seed=3, accuracy={1: 1.0, 2: 0.95, 3: 1.0, 4: 0.98}, log=list(STEPS), seconds=12.34)


@pytest.fixture
def kept(trained: TrainingResult, tmp_path: Path) -> TrainedNetwork:
    return write_network(tmp_path / "tiny", TINY, trained, QUICK)


def test_a_reasoner_is_read_back_as_it_was_up_to_half_precision(kept: TrainedNetwork, trained: TrainingResult) -> None:
    inputs = to_inputs(TINY.layout.scenes([1, 2, 3, 4], range(4), seed=0))
    network = find_network(kept.folder)
    assert network.spec == TINY
    assert torch.allclose(network.logits(inputs), trained.module(inputs), atol=1e-3)
    assert torch.equal(network.logits(inputs), kept.logits(inputs))
    assert network.accuracy == trained.accuracy
    assert network.attacked == {}
    assert not network.module.training
    assert all(value.dtype == torch.float16 for value in load_file(kept.folder / WEIGHTS).values())


def test_log_and_accuracy_stand_beside_the_weights(kept: TrainedNetwork) -> None:
    with (kept.folder / LOG).open() as file:
        rows = list(csv.DictReader(file))
    assert [row["images"] for row in rows] == ["64", "128"]
    assert "attacked_mean" not in rows[0]
    assert (kept.folder / ACCURACY).read_text() == "bucket,accuracy\n1,1.0\n2,0.95\n3,1.0\n4,0.98\n"
    record = json.loads((kept.folder / RECORD).read_text())
    assert record["training"]["images"] == 128
    assert record["training"]["seed_used"] == 3


def test_a_robust_reasoner_keeps_both_accuracies(trained: TrainingResult, tmp_path: Path) -> None:
    attacked = dict.fromkeys(trained.accuracy, 0.5)
    steps = [replace(step, attacked_mean=0.25, attacked_worst=0.0) for step in STEPS]
    network = write_network(
        tmp_path / "r", replace(TINY, robust=True), replace(trained, attacked=attacked, log=steps), QUICK
    )
    assert network.attacked == attacked
    assert (network.folder / ACCURACY).read_text().startswith("bucket,accuracy,accuracy_under_attack\n1,1.0,0.5\n")
    assert "attacked_worst" in (network.folder / LOG).read_text()


def test_a_folder_is_replaced_whole_or_left_alone(kept: TrainedNetwork, trained: TrainingResult) -> None:
    before = {path.name: path.read_bytes() for path in kept.folder.iterdir()}
    broken = replace(trained, attacked={1: 0.5})  # fails at the last file
    with pytest.raises(KeyError):
        write_network(kept.folder, TINY, broken, QUICK)
    assert {path.name: path.read_bytes() for path in kept.folder.iterdir()} == before
    assert [path.name for path in kept.folder.parent.iterdir()] == ["tiny"]
    write_network(kept.folder, TINY, replace(trained, seed=8), QUICK)
    assert read_network(kept.folder).record["training"]["seed_used"] == 8
    assert [path.name for path in kept.folder.parent.iterdir()] == ["tiny"]


def _shorten(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-500])


def _spoil(folder: Path) -> None:
    weights = load_file(folder / WEIGHTS)
    weights["head.0.bias"][0] = torch.nan
    save_file(weights, folder / WEIGHTS)


def _other(folder: Path) -> None:
    save_file(build_network("deep-cnn", classes=2, side=64, seed=0).state_dict(), folder / WEIGHTS)


def _record(change: Callable[[dict], None]) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        record = json.loads((folder / RECORD).read_text())
        change(record)
        (folder / RECORD).write_text(json.dumps(record))

    return changed


@pytest.mark.parametrize(
    ("harm", "sentence"),
    [
        (_shorten, "cannot be used .* train the network again"),
        (_spoil, "not finite; train the network again"),
        (_other, "cannot be used"),
        (lambda folder: (folder / WEIGHTS).unlink(), "weights.safetensors' is missing"),
        (lambda folder: (folder / RECORD).write_text("{"), "reasoner.json' cannot be read"),
        (_record(lambda record: record["reasoning"].pop("rule")), "reasoner.json' cannot be read"),
        (_record(lambda record: record["reasoning"].update(rule="boxes")), "names 'boxes'"),
        (_record(lambda record: record["reasoning"].update(architecture="lenet")), "no architecture 'lenet'"),
    ],
)
def test_harmed_folders_are_refused_in_a_sentence(kept: TrainedNetwork, harm: Callable[[Path], None], sentence: str) -> None:
    harm(kept.folder)
    with pytest.raises(SnellenError, match=sentence) as on_step:
        read_network(kept.folder)
    assert "\n" not in str(on_step.value)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SnellenError, match=r"there is no setting 'simple-fx', nor a folder .* did you mean 'simple-fr'"):
        find_network("simple-fx")


def test_only_a_free_folder_or_one_with_the_same_reasoning_may_be_written_to(kept: TrainedNetwork, tmp_path: Path) -> None:
    refuse_other_content(kept.folder, TINY)
    refuse_other_content(tmp_path / "new", TINY)
    (tmp_path / "empty").mkdir()
    refuse_other_content(tmp_path / "empty", TINY)
    with pytest.raises(SnellenError, match="holds a network with another rule"):
        refuse_other_content(kept.folder, replace(TINY, background="noise"))
    (tmp_path / "empty" / "thesis.txt").write_text("years of work")
    with pytest.raises(SnellenError, match="holds no trained network"):
        refuse_other_content(tmp_path / "empty", TINY)
    with pytest.raises(SnellenError, match="holds no trained network"):
        refuse_other_content(tmp_path / "empty" / "thesis.txt", TINY)


def test_a_place_that_cannot_be_written_to_is_refused(trained: TrainingResult, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SnellenError, match="cannot write to"):
        write_network(tmp_path / "file" / "inside", TINY, trained, QUICK)


def test_the_classifier_says_what_the_network_says(kept: TrainedNetwork) -> None:
    made = TINY.layout.scenes([1, 2, 3, 4], range(4), seed=0)
    classifier = kept.classifier()
    pixels = made.pixels.float() / 255
    assert torch.allclose(classifier.logits(classifier.to_inputs(pixels)), kept.logits(to_inputs(made)), atol=1e-5)
    assert kept.predictions(to_inputs(made)).tolist() == kept.logits(to_inputs(made)).argmax(dim=1).tolist()


@pytest.mark.parametrize("name", shipped_names())
def test_the_shipped_reasoners_are_as_good_as_the_published(name: str) -> None:
    network = find_network(name)
    shares = network.accuracy.values()
    assert network.spec.rule.text == " ".join(RULES[name].split())
    assert sum(shares) / len(shares) >= (0.98 if network.spec.simple else 0.95)
    assert min(shares) >= 0.90
    assert (network.folder / LOG).is_file()
    assert network.folder == shipped_folder() / name
