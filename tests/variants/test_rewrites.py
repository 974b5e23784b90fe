"""Rewrites compute the same function with other weights."""

from __future__ import annotations

import pytest
import torch
from tests.variants.small_networks import NETS, SIZE, net_of, pictures
from torch import nn

from snellen.maps.explainer import case_of
from snellen.metrics.axioms import ImplementationInvariance
from snellen.plugins.checks.planted import planted_batch
from snellen.plugins.registry import METHODS
from snellen.types import Rng
from snellen.variants.rewrites import REWRITES, possible_rewrites, rewrite


@pytest.mark.parametrize("net", NETS)
def test_rewrites_compute_the_same_function_with_other_weights(net):
    scene = planted_batch(4, kind=net)
    logits = scene.classifier.logits(scene.inputs)
    expected = {
        "cnn": {"permuted", "rescaled", "widened"},
        "resnet": set(REWRITES),
        "vit": {"permuted", "rescaled", "widened"},
    }
    assert set(possible_rewrites(scene.classifier, SIZE)) == expected[net]
    for way in possible_rewrites(scene.classifier, SIZE):
        variant = rewrite(scene.classifier, way, SIZE)
        torch.testing.assert_close(variant.logits(scene.inputs), logits, rtol=1e-5, atol=1e-5)
        assert variant.fingerprint != scene.classifier.fingerprint


def test_folding_leaves_no_normalisation_where_all_can_go():
    scene = planted_batch(1, kind="resnet")
    variant = rewrite(scene.classifier, "folded", SIZE)
    assert not any(isinstance(layer, nn.BatchNorm2d) for layer in variant.module.modules())


def test_channels_that_skip_a_layer_stay_in_place():
    """What enters a sum with something else cannot change places: only the inner channels of each block may."""
    scene = planted_batch(1, kind="resnet")
    variant = rewrite(scene.classifier, "permuted", SIZE)
    changed = {
        name
        for name, parameter in variant.module.named_parameters()
        if not torch.equal(parameter, scene.classifier.module.get_parameter(name))
    }
    inner = {"conv1.weight", "bn1.weight", "bn1.bias", "conv2.weight"}
    assert changed == {f"{block}.{part}" for block in ("layer1", "layer2") for part in inner}


@pytest.mark.parametrize(("activation", "passing"), [(nn.ReLU(), True), (nn.ReLU6(), False), (nn.GELU(), False)])
def test_factors_pass_a_rectifier_and_nothing_else(activation, passing):
    original = net_of(nn.Flatten(), nn.Linear(192, 5), activation, nn.Linear(5, 3))
    assert ("rescaled" in possible_rewrites(original, (8, 8))) == passing
    assert {"permuted", "widened"} <= set(possible_rewrites(original, (8, 8)))


def test_depthwise_convolutions_follow_their_channels():
    original = net_of(
        nn.Conv2d(3, 6, 1), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1, groups=6), nn.BatchNorm2d(6),
        nn.ReLU(), nn.Conv2d(6, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 3),
    )  # fmt: skip
    assert possible_rewrites(original, (8, 8)) == REWRITES
    for way in REWRITES:
        variant = rewrite(original, way, (8, 8))
        torch.testing.assert_close(variant.logits(pictures()), original.logits(pictures()), rtol=1e-5, atol=1e-5)
    assert not torch.equal(rewrite(original, "permuted", (8, 8)).module[3].weight, original.module[3].weight)
    assert rewrite(original, "widened", (8, 8)).module[3].groups == 12


class Rectifying(nn.BatchNorm2d):
    """A normalisation that does more than its base class, as timm's do."""

    def forward(self, inputs):
        return super().forward(inputs).relu()


def test_folding_keeps_what_a_normalisation_does_besides():
    original = net_of(nn.Conv2d(3, 6, 1), Rectifying(6), nn.Conv2d(6, 4, 1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 3))
    variant = rewrite(original, "folded", (8, 8))
    torch.testing.assert_close(variant.logits(pictures()), original.logits(pictures()), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(variant.module[0].weight, original.module[0].weight)
    assert (variant.module[1].weight == 1).all()


class Beside(nn.Module):
    """A branch that hardly counts beside what it is added to."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.first, self.second, self.scale = nn.Linear(192, 8), nn.Linear(8, 192), scale

    def forward(self, inputs):
        return inputs + self.scale * self.second(nn.functional.gelu(self.first(inputs)))


@pytest.mark.parametrize("scale", [1.0, 1e-9])
def test_a_rewrite_that_only_seems_exact_is_refused_by_what_it_passes(scale):
    """With such a small scale no logit would tell; but factors do not pass a GELU, and sums keep their channels."""
    original = net_of(nn.Flatten(), Beside(scale), nn.Linear(192, 3))
    assert possible_rewrites(original, (8, 8)) == ("permuted", "widened")
    variant = rewrite(original, "permuted", (8, 8))
    assert torch.equal(variant.module[2].weight, original.module[2].weight)
    assert not torch.equal(variant.module[1].first.weight, original.module[1].first.weight)


def test_a_network_without_hidden_channels_has_no_rewrite():
    original = net_of(nn.Flatten(), nn.Linear(192, 3))
    assert possible_rewrites(original, (8, 8)) == ()
    case = case_of(METHODS.build("gradient"), original, pictures(), torch.tensor([0, 1]), rng=Rng(0, ("a", "b")))
    assert ImplementationInvariance()(case, rng=Rng(0, ("a", "b"))).isnan().all()
