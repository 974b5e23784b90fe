"""Classifier: copies, black boxes, outputs, gradients, pickles."""

from __future__ import annotations

import pickle
from typing import NamedTuple

import numpy as np
import pytest
import torch
from tests.networks import CLASSES, SIDE, plain, residual
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.plugins.checks.planted import PlantedCNN, planted_batch
from snellen.types import Passes, Rng

IDS = tuple("abcdefg")
RNG = Rng(seed=4, ids=IDS)


def images(count: int = 7, channels: int = 3) -> Tensor:
    return RNG[:count].normal("images", (channels, SIDE, SIDE))


def test_a_model_left_in_train_mode_is_seen_in_evaluation_mode_and_stays_in_train_mode() -> None:
    net = nn.Sequential(residual(), nn.Dropout(0.5))
    net.train()
    statistics = {name: values.clone() for name, values in net.state_dict().items()}
    classifier = Classifier(net)
    alone = torch.cat([classifier.logits(image[None]) for image in images()])
    torch.testing.assert_close(classifier.logits(images()), alone, rtol=1e-4, atol=1e-5)
    assert all(module.training for module in net.modules())
    torch.testing.assert_close(dict(net.state_dict()), statistics, rtol=0, atol=0)


@pytest.mark.parametrize("ask", ["logits", "gradient", "layer_gradient", "feature_layer", "operations", "rows_for"])
def test_a_model_that_raises_leaves_everything_unchanged(ask: str) -> None:
    class Broken(PlantedCNN):
        def forward(self, inputs: Tensor) -> Tensor:
            super().forward(inputs)
            raise RuntimeError("the model's own failure")

    case = planted_batch(3)
    classifier = Classifier(Broken())
    arguments = {"gradient": (case.targets,), "layer_gradient": (case.targets, "pool")}.get(ask, ())
    with classifier.counting() as outer, pytest.raises(RuntimeError, match="the model's own failure"):
        getattr(classifier, ask)(case.inputs, *arguments)
    assert outer.passes == Passes()
    assert not classifier._ledgers
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
    assert torch.overrides._get_current_function_mode_stack() == []
    for module in classifier.module.modules():
        assert not module._forward_hooks
        assert not module.training


def test_a_model_that_works_in_place_on_its_input_leaves_the_inputs_alone() -> None:
    class Greedy(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            inputs -= 5.0
            return torch.relu_(inputs).flatten(1)[:, :3] * 2

    inputs = torch.arange(4.0, 20.0).view(1, 1, 4, 4)
    before = inputs.clone()
    classifier = Classifier(Greedy(), channels=1)
    assert classifier.logits(inputs).tolist() == [[0.0, 0.0, 2.0]]
    gradient, output = classifier.gradient(inputs, torch.tensor([2]))
    assert float(output) == 2
    assert gradient.flatten().nonzero().flatten().tolist() == [2]
    assert classifier.scores([(inputs, torch.tensor([2]))], of="logit").tolist() == [2.0]
    assert torch.equal(inputs, before)


def test_the_callers_gradient_mode_does_not_matter() -> None:
    case = planted_batch(3)
    expected, _ = case.classifier.gradient(case.inputs, case.targets)
    with torch.no_grad():
        gradient, _ = case.classifier.gradient(case.inputs, case.targets)
    assert torch.equal(gradient, expected)
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in case.classifier.module.parameters())


def test_a_black_box_gives_logits_and_nothing_that_needs_gradients() -> None:
    net = plain()

    def oracle(inputs: Tensor) -> np.ndarray:
        with torch.no_grad():
            return net(inputs).numpy().astype(np.float64)

    classifier = Classifier(oracle)
    assert classifier.name == "oracle"
    assert classifier.offers == frozenset()
    torch.testing.assert_close(classifier.logits(images()), Classifier(net).logits(images()), rtol=1e-4, atol=1e-5)
    assert classifier.check(images()) == CLASSES
    targets = torch.zeros(7, dtype=torch.int64)
    for ask in (
        lambda: classifier.gradient(images(), targets),
        lambda: classifier.layer_gradient(images(), targets, "3"),
        lambda: classifier.feature_layer(images()),
        lambda: classifier.module,
    ):
        with pytest.raises(SnellenError, match="'oracle' is a black-box function"):
            ask()


def test_an_output_object_with_logits_is_understood() -> None:
    class Output(NamedTuple):
        logits: Tensor

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = plain()

        def forward(self, inputs: Tensor) -> Output:
            return Output(self.net(inputs))

    assert torch.equal(Classifier(Wrapped()).logits(images()), Classifier(plain()).logits(images()))


class Fixed(nn.Module):
    """Puts out the same thing for every image."""

    def __init__(self, row: object) -> None:
        super().__init__()
        self.row = row

    def forward(self, inputs: Tensor) -> object:
        if isinstance(self.row, Tensor):
            return self.row.expand(len(inputs), *self.row.shape)
        return self.row


