"""Guided backpropagation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.folding import Fold, fold
from snellen.methods.refusals import only_rectifiers
from snellen.operations import Operation
from snellen.registry import method
from snellen.types import Output, Passes, Rng


@method(
    "guided-backprop",
    cite="springenberg2015",
    needs={"gradients", "relu"},
    caveats={
        "adebayo2018": "its maps hardly change when the weights of upper layers are drawn at random",
        "nie2018": "it partly recovers the image, edges first, whatever the class",
    },
    presets={"zhang2024": {}, "boggust2023": {"fold": "absolute-sum"}},
)
@dataclass(frozen=True)
class GuidedBackprop:
    """The gradient along paths on which every rectifier passes something positive, forward and backward.

    It is defined for rectifiers only: a classifier without one, or with another activation function, is refused.
    """

    fold: Fold = "absolute-max"
    of: Output = "logit"

    def prepare(self, classifier: Classifier, inputs: Float[Tensor, "batch channels height width"]) -> None:
        """Refuses a classifier whose activation functions are not rectifiers."""
        only_rectifiers("guided-backprop", classifier, inputs)

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward and one backward."""
        return Passes(1, 1)

    def __call__(
        self,
        classifier: Classifier,
        inputs: Float[Tensor, "batch channels height width"],
        targets: Int[Tensor, " batch"],
        *,
        rng: Rng,
    ) -> Float[Tensor, "batch height width"]:
        self.prepare(classifier, inputs)
        gradient, _ = classifier.gradient(inputs, targets, of=self.of, through=guided, shared=True)
        return fold(gradient, self.fold)


def guided(operation: Operation) -> Any:
    """Rectifiers whose backward pass lets only positive gradients through."""
    if operation.kind != "rectifier":
        return operation.run()
    return _Guided.apply(operation.values, operation.ceiling)  # type: ignore[no-untyped-call]


class _Guided(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, ceiling: float) -> Tensor:
        # The mask is kept, not the values: a rectifier that works in place overwrites those.
        ctx.save_for_backward((values > 0) & (values < ceiling))
        return values.clamp(0, ceiling)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        (open_,) = ctx.saved_tensors
        return upstream[0].clamp_min(0) * open_, None
