"""Class-activation methods against pytorch-grad-cam and captum, against loops written out, and against hand-worked answers.

pytorch-grad-cam is asked for its weighted grids, before it stretches them to [0, 1] and draws them out; both agree to 1e-5
of the largest value.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import captum.attr
import pytest
import torch
from tests.methods import problems
from tests.methods.problems import Problem, photograph_problem, random_problem
from tests.networks import CLASSES, NETWORKS, SIDE, plain, residual
from torch import Tensor, nn
from torch.nn import functional

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.methods.ablation_cam import AblationCam
from snellen.methods.cam import Cam
from snellen.methods.class_activation import upsample
from snellen.methods.eigen_cam import EigenCam
from snellen.methods.grad_cam import GradCam
from snellen.methods.grad_cam_plus_plus import GradCamPlusPlus
from snellen.methods.guided_backprop import GuidedBackprop
from snellen.methods.guided_grad_cam import GuidedGradCam
from snellen.methods.hires_cam import HiResCam
from snellen.methods.layer_cam import LayerCam
from snellen.methods.score_cam import ScoreCam
from snellen.methods.xgrad_cam import XGradCam
from snellen.plugins.checks.planted import planted_batch
from snellen.plugins.registry import METHODS
from snellen.types import Method, Passes, Rng

pytestmark = pytest.mark.filterwarnings(
    "ignore:Input Tensor 0 did not already require gradients"
)  # captum, of its own doing


@pytest.fixture(params=sorted(NETWORKS))
def problem(request: pytest.FixtureRequest) -> Problem:
    return random_problem(request.param)


@pytest.fixture(scope="module")
def photograph() -> Problem:
    return photograph_problem()


assert_same = partial(problems.assert_same, share=1e-5)


# pytorch-grad-cam -----------------------------------------------------------------------------------------------------


def twin_grids(name: str, problem: Problem) -> Tensor:
    """pytorch-grad-cam's own grids, as they are before any stretching."""
    import pytorch_grad_cam
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

    targets = [ClassifierOutputTarget(target) for target in problem.targets.tolist()]
    kept = []
    with getattr(pytorch_grad_cam, name)(problem.net, [problem.net.get_submodule(problem.layer)]) as twin:
        own = twin.get_cam_image
        twin.get_cam_image = lambda *args, **kwargs: kept.append(own(*args, **kwargs)) or kept[0]
        twin(problem.inputs.clone(), targets=targets)
    return torch.from_numpy(kept[0]).float()


TWINS: dict[str, Method] = {
    "GradCAM": GradCam(),
    "GradCAMPlusPlus": METHODS.build("grad-cam++@zhang2024"),
    "XGradCAM": XGradCam(),
    "LayerCAM": LayerCam(),
    "HiResCAM": HiResCam(),
    "AblationCAM": AblationCam(),
    "ScoreCAM": METHODS.build("score-cam@zhang2024"),
}


@pytest.mark.usefixtures("torchvision")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(TWINS))
def test_maps_are_pytorch_grad_cams_before_its_stretching(problem: Problem, name: str) -> None:
    # Nobody publishes an early layer, but signs and rectifiers show there: also the first layer with places.
    for layer in (problem.layer, "1"):
        if layer == "1" and name == "AblationCAM" and problem.layer == "2":
            continue
        at_layer = replace(problem, layer=layer)
        method = METHODS.build(TWINS[name].traits.name, {**vars(TWINS[name]), "layer": layer})
        expected = upsample(twin_grids(name, at_layer).relu(), at_layer.inputs)
        assert_same(at_layer.explain(method), expected)


@pytest.mark.usefixtures("torchvision")
@pytest.mark.filterwarnings("ignore")
def test_centred_eigen_cam_is_pytorch_grad_cams_with_its_sign_settled(problem: Problem) -> None:
    grids = twin_grids("EigenCAM", problem)
    flip = grids.amin(dim=(1, 2)).abs() > grids.amax(dim=(1, 2))
    expected = upsample(torch.where(flip[:, None, None], -grids, grids), problem.inputs)
    assert_same(problem.explain(EigenCam(centred=True)), expected)
    early = replace(problem, layer="0")
    grids = twin_grids("EigenCAM", early)  # more places than features: the other Gram matrix
    flip = grids.amin(dim=(1, 2)).abs() > grids.amax(dim=(1, 2))
    expected = upsample(torch.where(flip[:, None, None], -grids, grids), problem.inputs)
    assert_same(problem.explain(EigenCam(layer="0", centred=True)), expected)


