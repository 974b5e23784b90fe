from __future__ import annotations

import pytest
import torch
from torch import nn

from snellen.classifier import Classifier
from snellen.plugins.checks.planted import NetworkKind, planted_batch
from snellen.zoo import load_classifier


@pytest.mark.parametrize(
    ("net", "layers"), [("cnn", ("second", "first")), ("resnet", ("layer2.skip", "layer1")), ("vit", ("blocks.0",))]
)
def test_earlier_layers_of_the_planted_networks(net: NetworkKind, layers: tuple[str, ...]) -> None:
    case = planted_batch(1, kind=net)
    last = case.classifier.feature_layer(case.inputs)
    assert case.classifier.layer_layouts(case.inputs).earlier_layers(last) == layers
    for layer in layers:
        assert case.classifier.layer_shape(case.inputs, layer)  # methods can look there


def test_the_ends_of_the_finer_scales_come_first() -> None:
    classifier = load_classifier("efficientnet-lite0")
    inputs = torch.zeros(1, 3, 224, 224)
    survey = classifier.layer_layouts(inputs)
    layers = survey.earlier_layers(classifier.feature_layer(inputs))
    assert layers == ("blocks.10", "blocks.4", "blocks.2")  # blocks, and not the padding or the expansion inside the next
    assert [classifier.layer_shape(inputs, layer)[1] for layer in layers] == [14, 28, 56]
    assert survey.earlier_layers(layers[0])[0] == "blocks.4"


def test_the_end_of_a_layer_is_not_an_earlier_one() -> None:
    body = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()))
    classifier = Classifier(nn.Sequential(body, nn.Flatten(), nn.Linear(4 * 64, 2)))
    inputs = torch.zeros(1, 3, 8, 8)
    layers = classifier.layer_layouts(inputs).earlier_layers("0")
    assert len(layers) == 2
    assert not {"0", "0.2", "0.2.1"} & set(layers)  # the same numbers under another name
    assert classifier.layer_layouts(inputs).earlier_layers("0.0") == ()
    assert classifier.layer_layouts(inputs).earlier_layers("2") == ()
