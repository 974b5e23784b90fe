"""Relevance propagation and the deconvolutional network: against zennit and captum, and against sums worked out by hand.

Both libraries hook modules, so their networks are written as modules throughout; how ours are written must not matter. Two
float32 programs agree to about six digits, and a denominator near zero costs some of those: a map counts as equal when no
pixel is off by more than 1e-3 of the largest (1e-4 where no signed sum stands below a fraction).
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any

import captum.attr
import pytest
import torch
from tests.methods import problems
from tests.networks import CLASSES, SIDE, Residual, plain, residual
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import fuse_conv_bn_eval

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.methods.deconvnet import Deconvnet
from snellen.methods.deep_taylor import DeepTaylor
from snellen.methods.gradient import InputXGradient
from snellen.methods.lrp import LrpAlpha1Beta0, LrpAlpha2Beta1, LrpEpsilon, LrpZ
from snellen.plugins.registry import METHODS
from snellen.types import Method, Rng

EXACT = 1e-20
MEAN, STD = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
RNG = Rng(seed=1, ids=("a", "b", "c"))
NAMES = ("lrp-z", "lrp-epsilon", "lrp-alpha1-beta0", "lrp-alpha2-beta1", "deep-taylor")


def pictures(count: int = 3, side: int = SIDE) -> Tensor:
    pixels = Rng(seed=1, ids=RNG.ids[:count]).uniform("pixels", (3, side, side))
    return (pixels - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


def lived_in(net: nn.Module, seed: int = 0) -> nn.Module:
    """Batch normalisations with statistics and biases that are neither zero nor one."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for module in net.modules():
            if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
                nn.init.uniform_(module.running_mean, -0.3, 0.3)
                nn.init.uniform_(module.running_var, 0.3, 2.0)
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.uniform_(module.bias, -0.3, 0.3)
    return net.eval()


assert_same = partial(problems.assert_same, share=1e-3)


def explain(method: Method, net: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    classifier = Classifier(net, mean=MEAN, std=STD)
    return method(classifier, inputs, targets, rng=RNG[: len(inputs)])


# zennit -------------------------------------------------------------------------------------------------------------


class Summed(nn.Module):
    """A residual block whose addition is a module, as zennit wants it."""

    def __init__(self, block: nn.Module, parts: tuple[str, str], last: str | None) -> None:
        super().__init__()
        import zennit.layer

        self.parts = nn.ModuleList(getattr(block, name) if name else nn.Identity() for name in parts)
        self.add = zennit.layer.Sum()
        self.last = getattr(block, last) if last else nn.Identity()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.add(torch.stack([part(inputs) for part in self.parts], dim=-1)))


def summed(net: nn.Module) -> nn.Module:
    """A copy of the network with every residual addition written as a module."""
    net = copy.deepcopy(net)
    for name, module in list(net.named_modules()):
        made = None
        if isinstance(module, Residual):
            made = Summed(module, ("body", "skip"), "last")
        elif getattr(module, "residual", False):  # EfficientNet-Lite0
            made = Summed(module, ("body", ""), None)
        if made is not None:
            net.set_submodule(name, made)
    return net


def fused(net: nn.Module) -> nn.Module:
    """Normalisations worked into the convolutions: zennit's own merging forgets their epsilon, here 0.001 in 49 layers."""
    for part in net.modules():
        if isinstance(getattr(part, "norm", None), nn.BatchNorm2d):
            part.conv, part.norm = fuse_conv_bn_eval(part.conv, part.norm), nn.Identity()
    return net


