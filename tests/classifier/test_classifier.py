from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
import weakref
from typing import NamedTuple

import numpy as np
import pytest
import torch
from tests.networks import CLASSES, SIDE, plain, residual
from tests.planted import Net, planted
from torch import Tensor, nn

from snellen.classifier import Classifier, engines
from snellen.errors import SnellenError
from snellen.types import Passes, Rng

IDS = tuple("abcdefg")
RNG = Rng(seed=4, ids=IDS)


def images(count: int = 7, channels: int = 3) -> Tensor:
    return RNG[:count].normal("images", (channels, SIDE, SIDE))


# The model is copied, never changed ---------------------------------------------------------------------------------


def test_what_happens_to_the_model_afterwards_does_not_reach_the_classifier() -> None:
    net = residual()
    classifier = Classifier(net)
    before, mark = classifier.logits(images()), classifier.fingerprint
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(1.0)
    net.train()
    net(images())  # moves the statistics of the user's batch normalisation, not ours
    assert torch.equal(classifier.logits(images()), before)
    assert classifier.fingerprint == mark
    assert Classifier(net).fingerprint != mark


def test_a_model_left_in_train_mode_is_seen_in_evaluation_mode_and_stays_in_train_mode() -> None:
    net = nn.Sequential(residual(), nn.Dropout(0.5))
    net.train()
    statistics = {name: one.clone() for name, one in net.state_dict().items()}
    classifier = Classifier(net)
    alone = torch.cat([classifier.logits(one[None]) for one in images()])
    torch.testing.assert_close(classifier.logits(images()), alone, rtol=1e-4, atol=1e-5)
    assert all(module.training for module in net.modules())
    torch.testing.assert_close(dict(net.state_dict()), statistics, rtol=0, atol=0)


@pytest.mark.parametrize("ask", ["logits", "gradient", "layer_gradient", "feature_layer", "operations", "rows_for"])
def test_a_model_that_raises_leaves_everything_as_found(ask: str) -> None:
    class Broken(Net):
        def forward(self, inputs: Tensor) -> Tensor:
            super().forward(inputs)
            raise RuntimeError("the model's own failure")

    case = planted(3)
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
    case = planted(3)
    expected, _ = case.classifier.gradient(case.inputs, case.targets)
    with torch.no_grad():
        found, _ = case.classifier.gradient(case.inputs, case.targets)
    assert torch.equal(found, expected)
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in case.classifier.module.parameters())


# Black boxes and unusual answers ------------------------------------------------------------------------------------


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
        (Fixed(torch.tensor([0.5, 1.75])), {"outputs": "probabilities"}, (), "'m' was said to return probabilities, but"),
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


