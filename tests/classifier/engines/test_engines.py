"""Engines give the eager outputs, or are not used."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable

import pytest
import torch
from tests.networks import NETWORKS, SIDE, plain, residual
from tests.tutorial_networks import tutorial
from torch import Tensor, nn

from snellen import zoo
from snellen.classifier import Classifier
from snellen.classifier.engines import onnx_runtime, trial
from snellen.classifier.engines.compiled import compile_elsewhere, compiler_missing
from snellen.classifier.engines.later import rows_that_repay
from snellen.classifier.engines.trial import TOLERANCE, Trial, full_pass
from snellen.classifier.value_reads import value_reader
from snellen.plugins.checks.planted import PlantedCNN, planted_batch
from snellen.types import Passes, Rng
from snellen.variants.randomised import randomise_in_turn
from snellen.variants.weight_layers import weight_layers

IDS = tuple("abcdefg")
RNG = Rng(seed=4, ids=IDS)

needs_compiler = pytest.mark.skipif(compiler_missing() is not None, reason=f"{compiler_missing()}")


def images(count: int = 7, channels: int = 3, side: int = SIDE) -> Tensor:
    return RNG[:count].normal("images", (channels, side, side))


def both(net: nn.Module, **settings: object) -> tuple[Classifier, Classifier]:
    """The eager classifier, and the one with an engine."""
    return Classifier(net, **settings), Classifier(net, **settings)


def assert_same(eager: Classifier, fast: Classifier, inputs: Tensor) -> None:
    for rows in (1, 3, len(inputs)):
        expected = eager.logits(inputs[:rows])
        torch.testing.assert_close(
            fast.logits(inputs[:rows]), expected, rtol=0, atol=TOLERANCE * float(expected.abs().max())
        )


# onnxruntime ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_onnxruntime_gives_the_same_logits_in_batches_of_any_size(name: str) -> None:
    eager, fast = both(NETWORKS[name](), rows=4)
    tried = fast.use_engine("onnxruntime", images())
    assert tried.reason is None
    assert tried.engine is not None
    assert tried.engine.rows is None
    assert tried.difference is not None
    assert tried.difference < 1e-5
    with fast.counting() as ledger:
        assert_same(eager, fast, images())
    assert ledger.passes == Passes(forward=11)
    targets = torch.arange(7) % 5
    assert torch.equal(fast.gradient(images(), targets)[0], eager.gradient(images(), targets)[0])
    assert torch.equal(pickle.loads(pickle.dumps(fast)).logits(images()), eager.logits(images()))


@pytest.mark.parametrize("name", [zoo.DIGITS, "lenet", "vgg", "transfer"])
def test_onnxruntime_runs_real_and_tutorial_networks(name: str) -> None:
    inputs = images(5)
    nets = both(tutorial(name)) if name != zoo.DIGITS else (zoo.load_classifier(name), zoo.load_classifier(name))
    eager, fast = nets
    assert fast.use_engine("onnxruntime", inputs).reason is None
    assert_same(eager, fast, inputs)


@pytest.mark.parametrize("kind", ["ViT", "ConvNext"])
def test_onnxruntime_runs_models_of_transformers(kind: str, torchvision: object) -> None:
    transformers = pytest.importorskip("transformers")
    shape = {"image_size": SIDE, "patch_size": 8, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = {
        "ViT": lambda: transformers.ViTConfig(**shape, intermediate_size=32, num_labels=4),
        "ConvNext": lambda: transformers.ConvNextConfig(hidden_sizes=[8, 8, 16, 16], depths=[1, 1, 1, 1], num_labels=4),
    }[kind]()
    torch.manual_seed(0)
    eager, fast = both(getattr(transformers, f"{kind}ForImageClassification")(config).eval())
    assert fast.use_engine("onnxruntime", images()).reason is None
    assert_same(eager, fast, images())


def test_fused_attention_is_exported_as_its_operations() -> None:
    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells = nn.Conv2d(3, 8, 8, stride=8)
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
            self.head = nn.Linear(8, 4)

        def forward(self, inputs: Tensor) -> Tensor:
            return self.head(self.layer(self.cells(inputs).flatten(2).transpose(1, 2)).mean(dim=1))

    torch.manual_seed(0)
    eager, fast = both(Attending().eval())
    assert fast.use_engine("onnxruntime", images()).reason is None
    assert_same(eager, fast, images())
    assert torch.backends.mha.get_fastpath_enabled()


def test_a_graph_for_one_number_of_rows_is_filled_up() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = plain()[:-1]
            self.head = plain()[-1]

        def forward(self, inputs: Tensor) -> Tensor:
            features = self.body(inputs)
            return self.head(features.view(int(features.shape[0]), -1))

    eager, fast = both(Counting(), rows=4)
    tried = fast.use_engine("onnxruntime", images())
    assert tried.reason is None
    assert tried.engine is not None
    assert tried.engine.rows == 4
    assert_same(eager, fast, images())


def test_heads_and_further_targets_are_computed_from_the_engine_s_outputs() -> None:
    eager, fast = both(plain(), heads="independent-labels", outputs="logits")
    fast.use_engine("onnxruntime", images())
    torch.testing.assert_close(fast.probabilities(images()), eager.probabilities(images()))


def test_pictures_of_another_size_or_type_run_eagerly() -> None:
    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = residual()

        def forward(self, inputs: Tensor) -> Tensor:
            return self.body(inputs)

    eager, fast = both(Pooled())
    fast.use_engine("onnxruntime", images())
    assert torch.equal(fast.logits(images(side=24)), eager.logits(images(side=24)))


def test_hooks_and_changed_weights_are_seen() -> None:
    eager, fast = both(plain())
    fast.use_engine("onnxruntime", images())
    with fast.recording("3", images()) as maps:
        fast.logits(images())
    assert maps[0].shape == (7, 12, 16, 16)
    for classifier in (eager, fast):
        with torch.no_grad():
            classifier.module[-1].weight.mul_(2)
    assert torch.equal(fast.logits(images()), eager.logits(images()))


def test_variants_use_the_engine_once_they_have_repaid_it() -> None:
    eager, fast = both(residual())
    fast.use_engine("onnxruntime", images(), variant_rows=10)
    variant, other = (randomise_in_turn(c, [weight_layers(c, (SIDE, SIDE))[-1:]], rng=RNG) for c in (fast, eager))
    late, without = next(variant), next(other)
    with fast.counting() as ledger:
        first, second, third = (late.logits(images()) for _ in range(3))
    assert ledger.passes == Passes(forward=21)
    expected = without.logits(images())
    assert torch.equal(first, expected)
    assert torch.equal(second, expected)  # 7 of 10 rows were computed before
    assert not torch.equal(third, expected)
    torch.testing.assert_close(third, expected)
    fast.count_passes_of(late)  # as the next unit does
    assert torch.equal(late.logits(images()), expected)


def test_rows_that_repay_an_engine() -> None:
    slow, fast = Trial(name="eager", row_seconds=0.004), Trial(name="onnxruntime", row_seconds=0.002, seconds=0.5)
    assert rows_that_repay(slow, fast) == 250
    assert rows_that_repay(fast, slow) is None


# What cannot be used ---------------------------------------------------------------------------------------------------


class Branching(nn.Module):
    """Takes another path for brighter images."""

    def __init__(self, read: Callable[[Tensor], object]) -> None:
        super().__init__()
        self.net, self.read = plain(), read

    def forward(self, inputs: Tensor) -> Tensor:
        out = self.net(inputs)
        return 2 * out if self.read(inputs.mean()) else out


class Odd(nn.Module):
    """Has an operator that ONNX does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.net = plain()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.net(torch.special.bessel_j0(inputs))