def composite(name: str, epsilon: Any = EXACT) -> Any:
    """The same rules in zennit's words."""
    import zennit.composites
    import zennit.core
    import zennit.layer
    import zennit.rules
    import zennit.types
    from zennit.canonizers import SequentialMergeBatchNorm

    rules = zennit.rules
    dense = convolution = rules.Epsilon(epsilon)
    first = None
    if name == "lrp-alpha1-beta0":
        convolution, first = rules.AlphaBeta(1, 0, stabilizer=EXACT), rules.Flat(stabilizer=EXACT)
    elif name == "lrp-alpha2-beta1":
        convolution, first = rules.AlphaBeta(2, 1, stabilizer=EXACT), rules.Flat(stabilizer=EXACT)
    elif name == "deep-taylor":
        dense = convolution = rules.ZPlus(stabilizer=EXACT, zero_params="bias")
        low, high = (((end - torch.tensor(MEAN)) / torch.tensor(STD)).view(1, 3, 1, 1) for end in (0.0, 1.0))
        first = rules.ZBox(low, high, stabilizer=EXACT, zero_params="bias")
    base = zennit.composites.layer_map_base(EXACT)
    if name == "deep-taylor":  # positive parts alone, as in its layers
        positive = zennit.core.BasicHook(
            input_modifiers=[lambda values: values.clamp(min=0)],
            param_modifiers=[rules.NoMod(param_keys=[])],
            output_modifiers=[lambda output: output],
            gradient_mapper=lambda above, outputs: above / zennit.core.Stabilizer(EXACT)(outputs[0]),
            reducer=lambda inputs, gradients: inputs[0] * gradients[0],
        )
        base = [(zennit.layer.Sum, positive), *base]
    layers = [*base, (zennit.types.Convolution, convolution), (nn.Linear, dense)]
    canonizers = [SequentialMergeBatchNorm()]
    if first is None:
        return zennit.composites.LayerMapComposite(layers, canonizers=canonizers)
    return zennit.composites.SpecialFirstLayerMapComposite(layers, [(zennit.types.Linear, first)], canonizers=canonizers)


def by_zennit(net: nn.Module, rules: Any, inputs: Tensor, targets: Tensor) -> Tensor:
    net = copy.deepcopy(net).to(memory_format=torch.contiguous_format)
    for parameter in net.parameters():
        parameter.requires_grad_(False)
    leaf = inputs.clone().requires_grad_()
    with rules.context(net) as modified:
        out = modified(leaf)
        seed = nn.functional.one_hot(targets, out.shape[1]) * out.detach()
        (relevance,) = torch.autograd.grad(out, leaf, seed)
    return relevance.sum(dim=1)