@pytest.mark.usefixtures("torchvision")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in sorted(TWINS) if name not in ("ScoreCAM", "AblationCAM")])
def test_photograph_maps_are_pytorch_grad_cams(photograph: Problem, name: str) -> None:
    expected = upsample(twin_grids(name, photograph).relu(), photograph.inputs)
    assert_same(photograph.explain(TWINS[name]), expected)


@pytest.mark.filterwarnings("ignore:Setting backward hooks on ReLU activations")
def test_guided_grad_cam_is_that_of_captum(problem: Problem) -> None:
    net = copy.deepcopy(problem.net)
    twin = captum.attr.GuidedGradCam(net, net.get_submodule(problem.layer))
    expected = twin.attribute(problem.inputs, problem.targets, interpolate_mode="bilinear").detach()
    assert_same(problem.explain(GuidedGradCam(fold="sum")), expected.sum(dim=1), share=1e-4)
    assert_same(problem.explain(GuidedGradCam()), expected.abs().amax(dim=1), share=1e-4)


# Written out ------------------------------------------------------------------------------------------------------------


def test_score_cam_is_a_loop_over_masks(problem: Problem) -> None:
    kept: list[Tensor] = []
    handle = problem.net.get_submodule(problem.layer).register_forward_hook(lambda *args: kept.append(args[2].clone()))
    with torch.no_grad():
        problem.net(problem.inputs)
    handle.remove()
    for of in ("logit", "probability"):
        grids = []
        for image, target, features in zip(problem.inputs, problem.targets, kept[0], strict=True):
            scores = []
            for feature in features:
                mask = functional.interpolate(feature[None, None], (SIDE, SIDE), mode="bilinear")[0, 0]
                if float(feature.max() - feature.min()) == 0:
                    mask = torch.zeros_like(mask)
                else:
                    mask = (mask - mask.min()) / (mask.max() - mask.min())
                with torch.no_grad():
                    logits = problem.net((image * mask)[None])[0]
                scores.append(logits[target] if of == "logit" else logits.softmax(dim=0)[target])
            weights = torch.stack(scores).softmax(dim=0)
            grids.append(sum(w * f for w, f in zip(weights, features, strict=True)))
        assert_same(problem.explain(ScoreCam(of=of)), upsample(torch.stack(grids).relu(), problem.inputs))


@pytest.mark.parametrize("layer", ["5", "3", "0"])
def test_ablation_cam_is_a_loop_over_whole_passes(layer: str) -> None:
    """Also behind a layer with negative activations, where zero stands for "gone" as in the paper."""
    net, rng = plain(), Rng(seed=1, ids=("a", "b"))
    inputs, targets = rng.normal("images", (3, SIDE, SIDE)), torch.tensor([0, 3])
    head, rest = net[: int(layer) + 1], net[int(layer) + 1 :]
    grids = []
    with torch.no_grad():
        for image, target in zip(inputs, targets, strict=True):
            features = head(image[None])
            whole = rest(features)[0, target]
            total = torch.zeros_like(features[0, 0])
            for k in range(features.shape[1]):
                without = features.clone()
                without[0, k] = 0
                total += (whole - rest(without)[0, target]) / whole * features[0, k]
            grids.append(total.relu())
    maps = AblationCam(layer=layer)(Classifier(net), inputs, targets, rng=rng)
    assert_same(maps, upsample(torch.stack(grids), inputs), share=1e-4)  # small differences of logits


def test_eigen_cam_is_the_papers_projection(problem: Problem) -> None:
    kept: list[Tensor] = []
    handle = problem.net.get_submodule(problem.layer).register_forward_hook(lambda *args: kept.append(args[2].clone()))
    with torch.no_grad():
        problem.net(problem.inputs)
    handle.remove()
    grids = []
    for features in kept[0].double():
        places = features.flatten(1).T
        _, _, right = torch.linalg.svd(places, full_matrices=False)
        grid = (places @ right[0]).view(features.shape[1:])
        grids.append((grid if grid.abs().max() == grid.max() else -grid).float())
    assert_same(problem.explain(EigenCam()), upsample(torch.stack(grids), problem.inputs))


