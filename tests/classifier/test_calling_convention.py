"""Ordinary models are taken as they are: a memory layout, a batch size or a precision never turns one away."""

from __future__ import annotations

import copy
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from tests.tutorial_networks import TUTORIALS, Reshape, View, tutorial
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.classifier.engines.compiled import compiler_missing
from snellen.errors import SnellenError
from snellen.images import from_arrays
from snellen.runs import Options, evaluate
from snellen.runs.progress import Silent
from snellen.types import Rng
from snellen.variants.compressed import prune, quantise
from snellen.variants.randomised import randomise_layers
from snellen.variants.recombined import mix_classes, shift_inputs, sum_classifiers
from snellen.variants.weight_layers import weight_layers

METHODS = ["gradient", "integrated-gradients(steps=4)", "grad-cam", "score-cam", "guided-backprop", "lrp-epsilon", "random"]
METRICS = ["deletion(steps=4)", "average-drop", "weight-randomisation"]
GRAPH_METHODS = ["gradient", "occlusion(cells=3)", "random"]
GRAPH_METRICS = ["deletion(steps=4)", "input-invariance"]


def pictures(name: str, count: int = 3) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    channels, height, width = TUTORIALS[name].shape
    return torch.rand(count, channels, height, width, generator=generator)


def scripted(net: nn.Module, images: Tensor) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.script(net)


def traced(net: nn.Module, images: Tensor) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(net, images[:1])


def exported(net: nn.Module, images: Tensor) -> object:
    rows = torch.export.Dim("rows", min=1, max=512)
    return torch.export.export(net, (images,), dynamic_shapes=({0: rows},))


KINDS = {"module": lambda net, images: net, "script": scripted, "trace": traced, "export": exported}


def scores(model: object, images: Tensor, methods: list[str], metrics: list[str]) -> np.ndarray:
    classifier = Classifier(model, channels=images.shape[1], name="net")
    samples = from_arrays(images, labels=[0, 1, 0])
    options = Options(threads=1)
    run = evaluate(classifier, samples, methods=methods, metrics=metrics, options=options, observer=Silent())
    return run.scores()["value"].to_numpy()


@pytest.mark.slow
@pytest.mark.parametrize("name", TUTORIALS)
def test_a_tutorial_network_scores_as_if_it_were_written_with_reshape(name):
    images = pictures(name)
    methods = [
        method for method in METHODS if method != "lrp-epsilon" or name != "mnist"
    ]  # it cannot pass through log_softmax
    viewed = scores(tutorial(name, View), images, methods, METRICS)
    reshaped = scores(tutorial(name, Reshape), images, methods, METRICS)
    assert len(viewed) == 3 * len(methods) * len(METRICS)
    np.testing.assert_allclose(viewed, reshaped, atol=2e-3)


FAST = {("lenet", "script"), ("lenet", "export"), ("mnist", "trace")}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        pytest.param(name, kind, marks=[] if (name, kind) in FAST else pytest.mark.exhaustive)
        for name in TUTORIALS
        for kind in ("script", "trace", "export")
    ],
)
def test_a_compiled_graph_of_a_tutorial_network_scores_the_same(name, kind):
    images = pictures(name)
    graph = scores(KINDS[kind](tutorial(name, View), images), images, GRAPH_METHODS, GRAPH_METRICS)
    module = scores(tutorial(name, Reshape), images, GRAPH_METHODS, GRAPH_METRICS)
    np.testing.assert_allclose(graph, module, atol=2e-3)


def test_a_network_that_does_not_mind_is_called_channels_last():
    reshaped, viewed = (Classifier(tutorial("vgg", flat)) for flat in (Reshape, View))
    for classifier in (reshaped, viewed):
        classifier.check(pictures("vgg")[:1])
    assert reshaped.network.convention.channels_last
    assert not viewed.network.convention.channels_last
    kernel = viewed.module.get_submodule("features.0").weight
    assert kernel.is_contiguous()
    assert not reshaped.module.get_submodule("features.0").weight.is_contiguous()


