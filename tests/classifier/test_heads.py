"""What outputs mean: probabilities, decisions and further targets of every kind of head, worked by hand."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.classifier.heads import HEADS, ExclusiveClasses, IndependentLabels, Number, SingleLogit, WithTargets, read_head
from snellen.classifier.targets import Contrast, Down, OutputFunction
from snellen.errors import SnellenError
from snellen.methods.gradient import Gradient
from snellen.types import Rng

LOGITS = torch.tensor([[2.0, 0.0, -1.0], [0.0, math.log(3), math.log(4)]])


def sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value))


def test_exclusive_classes_share_one_probability() -> None:
    head = ExclusiveClasses()
    assert head.probabilities(LOGITS)[1].tolist() == pytest.approx([1 / 8, 3 / 8, 4 / 8])
    assert head.decisions(LOGITS, torch.tensor([2, 2])).tolist() == [0, 2]
    assert head.predicted(LOGITS) == ((0,), (2,))
    assert head.least(LOGITS).tolist() == [2, 0]


def test_independent_labels_have_a_probability_each() -> None:
    head = IndependentLabels(thresholds=(0.5, 0.8, 0.5))
    assert head.probabilities(LOGITS)[1].tolist() == pytest.approx([1 / 2, 3 / 4, 4 / 5])
    assert head.predicted(LOGITS) == ((0,), (0, 2))  # 3/4 is below 0.8
    assert head.decisions(LOGITS, torch.tensor([0, 1])).tolist() == [0, -1]
    assert float(head.loss(LOGITS, torch.tensor([0, 1]))) == pytest.approx(-math.log(sigmoid(2.0)) - math.log(3 / 4))


def test_a_single_logit_has_the_columns_no_and_yes() -> None:
    head = SingleLogit(threshold=0.9)
    logits = head.logits(torch.tensor([[math.log(3)], [math.log(19)]]))
    assert logits[0].tolist() == pytest.approx([-math.log(3), math.log(3)])  # the logit of no, so that its map is not zero
    assert head.probabilities(logits).tolist() == [pytest.approx([1 / 4, 3 / 4]), pytest.approx([1 / 20, 19 / 20])]
    assert head.best(logits).tolist() == [0, 1]
    assert head.column_names(("pneumonia",)) == ("not pneumonia", "pneumonia")


def test_a_number_has_a_place_in_its_range_or_no_probability() -> None:
    values = torch.tensor([[25.0], [-5.0]])
    assert Number(low=0, high=100).probabilities(values).flatten().tolist() == [0.25, 0.0]
    assert Number().probabilities(values).isnan().all()
    assert not Number().reads_probability
    assert Number().decisions(values, torch.tensor([0, 0])).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("head", "raw"),
    [
        (ExclusiveClasses("probabilities"), [[0.2, 0.3, 0.5]]),
        (IndependentLabels("probabilities"), [[0.2, 0.9, 0.5]]),
        (SingleLogit("probabilities"), [[0.2]]),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_probabilities_of_a_model_come_back(head, raw) -> None:
    probabilities = head.probabilities(head.logits(torch.tensor(raw)))
    expected = [[0.8, 0.2]] if head.kind == "single-logit" else raw
    assert probabilities.tolist() == [pytest.approx(row) for row in expected]
    assert head.raw(head.logits(torch.tensor(raw))).tolist() == [pytest.approx(row) for row in raw]


def test_a_contrast_is_the_choice_between_two() -> None:
    head = WithTargets(ExclusiveClasses(), (Contrast(2, 1),))
    logits = head.logits(LOGITS)
    assert logits[:, 3].tolist() == pytest.approx([-1.0, math.log(4 / 3)])
    assert head.probabilities(logits)[1].tolist() == pytest.approx([1 / 8, 3 / 8, 4 / 8, 4 / 7])  # 4/8 : (4/8 + 3/8)
    assert head.decisions(logits, torch.tensor([3, 3])).tolist() == [-1, 3]
    assert head.best(logits).tolist() == [0, 2]
    with pytest.raises(SnellenError, match="needs two different classes"):
        Contrast(1, 1)


def test_down_and_functions_of_the_outputs() -> None:
    down = WithTargets(Number(low=0, high=10), (Down(),))
    logits = down.logits(torch.tensor([[4.0]]))
    assert logits.tolist() == [[4.0, -4.0]]
    assert down.probabilities(logits).tolist() == [pytest.approx([0.4, 0.6])]
    spread = WithTargets(ExclusiveClasses(), (OutputFunction(lambda rows: rows.std(dim=1), "spread"),))
    assert spread.logits(LOGITS)[:, 3].tolist() == pytest.approx(LOGITS.std(dim=1).tolist())
    assert not spread.reads_probability
    with pytest.raises(SnellenError, match="must return one number per row"):
        WithTargets(ExclusiveClasses(), (OutputFunction(lambda rows: rows, "all"),)).logits(LOGITS)


def test_a_function_of_the_outputs_that_fails_or_has_no_gradient_is_one_sentence() -> None:
    classifier, inputs, _ = linear(3)

    def beyond(logits: Tensor) -> Tensor:
        return logits[:, 9]

    def best(logits: Tensor) -> Tensor:
        return logits.argmax(dim=1).float()

    with pytest.raises(SnellenError, match=r"target 'beyond' failed on logits of 1×3 \(IndexError: index 9"):
        classifier.with_target(OutputFunction(beyond, "beyond"), "beyond").check(inputs)
    without = classifier.with_target(OutputFunction(best, "best"), "best")
    without.check(inputs)
    assert "gradients" not in without.offers
    assert without.no_gradient_reason == "the target 'best' is no differentiable function of the logits"


@pytest.mark.parametrize("kind", HEADS)
def test_heads_are_written_and_read(kind: str) -> None:
    assert read_head(kind) == HEADS[kind]()
    assert read_head(read_head(kind).text) == HEADS[kind]()
    stated = {
        "independent-labels": "thresholds=[0.2, 0.7]",
        "single-logit": "threshold=0.3",
        "number": "unit=years, low=0, high=9",
    }
    head = read_head(f"{kind}({stated.get(kind, 'outputs=probabilities')})")
    assert read_head(head.text) == head != HEADS[kind]()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("independent", "heads is one of exclusive-classes, independent-labels"),
        ("independent-labels(thresholds=1.5)", "a threshold is a probability between 0 and 1, not 1.5"),
        ("independent-labels(thresholds=[0.5, 0])", "a threshold is a probability between 0 and 1, not 0.0"),
        ("single-logit(threshold=high)", "threshold of single-logit must be a number, not 'high'"),
        ("number(low=3)", "needs both low and high"),
        ("number(low=3, high=3)", "from low to high, not from 3 to 3"),
        ("number(outputs=logits)", "number has no setting 'outputs'"),
        ("exclusive-classes(outputs=odds)", "must be 'logits' or 'probabilities', not 'odds'"),
    ],
)
def test_a_head_that_cannot_be_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SnellenError, match=sentence.replace("(", r"\(")):
        read_head(text)


def linear(outputs: int, **settings) -> tuple[Classifier, Tensor, nn.Linear]:
    """A linear model of 2×2 grey pixels, whose gradients are its weights."""
    layer = nn.Linear(4, outputs)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(4.0 * outputs).view(outputs, 4) / 10)
        layer.bias.zero_()
    classifier = Classifier(nn.Sequential(nn.Flatten(), layer), channels=1, **settings)
    return classifier, torch.tensor([[[[0.1, 0.2], [0.3, 0.4]]]]), layer


def test_any_method_explains_a_contrast() -> None:
    """The gradient of a difference of two logits is the difference of two rows of weights."""
    classifier, inputs, layer = linear(3)
    contrast = classifier.with_target(Contrast(2, 0), "two, not zero")
    maps = Gradient(fold="sum")(contrast, inputs, torch.tensor([3]), rng=Rng(0, ("a",)))
    assert maps.flatten().tolist() == pytest.approx((layer.weight[2] - layer.weight[0]).tolist())
    assert contrast.fingerprint != classifier.fingerprint


def test_the_gradient_of_a_sigmoid_depends_on_its_own_logit_alone() -> None:
    classifier, inputs, layer = linear(3, heads="independent-labels")
    logit = float(classifier.logits(inputs)[0, 1])
    slope = sigmoid(logit) * (1 - sigmoid(logit))
    maps = Gradient(of="probability", fold="sum")(classifier, inputs, torch.tensor([1]), rng=Rng(0, ("a",)))
    assert maps.flatten().tolist() == pytest.approx((slope * layer.weight[1]).tolist())


def test_exclusive_classes_keep_the_fingerprint_that_they_had() -> None:
    plain, stated = linear(3)[0], linear(3, heads="exclusive-classes")[0]
    assert plain.fingerprint == stated.fingerprint
    assert plain.fingerprint != linear(3, heads="independent-labels")[0].fingerprint


@pytest.mark.parametrize(
    ("outputs", "heads", "sentence"),
    [
        (1, None, "has a single output; say heads='single-logit'"),
        (3, "single-logit", "a single logit was stated, but the model has 3 outputs"),
        (3, "number", "a number was stated, but the model has 3 outputs"),
        (3, "independent-labels(thresholds=[0.1, 0.2])", "there are 2 thresholds for 3 labels"),
    ],
)
def test_outputs_that_do_not_fit_the_head_are_refused(outputs: int, heads: str | None, sentence: str) -> None:
    classifier, inputs, _ = linear(outputs, heads=heads)
    with pytest.raises(SnellenError, match=sentence.replace("(", r"\(")):
        classifier.check(inputs)
