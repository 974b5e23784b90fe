"""Networks: the published sizes, every architecture, and weights that depend on the seed alone."""

from __future__ import annotations

import pytest
import torch

from snellen.errors import SnellenError
from snellen.textbox.networks.architectures import ARCHITECTURES, build_network


def test_the_published_networks_end_in_maps_of_seven_and_three() -> None:
    picture = torch.rand(2, 3, 64, 64)
    small = build_network("small-cnn", classes=2, side=64, seed=0)
    deep = build_network("deep-cnn", classes=2, side=64, seed=0)
    assert small.features(picture).shape == (2, 64, 7, 7)
    assert deep.features(picture).shape == (2, 64, 3, 3)
    assert [layer.out_features for layer in small.head if hasattr(layer, "out_features")] == [200, 2]
    assert [layer.out_features for layer in deep.head if hasattr(layer, "out_features")] == [200, 200, 2]


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_architecture_takes_any_number_of_classes_and_other_sizes(name: str) -> None:
    for classes, side in ((2, 64), (5, 96)):
        built = build_network(name, classes=classes, side=side, seed=0).eval()
        assert built(torch.rand(2, 3, side, side)).shape == (2, classes)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_weights_depend_on_the_seed_alone(name: str) -> None:
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    network, same, other = (build_network(name, classes=2, side=64, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.random.get_rng_state(), before)
    for (key, first), second in zip(network.state_dict().items(), same.state_dict().values(), strict=True):
        assert torch.equal(first, second), key
    assert any(not torch.equal(a, b) for a, b in zip(network.parameters(), other.parameters(), strict=True))


def test_refusals() -> None:
    with pytest.raises(SnellenError, match="there is no architecture 'resnet50'; did you mean 'resnet'"):
        build_network("resnet50", classes=2, side=64, seed=0)
    with pytest.raises(SnellenError, match="70 must be a multiple of 8"):
        build_network("vit-tiny", classes=2, side=70, seed=0)
    with pytest.raises(SnellenError, match="scenes of 20×20 are too small for deep-cnn; make them larger"):
        build_network("deep-cnn", classes=2, side=20, seed=0)