class ByStrides(nn.Module):
    """Reads memory as it lies, so another layout gives other outputs without raising."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.head = nn.Linear(36, 5)

    def forward(self, x: Tensor) -> Tensor:
        features = self.conv(x)
        return self.head(features.as_strided((len(x), 36), (features[0].numel(), 1)))


class BackwardByStrides(nn.Module):
    """Has the same outputs in both layouts, but another gradient."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x: Tensor) -> Tensor:
            ctx.usual = x.is_contiguous()
            return 2 * x

        @staticmethod
        def backward(ctx, gradient: Tensor) -> Tensor:
            return (2.0 if ctx.usual else 3.0) * gradient

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.head = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.Product.apply(self.conv(x)).mean(dim=(2, 3)))


@pytest.mark.parametrize("net", [ByStrides, BackwardByStrides])
def test_a_layout_that_changes_outputs_or_gradients_is_given_up(net):
    torch.manual_seed(0)
    model, images = net().eval(), pictures("lenet")
    classifier = Classifier(model)
    assert torch.allclose(classifier.logits(images), model(images), atol=1e-6)
    leaf = images.clone().requires_grad_()
    (expected,) = torch.autograd.grad(model(leaf)[:, 1].sum(), leaf)
    assert torch.allclose(classifier.gradient(images, torch.ones(3, dtype=torch.long))[0], expected, atol=1e-6)
    assert not classifier.network.convention.channels_last


class OnlyChannelsLast(nn.Module):
    """Flattens places before channels, which only works where memory lies in that order."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.head = nn.Linear(4 * 30 * 30, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.conv(x).permute(0, 2, 3, 1).view(len(x), -1))


def test_a_model_that_wants_channels_last_gets_it():
    model, images = OnlyChannelsLast().eval(), pictures("lenet")
    expected = copy.deepcopy(model).to(memory_format=torch.channels_last)(images.to(memory_format=torch.channels_last))
    assert torch.allclose(Classifier(model).logits(images), expected, atol=1e-6)


def test_a_layout_that_fits_one_size_is_tried_again_on_another():
    class Pooled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.pool, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.AvgPool2d(16), nn.LazyLinear(3)

        def forward(self, x: Tensor) -> Tensor:
            pooled = self.pool(self.conv(x))
            return self.head(pooled.view(len(x), 4, -1).mean(dim=2))

    model = Pooled().eval()
    model(torch.zeros(1, 3, 16, 16))
    classifier = Classifier(model)
    for side in (16, 32):  # one place is left, then four
        images = torch.rand(2, 3, side, side)
        assert torch.allclose(classifier.logits(images), model(images), atol=1e-6)


def test_what_follows_a_layer_takes_features_in_any_layout():
    images = pictures("lenet")
    classifier = Classifier(tutorial("lenet"))
    layer = "conv2"
    features = classifier.layer_features(images, layer)
    expected = classifier.logits(images)
    owners = torch.arange(3)
    for layout in (
        features,
        features.to(memory_format=torch.channels_last),
        features.permute(0, 1, 3, 2).permute(0, 1, 3, 2),
    ):
        assert torch.allclose(classifier.resume(images, layer, layout, owners), expected, atol=1e-5)
    assert classifier.layer_to_logits(images, layer) is not None


def test_variants_are_called_as_the_model_is():
    images = pictures("vgg")
    classifier = Classifier(tutorial("vgg"))
    rng = Rng(0, ("a", "b", "c"))
    layers = weight_layers(classifier, (32, 32))
    made = [
        randomise_layers(classifier, layers[-1:], rng=rng), prune(classifier, 0.2), quantise(classifier, 8),
        mix_classes(classifier, 0.3, (32, 32)), shift_inputs(classifier, 0.5, (32, 32)),
        sum_classifiers(Classifier(tutorial("vgg", Reshape)), classifier, 0.5),
    ]  # fmt: skip
    for variant in made:
        assert bool(variant.logits(images).isfinite().all())
        assert variant.gradient(images, torch.zeros(3, dtype=torch.long))[0].shape == images.shape


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["module", "script"])
def test_a_model_in_another_precision_is_run_in_float32(dtype, kind):
    images = pictures("lenet")
    net = tutorial("lenet")
    stored = copy.deepcopy(net).to(dtype)
    classifier = Classifier(KINDS[kind](stored, images))
    expected = copy.deepcopy(stored).float()(images)
    assert torch.allclose(classifier.logits(images), expected, atol=1e-6)
    assert classifier.gradient(images, torch.zeros(3, dtype=torch.long))[0].dtype == torch.float32
    assert next(stored.parameters()).dtype == dtype


class Rows(nn.Module):
    """Has its batch size written into it."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.rows = rows
        self.conv, self.head = nn.Conv2d(3, 4, 3, stride=4), nn.Linear(4 * 8 * 8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.conv(x).view(self.rows, -1))


