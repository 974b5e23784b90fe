"""DeepLIFT against captum, against a version that works one neuron at a time, and against what its definition promises.

A map counts as equal when no pixel is off by more than 1e-4 of the largest. Completeness is measured against the largest of
the rise and the sum of magnitudes: float32 sums of many terms of both signs meet to that scale, not to the rise alone.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from itertools import pairwise

import captum.attr
import numpy as np
import pytest
import torch
from tests.methods import problems
from tests.networks import CLASSES, NETWORKS, SIDE, plain
from torch import Tensor, nn
from torch.nn import functional

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.maps.fills import Black, Blur, Noise
from snellen.methods.deeplift import DeepLiftRescale, DeepLiftRevealCancel
from snellen.methods.rescale_rule import shares as rescale
from snellen.methods.reveal_cancel_rule import shares as reveal_cancel
from snellen.plugins.checks.planted import planted_batch
from snellen.plugins.registry import METHODS
from snellen.types import Method, Rng

pytestmark = pytest.mark.filterwarnings("ignore:Setting forward, backward hooks", "ignore:Input Tensor 0 did not already")
"""captum says both, of its own doing."""

RNG = Rng(seed=1, ids=("a", "b", "c"))
INPUTS = RNG.normal("images", (3, SIDE, SIDE))
TARGETS = torch.tensor([0, 3, 1])
STARTS = RNG.normal("starts", (3, SIDE, SIDE))


assert_same = partial(problems.assert_same, share=1e-4)


def assert_complete(
    method: Method, net: nn.Module, inputs: Tensor = INPUTS, targets: Tensor = TARGETS, share: float = 5e-5
) -> None:
    classifier = Classifier(net)
    baseline = method.baseline(classifier, inputs, rng=RNG)  # type: ignore[attr-defined]
    maps = method(classifier, inputs, targets, rng=RNG).double()
    with torch.no_grad():
        exact = copy.deepcopy(net).double()
        rise = (exact(inputs.double()) - exact(baseline.double())).gather(1, targets[:, None])[:, 0]
    scale = torch.maximum(rise.abs(), maps.abs().sum(dim=(1, 2)))
    assert float(scale.min()) > 0
    assert float(((maps.sum(dim=(1, 2)) - rise).abs() / scale).max()) < share


BOTH = [DeepLiftRescale(), DeepLiftRevealCancel(), DeepLiftRevealCancel(maps="rescale")]
both = pytest.mark.parametrize("method", BOTH, ids=["rescale", "reveal-cancel", "mixed"])


# Networks that are written in every way ------------------------------------------------------------------------------


class Written(nn.Module):
    """One network in many hands: `bend` is applied between its layers, and `pool` in the middle."""

    def __init__(self, bend: Callable[[Tensor], Tensor] = functional.relu, pool: Callable[[Tensor], Tensor] | None = None):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            self.first = nn.Conv2d(3, 8, 3, padding=1)
            self.second = nn.Conv2d(8, 8, 3, padding=1, groups=2)
            self.third = nn.Linear(8 * 16, 12)
            self.head = nn.Linear(12, CLASSES)
            self.gain = nn.Parameter(torch.randn(1, 8, 1, 1))
        self.bend = bend
        self.pool = pool or (lambda values: functional.avg_pool2d(values, 2))

    def forward(self, inputs: Tensor) -> Tensor:
        seen = self.bend(self.first(inputs))
        seen = self.bend(self.second(self.pool(seen)))
        seen = functional.adaptive_avg_pool2d(seen, 4).flatten(1)
        return self.head(self.bend(self.third(seen)))


class Residual(Written):
    def forward(self, inputs: Tensor) -> Tensor:
        seen = self.bend(self.first(inputs))
        seen = self.bend(self.second(seen) + seen)
        seen = functional.adaptive_avg_pool2d(seen, 4).flatten(1)
        return self.head(self.bend(self.third(seen)))


class InPlace(Written):
    """Rectifiers, an addition and a scaling that overwrite what they are given."""

    def forward(self, inputs: Tensor) -> Tensor:
        seen = functional.relu_(self.first(inputs))
        more = self.second(seen)
        more += seen
        more.mul_(-0.5).add_(0.1).relu_()
        return self.head(functional.relu(self.third(functional.adaptive_avg_pool2d(more, 4).flatten(1)), inplace=True))


class Arithmetic(Written):
    """Everything linear that a forward function may spell out, constants of both signs included."""

    def forward(self, inputs: Tensor) -> Tensor:
        seen = functional.pad(inputs * 2 - 0.5, (1, 1, 1, 1), value=0.3)
        seen = functional.relu(self.first(seen)[:, :, 1:-1, 1:-1])
        seen = functional.relu(1.5 - seen * self.gain / -0.7)
        left, right = seen.chunk(2, dim=1)
        seen = torch.cat([right - left, left, torch.ones_like(left[:, :2])], dim=1)[:, :8]
        seen = functional.relu(-self.second(seen) + self.gain)
        seen = functional.adaptive_avg_pool2d(seen, 4).flatten(1)
        seen = functional.relu(seen @ self.third.weight.T + self.third.bias)
        return torch.einsum("bi,oi->bo", seen, self.head.weight) + self.head.bias


def normalised(activation: type[nn.Module]) -> nn.Module:
    """Batch normalisation that has lived, some of it with negative weights."""
    net = NETWORKS["residual"](activation=activation)
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(5)
        for module in net.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.weight.mul_(torch.randn_like(module.weight).sign())
                nn.init.uniform_(module.bias, -0.5, 0.5)
    return net


def reused() -> nn.Module:
    relu = nn.ReLU()
    net = plain()
    net[1] = net[4] = relu
    return net


WAYS: dict[str, Callable[[], nn.Module]] = {
    "functional": Written,
    "residual": Residual,
    "in-place": InPlace,
    "arithmetic": Arithmetic,
    "batch-norm": lambda: normalised(nn.ReLU),
    "reused": reused,
    "relu6": lambda: Written(lambda values: functional.relu6(values * 8)),
    "clamp": lambda: Written(lambda values: values.clamp(min=0)),
    "max-pool": lambda: Written(pool=lambda values: functional.max_pool2d(values, 2)),
    "max-pool with overlap": lambda: Written(pool=nn.MaxPool2d(3, 2, padding=1, ceil_mode=True)),
    "max-pool, adaptive": lambda: Written(pool=nn.AdaptiveMaxPool2d(7)),
    "max-pool over all": lambda: Written(pool=lambda values: values.amax((2, 3), keepdim=True).expand(-1, -1, 8, 8)),
    **{
        name: lambda name=name: Written(getattr(functional, name))
        for name in ("silu", "gelu", "tanh", "sigmoid", "elu", "leaky_relu", "hardswish", "mish", "softplus", "selu")
    },
    "absolute": lambda: Written(torch.abs),
}


@pytest.mark.slow
@both
@pytest.mark.parametrize("way", WAYS)
def test_the_map_sums_to_the_rise_however_the_network_is_written(way: str, method: Method) -> None:
    assert_complete(method, WAYS[way]().eval())


@both
@pytest.mark.parametrize("baseline", [Black(), Blur(), Noise()])
def test_the_map_sums_to_the_rise_from_any_baseline(method: Method, baseline) -> None:
    assert_complete(type(method)(baseline=baseline), NETWORKS["residual"]())  # type: ignore[call-arg]


@both
def test_how_a_rectifier_is_written_does_not_matter(method: Method) -> None:
    case = planted_batch(3)
    expected = method(case.classifier, case.inputs, case.targets, rng=case.rng)
    for relu in ("functional", "reused", "in-place"):
        maps = method(planted_batch(3, relu=relu).classifier, case.inputs, case.targets, rng=case.rng)
        assert torch.equal(maps, expected)


@both
def test_a_linear_model_gets_weight_times_difference(method: Method) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE**2, CLASSES))
    expected = net[1].weight[TARGETS].view_as(INPUTS) * INPUTS
    assert_same(method(Classifier(net), INPUTS, TARGETS, rng=RNG), expected.detach().sum(dim=1), share=1e-6)


# captum --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("net", sorted(NETWORKS))
@pytest.mark.parametrize("activation", [nn.ReLU, nn.ELU, nn.Softplus, nn.Tanh, nn.LeakyReLU, nn.Sigmoid])
def test_rescale_is_that_of_captum(net: str, activation: type[nn.Module]) -> None:
    # In double precision, because captum divides by differences that float32 has rounded away.
    network = NETWORKS[net](activation=activation).double()
    inputs, starts = INPUTS.double(), STARTS.double()
    expected = captum.attr.DeepLift(copy.deepcopy(network)).attribute(inputs, starts, target=TARGETS)
    assert_same(rescale("twin", Classifier(network), inputs, starts, TARGETS), expected.detach(), share=1e-5)


@pytest.mark.filterwarnings("ignore")  # shap's
def test_rescale_is_that_of_shap_with_max_pooling() -> None:
    """captum's rule for max-pooling takes one row's gradient for every row; its sums miss the rise, shap's meet it."""
    import shap

    network = nn.Sequential(*[nn.MaxPool2d(2) if isinstance(layer, nn.AvgPool2d) else layer for layer in plain()])
    maps = rescale("twin", Classifier(network), INPUTS, STARTS, TARGETS)
    for saliency, image, start, target in zip(maps, INPUTS, STARTS, TARGETS.tolist(), strict=True):
        twin = shap.DeepExplainer(copy.deepcopy(network), start[None])
        expected = torch.from_numpy(twin.shap_values(image[None])[0, ..., target])
        assert_same(saliency, expected)


