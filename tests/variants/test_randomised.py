"""Variants with random layers."""

from __future__ import annotations

import pytest
import torch
from tests.variants.small_networks import NETS, SIZE, net_of, pictures
from torch import nn

from snellen.plugins.checks.planted import planted_batch
from snellen.types import Rng
from snellen.variants.randomised import randomise_in_turn, randomise_layers
from snellen.variants.weight_layers import weight_layers


@pytest.mark.parametrize("net", NETS)
def test_layers_randomised_in_turn_are_those_of_networks_made_one_by_one(net):
    """One copy serves all stages, so what a stage does not randomise must be as it was."""
    scene = planted_batch(2, kind=net)
    top, middle, *_ = weight_layers(scene.classifier, SIZE)[::-1]
    stages = [(top,), (top, middle), (middle,), (), (top,)]
    for stage, variant in zip(stages, randomise_in_turn(scene.classifier, stages, rng=scene.rng), strict=True):
        alone = randomise_layers(scene.classifier, stage, rng=scene.rng)
        assert variant.fingerprint == alone.fingerprint
        assert torch.equal(variant.logits(scene.inputs), alone.logits(scene.inputs))
    assert variant.fingerprint != scene.classifier.fingerprint


def test_randomised_layers_keep_the_size_of_what_passes_through():
    """After a dozen layers a network with default initial weights would put out next to nothing."""
    parts: list[nn.Module] = [nn.Flatten(), nn.Linear(192, 64), nn.ReLU()]
    for _ in range(20):
        parts += [nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU()]
    original = net_of(*parts, nn.Linear(64, 3))
    variant = randomise_layers(original, weight_layers(original, (8, 8)), rng=Rng(0, ()))
    assert 1e-2 < float(variant.logits(pictures()).abs().mean()) < 1e2
    norm = variant.module[4]
    assert norm.running_mean.abs().max() == 0
    assert (norm.running_var == 1).all()
    assert (norm.weight == 1).all()
    other = randomise_layers(original, weight_layers(original, (8, 8)), rng=Rng(1, ()))
    assert not torch.equal(other.module[1].weight, variant.module[1].weight)


def test_a_normalisation_without_scale_forgets_its_statistics():
    original = net_of(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, affine=False), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    layers = weight_layers(original, (8, 8))
    assert [layer.modules for layer in layers] == [("0", "1"), ("4",)]
    first, top = (
        randomise_layers(original, layers[:1], rng=Rng(0, ())),
        randomise_layers(original, layers[1:], rng=Rng(0, ())),
    )
    assert first.module[1].running_mean.abs().max() == 0
    assert (first.module[1].running_var == 1).all()
    assert torch.equal(top.module[1].running_mean, original.module[1].running_mean)
