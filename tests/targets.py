"""Targets of every kind of head, and a twin of each: the second of two exclusive classes with the logits 0 and its value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.classifier.targets import Contrast, Down, FurtherTarget, OutputFunction


class Part(nn.Module):
    """The first outputs of a network, shifted so that none is exactly 0, where two classes tie and a threshold does not."""

    def __init__(self, network: nn.Module, outputs: int) -> None:
        super().__init__()
        self.network = network
        self.outputs = outputs
        self.register_buffer("shift", torch.tensor([-0.05, 0.02, -0.01])[:outputs])

    def forward(self, inputs: Tensor) -> Tensor:
        logits: Tensor = self.network(inputs)[:, : self.outputs] + self.shift
        return logits


class Twin(nn.Module):
    """The logits 0 and z, where z is computed from the outputs of a network."""

    def __init__(self, network: nn.Module, value: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.network = network
        self.value = value

    def forward(self, inputs: Tensor) -> Tensor:
        yes = self.value(self.network(inputs))
        return torch.cat([torch.zeros_like(yes), yes], dim=1)


def second_minus_first(logits: Tensor) -> Tensor:
    return logits[:, 1] - logits[:, 0]


@dataclass(frozen=True, kw_only=True)
class Target:
    heads: str
    column: int
    value: Callable[[Tensor], Tensor]
    """What is explained, from the outputs of the network."""
    further: FurtherTarget | None = None
    outputs: int = 3

    def classifier(self, network: nn.Module, *, twin: bool = False) -> tuple[Classifier, int]:
        """The classifier of a network of three outputs, or its twin, and the column of the target."""
        network = Part(network, self.outputs)
        if twin:
            return Classifier(Twin(network, self.value).eval()), 1
        classifier = Classifier(network, heads=self.heads)
        return classifier if self.further is None else classifier.with_target(self.further, "it"), self.column


TARGETS = {
    "contrast": Target(
        heads="exclusive-classes", column=3, value=lambda raw: raw[:, :1] - raw[:, 2:3], further=Contrast(0, 2)
    ),
    "label": Target(heads="independent-labels", column=1, value=lambda raw: raw[:, 1:2]),
    "contrast of labels": Target(
        heads="independent-labels", column=3, value=lambda raw: raw[:, :1] - raw[:, 1:2], further=Contrast(0, 1)
    ),
    "yes": Target(heads="single-logit", column=1, value=lambda raw: 1 * raw, outputs=1),
    "no": Target(heads="single-logit", column=0, value=lambda raw: -1 * raw, outputs=1),
    "number": Target(heads="number", column=0, value=lambda raw: 1 * raw, outputs=1),
    "down": Target(heads="number", column=1, value=lambda raw: -1 * raw, further=Down(), outputs=1),
    "function": Target(
        heads="exclusive-classes",
        column=3,
        value=lambda raw: raw[:, 1:2] - raw[:, :1],
        further=OutputFunction(second_minus_first, "second minus first"),
    ),
}
WITHOUT_PROBABILITY = {"number", "down", "function"}
LIKE_OTHERS = {"yes", "number", "contrast of labels"}
"""Targets that differ least from the others, which are left to the slow tests."""

PARAMETERS = [pytest.param(name, marks=[pytest.mark.slow] if name in LIKE_OTHERS else []) for name in TARGETS]