# Passes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [(7,), (1, 2, 4), (3, 4), (5, 1, 1)])
@pytest.mark.parametrize("rows", [1, 2, 4, 64])
def test_scores_of_regrouped_blocks_are_the_logits(sizes: tuple[int, ...], rows: int) -> None:
    classifier = Classifier(plain(), rows=rows)
    targets = torch.tensor([0, 1, 2, 3, 4, 0, 1])
    calls: list[int] = []
    blocks = list(zip(images().split(sizes), targets.split(sizes), strict=True))
    with classifier.counting(lambda passes: calls.append(passes.forward)):
        logit = classifier.scores(iter(blocks), of="logit")
        probability = classifier.scores(iter(blocks), of="probability")
    wanted = classifier.logits(images())
    torch.testing.assert_close(logit, wanted.gather(1, targets[:, None])[:, 0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(probability, wanted.softmax(1).gather(1, targets[:, None])[:, 0], rtol=1e-4, atol=1e-5)
    # Every pass is full but the last one.
    full, rest = divmod(7, rows)
    assert calls == 2 * ([rows] * full + [rest] * bool(rest))


def test_scores_of_nothing_is_nothing() -> None:
    assert Classifier(plain()).scores(iter(()), of="logit").shape == (0,)


def test_gradient_in_parts_is_the_gradient() -> None:
    net = plain()
    targets = torch.tensor([0, 1, 2, 3, 4, 0, 1])
    whole, output = Classifier(net, rows=64).gradient(images(), targets)
    parts, outputs = Classifier(net, rows=2).gradient(images(), targets)
    leaf = images().requires_grad_()
    (expected,) = torch.autograd.grad(net(leaf).gather(1, targets[:, None]).sum(), leaf)
    for found in (whole, parts):
        torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-6)
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
    case, in_place = planted(3), planted(3, relu="in-place")
    expected = case.classifier.layer_gradient(case.inputs, case.targets, "features")
    found = in_place.classifier.layer_gradient(in_place.inputs, in_place.targets, "features")
    for one, two in zip(found, expected, strict=True):
        torch.testing.assert_close(one, two)
    torch.testing.assert_close(in_place.classifier.layer_features(in_place.inputs.clone(), "features"), expected[0])


def test_layers_that_cannot_be_recorded_are_refused() -> None:
    case = planted(3, relu="reused")
    for layer, sentence in (
        ("nowhere", "'planted' has no layer 'nowhere'"),
        ("head", "layer 'head' of 'planted' does not put out a feature map"),
        ("first", "layer 'first' of 'planted' runs more than once"),
    ):
        with pytest.raises(SnellenError, match=sentence):
            case.classifier.layer_gradient(case.inputs, case.targets, layer)


@pytest.mark.parametrize(("net", "layer"), [(plain(), "5"), (residual(), "2"), (Net(), "pool")])
def test_the_feature_layer_is_the_last_one_with_places(net: nn.Module, layer: str) -> None:
    inputs = planted(1).inputs if isinstance(net, Net) else images(1)
    assert Classifier(net).feature_layer(inputs) == layer


class Tokens(nn.Module):
    """Patches as a row of tokens, with some that have no place before them; `step` is the distance of two patches."""

    def __init__(self, prefix: int = 0, step: int = 8, *, folded: bool = False) -> None:
        super().__init__()
        self.prefix, self.step, self.folded = prefix, step, folded
        self.patches = nn.Conv2d(3, 8, 8, stride=step)
        self.unfolded = nn.Linear(3 * 8 * 8, 8)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        if self.folded:
            patches = self.unfolded(nn.functional.unfold(inputs, 8, stride=self.step).transpose(1, 2))
        else:
            patches = self.patches(inputs).flatten(2).transpose(1, 2)
        tokens = torch.cat([patches.new_ones(len(inputs), self.prefix, 8), patches], dim=1)
        return self.head(self.norm(tokens)[:, self.prefix :].mean(dim=1))


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("prefix", [0, 1, 2, 5])
@pytest.mark.parametrize("size", [(32, 32), (16, 48)])
def test_a_row_of_tokens_is_a_feature_map(prefix: int, folded: bool, size: tuple[int, int]) -> None:
    classifier = Classifier(Tokens(prefix, folded=folded))
    inputs = RNG[:2].normal("images", (3, *size))
    assert classifier.feature_layer(inputs) == "norm"
    features, gradient = classifier.layer_gradient(inputs, torch.tensor([0, 1]), "norm")
    net = classifier.module
    kernel = net.unfolded.weight.view(8, 3, 8, 8) if folded else net.patches.weight
    bias = net.unfolded.bias if folded else net.patches.bias
    grid = nn.functional.conv2d(inputs, kernel, bias, stride=8)
    expected = net.norm(grid.movedim(1, -1)).movedim(-1, 1)
    torch.testing.assert_close(features, expected, rtol=1e-4, atol=1e-5)
    rise = net.head.weight[:2, :, None, None] / (grid.shape[2] * grid.shape[3])
    torch.testing.assert_close(gradient, rise.expand_as(gradient), rtol=1e-4, atol=1e-6)


def test_tokens_without_a_grid_are_refused() -> None:
    flat = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, CLASSES))
    with pytest.raises(SnellenError, match="no layer of 'Sequential' puts out a grid of features; name one with layer="):
        Classifier(flat).feature_layer(images(1))
    overlapping = Tokens(prefix=4, step=3, folded=True)  # 9 by 9 patches that do not tile the image
    with pytest.raises(SnellenError, match="no layer of 'Tokens' puts out a grid of features; name one with layer="):
        Classifier(overlapping).feature_layer(images(1))
    with pytest.raises(SnellenError, match="layer 'norm' of 'Tokens' does not put out a feature map; name another layer"):
        Classifier(overlapping).layer_gradient(images(1), torch.tensor([0]), "norm")


