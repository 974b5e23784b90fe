"""Accuracy is shown first where there are labels, with a remark where the model seems to be set up wrongly."""

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
    result = accuracy([0] * 5 + [1] * 5, [0] * 5 + [1, 1, 1, 0, 2], 3)
    assert (result.correct, result.n) == (8, 10)
    # (p + z²/2n ± z √(p q/n + z²/4n²)) / (1 + z²/n) with p = .8, n = 10, z = 1.96
    assert (result.low, result.high) == (pytest.approx(0.4902, abs=1e-4), pytest.approx(0.9433, abs=1e-4))
    assert result.words == "0.80 [0.49, 0.94], 8 of 10 labelled images"
    assert result.remark == ""


def test_images_without_a_label_do_not_count():
    result = accuracy([0, None, 1], [0, 0, 1], 10)
    assert (result.correct, result.n) == (2, 2)
    assert accuracy([None, None], [0, 1], 10) is None


def test_near_chance_names_the_usual_reasons():
    labels = [place % 10 for place in range(60)]
    result = accuracy(labels, [0 if place % 7 else label for place, label in enumerate(labels)], 10)
    assert result.share < 0.25
    assert result.doubtful == (result.low <= 0.1)
    wrong = accuracy(labels, [(label + 1) % 10 for label in labels], 10)
    assert wrong.remark == f"Not shown to be above chance (1 of 10, 0.1). The usual reasons: {REASONS}."
    assert wrong.doubtful


def test_a_model_that_always_predicts_the_same_class_gets_a_remark():
    labels = [0] * 50 + [1] * 50 + [2] * 50
    result = accuracy([0] * 80 + [1] * 20, [0] * 100, 10, names=["benign", "malign", *"cdefghij"])
    assert result.remark == f"Every image is called 'benign'. The usual reasons: {REASONS}."
    assert accuracy(labels, [2] * 150, 3).remark.startswith("Not shown to be above chance")


def test_one_class_of_images_is_no_reason_for_doubt():
    result = accuracy([7] * 30, [7] * 30, 1000)
    assert (result.remark, result.doubtful) == ("", False)


def test_the_most_frequent_label_is_compared_with():
    result = accuracy([0] * 90 + [1] * 10, [0] * 85 + [1] * 10 + [0] * 5, 2)
    assert result.remark == "No more than always saying class 0 would reach (0.90)."
    assert not result.doubtful


def test_few_images_are_a_remark_but_no_doubt():
    assert accuracy([0, 1, 0], [0, 1, 0], 2).remark == "Too few labelled images to tell it from chance (1 of 2)."


def test_a_low_share_above_chance_gets_a_hint_and_the_condition_is_named():
    labels = [place % 10 for place in range(200)]
    result = accuracy(
        labels, [label if place < 60 else 0 for place, label in enumerate(labels)], 10, condition="rotation(5)"
    )
    assert (
        result.remark
        == f"If this model is known to do better, the usual reasons are {REASONS}, or the condition rotation(5)."
    )


# In a run ----------------------------------------------------------------------------------------------------------------


class NoteRecorder(Silent):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def by_colour(inputs):
    """Classifies red, green and blue images, if they are normalised as it expects."""
    return 9 * (inputs.mean(dim=(2, 3)) + 0.5)


def coloured(count: int = 30):
    labels = [place % 3 for place in range(count)]
    pixels = torch.full((count, 3, 16, 16), 0.2) + 0.1 * torch.rand(count, 3, 16, 16)
    for place, label in enumerate(labels):
        pixels[place, label] += 0.5
    return from_arrays(pixels, labels)


def terminal(run: Run) -> str:
    output = io.StringIO()
    Console(file=output, width=100).print(summary_table(run))
    return output.getvalue()


@pytest.fixture(scope="module")
def runs():
    runs_and_notes = {}
    for name, settings in {"right": {"mean": 0.5}, "wrong": {"mean": [0.5, 0.5, -9.0]}}.items():
        observer = NoteRecorder()
        classifier = Classifier(by_colour, name="colours", classes=["red", "green", "blue"], **settings)
        run = evaluate(classifier, coloured(), methods=["random", "centre"], metrics=["complexity"], observer=observer)
        runs_and_notes[name] = run, observer.notes
    return runs_and_notes


def test_accuracy_is_noted_before_computing_recorded_and_printed_first(runs):
    run, notes = runs["right"]
    assert notes[0] == "accuracy 1.00 [0.89, 1.00], 30 of 30 labelled images."
    assert run.record.samples.accuracy.correct == 30
    assert run.accuracy().share == 1
    assert terminal(run).startswith("Accuracy 1.00 [0.89, 1.00], 30 of 30 labelled images\n")
    assert "<b>Accuracy</b> 1.00 [0.89, 1.00], 30 of 30 labelled images" in page(run)
    assert 'id="accuracy"' not in page(run)


def test_a_wrong_normalisation_is_named_as_a_usual_reason(runs):
    run, notes = runs["wrong"]
    assert run.accuracy().doubtful
    output = terminal(run)
    assert "mean, std or size" in notes[0]
    assert output.index("mean, std or size") < output.index("complex")
    assert f"The usual reasons: {REASONS}." in page(run)
    assert 'class="note honest" id="accuracy"' in page(run)


def test_runs_without_labels_or_of_older_versions_open(runs, tmp_path):
    run = evaluate(
        Classifier(by_colour), coloured()[:3].take([0]), methods=["random"], metrics=None, out=tmp_path, observer=Silent()
    )
    path = run.folder / "run.json"
    record = json.loads(path.read_text())
    del record["samples"]["accuracy"], record[CHECKSUM]
    path.write_text(json.dumps(record))
    assert Run(tmp_path).accuracy().n == 1
    rows = [row.as_json() | {"label": None} for row in run.record.samples.rows]
    del record["samples"]["table"]  # as the first version stored them
    record["samples"]["rows"] = rows
    path.write_text(json.dumps(record))
    assert Run(tmp_path).accuracy() is None
