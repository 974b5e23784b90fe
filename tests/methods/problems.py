"""What comparisons with other implementations have in common: a model twice, images, and when two maps are equal."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from tests.networks import NETWORKS, SIDE
from torch import Tensor, nn

from snellen import zoo
from snellen.classifier import Classifier
from snellen.types import Method, Rng


@dataclass(frozen=True, eq=False, kw_only=True)
class Problem:
    """A plain module for the other implementation, and the same one for ours."""

    net: nn.Module
    classifier: Classifier
    inputs: Tensor
    targets: Tensor
    rng: Rng
    layer: str = ""
    """The last layer with places, where a test needs it."""

    def explain(self, method: Method) -> Tensor:
        return method(self.classifier, self.inputs, self.targets, rng=self.rng)


def random_problem(name: str, activation: type[nn.Module] = nn.ReLU) -> Problem:
    """Three images of noise and one of the small random networks."""
    net = NETWORKS[name](activation=activation)
    rng = Rng(seed=1, ids=("a", "b", "c"))
    return Problem(
        net=net,
        classifier=Classifier(net),
        inputs=rng.normal("images", (3, SIDE, SIDE)),
        targets=torch.tensor([0, 3, 1]),
        rng=rng,
        layer={"plain": "5", "residual": "2"}[name],
    )


def photograph_problem() -> Problem:
    """A photograph and the pretrained network that comes with Snellen, which other implementations get as a copy."""
    classifier = zoo.load_classifier(zoo.EMBEDDED)
    sample = zoo.photographs(classifier.geometry)[0]
    inputs = classifier.to_inputs(sample.image[None])
    return Problem(
        net=copy.deepcopy(classifier.module).to(memory_format=torch.contiguous_format).requires_grad_(),
        classifier=classifier,
        inputs=inputs,
        targets=classifier.logits(inputs).argmax(dim=1),
        rng=Rng(seed=1, ids=(sample.id,)),
        layer="head",
    )


def assert_same(actual: Tensor, expected: Tensor, share: float) -> None:
    """No pixel is off by more than `share` of the largest."""
    assert actual.shape == expected.shape
    expected = expected.detach()
    size = float(expected.abs().max())
    assert size > 0
    assert float((actual - expected).abs().max()) <= share * size
