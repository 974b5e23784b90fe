"""Feature layers, recording of layers, and layers of tokens."""

from __future__ import annotations

import pytest
import torch
from tests.networks import CLASSES, SIDE, plain, residual
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.plugins.checks.planted import PlantedCNN, planted_batch
from snellen.types import Rng

IDS = tuple("abcdefg")
RNG = Rng(seed=4, ids=IDS)


def images(count: int = 7, channels: int = 3) -> Tensor:
    return RNG[:count].normal("images", (channels, SIDE, SIDE))


def test_layers_that_cannot_be_recorded_are_refused() -> None:
    case = planted_batch(3, relu="reused")
    for layer, sentence in (
        ("nowhere", "'planted' has no layer 'nowhere'"),
        ("head", "layer 'head' of 'planted' does not output a feature map"),
        ("first", "layer 'first' of 'planted' runs more than once"),
    ):
        with pytest.raises(SnellenError, match=sentence):
            case.classifier.layer_gradient(case.inputs, case.targets, layer)


class Beside(nn.Module):
    """A network with a layer whose output it does not use."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.beside = nn.Conv2d(3, CLASSES, 3), nn.AdaptiveAvgPool2d(2)

    def forward(self, inputs: Tensor) -> Tensor:
        features = self.first(inputs)
        self.beside(features)
        return features.mean(dim=(2, 3))


def test_a_layer_on_which_the_outputs_do_not_depend_is_refused() -> None:
    classifier = Classifier(Beside(), name="net")
    with pytest.raises(SnellenError, match="the outputs of 'net' do not depend on its layer 'beside'; name another layer"):
        classifier.layer_gradient(images(2), torch.tensor([0, 1]), "beside")
    classifier.layer_gradient(images(2), torch.tensor([0, 1]), "first")


@pytest.mark.parametrize(("net", "layer"), [(plain(), "5"), (residual(), "2"), (PlantedCNN(), "pool")])
def test_the_feature_layer_is_the_last_one_with_places(net: nn.Module, layer: str) -> None:
    inputs = planted_batch(1).inputs if isinstance(net, PlantedCNN) else images(1)
    assert Classifier(net).feature_layer(inputs) == layer


class Tokens(nn.Module):
    """Patches as a row of tokens, with some that have no place before them; `step` is the distance of two patches."""

    def __init__(self, prefix: int = 0, step: int = 8, *, folded: bool = False) -> None:
        super().__init__()
        self.prefix, self.step, self.folded = prefix, step, folded
        self.patches = nn.Conv2d(3, 8, 8, stride=step)
        self.unfolded = nn.Linear(3 * 8 * 8, 8)
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        if self.folded:
            patches = self.unfolded(nn.functional.unfold(inputs, 8, stride=self.step).transpose(1, 2))
        else:
            patches = self.patches(inputs).flatten(2).transpose(1, 2)
        tokens = torch.cat([patches.new_ones(len(inputs), self.prefix, 8), patches], dim=1)
        return self.head(self.norm(tokens)[:, self.prefix :].mean(dim=1))


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("prefix", [0, 1, 2, 5])
@pytest.mark.parametrize("size", [(32, 32), (16, 48)])
def test_a_row_of_tokens_is_a_feature_map(prefix: int, folded: bool, size: tuple[int, int]) -> None:
    classifier = Classifier(Tokens(prefix, folded=folded))
    inputs = RNG[:2].normal("images", (3, *size))
    assert classifier.feature_layer(inputs) == "norm"
    features, gradient = classifier.layer_gradient(inputs, torch.tensor([0, 1]), "norm")
    net = classifier.module
    kernel = net.unfolded.weight.view(8, 3, 8, 8) if folded else net.patches.weight
    bias = net.unfolded.bias if folded else net.patches.bias
    grid = nn.functional.conv2d(inputs, kernel, bias, stride=8)
    expected = net.norm(grid.movedim(1, -1)).movedim(-1, 1)
    torch.testing.assert_close(features, expected, rtol=1e-4, atol=1e-5)
    rise = net.head.weight[:2, :, None, None] / (grid.shape[2] * grid.shape[3])
    torch.testing.assert_close(gradient, rise.expand_as(gradient), rtol=1e-4, atol=1e-6)


def test_tokens_without_a_grid_are_refused() -> None:
    flat = nn.Sequential(nn.Flatten(), nn.Linear(3 * SIDE * SIDE, CLASSES))
    with pytest.raises(SnellenError, match="no layer of 'Sequential' outputs a grid of features; name one with layer="):
        Classifier(flat).feature_layer(images(1))
    overlapping = Tokens(prefix=4, step=3, folded=True)  # 9 by 9 patches that do not tile the image
    with pytest.raises(SnellenError, match="no layer of 'Tokens' outputs a grid of features; name one with layer="):
        Classifier(overlapping).feature_layer(images(1))
    with pytest.raises(SnellenError, match="layer 'norm' of 'Tokens' does not output a feature map; name another layer"):
        Classifier(overlapping).layer_gradient(images(1), torch.tensor([0]), "norm")
