"""Accuracy comes first wherever labels are known, with a remark where it looks as if the model was set up wrongly."""

from __future__ import annotations

import io
import json

import pytest
import torch
from rich.console import Console

from snellen.classifier import Classifier
from snellen.files.integrity import CHECKSUM
from snellen.images import from_arrays
from snellen.report.page import page
from snellen.report.summary_table import summary_table
from snellen.runs import Run, evaluate
from snellen.runs.accuracy import accuracy
from snellen.runs.progress import Silent

REASONS = "a mean, std or size other than in training, or classes in another order"


def test_the_interval_is_wilsons():
    found = accuracy([0] * 5 + [1] * 5, [0] * 5 + [1, 1, 1, 0, 2], 3)
    assert (found.correct, found.n) == (8, 10)
    # (p + z²/2n ± z √(p q/n + z²/4n²)) / (1 + z²/n) with p = .8, n = 10, z = 1.96
    assert (found.low, found.high) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))
    assert found.words == "0.80 [0.49, 0.94], 8 of 10 labelled images"
    assert found.remark == ""


def test_images_without_a_label_do_not_count():
    found = accuracy([0, None, 1], [0, 0, 1], 10)
    assert (found.correct, found.n) == (2, 2)
    assert accuracy([None, None], [0, 1], 10) is None


def test_near_chance_names_the_usual_reasons():
    labels = [place % 10 for place in range(60)]
    found = accuracy(labels, [0 if place % 7 else label for place, label in enumerate(labels)], 10)
    assert found.share < 0.25
    assert found.doubtful == (found.low <= 0.1)
    wrong = accuracy(labels, [(label + 1) % 10 for label in labels], 10)
    assert wrong.remark == f"Not shown to be above chance (1 of 10, 0.1). The usual reasons: {REASONS}."
    assert wrong.doubtful


def test_a_model_that_gives_one_answer_is_told():
    labels = [0] * 50 + [1] * 50 + [2] * 50
    found = accuracy([0] * 80 + [1] * 20, [0] * 100, 10, names=["benign", "malign", *"cdefghij"])
    assert found.remark == f"Every image is called 'benign'. The usual reasons: {REASONS}."
    assert accuracy(labels, [2] * 150, 3).remark.startswith("Not shown to be above chance")


def test_one_class_of_images_is_no_reason_for_doubt():
    found = accuracy([7] * 30, [7] * 30, 1000)
    assert (found.remark, found.doubtful) == ("", False)


def test_the_most_frequent_label_is_compared_with():
    found = accuracy([0] * 90 + [1] * 10, [0] * 85 + [1] * 10 + [0] * 5, 2)
    assert found.remark == "No more than always saying class 0 would reach (0.90)."
    assert not found.doubtful


def test_few_images_are_not_blamed_on_the_model():
    assert accuracy([0, 1, 0], [0, 1, 0], 2).remark == "Too few labelled images to tell it from chance (1 of 2)."


def test_a_low_share_above_chance_gets_a_hint_and_the_condition_is_named():
    labels = [place % 10 for place in range(200)]
    found = accuracy(labels, [label if place < 60 else 0 for place, label in enumerate(labels)], 10, condition="rotation(5)")
    assert (
        found.remark
        == f"If this model is known to do better, the usual reasons are {REASONS}, or the condition rotation(5)."
    )


# In a run ----------------------------------------------------------------------------------------------------------------


class Heard(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def by_colour(inputs):
    """Knows red, green and blue pictures, if they are normalised as it expects."""
    return 9 * (inputs.mean(dim=(2, 3)) + 0.5)


def coloured(count: int = 30):
    labels = [place % 3 for place in range(count)]
    pixels = torch.full((count, 3, 16, 16), 0.2) + 0.1 * torch.rand(count, 3, 16, 16)
    for place, label in enumerate(labels):
        pixels[place, label] += 0.5
    return from_arrays(pixels, labels)


def terminal(run: Run) -> str:
    said = io.StringIO()
    Console(file=said, width=100).print(summary_table(run))
    return said.getvalue()


@pytest.fixture(scope="module")
def runs():
    found = {}
    for name, settings in {"right": {"mean": 0.5}, "wrong": {"mean": [0.5, 0.5, -9.0]}}.items():
        heard = Heard()
        classifier = Classifier(by_colour, name="colours", classes=["red", "green", "blue"], **settings)
        run = evaluate(classifier, coloured(), methods=["random", "centre"], metrics=["complexity"], observer=heard)
        found[name] = run, heard.notes
    return found


def test_it_is_said_before_computing_recorded_and_printed_first(runs):
    run, notes = runs["right"]
    assert notes[0] == "accuracy 1.00 [0.89, 1.00], 30 of 30 labelled images."
    assert run.record.samples.accuracy.correct == 30
    assert run.accuracy().share == 1
    assert terminal(run).startswith("Accuracy 1.00 [0.89, 1.00], 30 of 30 labelled images\n")
    assert "<b>Accuracy</b> 1.00 [0.89, 1.00], 30 of 30 labelled images" in page(run)
    assert 'id="accuracy"' not in page(run)


def test_a_wrong_normalisation_is_met_with_its_name(runs):
    run, notes = runs["wrong"]
    assert run.accuracy().doubtful
    told = terminal(run)
    assert "mean, std or size" in notes[0]
    assert told.index("mean, std or size") < told.index("complex")
    assert f"The usual reasons: {REASONS}." in page(run)
    assert 'class="note honest" id="accuracy"' in page(run)


def test_runs_without_labels_or_from_before_open(runs, tmp_path):
    run = evaluate(
        Classifier(by_colour), coloured()[:3].take([0]), methods=["random"], metrics=None, out=tmp_path, observer=Silent()
    )
    path = run.folder / "run.json"
    record = json.loads(path.read_text())
    del record["samples"]["accuracy"], record[CHECKSUM]
    path.write_text(json.dumps(record))
    assert Run(tmp_path).accuracy().n == 1
    for row in record["samples"]["rows"]:
        row["label"] = None
    path.write_text(json.dumps(record))
    assert Run(tmp_path).accuracy() is None
