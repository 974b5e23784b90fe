"""Path methods against PAIR's `saliency`, scipy, and answers by hand; and the presets that name PAIR's settings.

Maps are compared by their largest pixel, as in test_twins. PAIR works in double precision around a single-precision model,
so on smooth networks 1e-4 of the largest pixel is what rounding leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from saliency import core as pair
from saliency.core import guided_ig as pair_guided_ig
from scipy import ndimage
from tests.methods.problems import Problem, assert_same, photograph_problem, random_problem
from tests.networks import NETWORKS, SIDE
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.methods.blur_ig import BlurIG, blurs
from snellen.methods.guided_ig import GuidedIG, least
from snellen.methods.integrated_gradients import IntegratedGradients
from snellen.methods.smoothgrad import SmoothGradSquared
from snellen.plugins.registry import METHODS
from snellen.types import Output, Rng


def pair_attributions(problem: Problem, saliency: object, of: Output, **settings: object) -> Tensor:
    """PAIR's attributions with channels, for each picture."""
    masks = []
    for image, target in zip(problem.inputs, problem.targets, strict=True):
        model = pair_model(problem.net, int(target), of)
        masks.append(saliency.GetMask(image.movedim(0, 2).double().numpy(), model, **settings))  # type: ignore[attr-defined]
    return torch.from_numpy(np.stack(masks)).movedim(3, 1).float()


def pair_model(net: nn.Module, target: int, of: Output) -> Callable[..., dict[str, np.ndarray]]:
    """The model as PAIR wants it: channels last, one picture at a time."""

    def gradients(images: np.ndarray, call_model_args=None, expected_keys=None) -> dict[str, np.ndarray]:
        leaf = torch.tensor(images, dtype=torch.float32).movedim(3, 1).contiguous().requires_grad_()
        logits = net(leaf)
        output = logits if of == "logit" else logits.softmax(dim=1)
        (gradient,) = torch.autograd.grad(output[:, target].sum(), leaf)
        return {pair.INPUT_OUTPUT_GRADIENTS: gradient.movedim(1, 3).numpy()}

    return gradients


@pytest.fixture(params=sorted(NETWORKS))
def problem(request: pytest.FixtureRequest) -> Problem:
    """Without kinks: over many passes, rounding alone would open or close one of so many rectifiers."""
    return random_problem(request.param, nn.SiLU)


@pytest.fixture(scope="module")
def photograph() -> Problem:
    return photograph_problem()


@pytest.fixture
def old_quantile(monkeypatch: pytest.MonkeyPatch) -> None:
    """PAIR asks for a quantile in words that numpy no longer knows."""

    class Numpy:
        def __getattr__(self, name: str) -> object:
            return getattr(np, name)

        @staticmethod
        def quantile(values: np.ndarray, share: float, interpolation: str) -> np.ndarray:
            return np.quantile(values, share, method=interpolation)

    monkeypatch.setattr(pair_guided_ig, "np", Numpy())


# Blur ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("height", "width"), [(24, 24), (17, 40), (224, 224)])
def test_blur_matrices_are_scipys_filter(height: int, width: int) -> None:
    image = np.random.default_rng(0).standard_normal((height, width))
    sigmas = np.array([0.0, 0.1, 0.3, 0.5, 1.0, 2.25, 7.0, 21.5, 50.0])
    rows, columns = blurs(sigmas, height)[0].numpy(), blurs(sigmas, width)[0].numpy()
    rows_change, columns_change = blurs(sigmas, height)[1].numpy(), blurs(sigmas, width)[1].numpy()
    for i, sigma in enumerate(sigmas):
        expected = ndimage.gaussian_filter(image, sigma, mode="constant") if sigma else image
        np.testing.assert_allclose(rows[i] @ image @ columns[i].T, expected, atol=1e-12)
        wider = ndimage.gaussian_filter(image, sigma + 0.01, mode="constant")
        grown = (rows[i] + 0.01 * rows_change[i]) @ image @ (columns[i] + 0.01 * columns_change[i]).T
        np.testing.assert_allclose(grown, wider, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "max_sigma"), [(100, 50.0), (13, 6.0), (1, 3.0)])
def test_blur_ig_is_that_of_pair(problem: Problem, steps: int, max_sigma: float) -> None:
    maps = problem.explain(BlurIG(steps=steps, max_sigma=max_sigma))
    if steps == 1:  # the only step stands at the image itself, which a hundredth of a pixel of blur does not change
        assert torch.equal(maps, torch.zeros_like(maps))
        return
    expected = pair_attributions(problem, pair.BlurIG(), "logit", steps=steps, max_sigma=max_sigma)
    assert_same(maps, expected.sum(dim=1), 1e-4)


