"""DeepSHAP and gradient-shap against shap, captum, loops over the same draws, and sums that must be met."""

from __future__ import annotations

import copy
from functools import partial

import captum.attr
import numpy as np
import pytest
import torch
from tests.methods import problems
from tests.networks import CLASSES, NETWORKS, SIDE, plain
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.maps.fills import Black, Noise
from snellen.methods.deepshap import DeepShap
from snellen.methods.gradient_shap import GradientShap
from snellen.plugins.registry import METHODS
from snellen.types import Rng

RNG = Rng(seed=1, ids=("a", "b", "c"))
INPUTS = RNG.normal("images", (3, SIDE, SIDE))
TARGETS = torch.tensor([0, 3, 1])
CROWD = Rng(seed=2, ids=tuple(map(str, range(40)))).normal("images", (3, SIDE, SIDE))


assert_same = partial(problems.assert_same, share=1e-4)


def fitted(net: nn.Module, method: DeepShap, images: Tensor, rows: int | None = None) -> Classifier:
    classifier = Classifier(net, rows=rows)
    classifier.fitted_state[method.fit_key()] = method.fit(classifier, [images], rng=RNG)
    return classifier


# DeepSHAP ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Setting forward, backward hooks", "ignore:Input Tensor 0 did not already")
@pytest.mark.parametrize("net", sorted(NETWORKS))
def test_deepshap_is_that_of_captum(net: str) -> None:
    network, method = NETWORKS[net](), DeepShap(backgrounds=6)
    expected = captum.attr.DeepLiftShap(copy.deepcopy(network)).attribute(INPUTS, CROWD[:6], target=TARGETS)
    for rows in (None, 2, 8):
        maps = method(fitted(network, method, CROWD[:6], rows), INPUTS, TARGETS, rng=RNG)
        assert_same(maps, expected.detach().sum(dim=1))


@pytest.mark.filterwarnings("ignore")  # shap's
def test_deepshap_is_that_of_shap() -> None:
    import shap

    network, method = (
        nn.Sequential(*[nn.MaxPool2d(2) if isinstance(layer, nn.AvgPool2d) else layer for layer in plain()]),
        DeepShap(),
    )
    expected = shap.DeepExplainer(copy.deepcopy(network), CROWD[:5]).shap_values(INPUTS)
    maps = method(fitted(network, method, CROWD[:5]), INPUTS, TARGETS, rng=RNG)
    rows = [
        torch.from_numpy(values[..., target].sum(axis=0)) for values, target in zip(expected, TARGETS.tolist(), strict=True)
    ]
    assert_same(maps, torch.stack(rows))


def test_deepshap_sums_to_the_rise_above_the_mean_background() -> None:
    network, method = NETWORKS["residual"](), DeepShap(backgrounds=7)
    classifier = fitted(network, method, CROWD)
    backgrounds = classifier.fitted_state[method.fit_key()]["backgrounds"]
    assert len(backgrounds) == 7
    rise = (classifier.logits(INPUTS) - classifier.logits(backgrounds).mean(dim=0)).gather(1, TARGETS[:, None])[:, 0]
    maps = method(classifier, INPUTS, TARGETS, rng=RNG)
    torch.testing.assert_close(maps.sum(dim=(1, 2)), rise, rtol=1e-3, atol=1e-4)


def test_the_choice_of_backgrounds_is_fair_and_does_not_depend_on_batches() -> None:
    method, classifier = DeepShap(backgrounds=4), Classifier(plain())
    numbered = torch.arange(20.0).view(20, 1, 1, 1).expand(20, 3, 2, 2)
    whole = method.fit(classifier, [numbered], rng=RNG)["backgrounds"]
    assert torch.equal(method.fit(classifier, numbered.split(3), rng=RNG[:1])["backgrounds"], whole)
    assert len(whole[:, 0, 0, 0].unique()) == 4
    counts = np.zeros(20)
    for seed in range(500):
        chosen = method.fit(classifier, [numbered], rng=Rng(seed, ()))["backgrounds"][:, 0, 0, 0]
        counts[chosen.long().numpy()] += 1
    # Each is chosen 100 times in the mean, with standard deviation 9.
    assert counts.sum() == 2000
    assert np.abs(counts - 100).max() < 40
    assert len(method.fit(classifier, [numbered[:3]], rng=RNG)["backgrounds"]) == 3


