"""Runs of contrasts, functions and several labels: what is noted and refused, and what is made of them later."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.runs.test_cases import corners, number, picture, region, run, samples
from torch import Tensor

from snellen.cards.examples import examples_of
from snellen.cards.methodology import measure
from snellen.classifier import Classifier
from snellen.classifier.targets import OutputFunction
from snellen.errors import SnellenError
from snellen.maps.explainer import case_of
from snellen.methods.gradient import InputXGradient
from snellen.plugins.registry import METRICS
from snellen.runs.progress import Silent
from snellen.runs.reload import reload_subject
from snellen.study.making.make import make
from snellen.types import Findings, Rng, Sample


def test_a_contrast_of_labels_is_explained_where_several_are_right() -> None:
    result = run(corners(), samples(), "deletion(steps=2)", target="contrast(north-west, north-east)")
    assert [row.sample for row in result.record.samples.rows] == ["both", "one", "none"]
    assert "Each map explains north-west, not north-east." in result.report().read_text()
    (note,) = result.record.notes
    assert note == "the probability of 'north-west, not north-east' is that of the first if only these two were possible"
    with pytest.raises(SnellenError, match="'x' has label 3, but 'corners' has labels 0 to 2"):
        run(corners(), [Sample(id="x", image=picture(0), label=Findings((0, 3)))], target="contrast(0, 1)")


def test_what_stands_for_the_probability_of_a_number_is_noted() -> None:
    up, down = (run(number(), torch.stack([picture(0)]), "deletion(steps=2)", target=target) for target in ("up", "down"))
    assert up.record.notes == ("what metrics call a probability is the place of the number between -8 and 8 years",)
    assert down.record.notes == (f"{up.record.notes[0]}, counted from the upper end",)


def test_a_mask_of_an_image_is_said_to_be_that_of_all_its_labels() -> None:
    masked = [Sample(id="both", image=picture(0, 2), label=Findings((0, 2)), truth=region(0))]
    result = run(corners(), masked, "energy-pointing-game", target="every-label")
    assert any("each image has one mask, which is the truth of all its targets" in note for note in result.record.notes)
    assert not any("one mask" in note for note in run(corners(), samples(), target="every-label").record.notes)


def test_an_unknown_label_to_which_the_model_says_no_is_not_right() -> None:
    classifier = corners()
    inputs = torch.stack([picture(1)])
    case = case_of(
        InputXGradient(), classifier, inputs, torch.tensor([0]), rng=Rng(0, ("a",)), labels=torch.tensor([-1])
    )  # no says the model, and the label is unknown
    score = METRICS.build("consistency", {"magnitudes": 1, "correct_only": True})(case, rng=Rng(0, ("a",)))
    assert bool(score.isnan().all())


@pytest.mark.parametrize("metric", ["roar", "model-contrast"])
def test_metrics_of_labels_and_retraining_refuse_a_contrast(metric: str) -> None:
    with pytest.raises(SnellenError, match=f"{metric} compares predictions with labels, but explained is north-west, not"):
        run(corners(heads="exclusive-classes"), torch.stack([picture(0)]), metric, target="contrast(0, 1)")


def total(logits: Tensor) -> Tensor:
    return logits.sum(dim=1)


@pytest.mark.parametrize(
    ("classifier", "target"),
    [
        (corners(), "every-label"),
        (corners(), "predicted"),
        (corners(), "south-west"),
        (corners(), "contrast(north-west, south-west)"),
        (corners(heads="exclusive-classes"), "contrast(north-west, south-west)"),
        (number(), "down"),
    ],
    ids=["every-label", "predicted", "label", "contrast of labels", "contrast", "down"],
)
def test_a_run_is_measured_again_for_its_cards(tmp_path: Path, classifier: Classifier, target: str) -> None:
    images: object = samples() if "labels" in classifier.head.words else torch.stack([picture(0), picture(1)])
    result = run(classifier, images, out=tmp_path / "run", target=target)
    model, cases = reload_subject(result, classifier, images, Silent(), usage="")
    assert list(cases.ids) == [row.sample for row in result.record.samples.rows]
    assert model.fingerprint == result.record.classifier.fingerprint
    findings = measure(result, observer=Silent(), images=2, seeds=2, passes=40, classifier=classifier, samples=images)
    assert findings["input-x-gradient"]["determinism"].share == 1


def test_a_function_of_the_outputs_has_to_be_given_again(tmp_path: Path) -> None:
    classifier, images = corners(heads="exclusive-classes"), torch.stack([picture(0), picture(1)])
    result = run(classifier, images, out=tmp_path / "run", target=total)
    with pytest.raises(SnellenError, match="explains total, a function that is not stored; pass classifier="):
        measure(result, observer=Silent(), classifier=classifier, samples=images)
    again = classifier.with_target(OutputFunction(total, "total"), "total")
    findings = measure(result, observer=Silent(), images=1, seeds=2, passes=40, classifier=again, samples=images)
    assert findings["input-x-gradient"]["determinism"].share == 1


def test_pages_claim_no_prediction_of_a_label() -> None:
    """A label that is right may be one that the model does not find."""
    missed = [Sample(id="missed", image=picture(1), label=Findings((0,)))]
    result = run(corners(), missed, target="every-label")
    (example, *_) = examples_of(result, result.record.spec.methods)["input-x-gradient"]
    assert example.caption.startswith("for the label north-west (probability 0.0017)")
    named = run(corners(), samples(), target="south-west")
    assert "<dt>label</dt><dd>not marked as present</dd>" in named.report().read_text()


@pytest.mark.parametrize(
    ("classifier", "words"), [(corners(), "3 independent labels"), (number(), "a number in years")], ids=["labels", "number"]
)
def test_a_study_needs_predicted_classes(tmp_path: Path, classifier: Classifier, words: str) -> None:
    result = run(classifier, torch.stack([picture(0), picture(1)]), out=tmp_path / "run", target="predicted")
    with pytest.raises(SnellenError, match=f"a study shows the class that a model predicts, but .* has {words}"):
        make(result.folder, tmp_path / "study", {"arms": ["random"]}, observer=Silent())