@pytest.mark.slow
@both
def test_a_photographs_map_sums_to_the_rise(method: Method) -> None:
    from snellen import zoo

    classifier = zoo.load_classifier(zoo.EMBEDDED)
    sample = zoo.photographs(classifier.geometry)[0]
    inputs = classifier.to_inputs(sample.image[None])
    targets = classifier.logits(inputs).argmax(dim=1)
    rise = (classifier.logits(inputs) - classifier.logits(torch.zeros_like(inputs)))[0, targets[0]]
    maps = method(classifier, inputs, targets, rng=Rng(0, (sample.id,)))
    assert float(maps.sum()) == pytest.approx(float(rise), rel=1e-3)


# One neuron at a time ------------------------------------------------------------------------------------------------


def dense(seed: int) -> tuple[nn.Sequential, list[tuple[np.ndarray, np.ndarray]]]:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Flatten(), nn.Linear(12, 9), nn.ReLU(), nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 3))
    layers = [layer for layer in net if isinstance(layer, nn.Linear)]
    return net, [(layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()) for layer in layers]


def one_at_a_time(
    layers: list[tuple[np.ndarray, np.ndarray]], image: np.ndarray, start: np.ndarray, target: int, cancel: bool
) -> np.ndarray:
    """Shares by sections 3.5.1 to 3.5.3, as loops over pairs of units, from the output back to the inputs."""

    def relu(value: float) -> float:
        return max(value, 0.0)

    rising = [max(a - b, 0.0) for a, b in zip(image, start, strict=True)]
    falling = [min(a - b, 0.0) for a, b in zip(image, start, strict=True)]
    base = list(start)
    entering, slopes = [(rising, falling)], []
    for number, (weight, bias) in enumerate(layers):
        up, down, at = [], [], []
        for row, shift in zip(weight, bias, strict=True):
            terms = [w * (r + f) for w, r, f in zip(row, rising, falling, strict=True)]
            up.append(sum(term for term in terms if term > 0))
            down.append(sum(term for term in terms if term < 0))
            at.append(sum(w * b for w, b in zip(row, base, strict=True)) + shift)
        if number == len(layers) - 1:
            break
        pairs = []
        for j, r in enumerate(at):
            p, q = up[j], down[j]
            if cancel:
                first = (relu(r + p) - relu(r) + relu(r + p + q) - relu(r + q)) / 2
                second = (relu(r + q) - relu(r) + relu(r + p + q) - relu(r + p)) / 2
                pairs.append((first / p if p else 0.0, second / q if q else 0.0))
            else:
                pairs.append(((relu(r + p + q) - relu(r)) / (p + q),) * 2)
        slopes.append(pairs)
        rising = [m * rise for (m, _), rise in zip(pairs, up, strict=True)]
        falling = [m * fall for (_, m), fall in zip(pairs, down, strict=True)]
        base = [relu(value) for value in at]
        entering.append((rising, falling))
    # Multipliers of the target for each unit's rising and falling part.
    above = [(float(k == target), float(k == target)) for k in range(len(layers[-1][0]))]
    for number in reversed(range(len(layers))):
        weight = layers[number][0]
        if number < len(layers) - 1:
            above = [(a * m, b * n) for (a, b), (m, n) in zip(above, slopes[number], strict=True)]
        below = []
        for i, difference in enumerate(r + f for r, f in zip(*entering[number], strict=True)):
            # Both parts of a unit go where the sign of its whole contribution says; half each way where that is none.
            share = 0.0
            for row, (plus, minus) in zip(weight, above, strict=True):
                sign = row[i] * difference
                share += row[i] * ((plus + minus) / 2 if abs(sign) < 1e-12 else plus if sign > 0 else minus)
            below.append((share, share))
        above = below
    rising, falling = entering[0]
    return np.array([m * p + n * q for (m, n), p, q in zip(above, rising, falling, strict=True)])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("cancel", [False, True])