def test_deepshap_costs_one_pass_per_fitted_background() -> None:
    method = DeepShap(backgrounds=10)
    classifier = fitted(plain(), method, CROWD[:3])
    with classifier.counting() as ledger:
        method(classifier, INPUTS, TARGETS, rng=RNG)
    assert ledger.passes == 3 * method.passes((SIDE, SIDE), classifier)
    assert ledger.passes.forward == 3 * 3 * 2


def test_deepshap_refuses_missing_or_unfit_backgrounds() -> None:
    method = DeepShap()
    with pytest.raises(SnellenError, match="deepshap"):
        method(Classifier(plain()), INPUTS, TARGETS, rng=RNG)
    with pytest.raises(SnellenError, match="but there are none"):
        method.fit(Classifier(plain()), [], rng=RNG)
    with pytest.raises(SnellenError, match="backgrounds of 3×16×16, but the inputs are of 3×32×32"):
        method(fitted(plain(), method, CROWD[:, :, :16, :16]), INPUTS, TARGETS, rng=RNG)
    with pytest.raises(SnellenError, match="backgrounds must be at least 1, not 0"):
        METHODS.parse("deepshap(backgrounds=0)")
    assert METHODS.parse("deepshap@kim2022") == DeepShap(backgrounds=1000)


# gradient-shap -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [GradientShap(samples=7), GradientShap(9, 0.3, Noise(), "probability")])
def test_gradient_shap_is_a_loop_over_the_same_draws(method: GradientShap) -> None:
    net = plain(activation=nn.SiLU)
    classifier = Classifier(net)
    expected = torch.zeros(3, SIDE, SIDE)
    for i, (image, target) in enumerate(zip(INPUTS, TARGETS.tolist(), strict=True)):
        for sample in range(method.samples):
            draws = RNG[i : i + 1].child("gradient-shap").repeat([sample])
            noisy = image[None] + method.spread * draws.normal("noise", (3, SIDE, SIDE))
            start = method.baseline(classifier, noisy, rng=draws)
            point = (start + draws.uniform("point", (1,)).item() * (noisy - start)).requires_grad_()
            out = net(point) if method.of == "logit" else net(point).softmax(dim=1)
            (gradient,) = torch.autograd.grad(out[0, target], point)
            expected[i] += (gradient * (noisy - start))[0].sum(dim=0) / method.samples
    for rows in (None, 4, 16):
        assert_same(method(Classifier(net, rows=rows), INPUTS, TARGETS, rng=RNG), expected)


def test_gradient_shap_and_captums_have_the_same_mean() -> None:
    """Both draw their own points; with 2,000 each, the means agree to a few standard errors."""
    net = nn.Sequential(nn.Conv2d(1, 6, 3), nn.Tanh(), nn.Flatten(), nn.Linear(6 * 4, CLASSES))
    rng = Rng(3, ("one",))
    image, target = 3 * rng.normal("image", (1, 4, 4)), torch.tensor([2])
    ours = GradientShap(samples=2000, spread=0.5)(Classifier(net, channels=1), image, target, rng=rng)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        twin = captum.attr.GradientShap(net).attribute(
            image, torch.zeros_like(image), n_samples=2000, stdevs=0.5, target=target
        )
    assert_same(ours, twin.detach().sum(dim=1), share=0.1)


def test_gradient_shap_of_a_linear_model_is_exact() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE**2, CLASSES))
    expected = (net[1].weight[TARGETS].view_as(INPUTS) * INPUTS).detach().sum(dim=1)
    assert_same(GradientShap(samples=3)(Classifier(net), INPUTS, TARGETS, rng=RNG), expected, share=1e-5)


def test_gradient_shap_settings() -> None:
    assert METHODS.parse("gradient-shap@boggust2023") == GradientShap(samples=5)
    assert METHODS.parse("gradient-shap(baseline=black)") == GradientShap(baseline=Black())
    for text, sentence in {
        "gradient-shap(samples=0)": "method 'gradient-shap': samples must be at least 1, not 0",
        "gradient-shap(spread=-1)": "method 'gradient-shap': spread must not be negative, not -1.0",
    }.items():
        with pytest.raises(SnellenError) as caught:
            METHODS.parse(text)
        assert str(caught.value) == sentence