def test_grad_cam_plus_plus_without_epsilon_does_not_depend_on_the_scale_of_features(problem: Problem) -> None:
    """Features a thousand times as large, read by weights a thousand times as small: the same network, the same map.

    The weights go down as the features go up, so the map stays; a constant in the denominator would be felt.
    """
    net = plain()
    scaled = copy.deepcopy(net)
    with torch.no_grad():
        scaled[3].weight *= 1000
        scaled[3].bias *= 1000
        scaled[7].weight /= 1000
    inputs, targets, rng = problem.inputs, problem.targets, problem.rng
    expected = GradCamPlusPlus()(Classifier(net), inputs, targets, rng=rng)
    assert_same(GradCamPlusPlus()(Classifier(scaled), inputs, targets, rng=rng), expected, share=1e-4)
    moved = GradCamPlusPlus(epsilon=1e-6)(Classifier(scaled), inputs, targets, rng=rng)
    assert float((moved - expected).abs().max()) > 0.1 * float(expected.max())


# Worked by hand ---------------------------------------------------------------------------------------------------------


def test_cam_has_the_logit_as_its_mean() -> None:
    net, rng = residual(), Rng(seed=1, ids=("a", "b"))
    inputs, targets = rng.normal("images", (3, SIDE, SIDE)), torch.tensor([4, 2])
    classifier = Classifier(net)
    head = net[5]
    with torch.no_grad():
        features = net[:3](inputs)
        grids = torch.einsum("bk,bkij->bij", head.weight[targets], features)
        logits = classifier.logits(inputs).gather(1, targets[:, None])[:, 0]
    torch.testing.assert_close(grids.mean(dim=(1, 2)) + head.bias[targets], logits, rtol=1e-4, atol=1e-5)
    assert_same(Cam()(classifier, inputs, targets, rng=rng), upsample(grids, inputs))


def test_hires_cam_sums_to_the_logit_behind_one_linear_layer() -> None:
    """f = Σ w·a with w, a ≥ 0: nothing is cut by the ReLU, and bilinear drawing-out by whole numbers keeps the mean."""
    net = plain()
    with torch.no_grad():
        net[7].weight.abs_()
    rng = Rng(seed=1, ids=("a", "b"))
    inputs, targets = rng.normal("images", (3, SIDE, SIDE)), torch.tensor([4, 2])
    maps = HiResCam(layer="5")(Classifier(net), inputs, targets, rng=rng)
    with torch.no_grad():
        logits = net(inputs).gather(1, targets[:, None])[:, 0]
    torch.testing.assert_close(maps.sum(dim=(1, 2)) / 16 + net[7].bias.detach()[targets], logits, rtol=1e-4, atol=1e-4)


class Cells(nn.Module):
    """Means over a 7×7 grid of any image as the feature map, brighter and darker; a bright block is one active cell."""

    def __init__(self) -> None:
        super().__init__()
        self.cells = nn.AdaptiveAvgPool2d(7)
        self.relu = nn.ReLU()
        self.head = nn.Linear(2, 2)
        with torch.no_grad():
            self.head.weight.copy_(torch.tensor([[1.0, -0.2], [-1.0, 0.5]]))
            self.head.bias.zero_()

    def forward(self, inputs: Tensor) -> Tensor:
        features = self.relu(torch.cat([self.cells(inputs), -self.cells(inputs)], dim=1))
        return self.head(features.mean(dim=(2, 3)))