def test_dense_networks_one_neuron_at_a_time(seed: int, cancel: bool) -> None:
    net, layers = dense(seed)
    rng = Rng(seed, ("a", "b"))
    inputs, starts, targets = rng.normal("images", (3, 2, 2)), rng.normal("starts", (3, 2, 2)), torch.tensor([0, 2])
    if cancel:
        maps = reveal_cancel("twin", Classifier(net), inputs, starts, targets, everywhere=True)
    else:
        maps = rescale("twin", Classifier(net), inputs, starts, targets)
    for saliency, image, start, target in zip(maps, inputs, starts, targets, strict=True):
        expected = one_at_a_time(
            layers, image.double().flatten().numpy(), start.double().flatten().numpy(), int(target), cancel
        )
        assert_same(saliency.flatten().double(), torch.from_numpy(expected), share=1e-5)


class Least(nn.Module):
    """min(a, b) = a - relu(a - b), the paper's figure 2; the second output only makes it a classifier."""

    def forward(self, inputs: Tensor) -> Tensor:
        a, b = inputs[:, 0, 0, 0], inputs[:, 0, 0, 1]
        least = a - functional.relu(a - b)
        return torch.stack([least, least], dim=1)


def test_both_causes_of_a_minimum_get_their_share() -> None:
    # As in the paper: with a = 3 and b = 2, Rescale gives all of min(a, b) = 2 to b... or to a where a is the smaller.
    inputs = torch.tensor([[3.0, 2.0], [2.0, 3.0]]).view(2, 1, 1, 2)
    classifier, targets, rng = Classifier(Least(), channels=1), torch.zeros(2, dtype=torch.long), Rng(0, ("a", "b"))
    one_sided = DeepLiftRescale()(classifier, inputs, targets, rng=rng)[:, 0]
    shared = DeepLiftRevealCancel()(classifier, inputs, targets, rng=rng)[:, 0]
    torch.testing.assert_close(one_sided, torch.tensor([[0.0, 2.0], [2.0, 0.0]]))
    # a: 3 - (3 + 1) / 2 = 1; b: (0 + 2) / 2 = 1. Then a: 2 - (2 + 0) / 2 = 1; b: (0 + 2) / 2 = 1.
    torch.testing.assert_close(shared, torch.tensor([[1.0, 1.0], [1.0, 1.0]]))