@pytest.mark.parametrize(
    ("relu", "layers"),
    [
        ("module", ["first", "second"]),
        ("functional", ["", ""]),
        ("reused", ["first", "first"]),
        ("in-place", ["first", "second"]),
    ],
)
def test_rectifiers_are_seen_however_they_are_written(relu, layers: list[str]) -> None:
    case = planted(1, relu=relu)
    seen = case.classifier.operations(case.inputs)
    assert [(one.kind, one.name, one.layer) for one in seen if one.kind == "rectifier"] == [
        ("rectifier", "relu", layer) for layer in layers
    ]
    assert [one.kind for one in seen] == [
        "convolution", "rectifier", "convolution", "rectifier", "mean-pool", "shape", "linear",
    ]  # fmt: skip


def test_other_activation_functions_are_named() -> None:
    net = nn.Sequential(plain(activation=nn.SiLU), nn.GELU(), nn.ReLU6(), nn.Hardswish())
    seen = Classifier(net).operations(images(1))
    assert [(one.name, one.layer) for one in seen if one.kind in ("activation", "rectifier")] == [
        ("silu", "0.1"), ("silu", "0.4"), ("gelu", "1"), ("relu6", "2"), ("hardswish", "3"),
    ]  # fmt: skip


# The account --------------------------------------------------------------------------------------------------------


def test_accounts_nest_and_sharing_is_booked_apart() -> None:
    case = planted(3)
    with case.classifier.counting() as outer:
        case.classifier.logits(case.inputs)
        with case.classifier.counting() as inner:
            first = case.classifier.gradient(case.inputs, case.targets, cached=True)
            again = case.classifier.gradient(case.inputs, case.targets, cached=True)
        case.classifier.gradient(case.inputs, case.targets)
    assert (inner.passes, inner.cached) == (Passes(3, 3), Passes(3, 3))
    assert (outer.passes, outer.cached) == (Passes(9, 6), Passes(3, 3))
    assert 0 < inner.seconds < outer.seconds
    for own, other in zip(first, again, strict=True):
        assert torch.equal(own, other)
        assert own is not other, "whoever gets an answer may write into it"
    with case.classifier.counting() as after:
        pass
    assert after.passes == Passes()


def test_only_the_very_same_unchanged_tensors_share() -> None:
    case = planted(3)
    ask = case.classifier.gradient
    first, _ = ask(case.inputs, case.targets, cached=True)
    with case.classifier.counting() as ledger:
        ask(case.inputs, case.targets, cached=True, of="probability")
        ask(case.inputs.clone(), case.targets, cached=True)
        ask(case.inputs, case.targets.clone(), cached=True)
        case.inputs.mul_(1.5)
        case.inputs[:, :, :12] = 0
        changed, _ = ask(case.inputs, case.targets, cached=True)
    assert (ledger.passes, ledger.cached) == (Passes(12, 12), Passes())
    assert not torch.equal(first, changed)


def test_shared_answers_go_with_their_tensors() -> None:
    case = planted(3)
    for _ in range(5):
        case.classifier.gradient(case.inputs.clone(), case.targets, cached=True)
        case.classifier.layer_gradient(case.inputs, case.targets.clone(), "pool")
    assert not case.classifier._cache


def test_shared_answers_go_with_a_relative_though_the_tensors_live_on() -> None:
    case = planted(3)
    variant = case.classifier.variant(copy.deepcopy(case.classifier.module), "twin")
    variant.cached_logits(case.inputs)
    (entry,) = variant._cache._cache.entries.values()
    answer = weakref.ref(entry.value)
    del variant, entry
    gc.collect()
    assert answer() is None


@pytest.mark.parametrize("side", [8, 32, 96])
def test_rows_are_a_power_of_two_and_fewer_for_larger_images(side: int) -> None:
    net = residual()
    classifier, larger = Classifier(net), Classifier(net)
    for gradients in (False, True):
        rows = classifier.rows_for(torch.zeros(1, 3, side, side), gradients=gradients)
        assert 1 <= rows <= 512
        assert rows & (rows - 1) == 0
        assert larger.rows_for(torch.zeros(1, 3, 8 * side, 8 * side), gradients=gradients) <= rows
    assert classifier.copies(torch.zeros(7, 3, side, side)) == max(
        1, classifier.rows_for(torch.zeros(1, 3, side, side)) // 7
    )
    assert Classifier(net, rows=4).rows_for(torch.zeros(1, 3, side, side)) == 4