CAMS: list[Method] = [
    Cam(), GradCam(), GradCamPlusPlus(), ScoreCam(), ScoreCam(corners=True), AblationCam(), EigenCam(),
    EigenCam(centred=True), LayerCam(), XGradCam(), HiResCam(),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("method", CAMS, ids=str)
@pytest.mark.parametrize("size", [(224, 224), (150, 213)])
@pytest.mark.parametrize("cell", [(1, 5), (4, 2)])
def test_a_single_active_cell_is_drawn_where_it_is(method: Method, size: tuple[int, int], cell: tuple[int, int]) -> None:
    height, width = size
    (row, column), (tall, wide) = cell, (height / 7, width / 7)
    inputs = torch.zeros(1, 1, *size)
    # Well inside its cell, so that cells that overlap by a pixel do not see it.
    inputs[0, 0, int(row * tall) + 2 : int((row + 1) * tall) - 1, int(column * wide) + 2 : int((column + 1) * wide) - 1] = (
        1.0
    )
    saliency = method(Classifier(Cells(), channels=1), inputs, torch.tensor([0]), rng=Rng(seed=0, ids=("a",)))[0]
    weight = (saliency - saliency.min()).double()
    weight /= weight.sum()
    middle = (weight.sum(dim=1) @ torch.arange(height).double(), weight.sum(dim=0) @ torch.arange(width).double())
    # A pixel's own centre lies half a pixel from its corner. A cell has 21 to 32 pixels: a shift by half of it shows.
    assert float(middle[0]) == pytest.approx((row + 0.5) * tall - 0.5, abs=0.05)
    assert float(middle[1]) == pytest.approx((column + 0.5) * wide - 0.5, abs=0.05)


def test_guided_grad_cam_is_zero_where_grad_cam_is() -> None:
    case = planted_batch(3)
    place = GradCam()(case.classifier, case.inputs, case.targets, rng=case.rng)
    fine = GuidedBackprop()(case.classifier, case.inputs, case.targets, rng=case.rng)
    maps = GuidedGradCam()(case.classifier, case.inputs, case.targets, rng=case.rng)
    assert torch.equal(maps, place * fine)
    assert bool((maps > 0).any())


# Refusals ---------------------------------------------------------------------------------------------------------------


def head(*modules: nn.Module) -> Classifier:
    return Classifier(nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), *modules), name="small")


@pytest.mark.parametrize(
    ("classifier", "word"),
    [
        (head(nn.Flatten(), nn.Linear(4 * SIDE * SIDE, 3)), "cam cannot pass through linear at 3; "),
        (head(nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(4, 3)), "cam cannot pass through adaptive_max_pool2d at 2; "),
        (
            head(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3)),
            "cam cannot pass through relu at 5; ",
        ),
        (head(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 4), nn.Linear(4, 3)), "cannot pass through linear at 5; "),
        (head(nn.AdaptiveAvgPool2d(1), nn.Flatten()), "cam found no linear layer behind a mean in 'small'; "),
    ],
)
def test_cam_refuses_another_head_by_name(classifier: Classifier, word: str) -> None:
    for ask in (
        lambda: Cam(layer="1").prepare(classifier, torch.zeros(1, 3, SIDE, SIDE)),
        lambda: Cam(layer="1")(classifier, torch.zeros(1, 3, SIDE, SIDE), torch.tensor([0]), rng=Rng(seed=0, ids=("a",))),
    ):
        with pytest.raises(SnellenError, match=word):
            ask()


