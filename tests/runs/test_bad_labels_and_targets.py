"""Labels in the wrong shape, thresholds outside (0, 1), and contrasts of a class with itself: one sentence each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.classifier.heads import IndependentLabels, SingleLogit
from snellen.classifier.targets import Contrast
from snellen.errors import SnellenError
from snellen.report.saliency_maps import explain
from snellen.runs import evaluate
from snellen.runs.progress import Silent
from snellen.runs.score import score

IMAGES = torch.rand(3, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class Means(nn.Module):
    """As many outputs as stated, each a multiple of the mean of all pixels."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.factors = nn.Parameter(torch.arange(1.0, outputs + 1) * 2)

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs.mean((1, 2, 3))[:, None] * self.factors


def run(labels: Any, outputs: int = 5, heads: Any = None, **settings: Any) -> Any:
    classifier = Classifier(Means(outputs), name="m", heads=heads, classes=[f"c{place}" for place in range(outputs)])
    stated = {"methods": "random", "metrics": "deletion(steps=2)", "observer": Silent()}
    return evaluate(classifier, (IMAGES, labels), **stated | settings)


@pytest.mark.parametrize("target", ["predicted", "every-label", "c1"])
@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (np.eye(3, 4), "'0' has marks for 4 labels, but 'm' has 5; mark each"),
        (torch.eye(3, 7), "'0' has marks for 7 labels, but 'm' has 5; mark each"),
        ([[0], [1, 9], []], "'1' has label 9, but 'm' has labels 0 to 4"),
        ([0, 1, 9], "'2' has label 9, but 'm' has labels 0 to 4"),
        (np.zeros((3, 5, 2)), "label 0 of image 0 is .*; a finding is 1"),
        (np.full((3, 5), 2), "label 0 of image 0 is '2'; a finding is 1"),
        ([["edema"], [], []], "the label of image 0 is 'edema'; a label is a class index"),
        (np.eye(2, 5), "there are 3 images, but 2 labels"),
        (np.array(3), r"labels are array\(3\); give one per image \(3\), in a list or array"),
    ],
)
def test_labels_of_another_shape_are_refused(labels: Any, sentence: str, target: str) -> None:
    with pytest.raises(SnellenError, match=sentence):
        run(labels, heads="independent-labels", target=target)


@pytest.mark.parametrize(
    ("labels", "right"), [([0, 1, 1], 2), (np.array([[0], [1], [1]]), 2), (torch.tensor([0, 0, 1]), 1), ([None, 1, None], 1)]
)
def test_a_single_logit_takes_0_and_1(labels: Any, right: int) -> None:
    accuracy = run(labels, outputs=1, heads="single-logit").accuracy()  # the mean is positive, so the model says yes
    assert accuracy is not None
    assert accuracy.correct == right


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ([0, 1, 2], "'2' has label 2, but 'm' has classes 0 to 1"),
        ([[0, 1], [1], [0]], "'0' has several labels, but 'm' has a single yes-or-no output"),
        (np.eye(3, 2), "'0' has several labels, but 'm' has a single yes-or-no output"),
    ],
)
def test_a_single_logit_refuses_other_labels(labels: Any, sentence: str) -> None:
    with pytest.raises(SnellenError, match=sentence):
        run(labels, outputs=1, heads="single-logit")


def test_a_single_logit_predicts_by_its_threshold_in_every_call() -> None:
    sure = Classifier(Means(1), heads="single-logit(threshold=0.99)", classes=["ill"])
    assert set(explain(sure, IMAGES, methods=["random"]).target_names) == {"not ill"}
    assert set(explain(Classifier(Means(1), heads="single-logit"), IMAGES, methods=["random"]).target_names) == {"yes"}


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.5, 1.5, float("nan")])
def test_thresholds_outside_0_and_1_are_refused(threshold: float) -> None:
    for build in (
        lambda: IndependentLabels(thresholds=(0.5, threshold)),
        lambda: IndependentLabels(thresholds=(threshold,)),
        lambda: SingleLogit(threshold=threshold),
    ):
        with pytest.raises(SnellenError, match=f"a threshold is a probability between 0 and 1, not {threshold!r}"):
            build()


def test_thresholds_are_one_or_as_many_as_labels() -> None:
    with pytest.raises(SnellenError, match="there are 2 thresholds for 5 labels; give one, or one per label"):
        run(None, heads="independent-labels(thresholds=[0.5, 0.5])")


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("contrast(1, 1)", "a contrast needs two different classes, not 1 and 1"),
        ("contrast(c2, c2)", "a contrast needs two different classes, not c2 and c2"),
        ("contrast(c1, 1)", "a contrast needs two different classes, not c1 and 1"),
        ("contrast(1)", "is not a contrast of two classes; write"),
        ("contrast(0, 9)", "target '9' is not known"),
        (Contrast(0, 9), "target '9' is not known"),
    ],
)
@pytest.mark.parametrize("heads", ["exclusive-classes", "independent-labels"])
def test_contrasts_without_two_classes_are_refused_in_every_call(target: Any, sentence: str, heads: str) -> None:
    classifier = Classifier(Means(5), name="m", heads=heads, classes=[f"c{place}" for place in range(5)])
    with pytest.raises(SnellenError, match=sentence):
        run(None, heads=heads, target=target)
    with pytest.raises(SnellenError, match=sentence):
        explain(classifier, IMAGES, methods=["random"], targets=target)
    with pytest.raises(SnellenError, match=sentence):
        score("deletion", classifier, IMAGES, method="random", targets=target)
