"""Variants are copies: the original is never changed, and its ledgers count their passes."""

from __future__ import annotations

import copy

import pytest
import torch
from tests.variants.small_networks import NETS, SIZE

from snellen.plugins.checks.planted import planted_batch
from snellen.variants.compressed import prune, quantise
from snellen.variants.randomised import randomise_layers
from snellen.variants.recombined import mix_classes, shift_inputs, sum_classifiers
from snellen.variants.rewrites import possible_rewrites, rewrite
from snellen.variants.weight_layers import weight_layers


@pytest.mark.parametrize("net", NETS)
def test_the_original_is_never_changed(net):
    scene = planted_batch(2, kind=net)
    before = copy.deepcopy(scene.classifier.module.state_dict())
    mean, stamp = scene.classifier.mean.clone(), scene.classifier.fingerprint
    layers = weight_layers(scene.classifier, SIZE)
    variants = [
        randomise_layers(scene.classifier, layers, rng=scene.rng),
        prune(scene.classifier, 0.99),
        quantise(scene.classifier, 4),
        mix_classes(scene.classifier, 0.5, SIZE),
        shift_inputs(scene.classifier, -1.0, SIZE),
        sum_classifiers(scene.classifier, randomise_layers(scene.classifier, layers[:1], rng=scene.rng), 0.5),
        *(rewrite(scene.classifier, way, SIZE) for way in possible_rewrites(scene.classifier, SIZE)),
    ]
    for name, value in scene.classifier.module.state_dict().items():
        assert torch.equal(value, before[name]), name
    assert torch.equal(scene.classifier.mean, mean)
    modules = scene.classifier.module.modules()
    assert not any(list(module._forward_pre_hooks) + list(module._forward_hooks) for module in modules)
    prints = [stamp, *(variant.fingerprint for variant in variants)]
    assert len(set(prints)) == len(prints)


@pytest.mark.parametrize("net", NETS)
def test_making_variants_is_not_counted_and_their_passes_are(net):
    scene = planted_batch(2, kind=net)
    with scene.classifier.counting() as ledger:
        variant = rewrite(scene.classifier, "permuted", SIZE)
        shift_inputs(scene.classifier, -1.0, SIZE)
        assert ledger.passes.forward == 0
        variant.logits(scene.inputs)
    assert ledger.passes.forward == 2
