"""Every method against an independent implementation, and against answers that can be worked out by hand.

Two float32 programs that do the same sums in another order agree to about six digits: a map counts as equal when no pixel
is off by more than 1e-4 of the largest.
"""

from __future__ import annotations

import copy
import math
from functools import partial

import captum.attr
import numpy as np
import pytest
import torch
from skimage.transform import resize
from tests.methods import problems
from tests.methods.problems import Problem, photograph_problem, random_problem
from tests.networks import CLASSES, NETWORKS, SIDE, plain
from torch import Tensor, nn
from torch.nn import functional

from snellen.classifier import Classifier
from snellen.classifier.operations import intercepting
from snellen.errors import SnellenError
from snellen.maps.fills import Black
from snellen.methods.class_activation import find_layer
from snellen.methods.controls import Centre, Edge, FakeCam, Random
from snellen.methods.grad_cam import GradCam
from snellen.methods.gradient import Gradient, InputXGradient
from snellen.methods.guided_backprop import GuidedBackprop, guided
from snellen.methods.integrated_gradients import IntegratedGradients
from snellen.methods.occlusion import Occlusion
from snellen.methods.rise import Rise
from snellen.methods.smoothgrad import SmoothGrad, SmoothGradSquared, VarGrad
from snellen.plugins.checks.planted import planted_batch
from snellen.types import Rng

pytestmark = pytest.mark.filterwarnings(
    "ignore:Input Tensor 0 did not already require gradients"
)  # captum, of its own doing


@pytest.fixture(params=sorted(NETWORKS))
def problem(request: pytest.FixtureRequest) -> Problem:
    return random_problem(request.param, nn.ReLU)


@pytest.fixture(params=sorted(NETWORKS))
def smooth(request: pytest.FixtureRequest) -> Problem:
    """Without kinks: over many passes, rounding alone would open or close one of so many rectifiers."""
    return random_problem(request.param, nn.SiLU)


@pytest.fixture(scope="module")
def photograph() -> Problem:
    return photograph_problem()


assert_same = partial(problems.assert_same, share=1e-4)


def probability(net: nn.Module):
    return lambda inputs: net(inputs).softmax(dim=1)


# captum -------------------------------------------------------------------------------------------------------------


def test_gradient_is_captums_saliency(problem: Problem) -> None:
    expected = captum.attr.Saliency(problem.net).attribute(problem.inputs, target=problem.targets, abs=False)
    for fold, folded in {
        "absolute-max": expected.abs().amax(dim=1),
        "absolute-sum": expected.abs().sum(dim=1),
        "sum": expected.sum(dim=1),
        "mean": expected.mean(dim=1),
    }.items():
        assert_same(Gradient(fold=fold)(problem.classifier, problem.inputs, problem.targets, rng=problem.rng), folded)


def test_gradient_of_the_probability_is_that_of_captum(problem: Problem) -> None:
    expected = captum.attr.Saliency(probability(problem.net)).attribute(problem.inputs, target=problem.targets)
    maps = Gradient(of="probability")(problem.classifier, problem.inputs, problem.targets, rng=problem.rng)
    assert_same(maps, expected.amax(dim=1))


def test_input_x_gradient_is_that_of_captum(problem: Problem) -> None:
    expected = captum.attr.InputXGradient(problem.net).attribute(problem.inputs, target=problem.targets)
    maps = InputXGradient()(problem.classifier, problem.inputs, problem.targets, rng=problem.rng)
    assert_same(maps, expected.sum(dim=1))


@pytest.mark.parametrize("steps", [1, 7, 32])
def test_integrated_gradients_is_that_of_captum(smooth: Problem, steps: int) -> None:
    twin = captum.attr.IntegratedGradients(smooth.net)
    expected = twin.attribute(smooth.inputs, target=smooth.targets, n_steps=steps, method="gausslegendre")
    maps = IntegratedGradients(steps=steps)(smooth.classifier, smooth.inputs, smooth.targets, rng=smooth.rng)
    assert_same(maps, expected.sum(dim=1))