def pooled(seed: int = 0) -> nn.Module:
    """In the manner of VGG: batch normalisation, max-pooling, two linear layers, the first with a normalisation."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 12, 3, padding=1, groups=4), nn.BatchNorm2d(12), nn.ReLU6(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(12 * 8 * 8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, CLASSES),
        )  # fmt: skip
    return lived_in(net)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "plain": plain,
    "residual": lambda: lived_in(residual()),
    "pooled": pooled,
}


@pytest.mark.slow
@pytest.mark.usefixtures("torchvision")
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("network", sorted(NETWORKS))
def test_rules_are_those_of_zennit(network: str, name: str) -> None:
    import zennit.core

    net, inputs = NETWORKS[network](), pictures()
    targets = net(inputs).argmax(dim=1)  # of a class with a negative logit, deep Taylor knows nothing
    dense = zennit.core.Stabilizer(0.25, norm_scale=True) if "epsilon" in name or "alpha" in name else EXACT
    expected = by_zennit(summed(net), composite(name, dense), inputs, targets)
    if name == "deep-taylor":
        expected = expected * (net(inputs).amax(dim=1) > 0).view(-1, 1, 1)
        assert bool((expected >= 0).all())
    assert_same(explain(METHODS.build(name), net, inputs, targets), expected)
    if "epsilon" in name or "alpha" in name:
        expected = by_zennit(summed(net), composite(name, 1.0), inputs, targets)
        assert_same(explain(METHODS.build(f"{name}@kim2022"), net, inputs, targets), expected)


@pytest.mark.slow
@pytest.mark.usefixtures("torchvision")
@pytest.mark.parametrize("name", ["lrp-epsilon", "lrp-alpha1-beta0", "lrp-alpha2-beta1"])
def test_rules_are_those_of_zennit_on_a_photograph(name: str) -> None:
    import zennit.core

    from snellen import zoo

    classifier = zoo.load_classifier(zoo.EMBEDDED)
    sample = zoo.photographs(classifier.geometry)[0]
    inputs = functional.avg_pool2d(classifier.to_inputs(sample.image[None]), 2)  # smaller, because zennit takes its time
    targets = classifier.logits(inputs).argmax(dim=1)
    maps = METHODS.build(name)(classifier, inputs, targets, rng=RNG[:1])
    net = copy.deepcopy(classifier.module).double()
    rules = composite(name, zennit.core.Stabilizer(0.25, norm_scale=True))
    expected = by_zennit(fused(summed(net)), rules, inputs.double(), targets)
    assert_same(maps, expected)
    assert_same(
        METHODS.build(name)(Classifier(net), inputs.double(), targets, rng=RNG[:1]), expected, share=1e-6
    )  # the logit itself is float32


def test_activations_pass_relevance_as_in_zennit(torchvision: Any) -> None:
    net, inputs, targets = plain(activation=nn.SiLU), pictures(), torch.tensor([0, 3, 1])
    for name in ("lrp-z", "lrp-alpha2-beta1"):
        expected = by_zennit(net, composite(name, 1.0 if "alpha" in name else EXACT), inputs, targets)
        assert_same(explain(METHODS.build(f"{name}@kim2022"), net, inputs, targets), expected)


def test_resnets_of_torchvision_are_those_of_zennit(torchvision: Any) -> None:
    from zennit.torchvision import ResNetCanonizer

    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = lived_in(torchvision.models.resnet18(num_classes=CLASSES))
    inputs, targets = pictures(2), torch.tensor([0, 3])
    rules = composite("lrp-alpha1-beta0", 1.0)
    rules.canonizers = [ResNetCanonizer()]
    expected = by_zennit(net, rules, inputs, targets)
    assert_same(explain(METHODS.build("lrp-alpha1-beta0@kim2022"), net, inputs, targets), expected)


# captum -------------------------------------------------------------------------------------------------------------


class Flattening(nn.Module):
    """captum has no rule for the module that flattens."""

    def __init__(self, net: nn.Sequential) -> None:
        super().__init__()
        self.body, self.head = net[:-2], net[-1]

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.body(inputs).flatten(1))


def by_captum(net: nn.Sequential, inputs: Tensor, targets: Tensor, epsilon: float) -> Tensor:
    from captum.attr._utils.lrp_rules import EpsilonRule

    net = Flattening(copy.deepcopy(net))
    for module in net.modules():
        if isinstance(module, nn.Linear | nn.Conv2d):
            module.rule = EpsilonRule(epsilon=epsilon)
    return captum.attr.LRP(net).attribute(inputs, target=targets).sum(dim=1)


@pytest.mark.filterwarnings("ignore")  # captum's hooks warn of their own doing
def test_epsilon_is_that_of_captum() -> None:
    net, inputs, targets = plain(), pictures(), torch.tensor([0, 3, 1])
    assert_same(explain(LrpZ(), net, inputs, targets), by_captum(net, inputs, targets, 1e-12))
    for epsilon in (0.01, 1.0):
        maps = explain(LrpEpsilon(epsilon=epsilon, relative=False), net, inputs, targets)
        assert_same(maps, by_captum(net, inputs, targets, epsilon))


@pytest.mark.filterwarnings("ignore:Setting backward hooks on ReLU activations")
@pytest.mark.filterwarnings("ignore:Input Tensor 0 did not already require gradients")
@pytest.mark.parametrize("network", ["plain", "residual"])
def test_deconvnet_is_that_of_captum(network: str) -> None:
    net, inputs, targets = NETWORKS[network](), pictures(), torch.tensor([0, 3, 1])
    expected = captum.attr.Deconvolution(copy.deepcopy(net)).attribute(inputs, target=targets)
    assert_same(explain(Deconvnet(), net, inputs, targets), expected.abs().amax(dim=1), share=1e-4)
    assert_same(explain(Deconvnet(fold="sum"), net, inputs, targets), expected.sum(dim=1), share=1e-4)


# Answers that can be worked out ---------------------------------------------------------------------------------------


class TwoLayers(nn.Module):
    """h1 = relu(2x1 - x2 + b), h2 = relu(x1 + x2), y0 = h1 - h2 and y1 = 3 h2, on a picture of two pixels."""

    def __init__(self, bias: float) -> None:
        super().__init__()
        self.hidden, self.head = nn.Linear(2, 2), nn.Linear(2, 2, bias=False)
        with torch.no_grad():
            self.hidden.weight.copy_(torch.tensor([[2.0, -1.0], [1.0, 1.0]]))
            self.hidden.bias.copy_(torch.tensor([bias, 0.0]))
            self.head.weight.copy_(torch.tensor([[1.0, -1.0], [0.0, 3.0]]))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.hidden(inputs.flatten(1)).relu())


@pytest.mark.parametrize(
    ("method", "bias", "expected"),
    [
        # x = (3, 1): h = (5 + b, 4), y0 = 1 + b, relevance of h = (5 + b, -4)
        (LrpZ(), 0.0, (6.0 - 3.0, -1.0 - 1.0)),
        (LrpZ(), 1.0, (6.0 - 3.0, -1.0 - 1.0)),  # the bias keeps its 1 of h1's 6
        # With epsilon 1: y0's relevance 1 goes to h as 5/2 and -4/2, then h1's by sixths and h2's by fifths.
        (LrpEpsilon(epsilon=1.0, relative=False), 0.0, (2.5 * 6 / 6 - 2 * 3 / 5, 2.5 * -1 / 6 - 2 * 1 / 5)),
        # First layer even, head by the epsilon rule: half of 5/2 - 4/2 each.
        (LrpAlpha1Beta0(epsilon=1.0, relative=False), 0.0, (0.25, 0.25)),
        (LrpAlpha2Beta1(epsilon=1.0, relative=False), 0.0, (0.25, 0.25)),
    ],
)
def test_two_layers_by_hand(method: Method, bias: float, expected: tuple[float, float]) -> None:
    classifier = Classifier(TwoLayers(bias), channels=1)
    inputs = torch.tensor([3.0, 1.0]).view(1, 1, 1, 2)
    maps = method(classifier, inputs, torch.tensor([0]), rng=RNG[:1])
    torch.testing.assert_close(maps, torch.tensor(expected).view(1, 1, 2))


def test_deep_taylor_by_hand() -> None:
    classifier = Classifier(TwoLayers(0.0), channels=1)
    inputs = torch.tensor([0.75, 0.25]).view(1, 1, 1, 2)
    # h = (1.25, 1); y0 = 0.25 falls to h1 alone, whose root lies at (0, 1): contributions 2*0.75 and -1*(0.25 - 1).
    maps = DeepTaylor()(classifier, inputs, torch.tensor([0]), rng=RNG[:1])
    torch.testing.assert_close(maps, 0.25 * torch.tensor([1.5, 0.75]).view(1, 1, 2) / 2.25)
    # y1 = 3 falls to h2 alone, whose root is black.
    maps = DeepTaylor()(classifier, inputs, torch.tensor([1]), rng=RNG[:1])
    torch.testing.assert_close(maps, 3 * inputs[:, 0])
    # A class that the network speaks against has no root to expand at.
    negative = DeepTaylor()(classifier, 1 - inputs, torch.tensor([0]), rng=RNG[:1])
    assert torch.equal(negative, torch.zeros(1, 1, 2))


def test_linear_model() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 6 * 6, CLASSES))
    inputs, targets = pictures(side=6), torch.tensor([0, 3, 1])
    shares = (inputs * net[1].weight.detach()[targets].view_as(inputs)).sum(dim=1)
    assert_same(explain(LrpZ(), net, inputs, targets), shares, share=1e-5)
    logits = net(inputs).gather(1, targets[:, None]).detach().view(-1, 1, 1)
    assert_same(explain(LrpEpsilon(epsilon=0.5, relative=False), net, inputs, targets),
                shares * logits / (logits + 0.5 * logits.sign()), share=1e-5)  # fmt: skip
    assert_same(explain(LrpAlpha1Beta0(), net, inputs, targets), (logits / 36).expand(-1, 6, 6), share=1e-5)


def timm_resnet(torchvision: Any) -> nn.Module:
    import timm

    return timm.create_model("resnet10t", num_classes=CLASSES)


def dense_net(torchvision: Any) -> nn.Module:
    """Batch normalisation before the convolution, concatenation, in-place rectifiers, functional pooling."""
    return torchvision.models.DenseNet(growth_rate=4, block_config=(2, 2), num_init_features=8, num_classes=CLASSES)


def squeeze_net(torchvision: Any) -> nn.Module:
    return torchvision.models.squeezenet1_1(num_classes=CLASSES)


@pytest.mark.slow
@pytest.mark.parametrize("make", [timm_resnet, dense_net, squeeze_net], ids=lambda make: make.__name__)
def test_lrp_z_of_rectifier_networks_is_input_times_gradient(torchvision: Any, make: Callable[[Any], nn.Module]) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = lived_in(make(torchvision))
    inputs, targets = pictures(2, side=40), torch.tensor([0, 3])
    expected = explain(InputXGradient(), net, inputs, targets)
    assert_same(explain(LrpZ(), net, inputs, targets), expected)
    for name in NAMES[1:]:
        maps = explain(METHODS.build(name), net, inputs, targets)
        assert bool(maps.isfinite().all())


def without_biases(net: nn.Module) -> nn.Module:
    for module in net.modules():
        if isinstance(module, nn.Conv2d | nn.Linear | nn.BatchNorm2d) and module.bias is not None:
            nn.init.zeros_(module.bias)
        if isinstance(module, nn.BatchNorm2d):
            nn.init.zeros_(module.running_mean)
    return net


@pytest.mark.parametrize("network", ["plain", "residual"])
def test_without_biases_nothing_is_lost(network: str) -> None:
    net, inputs = without_biases(NETWORKS[network]()), pictures()
    logits, targets = net(inputs).max(dim=1)
    assert bool((logits > 0).all())
    methods: list[Method] = [LrpZ(), LrpEpsilon(epsilon=0.0), LrpAlpha1Beta0(epsilon=0.0), DeepTaylor()]
    if network == "plain":  # where nothing inhibits a neuron there is nothing to take off the double share
        methods.append(LrpAlpha2Beta1(epsilon=0.0))
    for method in methods:
        total = explain(method, net, inputs, targets).sum(dim=(1, 2))
        torch.testing.assert_close(total, logits.detach(), rtol=2e-3, atol=1e-4)
    damped = explain(LrpEpsilon(), net, inputs, targets).sum(dim=(1, 2))
    assert bool((damped.abs() < 0.95 * logits).all())


# However it is written ------------------------------------------------------------------------------------------------


class Parts(nn.Module):
    """One network, whose forward pass is written in several ways."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            self.stem, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
            self.body, self.body_norm = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
            self.head = nn.Linear(8, CLASSES)
        self.relu = nn.ReLU()
        lived_in(self)