class Random(Odd):
    """Gives other outputs in every pass."""

    def forward(self, inputs: Tensor) -> Tensor:
        return self.net(inputs + torch.rand_like(inputs))


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (Branching(lambda mean: mean > 0), "reads values of the image (__bool__)"),
        (Branching(lambda mean: mean.item() > 0), "reads values of the image (item)"),
        (Odd(), "bessel_j0"),
        (Random(), "its outputs differ from eager ones by"),
    ],
    ids=["bool", "item", "odd", "random"],
)
def test_a_model_that_cannot_be_exported_runs_eagerly(
    net: nn.Module, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    classifier = Classifier(net)
    tried = classifier.use_engine("onnxruntime", images())
    assert tried.engine is None
    assert reason in str(tried.reason)
    assert capfd.readouterr() == ("", "")
    other = Classifier(net)
    other.rows_for(images())
    torch.manual_seed(0)
    expected = other.logits(images())
    torch.manual_seed(0)
    assert torch.equal(classifier.logits(images()), expected)


def test_a_constant_that_is_read_is_no_branch() -> None:
    class Scaled(Odd):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", torch.tensor(2.0))

        def forward(self, inputs: Tensor) -> Tensor:
            return self.net(inputs * self.scale.item() if inputs.shape[2] == SIDE else inputs)

    assert value_reader(Classifier(Scaled()).network, images()) is None


@pytest.mark.parametrize("engine", ["onnxruntime", "compiled"])
def test_what_no_engine_takes_runs_eagerly(engine: str) -> None:
    def black_box(inputs: Tensor) -> Tensor:
        return plain()(inputs)

    cases = {
        "black box": Classifier(black_box),
        "precision bfloat16": dataclasses.replace(Classifier(plain()).network, precision="bfloat16"),
    }
    for words, subject in cases.items():
        network = subject.network if isinstance(subject, Classifier) else subject
        assert words in str(trial.why_not(engine, network))


def test_missing_packages_and_compilers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Classifier(plain()).network
    monkeypatch.setattr(onnx_runtime, "PACKAGES", ("onnx", "no_such_package"))
    assert trial.why_not("onnxruntime", network) == "no_such_package is not installed: pip install 'snellen[fast]'"
    monkeypatch.setenv("PATH", "")  # no compiler is found there
    assert trial.why_not("compiled", network) == "no C++ compiler was found"


# Choosing --------------------------------------------------------------------------------------------------------------


def test_rows_of_a_full_pass_all_differ() -> None:
    batch = full_pass(images(3), 8)
    assert torch.equal(batch[:3], images(3))
    assert len({tuple(row.flatten().tolist()) for row in batch}) == 8


def test_the_fastest_engine_is_chosen_where_the_plan_repays_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    classifier = Classifier(residual(), rows=64)
    few, many = classifier.choose_engine(images(), 10), classifier.choose_engine(images(), 10_000_000)
    assert few[0].name == "eager"
    assert "do not repay a trial" in str(few[1].reason)
    measured = {tried.name: tried for tried in many}
    assert measured["compiled"].reason == "no C++ compiler was found"
    fastest = min((tried for tried in many if tried.row_seconds), key=lambda tried: tried.row_seconds or 0.0)
    assert many[0] is fastest
    assert measured["onnxruntime"].row_seconds is not None


# compiled --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_compiler
@pytest.mark.filterwarnings("ignore")
def test_a_compiled_classifier_gives_the_same_logits() -> None:
    case, net = planted_batch(7), PlantedCNN()
    eager, classifier = both(net, rows=4)
    assert classifier.use_engine("compiled", case.inputs).reason is None
    assert classifier.use_engine("compiled", case.inputs).reason is None
    with classifier.counting() as ledger:
        logits = classifier.logits(case.inputs)  # one full pass, and one that is filled up and cut again
        scores = classifier.scores([(case.inputs, case.targets)], of="probability")
    assert ledger.passes == Passes(forward=14)
    torch.testing.assert_close(logits, eager.logits(case.inputs), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(scores, eager.scores([(case.inputs, case.targets)], of="probability"), rtol=1e-4, atol=1e-5)
    gradient, _ = classifier.gradient(case.inputs, case.targets)
    torch.testing.assert_close(gradient, eager.gradient(case.inputs, case.targets)[0], rtol=1e-3, atol=1e-6)


@pytest.mark.slow
@needs_compiler
def test_compiling_elsewhere_ends_in_time() -> None:
    network = Classifier(plain()).network
    assert "was ended after 1 s" in str(compile_elsewhere(network, images(), 1.0))
    assert compile_elsewhere(network, images(), 200.0) is None
    assert "compiling failed" in str(compile_elsewhere(network, images(channels=4), 200.0))
