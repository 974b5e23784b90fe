"""Pruned and quantised variants."""

from __future__ import annotations

import pytest
import torch
from tests.variants.small_networks import net_of
from torch import nn

from snellen.variants.compressed import prune, quantise


def test_pruning_takes_the_smallest_weights_of_all_layers_together():
    original = net_of(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    variant = prune(original, 0.25)
    before = torch.cat([original.module[0].weight.flatten(), original.module[3].weight.flatten()])
    after = torch.cat([variant.module[0].weight.flatten(), variant.module[3].weight.flatten()])
    assert int((after == 0).sum()) == int(0.25 * len(before))
    assert before[after == 0].abs().max() < before[after != 0].abs().min()
    assert torch.equal(before[after != 0], after[after != 0])
    assert torch.equal(original.module[0].bias, variant.module[0].bias)


@pytest.mark.parametrize("share", [0.2, 0.3, 0.9])
def test_pruning_takes_its_share_of_equal_weights_too(share):
    original = net_of(nn.Flatten(), nn.Linear(192, 5), nn.ReLU(), nn.Linear(5, 3))
    with torch.no_grad():
        for layer in (original.module[1], original.module[3]):
            layer.weight.sign_()
    variant = prune(original, share)
    assert sum(int((variant.module[place].weight == 0).sum()) for place in (1, 3)) == int(share * (192 * 5 + 15))


def test_rounding_leaves_few_values_per_channel():
    original = net_of(nn.Conv2d(3, 4, 5), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3))
    variant = quantise(original, 3)
    for before, after in zip(original.module[0].weight, variant.module[0].weight, strict=True):
        assert len(after.unique()) <= 7
        assert (before - after).abs().max() <= before.abs().max() / 3 / 2 + 1e-6