def test_where_nothing_cancels_both_rules_agree() -> None:
    net = plain()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.abs_()
        net[3].bias.sub_(1.5)  # some units stay shut at the reference, so that the secant is not simply one
    inputs = INPUTS.abs()
    maps = DeepLiftRevealCancel()(Classifier(net), inputs, TARGETS, rng=RNG)
    assert_same(maps, DeepLiftRescale()(Classifier(net), inputs, TARGETS, rng=RNG), share=1e-5)


def test_where_parts_cancel_the_rules_differ() -> None:
    rescaled, revealed, mixed = (method(Classifier(Written()), INPUTS, TARGETS, rng=RNG) for method in BOTH)
    for first, second in pairwise((rescaled, revealed, mixed)):
        assert float((first - second).abs().max()) > 0.01 * float(first.abs().max())


# Refusals ------------------------------------------------------------------------------------------------------------


class Squeezed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.squeeze, self.head = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 4, 1), nn.Linear(4, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        seen = self.stem(inputs)
        seen = seen * self.squeeze(seen.mean((2, 3), keepdim=True)).sigmoid()
        return self.head(seen.mean((2, 3)))


class Mixing(nn.Module):
    def forward(self, inputs: Tensor) -> Tensor:
        return (inputs - inputs.mean(0, keepdim=True)).mean((2, 3))


def headed(*body: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, CLASSES))


