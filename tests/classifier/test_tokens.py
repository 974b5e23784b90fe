from __future__ import annotations

import pytest
import torch
from tests.planted import Kind, planted
from torch import nn

from snellen.classifier import Classifier
from snellen.zoo import load_classifier


@pytest.mark.parametrize(
    ("net", "layers"), [("cnn", ("second", "first")), ("resnet", ("layer2.skip", "layer1")), ("vit", ("blocks.0",))]
)
def test_earlier_layers_of_the_planted_networks(net: Kind, layers: tuple[str, ...]) -> None:
    case = planted(1, net=net)
    last = case.classifier.feature_layer(case.inputs)
    assert case.classifier.layer_layouts(case.inputs).earlier_layers(last) == layers
    for layer in layers:
        assert case.classifier.layer_shape(case.inputs, layer)  # methods can look there


def test_the_ends_of_the_finer_scales_come_first() -> None:
    classifier = load_classifier("efficientnet-lite0")
    inputs = torch.zeros(1, 3, 224, 224)
    survey = classifier.layer_layouts(inputs)
    found = survey.earlier_layers(classifier.feature_layer(inputs))
    assert found == ("blocks.10", "blocks.4", "blocks.2")  # blocks, and not the padding or the expansion inside the next
    assert [classifier.layer_shape(inputs, one)[1] for one in found] == [14, 28, 56]
    assert survey.earlier_layers(found[0])[0] == "blocks.4"


def test_the_end_of_a_layer_is_not_an_earlier_one() -> None:
    body = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.ReLU()))
    classifier = Classifier(nn.Sequential(body, nn.Flatten(), nn.Linear(4 * 64, 2)))
    inputs = torch.zeros(1, 3, 8, 8)
    found = classifier.layer_layouts(inputs).earlier_layers("0")
    assert len(found) == 2
    assert not {"0", "0.2", "0.2.1"} & set(found)  # the same numbers under another name
    assert classifier.layer_layouts(inputs).earlier_layers("0.0") == ()
    assert classifier.layer_layouts(inputs).earlier_layers("2") == ()