def test_integrated_gradients_from_black_is_that_of_captum(smooth: Problem) -> None:
    mean, std = (0.4, 0.5, 0.6), (0.2, 0.25, 0.3)
    classifier = Classifier(smooth.net, mean=mean, std=std)
    black = (-torch.tensor(mean) / torch.tensor(std)).view(1, 3, 1, 1).expand_as(smooth.inputs)
    twin = captum.attr.IntegratedGradients(probability(smooth.net))
    expected = twin.attribute(smooth.inputs, black, target=smooth.targets, n_steps=9, method="gausslegendre")
    method = IntegratedGradients(steps=9, baseline=Black(), of="probability")
    assert_same(method(classifier, smooth.inputs, smooth.targets, rng=smooth.rng), expected.sum(dim=1))


class Aligned(captum.attr.NoiseTunnel):
    """captum's noise tunnel with our noise in place of its own; all else is captum's."""

    def __init__(self, attribution_method, noise: Tensor) -> None:
        super().__init__(attribution_method)
        self.noise = noise

    def _add_noise_to_input(self, input, stdev, nt_samples_partition):
        return input.repeat_interleave(nt_samples_partition, dim=0) + self.noise


class Folded(captum.attr.Attribution):
    """captum's saliency, folded before the noise tunnel averages it."""

    def __init__(self, net: nn.Module, fold) -> None:
        super().__init__(net)
        self.saliency = captum.attr.Saliency(net)
        self.fold = fold
        self.is_delta_supported = False

    def attribute(self, inputs, target):
        return self.fold(self.saliency.attribute(inputs, target=target, abs=False))

    attribute.__wrapped__ = attribute  # the noise tunnel calls what its own logging decorator would have wrapped

    def has_convergence_delta(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("method", "kind", "fold"),
    [
        (SmoothGrad(samples=6), "smoothgrad", lambda gradients: gradients.abs().amax(dim=1)),
        (SmoothGrad(of=Gradient(fold="sum"), samples=6), "smoothgrad", lambda gradients: gradients.sum(dim=1)),
        (SmoothGradSquared(samples=6), "smoothgrad_sq", lambda gradients: gradients.abs().amax(dim=1)),
        (VarGrad(samples=6), "vargrad", lambda gradients: gradients.sum(dim=1)),
    ],
)
def test_smoothing_is_captums_noise_tunnel(smooth: Problem, method, kind: str, fold) -> None:
    span = smooth.inputs.flatten(1).amax(dim=1) - smooth.inputs.flatten(1).amin(dim=1)
    noise = smooth.rng.child("smoothgrad").repeat(range(6)).normal("noise", (3, SIDE, SIDE))
    noise *= (0.15 * span).repeat_interleave(6).view(-1, 1, 1, 1)
    twin = Aligned(Folded(smooth.net, fold), noise)
    expected = twin.attribute(smooth.inputs, nt_type=kind, nt_samples=6, target=smooth.targets)
    maps = method(smooth.classifier, smooth.inputs, smooth.targets, rng=smooth.rng)
    assert_same(maps, expected, share=1e-3 if kind == "vargrad" else 1e-4)  # captum subtracts squares in float32


@pytest.mark.filterwarnings("ignore:Setting backward hooks on ReLU activations")
def test_guided_backprop_is_that_of_captum(problem: Problem) -> None:
    expected = captum.attr.GuidedBackprop(copy.deepcopy(problem.net)).attribute(problem.inputs, target=problem.targets)
    maps = GuidedBackprop(fold="sum")(problem.classifier, problem.inputs, problem.targets, rng=problem.rng)
    assert_same(maps, expected.sum(dim=1))
    unguided = Gradient(fold="sum")(problem.classifier, problem.inputs, problem.targets, rng=problem.rng)
    assert float((maps - unguided).abs().max()) > 0.1 * float(unguided.abs().max())