class AsModules(Parts):
    def forward(self, inputs: Tensor) -> Tensor:
        first = self.relu(self.norm(self.stem(inputs)))
        second = self.relu(self.body_norm(self.body(first)) + first)
        third = self.relu(self.body_norm(self.body(second)) + second)  # the same block again
        return self.head(functional.adaptive_avg_pool2d(third, 1).flatten(1))


class InPlace(Parts):
    def forward(self, inputs: Tensor) -> Tensor:
        out = functional.relu(self.norm(self.stem(inputs)), inplace=True)
        for _ in range(2):
            skip = out
            out = self.body_norm(self.body(out))
            out += skip
            out.relu_()
        return self.head(out.mean((2, 3)))


class Functional(Parts):
    def normed(self, values: Tensor, norm: nn.BatchNorm2d) -> Tensor:
        return functional.batch_norm(
            weight=norm.weight, bias=norm.bias, running_mean=norm.running_mean, running_var=norm.running_var, input=values
        )

    def forward(self, inputs: Tensor) -> Tensor:
        padded = functional.pad(inputs, (1, 1, 1, 1))
        out = torch.clamp(self.normed(functional.conv2d(padded, self.stem.weight, self.stem.bias), self.norm), min=0)
        for _ in range(2):
            branch = functional.conv2d(input=out, weight=self.body.weight, padding="same")
            out = torch.add(self.normed(branch, self.body_norm), out).relu()
        pooled = functional.avg_pool2d(out, (SIDE, SIDE)).squeeze(-1).squeeze(-1)
        return functional.linear(pooled, bias=self.head.bias, weight=self.head.weight)