@pytest.mark.parametrize(("rows", "stated"), [(1, None), (4, None), (5, 5)])
def test_a_model_with_a_batch_size_of_its_own_takes_any_number_of_images(rows, stated):
    torch.manual_seed(0)
    model, images = Rows(rows).eval(), pictures("lenet", count=6)
    free = copy.deepcopy(model)
    free.rows = 6
    classifier = Classifier(model, rows=stated)
    classifier.check(images[:1])
    assert torch.allclose(classifier.logits(images), free(images), atol=1e-6)
    leaf = images.clone().requires_grad_()
    (expected,) = torch.autograd.grad(free(leaf)[:, 2].sum(), leaf)
    gradient, _ = classifier.gradient(images, torch.full((6,), 2))
    assert torch.allclose(gradient, expected, atol=1e-6)
    assert classifier.offers == {"gradients"}


def test_a_batch_size_that_tracing_wrote_down_is_no_obstacle():
    class Measured(Rows):
        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.conv(x).view(len(x), -1))

    model, images = Measured(0).eval(), pictures("lenet", count=3)
    classifier = Classifier(traced(model, images))
    assert torch.allclose(classifier.logits(images), model(images), atol=1e-6)


def test_squeeze_may_drop_the_row_of_a_single_image():
    class Squeezed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.pool, self.head = nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Linear(4, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.pool(self.conv(x)).squeeze())

    model, images = Squeezed().eval(), pictures("lenet")
    classifier = Classifier(model)
    assert classifier.check(images[:1]) == 5
    assert torch.allclose(classifier.logits(images[:1]), model(images)[:1], atol=1e-6)
    assert "layer" in classifier.offers


def test_a_function_gets_plain_memory_from_every_metric():
    def black_box(x: Tensor) -> Tensor:
        rows = x.view(len(x), -1)
        return torch.stack([rows[:, :100].mean(1), rows[:, 100:].mean(1), 3 * rows[:, ::7].mean(1)], dim=1)

    images = pictures("lenet")
    assert np.isfinite(scores(black_box, images, ["random", "centre"], ["deletion(steps=4)", "morf", "road"])).all()


def test_the_sentence_about_a_model_that_takes_no_such_image_is_the_models_own():
    with pytest.raises(SnellenError, match="cannot take inputs of shape 1×3×20×20: shape '\\[-1, 400\\]' is invalid"):
        Classifier(tutorial("lenet")).check(torch.rand(1, 3, 20, 20))


def test_trial_passes_are_not_counted_and_leave_the_global_random_state():
    images = pictures("lenet")
    classifier = Classifier(nn.Sequential(tutorial("lenet"), nn.Dropout()))
    before = torch.random.get_rng_state()
    with classifier.counting() as ledger:
        classifier.logits(images)
    assert ledger.passes.forward == 3
    assert ledger.passes.backward == 0
    assert torch.equal(before, torch.random.get_rng_state())


class Named(nn.Module):
    """Returns its logits by name, as models of the Hugging Face hub do."""

    def __init__(self) -> None:
        super().__init__()
        self.net = tutorial("lenet")

    def forward(self, x: Tensor) -> SimpleNamespace:
        return SimpleNamespace(logits=self.net(x))


@pytest.mark.exhaustive
@pytest.mark.skipif(compiler_missing() is not None, reason=f"{compiler_missing()}")
def test_a_compiled_tutorial_network_gives_the_same_logits():
    images = pictures("lenet", count=8)
    classifier = Classifier(Named(), rows=8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert classifier.use_engine("compiled", images).reason is None
    assert torch.allclose(classifier.logits(images), tutorial("lenet")(images), atol=1e-5)
    assert torch.allclose(classifier.logits(images[:5]), tutorial("lenet")(images[:5]), atol=1e-5)