def test_grad_cam_is_that_of_captum(problem: Problem) -> None:
    layer = problem.net.get_submodule(problem.layer)
    coarse = captum.attr.LayerGradCam(problem.net, layer).attribute(problem.inputs, problem.targets, relu_attributions=True)
    expected = captum.attr.LayerAttribution.interpolate(coarse, (SIDE, SIDE), "bilinear")[:, 0]
    maps = GradCam()(problem.classifier, problem.inputs, problem.targets, rng=problem.rng)
    assert_same(maps, expected)
    named = GradCam(layer=problem.layer)(problem.classifier, problem.inputs, problem.targets, rng=problem.rng)
    assert torch.equal(maps, named)


@pytest.mark.parametrize(("cells", "overlap"), [(7, 2), (4, 1), (5, 3)])
def test_occlusion_is_that_of_captum(problem: Problem, cells: int, overlap: int) -> None:
    window = math.ceil(SIDE / cells)
    stride = math.ceil(window / overlap)
    expected = captum.attr.Occlusion(probability(problem.net)).attribute(
        problem.inputs, (3, window, window), (3, stride, stride), baselines=0, target=problem.targets
    )
    maps = Occlusion(cells=cells, overlap=overlap)(problem.classifier, problem.inputs, problem.targets, rng=problem.rng)
    assert_same(maps, expected[:, 0], share=1e-3)  # falls are small differences of probabilities near 0.2


# grad-cam and RISE --------------------------------------------------------------------------------------------------


def stretched(maps: Tensor) -> Tensor:
    low = maps.amin(dim=(1, 2), keepdim=True)
    return (maps - low) / (maps.amax(dim=(1, 2), keepdim=True) - low)


@pytest.mark.usefixtures("torchvision")
@pytest.mark.filterwarnings("ignore")
def test_grad_cam_is_pytorch_grad_cams_up_to_its_stretching(problem: Problem) -> None:
    from pytorch_grad_cam import GradCAM
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

    targets = [ClassifierOutputTarget(target) for target in problem.targets.tolist()]
    with GradCAM(problem.net, target_layers=[problem.net.get_submodule(problem.layer)]) as twin:
        expected = torch.from_numpy(twin(problem.inputs.clone(), targets=targets))
    maps = GradCam()(problem.classifier, problem.inputs, problem.targets, rng=problem.rng)
    assert_same(
        stretched(maps), stretched(expected), share=1e-3
    )  # the twin stretches twice, each time with a small constant


@pytest.mark.parametrize("fill", ["mean", "black"])
def test_rise_is_the_authors_loop(problem: Problem, fill: str) -> None:
    """Grids drawn out by scikit-image, cut at a random place, one image and one mask at a time."""
    masks, cells, keep = 40, 5, 0.3
    classifier = Classifier(problem.net, mean=0.4, std=0.2)
    start = 0.0 if fill == "mean" else -2.0
    draw = problem.rng.shared(f"rise {masks} {cells} {keep} {SIDE} {SIDE}")
    side = math.ceil(SIDE / cells)
    grids = draw.random((masks, cells, cells)) < keep
    down, right = draw.integers(0, side, masks), draw.integers(0, side, masks)
    expected = torch.zeros(3, SIDE, SIDE)
    for grid, top, left in zip(grids, down, right, strict=True):
        drawn = resize(grid.astype(float), ((cells + 1) * side,) * 2, order=1, mode="reflect", anti_aliasing=False)
        mask = torch.from_numpy(drawn[top : top + SIDE, left : left + SIDE]).float()
        for i in range(3):
            with torch.no_grad():
                seen = problem.inputs[i : i + 1] * mask + start * (1 - mask)
                score = problem.net(seen).softmax(dim=1)[0, problem.targets[i]]
            expected[i] += score * mask / (masks * keep)
    method = Rise(masks=masks, cells=cells, keep=keep, fill=Black()) if fill == "black" else Rise(masks, cells, keep)
    assert_same(method(classifier, problem.inputs, problem.targets, rng=problem.rng), expected)