class Folded(Parts):
    """Without batch normalisation: its numbers are worked into the weights before."""

    def __init__(self) -> None:
        super().__init__()
        for convolution, norm in ((self.stem, self.norm), (self.body, self.body_norm)):
            scale = norm.weight.data / (norm.running_var + norm.eps).sqrt()
            bias = torch.zeros(8) if convolution.bias is None else convolution.bias.data
            convolution.weight.data = convolution.weight.data * scale.view(-1, 1, 1, 1)
            convolution.bias = nn.Parameter((bias - norm.running_mean) * scale + norm.bias.data)

    def forward(self, inputs: Tensor) -> Tensor:
        out = self.stem(inputs).relu()
        for _ in range(2):
            out = (self.body(out) + out).relu()
        return self.head(out.mean(dim=-1).mean(dim=-1))


@pytest.mark.parametrize("name", [*NAMES, "deconvnet"])
def test_how_a_network_is_written_does_not_matter(name: str) -> None:
    inputs, targets = pictures(), AsModules()(pictures()).argmax(dim=1)
    expected = explain(METHODS.build(name), AsModules(), inputs, targets)
    for kind in (InPlace, Functional, Folded):
        maps = explain(METHODS.build(name), kind(), inputs, targets)
        if kind is Functional and name in ("lrp-alpha1-beta0", "lrp-alpha2-beta1"):
            # The even first layer gives a padded border its share too, where that is an operation of its own.
            maps, expected_here = maps[:, 2:-2, 2:-2], expected[:, 2:-2, 2:-2]
        else:
            expected_here = expected
        assert_same(maps, expected_here)


