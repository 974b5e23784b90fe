"""Outputs that are not logits of exclusive classes are refused with a remedy."""

from __future__ import annotations

import re
import warnings

import pytest
import torch
from tests.tutorial_networks import tutorial
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.runs import evaluate
from snellen.runs.progress import Silent


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


def advised(sentence: str) -> dict[str, str]:
    """The settings that a sentence advises first."""
    return dict(re.findall(r"(heads|outputs)='([a-z-]+)'", sentence)[:2])


def test_the_advice_for_one_logit_keeps_its_probability():
    with pytest.raises(SnellenError, match="has a single output") as refusal:
        Classifier(nn.Sequential(nn.Flatten(), nn.Linear(3072, 1))).check(images(1))
    heads = re.findall(r"heads='([a-z-]+)'", str(refusal.value))[0]
    advised_model = Classifier(lambda inputs: torch.ones(len(inputs), 1), heads=heads)
    assert advised_model.probabilities(images(1))[0, 1] == pytest.approx(0.7311, abs=1e-4)


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
    classifier = Classifier(model, **advised(str(refusal.value)))
    assert torch.allclose(classifier.probabilities(images(1)), model(images(1)), atol=1e-6)


@pytest.mark.parametrize("form", ["function", "trace"])
def test_values_alone_show_sigmoids_on_enough_images(form):
    net = nn.Sequential(sharp(), nn.Sigmoid()).eval()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tracing is deprecated, and people have the files
        model = (lambda x: net(x)) if form == "function" else torch.jit.trace(net, images(2))
    with pytest.raises(SnellenError, match=r"over 12 images.*say outputs='logits'"):
        run(model)
    assert run(model, count=3).record.notes == ()  # three images show too little


def test_stated_outputs_are_used_and_noted():
    (note,) = run(nn.Sequential(sharp(), nn.Sigmoid()), outputs="logits").record.notes
    assert "they are taken as logits, as was stated" in note
    (note,) = run(nn.Sequential(sharp(), nn.Softmax(dim=1)), outputs="logits").record.notes
    assert note == "'net' returns probabilities; they are taken as logits, as was stated"


@pytest.mark.parametrize("heads", ["independent-labels", "single-logit"])
def test_a_head_does_not_state_that_a_sigmoid_gives_logits(heads):
    net = tutorial("lenet")
    if heads == "single-logit":
        net.fc3 = nn.Linear(net.fc3.in_features, 1)
    model = nn.Sequential(net, nn.Sigmoid()).eval()
    with pytest.raises(SnellenError, match="as a sigmoid does; say outputs='probabilities'"):
        run(model, count=1, heads=heads)
    assert run(model, count=1, heads=heads, outputs="probabilities").record.notes == ()
    assert run(model, count=1, heads=f"{heads}(outputs=logits)").record.notes != ()
    assert run(lambda inputs: torch.ones(len(inputs), 1), count=1, heads="single-logit").record.notes == ()


def test_probabilities_taken_for_logits_are_refused_with_the_remedy():
    with pytest.raises(SnellenError, match=r"returns probabilities .* say outputs='probabilities'"):
        run(nn.Sequential(tutorial("lenet"), nn.Softmax(dim=1)))
    assert run(nn.Sequential(tutorial("lenet"), nn.Softmax(dim=1)), outputs="probabilities").record.notes == ()


def test_sigmoids_are_no_probabilities_either():
    with pytest.raises(SnellenError, match="must return probabilities, but its rows do not sum to 1; where each is a"):
        run(nn.Sequential(tutorial("lenet"), nn.Sigmoid()), outputs="probabilities")


def test_logits_that_happen_to_lie_between_0_and_1_are_taken_with_a_note():
    def untrained(x: Tensor) -> Tensor:
        return torch.tensor([0.2, 0.4, 0.3]) + 0.1 * x.mean(dim=(2, 3))

    (note,) = run(untrained).record.notes
    assert "they are taken as logits" in note
    assert run(untrained, count=4).record.notes == ()
    assert run(sharp()).record.notes == ()
