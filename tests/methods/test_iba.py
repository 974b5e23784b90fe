"""Information bottleneck attribution against a slow version written from the formulas, and against what it must find."""

from __future__ import annotations

import math

import pytest
import torch
from tests.networks import CLASSES, NETWORKS, SIDE
from torch import Tensor, nn
from torch.nn import functional

from snellen import fit
from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.methods.iba import Iba
from snellen.plugins.checks.planted import planted_batch
from snellen.types import Rng


def split(name: str, net: nn.Sequential) -> tuple[str, nn.Module, nn.Module]:
    """A layer, what comes up to it, and what follows."""
    place = {"plain": 3, "residual": 1}[name]
    return str(place), net[: place + 1], net[place + 1 :]


def slow_bits(
    method: Iba, head: nn.Module, features: Tensor, seen: Tensor, target: int, rng: Rng, size: tuple[int, int]
) -> Tensor:
    """One image, an optimiser of torch's own, double precision, and a smoothing that pads and convolves."""
    mean, spread = seen.mean(dim=0).double(), seen.std(dim=0).double().clamp_min(0.01)
    used = ((seen != 0).double().mean(dim=0) > 0.01).double()
    features = features.double()
    channels = len(features)
    reach = round(2 * method.sigma)
    line = torch.exp(-(torch.arange(-reach, reach + 1).double() ** 2) / (2 * method.sigma**2))
    kernel = (line[:, None] * line / (line[:, None] * line).sum()).expand(channels, 1, -1, -1)

    def smooth(values: Tensor) -> Tensor:
        padded = functional.pad(values[None], [reach] * 4, mode="reflect")
        return functional.conv2d(padded, kernel, groups=channels)[0]

    def capacity(alpha: Tensor) -> Tensor:
        share = smooth(alpha.sigmoid())
        variance = (1 - share) ** 2
        centre = share * (features - mean) / spread
        return -0.5 * (1 + variance.log() - centre**2 - variance) * used

    alpha = torch.full_like(features, 5.0).requires_grad_()
    optimiser = torch.optim.Adam([alpha], lr=1.0)
    for step in range(method.steps):
        optimiser.zero_grad()
        share = smooth(alpha.sigmoid())
        noise = rng.repeat(range(method.samples)).normal(f"iba {step}", tuple(features.shape)).double()
        mixed = (share * features + (1 - share) * (spread * noise + mean)) * used
        lost = functional.cross_entropy(head(mixed.float()), torch.full((method.samples,), target))
        (lost.double() + method.beta * capacity(alpha).mean()).backward()
        optimiser.step()
    with torch.no_grad():
        bits = capacity(alpha).sum(dim=0) / math.log(2)
    bits = bits * bits.numel() / (size[0] * size[1])
    return functional.interpolate(bits[None, None].float(), size=size, mode="bilinear", align_corners=False)[0, 0]


@pytest.mark.parametrize("name", sorted(NETWORKS))
@pytest.mark.parametrize("settings", [{}, {"beta": 1.0, "steps": 4, "samples": 3, "sigma": 0.5}], ids=["default", "other"])
def test_agrees_with_a_slow_version(name: str, settings: dict[str, float]) -> None:
    net = NETWORKS[name](activation=nn.SiLU)  # without kinks, which rounding alone could move
    layer, body, head = split(name, net)
    rng = Rng(seed=2, ids=("a", "b", "c"))
    inputs, fitting_images = (
        rng.normal("images", (3, SIDE, SIDE)),
        Rng(7, tuple("pqrstuvw")).normal("lessons", (3, SIDE, SIDE)),
    )
    targets = torch.tensor([0, 3, CLASSES - 1])
    classifier = Classifier(net, rows=8)
    method = Iba(layer=layer, **settings)  # type: ignore[arg-type]
    classifier.fitted_state[method.fit_key()] = method.fit(classifier, fitting_images.split(3), rng=rng)
    maps = method(classifier, inputs, targets, rng=rng)
    with torch.no_grad():
        features, seen = body(inputs), body(fitting_images)
    for i, target in enumerate(targets.tolist()):
        expected = slow_bits(method, head, features[i], seen, target, rng[i : i + 1], (SIDE, SIDE))
        torch.testing.assert_close(maps[i], expected, rtol=1e-4, atol=1e-4 * float(expected.max()))


def test_statistics_are_those_of_all_images_whatever_the_batches() -> None:
    net = NETWORKS["residual"]()
    layer, body, _ = split("residual", net)
    images = Rng(3, tuple(str(i) for i in range(11))).normal("images", (3, SIDE, SIDE)) + 3
    method, classifier = Iba(layer=layer), Classifier(net)
    with torch.no_grad():
        features = body(images)
    for size in (1, 4, 11):
        state = method.fit(classifier, images.split(size), rng=Rng(0, ()))
        torch.testing.assert_close(state["mean"], features.mean(dim=0), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(state["spread"], features.std(dim=0), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(state["used"], (features != 0).float().mean(dim=0))


def test_beta_zero_keeps_all_information_and_a_high_beta_none() -> None:
    case = planted_batch(3)
    sums = []
    for beta in (0.0, 1e6):
        method = Iba(beta=beta, steps=20)
        classifier = planted_batch(3).classifier
        classifier.fitted_state[method.fit_key()] = method.fit(classifier, [planted_batch(12, seed=5).inputs], rng=case.rng)
        sums.append(method(classifier, case.inputs, case.targets, rng=case.rng).sum(dim=(1, 2)))
    assert bool((sums[1] < 0.02 * sums[0]).all())


def test_without_fitted_state_the_error_names_a_remedy_that_works() -> None:
    case = planted_batch(3)
    with pytest.raises(SnellenError) as caught:
        Iba(beta=1.0)(case.classifier, case.inputs, case.targets, rng=case.rng)
    assert str(caught.value) == (
        "iba(beta=1.0) is not fitted to any images yet for 'planted'; "
        'call snellen.fit(classifier, images, methods=["iba(beta=1.0)"]) first'
    )
    fit(case.classifier, case.pixels, methods=["iba(beta=1.0)"])
    maps = Iba(beta=1.0)(case.classifier, case.inputs, case.targets, rng=case.rng)
    assert bool((maps > 0).any())


def test_images_of_another_size_are_refused() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))
    classifier, method = Classifier(net), Iba()
    classifier.fitted_state[method.fit_key()] = method.fit(classifier, [torch.rand(4, 3, 8, 8)], rng=Rng(0, ()))
    with pytest.raises(SnellenError, match="iba was fitted to images of another size; fit it to images of 12×8 pixels"):
        method(classifier, torch.rand(1, 3, 12, 8), torch.tensor([0]), rng=Rng(0, ("a",)))


@pytest.mark.slow
def test_the_cameraman_is_explained_by_his_tripod() -> None:
    """The embedded classifier calls the picture a tripod: the lower middle must carry more than its share of bits."""
    from snellen import zoo

    classifier = zoo.load_classifier(zoo.EMBEDDED)
    photographs = zoo.photographs(classifier.geometry)
    place = next(i for i, name in enumerate(photographs.ids) if "camera" in name)
    inputs = classifier.to_inputs(photographs[place].image[None])
    targets = classifier.logits(inputs).argmax(dim=1)
    fit(classifier, photographs, methods=["iba"])
    maps = Iba()(classifier, inputs, targets, rng=Rng(0, ("camera",)))[0]
    assert bool((maps >= 0).all())
    assert float(maps[110:, 80:210].sum() / maps.sum()) > 1.5 * (114 * 130) / 224**2
