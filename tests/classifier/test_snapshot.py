"""A classifier is a copy of the model, with a fingerprint."""

from __future__ import annotations

import copy

import torch
from tests.networks import SIDE, residual
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.types import Rng

IDS = tuple("abcdefg")
RNG = Rng(seed=4, ids=IDS)


def images(count: int = 7, channels: int = 3) -> Tensor:
    return RNG[:count].normal("images", (channels, SIDE, SIDE))


def test_later_changes_of_the_model_do_not_reach_the_classifier() -> None:
    net = residual()
    classifier = Classifier(net)
    before, mark = classifier.logits(images()), classifier.fingerprint
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(1.0)
    net.train()
    net(images())  # moves the statistics of the user's batch normalisation, not ours
    assert torch.equal(classifier.logits(images()), before)
    assert classifier.fingerprint == mark
    assert Classifier(net).fingerprint != mark


def test_the_fingerprint_changes_with_any_weight() -> None:
    net = residual()
    marks = {Classifier(net).fingerprint}
    assert Classifier(copy.deepcopy(net)).fingerprint in marks
    for name in net.state_dict():
        changed = copy.deepcopy(net)
        tensor = changed.state_dict()[name]
        with torch.no_grad():
            tensor.flatten()[-1:].add_(1)
        mark = Classifier(changed).fingerprint
        assert mark not in marks, name
        marks.add(mark)
    for settings in ({"mean": 0.1}, {"std": 2.0}, {"outputs": "probabilities"}):
        mark = Classifier(net, **settings).fingerprint
        assert mark not in marks
        marks.add(mark)
    assert Classifier(nn.Sequential(net, nn.ReLU())).fingerprint not in marks


def test_the_fingerprint_of_a_black_box_is_its_source() -> None:
    def first(inputs: Tensor) -> Tensor:
        return inputs.mean(dim=(2, 3))

    def second(inputs: Tensor) -> Tensor:
        return inputs.amax(dim=(2, 3))

    assert Classifier(first).fingerprint == Classifier(first).fingerprint != Classifier(second).fingerprint