# Fingerprints, pickles, speed ---------------------------------------------------------------------------------------


def test_the_fingerprint_changes_with_any_weight() -> None:
    net = residual()
    marks = {Classifier(net).fingerprint}
    assert Classifier(copy.deepcopy(net)).fingerprint in marks
    for name in net.state_dict():
        changed = copy.deepcopy(net)
        tensor = changed.state_dict()[name]
        with torch.no_grad():
            tensor.flatten()[-1:].add_(1)
        mark = Classifier(changed).fingerprint
        assert mark not in marks, name
        marks.add(mark)
    for settings in ({"mean": 0.1}, {"std": 2.0}, {"outputs": "probabilities"}):
        mark = Classifier(net, **settings).fingerprint
        assert mark not in marks
        marks.add(mark)
    assert Classifier(nn.Sequential(net, nn.ReLU())).fingerprint not in marks


def test_a_black_box_is_known_by_its_source() -> None:
    def first(inputs: Tensor) -> Tensor:
        return inputs.mean(dim=(2, 3))

    def second(inputs: Tensor) -> Tensor:
        return inputs.amax(dim=(2, 3))

    assert Classifier(first).fingerprint == Classifier(first).fingerprint != Classifier(second).fingerprint


def test_a_classifier_survives_pickling() -> None:
    case = planted(3)
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


@pytest.mark.skipif(engines.compiler_missing() is not None, reason=f"{engines.compiler_missing()}")
@pytest.mark.filterwarnings("ignore")
def test_a_compiled_classifier_says_the_same() -> None:
    case, net = planted(7), Net()
    eager, classifier = Classifier(net), Classifier(net, rows=4)
    assert classifier.compile_for(case.inputs) is None
    assert classifier.compile_for(case.inputs) is None
    with classifier.counting() as ledger:
        found = classifier.logits(case.inputs)  # one full pass, and one that is filled up and cut again
        scores = classifier.scores([(case.inputs, case.targets)], of="probability")
    assert ledger.passes == Passes(forward=14)
    torch.testing.assert_close(found, eager.logits(case.inputs), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(scores, eager.scores([(case.inputs, case.targets)], of="probability"), rtol=1e-4, atol=1e-5)
    gradient, _ = classifier.gradient(case.inputs, case.targets)
    torch.testing.assert_close(gradient, eager.gradient(case.inputs, case.targets)[0], rtol=1e-3, atol=1e-6)
    assert torch.equal(
        pickle.loads(pickle.dumps(classifier)).logits(case.inputs), Classifier(net, rows=4).logits(case.inputs)
    )


def test_a_model_that_cannot_be_compiled_goes_on_without(monkeypatch: pytest.MonkeyPatch) -> None:
    classifier = Classifier(plain())
    expected = classifier.logits(images())
    monkeypatch.setenv("PATH", "")  # no compiler is found there
    assert classifier.compile_for(images()) == "no C++ compiler was found"
    assert torch.equal(classifier.logits(images()), expected)


def test_another_precision_works_or_is_refused_and_never_ends_the_process() -> None:
    """On some processors bfloat16 ends the process, so that it is tried here in another one."""
    program = """
import torch
from snellen.classifier import Classifier
from snellen.errors import SnellenError
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 3))
try:
    low = Classifier(net, precision="bfloat16")
except SnellenError as problem:
    assert "precision 'bfloat16' does not work on cpu here" in str(problem) and "use float32" in str(problem), problem
    print("refused")
else:
    inputs = torch.ones(2, 3, 8, 8)
    difference = (low.logits(inputs) - Classifier(net).logits(inputs)).abs().max()
    assert low.logits(inputs).dtype == torch.float32 and difference < 0.1, difference
    print("works")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in {"refused", "works"}


def test_a_single_output_is_refused():
    with pytest.raises(SnellenError, match="has a single output; return one logit per class"):
        Classifier(nn.Sequential(nn.Flatten(), nn.Linear(12, 1))).check(torch.rand(2, 3, 2, 2))