def test_blur_ig_with_the_settings_of_cose_is_that_of_pair(problem: Problem) -> None:
    expected = pair_attributions(problem, pair.BlurIG(), "probability", steps=100, max_sigma=50, grad_step=0.01, sqrt=False)
    assert_same(problem.explain(METHODS.build("blur-ig@cose2023")), expected.abs().sum(dim=1), 1e-4)


def test_blur_ig_of_a_photograph_is_that_of_pair(photograph: Problem) -> None:
    """Blurred areas are flat, so rounding switches whole areas of rectifiers, which some pixels show: 1e-3 for 99 in 100."""
    expected = pair_attributions(photograph, pair.BlurIG(), "logit", steps=8, max_sigma=8.0, batch_size=4).sum(dim=1)
    maps = photograph.explain(BlurIG(steps=8, max_sigma=8.0))
    assert_same(maps, expected, 0.03)
    off = (maps - expected).abs().flatten()
    assert float(off.kthvalue(int(0.99 * len(off))).values) <= 1e-3 * float(expected.abs().max())


def test_blur_ig_of_a_linear_model_is_weight_times_what_the_blur_took() -> None:
    """f(x) = w·x: every pixel gets w times its own change, from the widest blur to none, in the limit of many steps."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 12 * 12, 2))
    rng = Rng(seed=0, ids=("a",))
    inputs = rng.uniform("image", (3, 12, 12))
    far = torch.from_numpy(ndimage.gaussian_filter(inputs.double().numpy(), (0, 0, 6, 6), mode="constant")).float()
    expected = (net[1].weight[1].view(3, 12, 12) * (inputs - far)).sum(dim=1)
    maps = BlurIG(steps=3000, max_sigma=6.0)(Classifier(net), inputs, torch.tensor([1]), rng=rng)
    assert_same(maps, expected.detach(), 5e-3)


# Guided -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.usefixtures("old_quantile")
@pytest.mark.parametrize(
    ("steps", "fraction", "max_dist"), [(40, 0.25, 0.02), (25, 0.1, 0.1), (15, 0.5, 1.0), (10, 0.25, 0.0), (7, 1.0, 0.3)]
)
def test_guided_ig_is_that_of_pair(problem: Problem, steps: int, fraction: float, max_dist: float) -> None:
    expected = pair_attributions(problem, pair.GuidedIG(), "logit", x_steps=steps, fraction=fraction, max_dist=max_dist)
    maps = problem.explain(GuidedIG(steps=steps, fraction=fraction, max_dist=max_dist))
    # The value at the edge of the chosen fraction may be another one when two gradients differ in their last digit.
    assert_same(maps, expected.sum(dim=1), 1e-3)


@pytest.mark.slow
@pytest.mark.usefixtures("old_quantile")
def test_guided_ig_with_the_settings_of_cose_is_that_of_pair(problem: Problem) -> None:
    expected = pair_attributions(problem, pair.GuidedIG(), "probability", x_steps=200, fraction=0.25, max_dist=0.02)
    assert_same(problem.explain(METHODS.build("guided-ig@cose2023")), expected.abs().sum(dim=1), 1e-3)


@pytest.mark.usefixtures("old_quantile")
def test_guided_ig_of_a_photograph_is_that_of_pair(photograph: Problem) -> None:
    """Every kink that rounding moves may also turn the path, so single pixels differ; the maps as a whole do not."""
    expected = pair_attributions(photograph, pair.GuidedIG(), "logit", x_steps=8, max_dist=0.2).sum(dim=1)
    maps = photograph.explain(GuidedIG(steps=8, max_dist=0.2))
    assert float(torch.corrcoef(torch.stack([maps.flatten(), expected.flatten()]))[0, 1]) > 0.999


def test_guided_ig_without_room_is_the_straight_line(problem: Problem) -> None:
    """max_dist=0 leaves no choice: the left Riemann sum of integrated gradients."""
    total = torch.zeros_like(problem.inputs)
    for step in range(9):
        total += problem.classifier.gradient(problem.inputs * step / 9, problem.targets)[0] / 9
    maps = problem.explain(GuidedIG(steps=9, max_dist=0.0))
    assert_same(maps, (total * problem.inputs).sum(dim=1), 1e-4)


def test_guided_ig_ends_also_where_gradients_are_not_numbers() -> None:
    class Root(nn.Module):
        def forward(self, inputs: Tensor) -> Tensor:
            return inputs.flatten(1).sqrt()

    maps = GuidedIG(steps=3)(
        Classifier(Root(), channels=1), -torch.ones(1, 1, 2, 2), torch.tensor([0]), rng=Rng(seed=0, ids=("a",))
    )
    assert maps.shape == (1, 2, 2)
    assert bool(maps.isnan().any())


def test_guided_ig_of_a_linear_model_is_its_terms() -> None:
    """f(x) = w·x: whatever the path, a pixel's share is w times the pixel; pixels that do not move get none."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 12 * 12, 2))
    rng = Rng(seed=0, ids=("a", "b"))
    inputs = rng.normal("image", (3, 12, 12))
    inputs[:, :, :3] = 0
    inputs[1] = 0  # an image that is the baseline itself
    maps = GuidedIG(steps=11, max_dist=0.5)(Classifier(net), inputs, torch.tensor([1, 0]), rng=rng)
    expected = (net[1].weight[[1, 0]].view(2, 3, 12, 12) * inputs).sum(dim=1).detach()
    assert_same(maps, expected, 1e-5)
    assert float(maps[1].abs().max()) == 0


