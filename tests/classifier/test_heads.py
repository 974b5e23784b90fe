"""Outputs that are not the logits of exclusive classes, and pictures with several labels, are told in a sentence."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import torch
from tests.tutorial_networks import tutorial
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.images import as_samples, from_arrays
from snellen.images.tables import read_labels
from snellen.runs import evaluate
from snellen.runs.progress import Silent
from snellen.types import Sample


def images(count: int = 12) -> Tensor:
    return torch.rand(count, 3, 32, 32, generator=torch.Generator().manual_seed(0))


def run(model, count: int = 12, **settings):
    classifier = Classifier(model, name="net", **settings)
    return evaluate(classifier, images(count), methods=["random"], metrics=None, observer=Silent())


def sharp(scale: float = 300.0) -> nn.Module:
    """A network whose logits are far apart, as after training."""
    net = tutorial("lenet")
    with torch.no_grad():
        net.fc3.weight.mul_(scale)
    return net


def advised(sentence: str):
    (line,) = re.findall(r"torch\.cat\(.*?, 1\)", sentence)
    return eval(line, {"torch": torch, "z": torch.tensor([[1.0]])})


def test_the_advice_for_one_logit_keeps_its_probability():
    with pytest.raises(SnellenError, match="has a single output") as refusal:
        Classifier(nn.Sequential(nn.Flatten(), nn.Linear(3072, 1))).check(images(1))
    assert advised(str(refusal.value)).softmax(1)[0, 1] == pytest.approx(0.7311, abs=1e-4)


def test_the_advice_holds_for_a_row_that_was_squeezed_away():
    class Squeezed(nn.Sequential):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).squeeze()

    with pytest.raises(SnellenError, match="has a single output"):
        Classifier(Squeezed(nn.Flatten(), nn.Linear(3072, 1))).check(images(1))


class InForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = tutorial("lenet")

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.net(x)).view(len(x), -1)


@pytest.mark.parametrize("model", [nn.Sequential(tutorial("lenet"), nn.Sigmoid()), InForward()])
def test_a_model_that_ends_in_a_sigmoid_is_refused_from_one_image(model):
    with pytest.raises(SnellenError, match=r"do not sum to 1 .* as a sigmoid per class does") as refusal:
        run(model, count=1)
    assert advised(str(refusal.value)).softmax(1)[0, 1] == pytest.approx(0.7311, abs=1e-4)


@pytest.mark.parametrize("form", ["function", "trace"])
def test_values_alone_show_sigmoids_on_enough_images(form):
    net = nn.Sequential(sharp(), nn.Sigmoid()).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing is deprecated, and people have the files
        model = (lambda x: net(x)) if form == "function" else torch.jit.trace(net, images(2))
    with pytest.raises(SnellenError, match=r"over 12 images.*say outputs='logits'"):
        run(model)
    assert run(model, count=3).record.notes == ()  # three images show too little


def test_what_is_stated_is_believed_and_noted():
    (note,) = run(nn.Sequential(sharp(), nn.Sigmoid()), outputs="logits").record.notes
    assert "they are taken as logits, as was stated" in note
    (note,) = run(nn.Sequential(sharp(), nn.Softmax(dim=1)), outputs="logits").record.notes
    assert note == "'net' returns probabilities; they are taken as logits, as was stated"


def test_probabilities_taken_for_logits_are_refused_with_the_remedy():
    with pytest.raises(SnellenError, match=r"returns probabilities .* say outputs='probabilities'"):
        run(nn.Sequential(tutorial("lenet"), nn.Softmax(dim=1)))
    assert run(nn.Sequential(tutorial("lenet"), nn.Softmax(dim=1)), outputs="probabilities").record.notes == ()


def test_sigmoids_are_no_probabilities_either():
    with pytest.raises(
        SnellenError, match="was said to return probabilities, but its rows do not sum to 1; where each is a"
    ):
        run(nn.Sequential(tutorial("lenet"), nn.Sigmoid()), outputs="probabilities")


def test_logits_that_happen_to_lie_between_0_and_1_are_taken_with_a_note():
    def untrained(x: Tensor) -> Tensor:
        return torch.tensor([0.2, 0.4, 0.3]) + 0.1 * x.mean(dim=(2, 3))

    (note,) = run(untrained).record.notes
    assert "they are taken as logits" in note
    assert run(untrained, count=4).record.notes == ()
    assert run(sharp()).record.notes == ()


# Several labels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("file,label\na,0\na,2\nb,1", "line 3: 'a' has several labels (0 and 2)"),
        ("file,label,label\na,0,1\nb,1,1", "has several labels (in the columns label, label)"),
        ("file,label,label2\na,0,1\nb,1,", "has several labels (in the columns label, label2)"),
        ("file,label_1,label_2\na,0,1\nb,1,", "has several labels (in the columns label_1, label_2)"),
        ("file,label\na,0,2\nb,1", "line 2: 'a' has several labels (2)"),
        ("file,label\na,0;2\nb,1", "the picture has several labels (0;2)"),
        ("file,label\na,0 2\nb,1", "the picture has several labels (0 2)"),
        ("file,label\na,cat|dog\nb,1", "the picture has several labels (cat|dog)"),
    ],
)
def test_a_table_with_several_labels_is_refused(tmp_path, text, told):
    path = tmp_path / "labels.csv"
    path.write_text(text)
    with pytest.raises(SnellenError, match=re.escape(told)) as refusal:
        read_labels(path, ["a", "b"], ["cat", "dog", "tench, Tinca tinca"])
    assert "independent labels are not supported yet" in str(refusal.value)


def test_a_name_with_a_comma_and_a_column_beside_are_no_several_labels(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text('file,label,label_name\na,0,cat\nb,"tench, Tinca tinca",tench\n')
    assert read_labels(path, ["a", "b"], ["cat", "dog", "tench, Tinca tinca"]) == ({"a": 0, "b": 2}, {})


class Items(torch.utils.data.Dataset):
    def __init__(self, label) -> None:
        self.label = label

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int):
        return images(2)[index], self.label


@pytest.mark.parametrize("label", [[0, 2], (1,), torch.tensor([0.0, 1.0, 1.0]), np.array([0, 1]), {0, 1}])
def test_several_labels_in_python_are_refused(label):
    sample = Sample("a", images(1)[0])
    object.__setattr__(sample, "label", label)  # tests check types where users' code does not
    for given in (Items(label), [sample], (images(2), [label, label])):
        with pytest.raises(SnellenError, match=r"has several labels \(.*independent labels are not supported yet"):
            as_samples(given)


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_an_array_of_marks_is_refused_and_a_column_is_read(kind):
    marks = kind([[0, 1, 1], [1, 0, 0]])
    with pytest.raises(SnellenError, match=r"an array of 2×3; where each row marks one, give labels.argmax\(1\)"):
        from_arrays(images(2), marks)
    assert [one.label for one in from_arrays(images(2), kind([[4], [7]]))] == [4, 7]