def test_rise_masks_leave_the_stated_share_visible() -> None:
    rng = Rng(seed=5, ids=())
    masks = torch.cat(list(Rise(masks=2000).bank(rng, 30, 47, 64)))
    assert masks.shape == (2000, 30, 47)
    assert 0 <= float(masks.min()) <= float(masks.max()) <= 1
    # 2,000 masks of 64 cells: the standard error of the mean is sqrt(0.09 / 128000) = 0.0008.
    assert float(masks.mean()) == pytest.approx(0.1, abs=0.004)


# A real photograph --------------------------------------------------------------------------------------------------


def test_photograph_gradients_are_those_of_captum(photograph: Problem) -> None:
    expected = captum.attr.Saliency(photograph.net).attribute(photograph.inputs, target=photograph.targets, abs=False)
    assert_same(
        Gradient(fold="sum")(photograph.classifier, photograph.inputs, photograph.targets, rng=photograph.rng),
        expected.sum(dim=1),
        share=1e-3,
    )
    maps = InputXGradient()(photograph.classifier, photograph.inputs, photograph.targets, rng=photograph.rng)
    assert_same(maps, (expected * photograph.inputs).sum(dim=1), share=1e-3)


def test_photograph_integrated_gradients_is_that_of_captum(photograph: Problem) -> None:
    twin = captum.attr.IntegratedGradients(photograph.net)
    expected = twin.attribute(photograph.inputs, target=photograph.targets, n_steps=4, method="gausslegendre")
    maps = IntegratedGradients(steps=4)(photograph.classifier, photograph.inputs, photograph.targets, rng=photograph.rng)
    assert_same(maps, expected.sum(dim=1), share=2e-3)


def test_photograph_grad_cam_is_that_of_captum(photograph: Problem) -> None:
    layer = find_layer(None, photograph.classifier, photograph.inputs)
    twin = captum.attr.LayerGradCam(photograph.net, photograph.net.get_submodule(layer))
    coarse = twin.attribute(photograph.inputs, photograph.targets, relu_attributions=True)
    assert coarse.shape[2:] == (7, 7)
    expected = functional.interpolate(coarse, size=(224, 224), mode="bilinear")[:, 0]
    assert_same(
        GradCam()(photograph.classifier, photograph.inputs, photograph.targets, rng=photograph.rng), expected, share=1e-3
    )


def test_photograph_occlusion_is_that_of_captum(photograph: Problem) -> None:
    twin = captum.attr.Occlusion(probability(photograph.net))
    with torch.no_grad():
        expected = twin.attribute(
            photograph.inputs, (3, 75, 75), (3, 75, 75), baselines=0, target=photograph.targets, perturbations_per_eval=9
        )
    maps = Occlusion(cells=3, overlap=1)(photograph.classifier, photograph.inputs, photograph.targets, rng=photograph.rng)
    assert_same(maps, expected[:, 0], share=1e-3)


# Worked by hand -----------------------------------------------------------------------------------------------------


class Linear(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.arange(2 * 3 * 4 * 4, dtype=torch.float32).view(2, 3, 4, 4) / 10 - 4)

    def forward(self, inputs: Tensor) -> Tensor:
        return torch.einsum("kchw,bchw->bk", self.weights, inputs) + 1.0


def test_a_linear_model_is_explained_exactly() -> None:
    net = Linear()
    rng = Rng(seed=0, ids=("a", "b"))
    inputs = rng.normal("images", (3, 4, 4))
    targets = torch.tensor([1, 0])
    share = (net.weights.detach()[targets] * inputs).sum(dim=1)
    classifier = Classifier(net)
    for method in (InputXGradient(), IntegratedGradients(steps=1), IntegratedGradients(steps=5)):
        torch.testing.assert_close(method(classifier, inputs, targets, rng=rng), share, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        Gradient()(classifier, inputs, targets, rng=rng), net.weights.detach()[targets].abs().amax(dim=1)
    )
    assert float(VarGrad(samples=5)(classifier, inputs, targets, rng=rng).abs().max()) < 1e-9
    # One pixel per window: each covered pixel takes away exactly its share of the logit.
    single = Occlusion(cells=4, overlap=1, of="logit")
    torch.testing.assert_close(single(classifier, inputs, targets, rng=rng), share, rtol=1e-4, atol=1e-4)