def test_cam_refuses_a_mean_over_some_places() -> None:
    classifier = head(nn.AvgPool2d(SIDE // 2), nn.Flatten(), nn.Linear(16, 3))
    with pytest.raises(SnellenError, match="is not one over all positions; use grad-cam"):
        Cam(layer="1")(classifier, torch.ones(1, 3, SIDE, SIDE), torch.tensor([0]), rng=Rng(seed=0, ids=("a",)))


def test_guided_grad_cam_refuses_other_activations() -> None:
    classifier = Classifier(plain(activation=nn.SiLU))
    with pytest.raises(SnellenError, match="guided-grad-cam cannot pass through silu at 1; "):
        GuidedGradCam().prepare(classifier, torch.zeros(1, 3, SIDE, SIDE))


# Sharing and skipping -----------------------------------------------------------------------------------------------------


def test_all_variants_share_one_forward_and_backward() -> None:
    rng = Rng(seed=1, ids=("a", "b"))
    inputs, targets = rng.normal("images", (3, SIDE, SIDE)), torch.tensor([4, 2])
    classifier = Classifier(residual())
    variants: list[Any] = [GradCam(), Cam(), GradCamPlusPlus(), LayerCam(), XGradCam(), HiResCam()]
    assert len({variant.cache_key() for variant in variants}) == 1
    with classifier.counting() as ledger:
        for method in (*variants, EigenCam(), AblationCam()):
            method(classifier, inputs, targets, rng=rng)
    assert ledger.passes == Passes(2, 2)
    assert ledger.cached == Passes(2 * 7, 2 * 5)
    with classifier.counting() as ledger:
        GuidedGradCam()(classifier, inputs, targets, rng=rng)
        GuidedBackprop()(classifier, inputs, targets, rng=rng)
    assert ledger.passes == Passes(2, 2)
    inputs.add_(1)  # other pictures at the same address
    with classifier.counting() as ledger:
        EigenCam()(classifier, inputs, targets, rng=rng)
    assert ledger.passes == Passes(2)


class Sparse(nn.Module):
    """Ten features of which two are always zero, three are multiples of one another, and two hold one cell each."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Identity()
        self.head = nn.Linear(10, 3)
        with torch.no_grad():
            self.head.weight.copy_(torch.arange(30.0).view(3, 10).sin())

    def forward(self, inputs: Tensor) -> Tensor:
        seen = functional.avg_pool2d(inputs, 4).abs()
        corner = torch.zeros_like(seen[:, :1])
        corner[:, :, 1, 2] = seen[:, :1, 1, 2]
        parts = [
            0 * seen[:, :2],
            seen[:, :1],
            2 * seen[:, :1],
            4 * seen[:, :1],
            corner,
            3 * corner,
            seen[:, 1:],
            seen[:, 1:2] ** 2,
        ]
        mean = self.features(torch.cat(parts, dim=1)).mean(dim=(2, 3))
        return self.head(mean)


def test_score_cam_asks_once_for_features_with_the_same_mask() -> None:
    rng = Rng(seed=1, ids=("a", "b"))
    inputs, targets = rng.normal("images", (3, 24, 24)), torch.tensor([1, 2])
    classifier = Classifier(Sparse())
    method = ScoreCam(layer="features")
    with classifier.counting() as ledger:
        maps = method(classifier, inputs, targets, rng=rng)
    # Zero; the three multiples; one cell; two more; a square: six masks for ten features.
    assert ledger.passes == 2 * Passes(1 + 6)
    assert method.passes((24, 24), classifier) == Passes(1 + 10)
    features = classifier.layer_features(inputs, "features")
    masks = functional.interpolate(features, (24, 24), mode="bilinear").flatten(0, 1)
    low, high = masks.amin(dim=(1, 2), keepdim=True), masks.amax(dim=(1, 2), keepdim=True)
    masks = (masks - low) / (high - low).clamp_min(1e-12)
    seen = inputs.repeat_interleave(10, 0) * masks[:, None]
    weights = classifier.logits(seen).gather(1, targets.repeat_interleave(10)[:, None]).view(2, 10).softmax(dim=1)
    assert_same(maps, upsample((weights[:, :, None, None] * features).sum(dim=1), inputs))


# Tails --------------------------------------------------------------------------------------------------------------------


class Rows(nn.Module):
    """A model that writes the number of rows into its shapes, works in place and starts from a parameter per image."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=4)
        self.relu = nn.ReLU(inplace=True)
        self.token = nn.Parameter(torch.linspace(-1, 1, 8).view(1, 1, 8))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        seen = self.relu(self.conv(inputs))
        seen = seen.view(seen.shape[0], 8, -1).transpose(1, 2)
        seen = torch.cat([self.token.expand(len(seen), -1, -1), seen], dim=1)
        seen += 1
        seen[:, 0] = 2 * seen[:, 1]
        return self.head(seen.mean(dim=1))


class Wired(nn.Module):
    """Something behind the layer also reads the image, or looks at values, or remembers them."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how = how
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.relu = nn.ReLU(inplace=how == "in-place")
        self.head = nn.Linear(4, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        before = self.conv(inputs)
        seen = self.relu(before)
        if self.how in ("residual", "in-place"):
            seen = seen + before
        elif self.how == "values" and bool(seen.mean() > 0.2):
            seen = 2 * seen
        elif self.how == "gradient-free":
            with torch.no_grad():
                seen = seen * seen.mean()
        return self.head(seen.mean(dim=(2, 3)))


@pytest.mark.parametrize(
    ("net", "layer", "whole"),
    [
        (lambda: plain(), "5", False),
        (lambda: plain(), "0", False),
        (lambda: plain(activation=lambda: nn.ReLU(inplace=True)), "0", False),
        (lambda: residual(), "2", False),
        (lambda: residual(), "1", False),
        (lambda: residual(), "2.body", True),
        (Rows, "conv", False),
        (Rows, "relu", False),
        (lambda: Wired("residual"), "relu", True),
        (lambda: Wired("in-place"), "relu", True),
        (lambda: Wired("values"), "relu", True),
        (lambda: Wired("gradient-free"), "relu", True),
        (lambda: Wired("none"), "conv", False),
    ],
)
def test_the_rest_of_the_model_gives_the_models_logits(net: Callable[[], nn.Module], layer: str, whole: bool) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        module = net().eval()
    classifier = Classifier(module)
    rng = Rng(seed=1, ids=tuple("abcde"))
    inputs = rng.normal("images", (3, SIDE, SIDE))
    features = classifier.layer_features(inputs, layer)
    kept = features.clone()
    assert (classifier.layer_to_logits(inputs, layer) is None) == whole
    everyone = torch.arange(5)
    with classifier.counting() as ledger:
        logits = classifier.resume(inputs, layer, features, everyone)
    assert ledger.passes == Passes(5 if whole else 0)
    assert ledger.seconds > 0
    assert torch.equal(features, kept)
    torch.testing.assert_close(logits, classifier.logits(inputs), rtol=1e-5, atol=1e-6)
    # Other activations, in another number of rows and another order, against the model with a changed layer.
    owners = torch.tensor([3, 3, 0, 4, 1, 1, 2])
    changed = features[owners] * torch.linspace(0.2, 1.5, 7).view(-1, 1, 1, 1)
    handle = module.get_submodule(layer).register_forward_hook(lambda *_: changed.clone())
    with torch.no_grad():
        expected = module(inputs[owners])
    handle.remove()
    torch.testing.assert_close(classifier.resume(inputs, layer, changed, owners), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("net", "layer"), [(lambda: Rows(), "conv"), (lambda: Wired("residual"), "relu"), (residual, "1")])
def test_gradients_flow_through_the_rest_of_the_model(net: Callable[[], nn.Module], layer: str) -> None:
    classifier = Classifier(net())
    rng = Rng(seed=1, ids=tuple("ab"))
    inputs, targets = rng.normal("images", (3, SIDE, SIDE)), torch.tensor([1, 4])
    features, expected = classifier.layer_gradient(inputs, targets, layer)
    start = features.clone().requires_grad_()
    logits = classifier.resume(inputs, layer, start, torch.arange(2))
    (gradient,) = torch.autograd.grad(logits.gather(1, targets[:, None]).sum(), start)
    torch.testing.assert_close(gradient, expected, rtol=1e-5, atol=1e-6)


def test_photograph_resumed_from_a_layer_gives_the_models_logits(photograph: Problem) -> None:
    features = photograph.classifier.layer_features(photograph.inputs, "head")
    with photograph.classifier.counting() as ledger:
        logits = photograph.classifier.resume(photograph.inputs, "head", features, torch.tensor([0]))
    assert ledger.passes == Passes()
    torch.testing.assert_close(logits, photograph.classifier.logits(photograph.inputs), rtol=1e-5, atol=1e-5)


def test_photograph_ablation_cam_has_a_formula_behind_one_linear_layer(photograph: Problem) -> None:
    """Without feature k, the logit falls by the head's weight times the feature's mean."""
    features = photograph.classifier.layer_features(photograph.inputs, "head")
    weights = photograph.net.get_submodule("classifier").weight.detach()[photograph.targets]
    logit = photograph.classifier.logits(photograph.inputs).gather(1, photograph.targets[:, None])
    lost = weights * features.mean(dim=(2, 3)) / logit
    expected = upsample((lost[:, :, None, None] * features).sum(dim=1).relu(), photograph.inputs)
    assert_same(photograph.explain(AblationCam()), expected, share=1e-4)  # differences of logits near 1e-3 of them


def test_tokens_go_through_the_whole_model() -> None:
    case = planted_batch(2, kind="vit")
    layer = case.classifier.feature_layer(case.inputs)
    assert case.classifier.layer_to_logits(case.inputs, layer) is None
    features = case.classifier.layer_features(case.inputs, layer)
    logits = case.classifier.resume(case.inputs, layer, features, torch.tensor([0, 1]))
    torch.testing.assert_close(logits, case.classifier.logits(case.inputs), rtol=1e-5, atol=1e-6)
    assert math.prod(case.classifier.layer_shape(case.inputs, layer)) == features[0].numel()
