"""Guided backpropagation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from snellen.classifier import Classifier
from snellen.classifier.operations import Operation
from snellen.maps.folding import Fold, fold
from snellen.methods.refusals import require_rectifiers
from snellen.plugins.registry import method
from snellen.types import Images, Maps, OneGradient, Output, Rng, Targets


@method(
    "guided-backprop",
    cite="springenberg2015",
    family="gradient",
    needs={"gradients", "relu"},
    caveats={
        "adebayo2018": "its maps hardly change when the weights of upper layers are drawn at random",
        "nie2018": "it partly recovers the image, edges first, whatever the class",
    },
    presets={"zhang2024": {}, "kim2022": {}, "boggust2023": {"fold": "absolute-sum"}},
    ranges={"fold": ("absolute-sum", "norm", "sum"), "of": ("probability",)},
)
@dataclass(frozen=True)
class GuidedBackprop(OneGradient):
    """The gradient along paths on which every rectifier passes something positive, forward and backward.

    It is defined for rectifiers only: a classifier without one, or with another activation function, is refused.
    """

    fold: Fold = "absolute-max"
    of: Output = "logit"

    def prepare(self, classifier: Classifier, inputs: Images) -> None:
        """Refuses a classifier whose activation functions are not rectifiers."""
        require_rectifiers("guided-backprop", classifier, inputs)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        self.prepare(classifier, inputs)
        gradient, _ = classifier.gradient(inputs, targets, of=self.of, through=guided, cached=True)
        return fold(gradient, self.fold)


def guided(operation: Operation) -> Any:
    """Rectifiers whose backward pass lets only positive gradients through."""
    if operation.kind != "rectifier":
        return operation.run()
    # Not the operation itself: the gradient of a clamp at its very ends differs from that of a rectifier.
    rectified = rectify(operation.values, operation.ceiling)
    if rectified.requires_grad:
        rectified.register_hook(lambda upstream: upstream.clamp_min(0))
    return rectified


def rectify(values: Float[Tensor, "*any"], ceiling: float) -> Float[Tensor, "*any"]:
    """The output of a rectifier with this upper limit."""
    if ceiling == float("inf"):
        return functional.relu(values)
    # The backward pass of a rectifier with a ceiling needs its input, which an in-place rectifier overwrites: hence a copy.
    return functional.hardtanh(values.clone(), 0.0, ceiling)