def test_the_sum_of_all_inputs_gives_every_pixel_its_own_value() -> None:
    class Total(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            total = inputs.sum(dim=(1, 2, 3))
            return torch.stack([total, -total], dim=1)

    inputs = torch.arange(16.0).view(1, 1, 4, 4)
    rng = Rng(seed=0, ids=("a",))
    classifier = Classifier(Total(), channels=1)
    for target, sign in ((0, 1.0), (1, -1.0)):
        targets = torch.tensor([target])
        assert torch.equal(Gradient(fold="sum")(classifier, inputs, targets, rng=rng), torch.full((1, 4, 4), sign))
        assert torch.equal(InputXGradient()(classifier, inputs, targets, rng=rng), sign * inputs[:, 0])
        torch.testing.assert_close(IntegratedGradients()(classifier, inputs, targets, rng=rng), sign * inputs[:, 0])


def test_integrated_gradients_of_a_square_by_hand() -> None:
    """f(x) = x², from 0: the share of the only pixel is f(x) - f(0) = 9, already with two Gauss-Legendre nodes."""

    class Square(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return inputs.flatten(1) ** 2

    saliency = IntegratedGradients(steps=2)(
        Classifier(Square()), torch.tensor([[[[3.0]]]]), torch.tensor([0]), rng=Rng(seed=0, ids=("a",))
    )
    assert float(saliency) == pytest.approx(9.0, abs=1e-5)


def test_integrated_gradients_is_complete_on_a_smooth_network() -> None:
    net = plain(activation=nn.Tanh)
    rng = Rng(seed=2, ids=("a", "b"))
    inputs, targets = rng.normal("images", (3, SIDE, SIDE)), torch.tensor([4, 2])
    classifier = Classifier(net)
    total = IntegratedGradients()(classifier, inputs, targets, rng=rng).sum(dim=(1, 2))
    rise = classifier.logits(inputs) - classifier.logits(torch.zeros_like(inputs))
    torch.testing.assert_close(total, rise.gather(1, targets[:, None])[:, 0], rtol=1e-4, atol=1e-5)


class OneCell(nn.Module):
    """Means of 4×4 blocks as the feature map: a bright block is a single active cell."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.AvgPool2d(4)

    def forward(self, inputs: Tensor) -> Tensor:
        mean = self.blocks(inputs).mean(dim=(2, 3))
        return torch.cat([mean, -mean], dim=1)


@pytest.mark.parametrize("cell", [(0, 0), (2, 3), (5, 5), (0, 4)])
def test_grad_cam_puts_a_single_active_cell_where_it_is(cell: tuple[int, int]) -> None:
    row, column = cell
    inputs = torch.zeros(1, 1, 24, 24)
    inputs[0, 0, 4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = 1.0
    saliency = GradCam()(Classifier(OneCell(), channels=1), inputs, torch.tensor([0]), rng=Rng(seed=0, ids=("a",)))[0]
    top = saliency == saliency.max()
    places = torch.nonzero(top).float().mean(dim=0)
    if 0 < row < 5 and 0 < column < 5:  # at the border the hill is cut, and its top is wider
        assert places.tolist() == [4 * row + 1.5, 4 * column + 1.5]
        weight = saliency / saliency.sum()
        centre = (weight.sum(dim=1) @ torch.arange(24.0), weight.sum(dim=0) @ torch.arange(24.0))
        assert centre == pytest.approx((4 * row + 1.5, 4 * column + 1.5), abs=1e-4)
    inside = torch.zeros(24, 24, dtype=torch.bool)
    inside[4 * row : 4 * row + 4, 4 * column : 4 * column + 4] = True
    assert bool(inside[top].all())
    # What speaks against a class is cut off by the method's own ReLU.
    against = GradCam()(Classifier(OneCell(), channels=1), inputs, torch.tensor([1]), rng=Rng(seed=0, ids=("a",)))
    assert float(against.abs().max()) == 0


# Guided backpropagation and how a ReLU is written -------------------------------------------------------------------


@pytest.mark.parametrize("relu", ["functional", "reused", "in-place"])
def test_guided_backprop_does_not_care_how_a_relu_is_written(relu) -> None:
    expected = planted_batch(3)
    case = planted_batch(3, relu=relu)
    guided_map = GuidedBackprop(fold="sum")(expected.classifier, expected.inputs, expected.targets, rng=expected.rng)
    maps = GuidedBackprop(fold="sum")(case.classifier, case.inputs, case.targets, rng=case.rng)
    assert torch.equal(maps, guided_map)
    unguided = Gradient(fold="sum")(case.classifier, case.inputs, case.targets, rng=case.rng)
    assert float((maps - unguided).abs().max()) > 0.1 * float(unguided.abs().max())


class Calls(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.function = function

    def forward(self, values: Tensor) -> Tensor:
        return self.function(values)


@pytest.mark.parametrize(
    ("rectify", "ceiling"),
    [
        (functional.relu, math.inf),
        (torch.relu, math.inf),
        (lambda x: x.relu(), math.inf),
        (lambda x: x.clone().relu_(), math.inf),
        (lambda x: functional.relu(x.clone(), inplace=True), math.inf),
        (lambda x: x.clamp(min=0), math.inf),
        (lambda x: torch.clamp_min(x, 0), math.inf),
        (functional.relu6, 6.0),
        (nn.ReLU6(), 6.0),
        (lambda x: nn.ReLU6(inplace=True)(x.clone()), 6.0),
        (lambda x: functional.hardtanh(x, 0.0, 6.0), 6.0),
        (lambda x: x.clamp(0, 6), 6.0),
    ],
)
def test_only_positive_gradients_pass_an_open_rectifier(rectify, ceiling: float) -> None:
    values = torch.tensor([-1.0, 0.0, 3.0, 7.0], requires_grad=True)
    opened = torch.tensor([0.0, 0.0, 1.0, 1.0 if ceiling == math.inf else 0.0])
    for upstream, expected in ((2.0, 2 * opened), (-2.0, 0 * opened)):
        model = Calls(rectify)
        with intercepting(model, guided):
            out = model(values)
        assert torch.equal(out.detach(), values.detach().clamp(0, ceiling))
        (gradient,) = torch.autograd.grad(out, values, torch.full((4,), upstream))
        assert torch.equal(gradient, expected)


@pytest.mark.parametrize(
    ("activation", "word"),
    [
        (nn.SiLU, "cannot pass through silu at 1; "),
        (nn.Tanh, "cannot pass through tanh at 1; "),
        (nn.Identity, "no ReLU was seen in 'smooth'"),
    ],
)
def test_guided_backprop_refuses_what_it_is_not_defined_for(activation: type[nn.Module], word: str) -> None:
    classifier = Classifier(plain(activation=activation), name="smooth")
    inputs = torch.zeros(1, 3, SIDE, SIDE)
    for ask in (
        lambda: GuidedBackprop().prepare(classifier, inputs),
        lambda: SmoothGrad(of=GuidedBackprop()).prepare(classifier, inputs),
        lambda: GuidedBackprop()(classifier, inputs, torch.tensor([0]), rng=Rng(seed=0, ids=("a",))),
    ):
        with (
            classifier.counting() as ledger,
            pytest.raises(SnellenError, match=rf"guided-backprop .*{word}"),
        ):
            ask()
        assert ledger.passes.backward == 0


def test_grad_cam_refuses_a_layer_that_cannot_serve() -> None:
    classifier = Classifier(plain(), name="small")
    inputs = torch.zeros(1, 3, SIDE, SIDE)
    for layer, word in (("nowhere", "has no layer 'nowhere'"), ("7", "does not output a feature map")):
        with pytest.raises(SnellenError, match=word):
            GradCam(layer=layer).prepare(classifier, inputs)
    flat = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, CLASSES)))
    with pytest.raises(SnellenError, match=r"no layer of .* outputs a grid of features"):
        GradCam().prepare(flat, inputs)


# Wrapping and sharing -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "inner", [Gradient(), InputXGradient(), GradCam(), GuidedBackprop(), Occlusion(), Edge(), Rise(masks=20)]
)
def test_smoothing_without_noise_is_the_wrapped_method(inner) -> None:
    case = planted_batch(3)
    expected = inner(case.classifier, case.inputs, case.targets, rng=case.rng)
    mean = SmoothGrad(of=inner, samples=3, spread=0.0)(case.classifier, case.inputs, case.targets, rng=case.rng)
    square = SmoothGradSquared(of=inner, samples=3, spread=0.0)(case.classifier, case.inputs, case.targets, rng=case.rng)
    torch.testing.assert_close(mean, expected, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(square, expected**2, rtol=1e-4, atol=1e-6)


def test_nested_randomness_is_drawn_anew_for_every_copy() -> None:
    case = planted_batch(2)
    spread = VarGrad(of=Random(), samples=400)(case.classifier, case.inputs, case.targets, rng=case.rng)
    assert float(spread.mean()) == pytest.approx(1 / 12, rel=0.02)  # the variance of a uniform number
    nested = SmoothGrad(of=SmoothGrad(of=Random(), samples=2), samples=2)
    maps = nested(case.classifier, case.inputs, case.targets, rng=case.rng)
    assert float(maps.var()) == pytest.approx(1 / 48, rel=0.15)  # four independent draws


def test_a_wrapper_has_the_needs_and_traits_of_what_it_wraps() -> None:
    assert SmoothGrad(of=Rise()).traits.needs == frozenset()
    assert SmoothGrad(of=GuidedBackprop()).traits.needs == {"gradients", "relu"}
    assert SmoothGrad(of=InputXGradient()).traits.signed
    assert not SmoothGradSquared(of=InputXGradient()).traits.signed
    assert SmoothGrad().traits == SmoothGrad.traits


def test_gradient_and_input_x_gradient_share_one_pass() -> None:
    case = planted_batch(3)
    with case.classifier.counting() as ledger:
        Gradient()(case.classifier, case.inputs, case.targets, rng=case.rng)
        InputXGradient()(case.classifier, case.inputs, case.targets, rng=case.rng)
    assert (ledger.passes.forward, ledger.passes.backward) == (3, 3)
    assert (ledger.cached.forward, ledger.cached.backward) == (3, 3)


# Controls -----------------------------------------------------------------------------------------------------------


def test_controls_by_hand() -> None:
    classifier = Classifier(nn.Flatten(), mean=0.5, std=0.5)
    pixels = torch.zeros(1, 3, 5, 5)
    pixels[..., 3:] = 1.0  # a vertical step between columns 2 and 3
    inputs, targets, rng = classifier.to_inputs(pixels), torch.tensor([0]), Rng(seed=0, ids=("a",))
    edge = Edge()(classifier, inputs, targets, rng=rng)
    assert torch.allclose(edge, torch.tensor([0.0, 0.0, 4.0, 4.0, 0.0]).expand(1, 5, 5), atol=1e-5)
    fake = FakeCam()(classifier, inputs, targets, rng=rng)
    assert float(fake.sum()) == 24
    assert float(fake[0, 0, 0]) == 0
    centre = Centre(sigma=0.2)(classifier, inputs, targets, rng=rng)[0]
    line = np.exp(-0.5 * np.array([-2.0, -1.0, 0.0, 1.0, 2.0]) ** 2)  # steps of one fifth of the side
    np.testing.assert_allclose(centre.numpy(), np.outer(line, line), rtol=1e-5)
    noise = Random()(classifier, inputs.expand(2, -1, -1, -1), torch.tensor([0, 0]), rng=Rng(seed=0, ids=("a", "b")))
    assert not torch.equal(noise[0], noise[1])
    assert bool(((noise >= 0) & (noise < 1)).all())