def test_the_least_steep_by_hand() -> None:
    """Half of five values: place 0.5 × 4 = 2 counted from zero; what is not free is left out, as infinitely steep."""
    for steepness, expected in (
        ([3.0, 1.0, 2.0, 5.0, 4.0], [True, True, True, False, False]),  # up to 3
        ([3.0, 2.0, 5.0, 4.0], [True, True, False, True]),  # up to 4
        ([2.0, 2.0, 2.0, 2.0, 1.0], [True] * 5),  # equals go together
        ([np.nan, 2.0, 5.0, 4.0, 1.0], [True, True, False, True, True]),  # what is not a number waits for nobody
        ([5.0], [True]),  # the bound is infinite
    ):
        assert least(np.array(steepness, dtype=np.float32), place=2).tolist() == expected


# Presets of methods that stand elsewhere ------------------------------------------------------------------------------


def test_integrated_gradients_with_the_settings_of_cose_is_that_of_pair_up_to_quadrature(problem: Problem) -> None:
    """25 points on the line: ours are Gauss-Legendre nodes, PAIR's are equally spaced; both meet where many are taken."""
    maps = problem.explain(METHODS.build("integrated-gradients@cose2023"))
    few = pair_attributions(problem, pair.IntegratedGradients(), "probability", x_steps=25).abs().sum(dim=1)
    many = (
        pair_attributions(problem, pair.IntegratedGradients(), "probability", x_steps=1000, batch_size=250).abs().sum(dim=1)
    )
    assert_same(maps, few, 0.05)
    assert_same(maps, many, 2e-3)
    assert float((maps - many).abs().max()) < float((few - many).abs().max())


def test_smoothgrad_squared_with_settings_of_cose_is_that_of_pair(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same noise on both sides: PAIR's square is taken per channel, and its picture adds the channels up."""
    method = METHODS.build("smoothgrad-squared@cose2023")
    assert isinstance(method, SmoothGradSquared)
    assert (method.samples, method.spread) == (50, 0.15)
    few = replace(method, samples=5)
    maps = problem.explain(few)
    for i, (image, target) in enumerate(zip(problem.inputs, problem.targets, strict=True)):
        copies = problem.rng[i : i + 1].child("smoothgrad").repeat(range(5))
        drawn = iter(copies.normal("noise", (3, SIDE, SIDE)).movedim(1, 3).numpy())
        monkeypatch.setattr(np.random, "normal", lambda mean, deviation, shape, drawn=drawn: deviation * next(drawn))
        expected = pair.GradientSaliency().GetSmoothedMask(
            image.movedim(0, 2).numpy(), pair_model(problem.net, int(target), "probability"), nsamples=5, stdev_spread=0.15
        )
        assert_same(maps[i], torch.from_numpy(expected).abs().sum(dim=2), 1e-4)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("blur-ig(steps=0)", "method 'blur-ig': steps must be at least 1, not 0"),
        ("blur-ig(max_sigma=0)", "method 'blur-ig': max_sigma must be positive, not 0.0"),
        ("guided-ig(fraction=0)", "method 'guided-ig': fraction must lie above 0 and up to 1, not 0.0"),
        ("guided-ig(max_dist=2)", "method 'guided-ig': max_dist must lie between 0 and 1, not 2.0"),
    ],
)
def test_wrong_settings_get_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(SnellenError) as caught:
        METHODS.parse(text)
    assert str(caught.value) == sentence


def test_presets_are_what_the_papers_ran() -> None:
    assert METHODS.build("blur-ig@cose2023") == BlurIG(steps=100, max_sigma=50.0, of="probability", fold="absolute-sum")
    assert METHODS.build("guided-ig@cose2023") == GuidedIG(
        steps=200, fraction=0.25, max_dist=0.02, of="probability", fold="absolute-sum"
    )
    assert METHODS.build("integrated-gradients@cose2023") == IntegratedGradients(
        steps=25, of="probability", fold="absolute-sum"
    )
