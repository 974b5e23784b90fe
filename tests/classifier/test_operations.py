"""Operations of a forward pass, by kind and layer."""

from __future__ import annotations

import pytest
from tests.networks import SIDE, plain
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.plugins.checks.planted import planted_batch
from snellen.types import Rng

IDS = tuple("abcdefg")
RNG = Rng(seed=4, ids=IDS)


def images(count: int = 7, channels: int = 3) -> Tensor:
    return RNG[:count].normal("images", (channels, SIDE, SIDE))


@pytest.mark.parametrize(
    ("relu", "layers"),
    [
        ("module", ["first", "second"]),
        ("functional", ["", ""]),
        ("reused", ["first", "first"]),
        ("in-place", ["first", "second"]),
    ],
)
def test_rectifiers_are_seen_however_they_are_written(relu, layers: list[str]) -> None:
    case = planted_batch(1, relu=relu)
    seen = case.classifier.operations(case.inputs)
    assert [(operation.kind, operation.name, operation.layer) for operation in seen if operation.kind == "rectifier"] == [
        ("rectifier", "relu", layer) for layer in layers
    ]
    assert [operation.kind for operation in seen] == [
        "convolution", "rectifier", "convolution", "rectifier", "mean-pool", "shape", "linear",
    ]  # fmt: skip


def test_other_activation_functions_are_named() -> None:
    net = nn.Sequential(plain(activation=nn.SiLU), nn.GELU(), nn.ReLU6(), nn.Hardswish())
    seen = Classifier(net).operations(images(1))
    assert [(operation.name, operation.layer) for operation in seen if operation.kind in ("activation", "rectifier")] == [
        ("silu", "0.1"), ("silu", "0.4"), ("gelu", "1"), ("relu6", "2"), ("hardswish", "3"),
    ]  # fmt: skip