@pytest.mark.parametrize(
    ("model", "settings", "labels", "sentence"),
    [
        (Fixed((torch.zeros(1), 2)), {}, (), "'m' returned a tuple, not one tensor of logits; wrap it in a function"),
        (Fixed({"out": 1}), {}, (), "'m' returned a dict, not one tensor of logits"),
        (Fixed(torch.tensor([float("nan"), 1.0])), {}, (), "'m' returned NaN or infinite outputs"),
        (Fixed(torch.tensor([float("inf"), 1.0])), {}, (), "'m' returned NaN or infinite outputs"),
        (Fixed(torch.tensor([0.25, 0.75])), {}, (), "'m' returns probabilities .* leave out its softmax or say outputs="),
        (
            Fixed(torch.tensor([0.5, 1.75])),
            {"outputs": "probabilities"},
            (),
            "'m' must return probabilities, but",
        ),
        (Fixed(torch.tensor([1.0, 2.0])), {"classes": ["cat"]}, (), "'m' has 2 outputs, but 1 class names were given"),
        (Fixed(torch.tensor([1.0, 2.0])), {}, (1, None, 2), "label 2 is out of range: 'm' has classes 0 to 1"),
        (Fixed(torch.tensor([1.0, 2.0])), {}, (-1,), "label -1 is out of range"),
        (
            Fixed(torch.zeros(2, 4, 4)),
            {},
            (),
            "'m' returned 2×2×4×4 for 2 images; it must return one row of logits per image",
        ),
        (plain(), {}, (), "'m' cannot take inputs of shape 2×3×8×8: "),
    ],
)
def test_a_model_that_does_not_fit_gets_one_sentence(model: nn.Module, settings: dict, labels: tuple, sentence: str) -> None:
    classifier = Classifier(model, name="m", **settings)
    with pytest.raises(SnellenError, match=sentence) as caught:
        classifier.check(torch.zeros(2, 3, 8, 8), labels)
    assert "\n" not in str(caught.value)


def test_probabilities_become_logits_whose_softmax_is_the_same() -> None:
    net = plain()
    classifier = Classifier(nn.Sequential(net, nn.Softmax(dim=1)), outputs="probabilities")
    assert classifier.check(images()) == CLASSES
    torch.testing.assert_close(
        classifier.probabilities(images()), Classifier(net).probabilities(images()), rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"model": plain(), "std": (0.2, 0.0, 0.2)}, "std must be positive"),
        ({"model": plain(), "outputs": "scores"}, "outputs must be 'logits' or 'probabilities', not 'scores'"),
    ],
)
def test_wrong_settings_are_refused(arguments: dict, sentence: str) -> None:
    with pytest.raises(SnellenError, match=sentence):
        Classifier(**arguments)


def test_pixels_and_inputs_are_two_spaces() -> None:
    classifier = Classifier(plain(), mean=(0.1, 0.2, 0.3), std=(0.5, 0.25, 1.0))
    pixels = RNG.uniform("pixels", (3, 4, 4))
    inputs = classifier.to_inputs(pixels)
    torch.testing.assert_close(inputs[:, 1], (pixels[:, 1] - 0.2) / 0.25)
    torch.testing.assert_close(classifier.to_pixels(inputs), pixels)


def test_gradient_in_parts_is_the_gradient() -> None:
    net = plain()
    targets = torch.tensor([0, 1, 2, 3, 4, 0, 1])
    whole, output = Classifier(net, rows=64).gradient(images(), targets)
    parts, outputs = Classifier(net, rows=2).gradient(images(), targets)
    leaf = images().requires_grad_()
    (expected,) = torch.autograd.grad(net(leaf).gather(1, targets[:, None]).sum(), leaf)
    for gradient in (whole, parts):
        torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(output, outputs)


def test_layer_gradient_times_a_small_step_is_the_change_of_the_logit() -> None:
    net = plain()
    targets = torch.tensor([0, 1, 2])
    features, gradient = Classifier(net).layer_gradient(images(3), targets, "4")
    torch.testing.assert_close(features, net[:5](images(3)).detach(), rtol=1e-4, atol=1e-5)
    step = RNG[:3].normal("step", tuple(features.shape[1:]))

    def logit(at: Tensor) -> Tensor:
        return net[5:](at).gather(1, targets[:, None])[:, 0].detach()

    # Behind the last ReLU the network is linear, so that a step of any size is exact.
    torch.testing.assert_close(
        (gradient * step).sum(dim=(1, 2, 3)), logit(features + step) - logit(features), rtol=1e-3, atol=1e-4
    )


def test_layer_gradient_survives_an_operation_in_place_behind_the_layer() -> None:
    case, in_place = planted_batch(3), planted_batch(3, relu="in-place")
    expected = case.classifier.layer_gradient(case.inputs, case.targets, "features")
    tensors = in_place.classifier.layer_gradient(in_place.inputs, in_place.targets, "features")
    for tensor, expected_tensor in zip(tensors, expected, strict=True):
        torch.testing.assert_close(tensor, expected_tensor)
    torch.testing.assert_close(in_place.classifier.layer_features(in_place.inputs.clone(), "features"), expected[0])


def test_a_classifier_survives_pickling() -> None:
    case = planted_batch(3)
    with case.classifier.counting():
        case.classifier.gradient(case.inputs, case.targets, cached=True)
        travelled = pickle.loads(pickle.dumps(case.classifier))
    assert torch.equal(travelled.logits(case.inputs), case.classifier.logits(case.inputs))
    assert travelled.fingerprint == case.classifier.fingerprint
    assert (travelled.classes, travelled.name, travelled.rows) == (("red", "green", "blue"), "planted", case.classifier.rows)
    assert not travelled._cache
    assert not travelled._ledgers
    with travelled.counting() as ledger:
        travelled.gradient(case.inputs, case.targets, cached=True)
    assert (ledger.passes, ledger.cached) == (Passes(3, 3), Passes())


def test_a_single_output_is_refused():
    with pytest.raises(SnellenError, match="has a single output; say heads='single-logit'"):
        Classifier(nn.Sequential(nn.Flatten(), nn.Linear(12, 1))).check(torch.rand(2, 3, 2, 2))
