"""The layers with weights, in the order of a pass."""

from __future__ import annotations

import torch
from tests.variants.small_networks import net_of
from torch import nn

from snellen.classifier import Classifier, probes
from snellen.types import Rng
from snellen.variants.compressed import prune, quantise
from snellen.variants.randomised import randomise_layers
from snellen.variants.weight_layers import weight_layers


def test_layers_come_in_the_order_of_a_pass_not_of_their_names():
    class Turned(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(4, 3)
            self.norm = nn.BatchNorm1d(4)
            self.first = nn.Linear(192, 4)

        def forward(self, inputs):
            return self.last(self.norm(self.first(inputs.flatten(1))))

    layers = weight_layers(Classifier(Turned().eval()), (8, 8))
    assert [(layer.name, layer.modules) for layer in layers] == [("first", ("first", "norm")), ("last", ("last",))]


def test_a_layer_whose_weights_another_reads_follows_that_one():
    attention = nn.MultiheadAttention(4, 2, batch_first=True).eval()
    tokens = torch.rand(1, 3, 4)
    assert probes.call_order(attention, lambda: attention(tokens, tokens, tokens)) == ("", "out_proj")


def test_a_normalisation_over_several_axes_is_no_layer_with_weights():
    original = net_of(nn.Conv2d(3, 4, 3), nn.LayerNorm([4, 6, 6]), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    layers = weight_layers(original, (8, 8))
    assert [layer.modules for layer in layers] == [("0", "1"), ("4",)]
    variant = randomise_layers(original, layers, rng=Rng(0, ()))
    assert (variant.module[1].weight == 1).all()
    assert variant.module[1].bias.abs().max() == 0
    for other in (prune(original, 0.9), quantise(original, 2)):
        assert torch.equal(other.module[1].weight, original.module[1].weight)