class Normalising(nn.Module):
    """Takes pixels, and does the rest itself."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("mean", torch.tensor(MEAN).view(3, 1, 1))
        self.register_buffer("std", torch.tensor(STD).view(3, 1, 1))

    def forward(self, pixels: Tensor) -> Tensor:
        return self.net((pixels - self.mean) / self.std)


@pytest.mark.parametrize("method", [DeepTaylor(), LrpAlpha1Beta0(), LrpAlpha2Beta1()])
def test_a_network_that_normalises_its_own_pixels(method: Method) -> None:
    net, inputs = plain(), pictures()
    targets = net(inputs).argmax(dim=1)
    pixels = inputs * torch.tensor(STD).view(3, 1, 1) + torch.tensor(MEAN).view(3, 1, 1)
    maps = method(Classifier(Normalising(net)), pixels, targets, rng=RNG)
    assert_same(maps, explain(method, net, inputs, targets))


def test_additions_and_means_by_hand() -> None:
    class Sums(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            rectified, doubled = inputs[:, 0].relu(), 2 * inputs[:, 0]
            return torch.cat(
                [
                    (rectified + doubled + 5).mean((1, 2))[:, None],
                    torch.sub(rectified, doubled, alpha=2).sum((1, 2))[:, None],
                ],
                1,
            )

    classifier = Classifier(Sums(), channels=1)
    inputs = torch.tensor([1.0, 3.0, -1.0, 4.0]).view(1, 1, 2, 2)
    # rectified = (1, 3, 0, 4), doubled = (2, 6, -2, 8); the mean gives each place a quarter of rectified + doubled + 5
    maps = LrpZ()(classifier, inputs, torch.tensor([0]), rng=RNG[:1])
    torch.testing.assert_close(maps, torch.tensor([3.0, 9.0, -2.0, 12.0]).view(1, 2, 2) / 4)
    maps = LrpZ()(classifier, inputs, torch.tensor([1]), rng=RNG[:1])
    torch.testing.assert_close(maps, torch.tensor([-3.0, -9.0, 4.0, -12.0]).view(1, 2, 2))


# What has no rule -----------------------------------------------------------------------------------------------------


class Head(nn.Module):
    def __init__(self, step: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.step = step

    def forward(self, features: Tensor) -> Tensor:
        return self.step(features)


def around(step: Callable[[Tensor], Tensor]) -> nn.Module:
    parts = OrderedDict(conv=nn.Conv2d(3, 4, 3), relu=nn.ReLU(), step=Head(step), pool=nn.AdaptiveAvgPool2d(1))
    return nn.Sequential(parts | OrderedDict(flat=nn.Flatten(), head=nn.Linear(4, CLASSES)))


@pytest.mark.parametrize(
    ("step", "word"),
    [
        (lambda features: features * features.mean((2, 3), keepdim=True), "mul"),  # squeeze and excitation
        (lambda features: 1 / (features + 1), "__rdiv__"),
        (lambda features: torch.div(torch.ones(1), features + 1), "div"),
        (lambda features: features.softmax(dim=1), "softmax"),
        (lambda features: functional.layer_norm(features, features.shape[1:]), "layer_norm"),
        (lambda features: functional.batch_norm(features, None, None, training=True), "batch_norm"),
        (lambda features: features.sigmoid(), "sigmoid"),
        (lambda features: features @ features.transpose(2, 3), "matmul"),
        (lambda features: features.cumsum(dim=1), "cumsum"),
        (lambda features: functional.conv2d(features, features[:1].mean((2, 3), keepdim=True).expand(4, 4, 1, 1)), "conv2d"),
    ],
)  # fmt: skip
def test_what_has_no_rule_is_refused_by_name_and_layer(step: Callable[[Tensor], Tensor], word: str) -> None:
    classifier, inputs = Classifier(around(step)), pictures(1)
    for name in NAMES:
        built = METHODS.build(name)
        with classifier.counting() as ledger, pytest.raises(SnellenError) as caught:
            built.prepare(classifier, inputs)
        assert str(caught.value) == f"{name} cannot pass through {word} at step; use integrated-gradients"
        assert ledger.passes.forward == 0
        with pytest.raises(SnellenError, match=f"^{name} cannot pass"):
            built(classifier, inputs, torch.tensor([0]), rng=RNG[:1])


def test_deep_taylor_and_deconvnet_know_rectifiers_only() -> None:
    classifier = Classifier(plain(activation=nn.SiLU))
    for method, rest in (
        (DeepTaylor(), "use integrated-gradients"),
        (Deconvnet(), "it is defined for ReLU only; use gradient"),
    ):
        with pytest.raises(SnellenError, match=f"cannot pass through silu at 1; {rest}"):
            method.prepare(classifier, pictures(1))


def test_comparisons_and_detached_masks_need_no_rule() -> None:
    """What a network asks of its features may stay, as long as nothing differentiable comes of it."""

    def step(features: Tensor) -> Tensor:
        return features * (features > 0).float() if bool(features.detach().isfinite().all()) else features

    inputs, targets = pictures(), torch.tensor([0, 3, 1])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = around(step)
    expected = explain(LrpZ(), net, inputs, targets)
    net.step.step = lambda features: features
    assert_same(expected, explain(LrpZ(), net, inputs, targets), share=1e-5)


def test_a_wrong_epsilon_gets_one_sentence() -> None:
    with pytest.raises(SnellenError, match=r"^method 'lrp-epsilon': epsilon must not be negative, not -1.0$"):
        METHODS.parse("lrp-epsilon(epsilon=-1)")