@both
@pytest.mark.parametrize(
    ("net", "words"),
    [
        (Squeezed(), "mul;"),
        (headed(nn.GroupNorm(2, 4)), "group_norm at 1;"),
        (headed(nn.LayerNorm(30)), "layer_norm at 1;"),
        (headed(nn.Softmax(dim=1)), "softmax at 1;"),
        (headed(nn.BatchNorm2d(4, track_running_stats=False)), "batch_norm at 1;"),
        (headed(nn.Conv2d(4, 8, 1), nn.GLU(dim=1)), "glu at 2;"),
        (headed(nn.Upsample(scale_factor=2)), "interpolate at 1;"),
        (Mixing(), "mean; it mixes the images of a batch;"),
    ],
    ids=lambda step: type(step).__name__ if isinstance(step, nn.Module) else step.split(";")[0],
)
def test_an_operation_without_a_rule_is_refused_by_name_and_layer(net: nn.Module, words: str, method: Method) -> None:
    classifier = Classifier(net)
    name = type(method).traits.name  # type: ignore[attr-defined]
    with classifier.counting() as ledger:
        for attempt in (
            lambda: method.prepare(classifier, INPUTS),  # type: ignore[attr-defined]
            lambda: method(classifier, INPUTS, TARGETS, rng=RNG),
        ):
            with pytest.raises(SnellenError) as caught:
                attempt()
            assert str(caught.value) == f"{name} cannot pass through {words} use integrated-gradients"
    assert ledger.passes.backward == 0


class Choosing(nn.Module):
    """Takes another activation for a black image than for others."""

    def forward(self, inputs: Tensor) -> Tensor:
        black = not any(inputs.sum((1, 2, 3)).tolist())
        return (functional.silu(inputs) if black else functional.relu(inputs)).mean((2, 3))


def test_a_model_that_treats_the_baseline_differently_is_refused() -> None:
    with pytest.raises(
        SnellenError, match="cannot pass through relu; the model computes other operations for its baseline;"
    ):
        DeepLiftRescale()(Classifier(Choosing()), INPUTS, TARGETS % 3, rng=RNG)


class Constants(nn.Module):
    """An activation of a constant of the image's shape comes before that of the image."""

    def forward(self, inputs: Tensor) -> Tensor:
        constant = functional.relu(torch.ones_like(inputs))
        return (functional.relu(inputs) * constant.mul_(2)).mean((2, 3))


def test_an_activation_of_a_constant_contributes_nothing() -> None:
    maps = DeepLiftRescale()(Classifier(Constants()), INPUTS, TARGETS % 3, rng=RNG)
    expected = 2 * INPUTS.clamp_min(0)[range(len(INPUTS)), TARGETS % 3] / INPUTS[0, 0].numel()
    assert torch.allclose(maps, expected, atol=1e-7)


class Cancelling(nn.Module):
    """A rectifier of a sum of channels, of which the first two cancel."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.bend = nn.ReLU6(in_place)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.bend((inputs[:, :1] + inputs[:, 1:2]) + inputs[:, 2:]).sum((2, 3))


@pytest.mark.parametrize("in_place", [False, True])
def test_where_image_and_baseline_meet_the_slope_is_the_derivative(in_place: bool) -> None:
    """A rectifier sees values that are equal, an ulp apart on one side of its kink, and next to it on both sides."""
    tiny = 2.0**-100
    image = torch.tensor([0.0, 1.0, -1.0, 1.0, tiny, 7.0, 8.0])
    start = torch.tensor([0.0, 1.0, -1.0, 1.0 - 2**-24, -tiny, 7.0, 5.0])
    ones, zeros = torch.ones(7), torch.zeros(7)
    images, starts = (torch.stack(rows).view(1, 3, 1, 7) for rows in ([ones, -ones, image], [zeros, zeros, start]))
    shares = rescale("deeplift-rescale", Classifier(Cancelling(in_place)), images, starts, torch.tensor([0]))
    assert shares[0, 0, 0].tolist() == pytest.approx([0, 1, 0, 1, 0.5, 0, 1 / 3])


@both
def test_compiled_graphs_and_probabilities_are_refused(method: Method) -> None:
    with pytest.warns(DeprecationWarning, match="torch.jit.trace"):
        graph = torch.jit.trace(plain(), INPUTS)
    probabilities = Classifier(nn.Sequential(plain(), nn.Softmax(dim=1)), outputs="probabilities")
    for classifier, words in ((Classifier(graph), "is a compiled graph"), (probabilities, "puts out probabilities")):
        with pytest.raises(SnellenError, match=words):
            method(classifier, INPUTS, TARGETS, rng=RNG)


def test_published_settings() -> None:
    assert METHODS.parse("deeplift-rescale@kim2022") == DeepLiftRescale(baseline=Black())
    assert METHODS.parse("deeplift-reveal-cancel@kim2022") == DeepLiftRevealCancel(baseline=Black())
    assert METHODS.parse("deeplift-reveal-cancel@shrikumar2017-genomics") == DeepLiftRevealCancel(maps="rescale")
