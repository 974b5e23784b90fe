"""Guided backpropagation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.folding import Fold, fold
from snellen.registry import method
from snellen.types import Output, Passes, Rng

RECTIFIERS = {"relu", "relu6"}


@method("guided-backprop", cite="springenberg2015", needs={"gradients", "relu"})
@dataclass(frozen=True)
class GuidedBackprop:
    """The gradient along paths on which every rectifier passes something positive, forward and backward.

    It is defined for rectifiers only: a classifier without one, or with another activation function, is refused.
    """

    fold: Fold = "absolute-max"
    of: Output = "logit"

    def prepare(self, classifier: Classifier, inputs: Float[Tensor, "batch channels height width"]) -> None:
        """Refuses a classifier whose activation functions are not rectifiers; looked up once per classifier."""
        if classifier not in _SEEN:
            _SEEN[classifier] = classifier.activation_functions(inputs)
        seen = _SEEN[classifier]
        others = sorted(set(seen) - RECTIFIERS)
        if others:
            raise SnellenError(
                f"guided-backprop is defined for ReLU only, but '{classifier.name}' uses {', '.join(others)}; drop it"
            )
        if not seen:
            raise SnellenError(
                f"guided-backprop is defined for ReLU only, but no ReLU was seen in '{classifier.name}'; drop it"
            )

    def passes(self, size: tuple[int, int]) -> Passes:
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
        gradient, _ = classifier.gradient(inputs, targets, of=self.of, rectifier=guided)
        return fold(gradient, self.fold)


_SEEN: WeakKeyDictionary[Classifier, dict[str, int]] = WeakKeyDictionary()


def guided(values: Float[Tensor, "..."], ceiling: float) -> Float[Tensor, "..."]:
    """A rectifier whose backward pass lets only positive gradients through."""
    out: Tensor = _Guided.apply(values, ceiling)  # type: ignore[no-untyped-call]
    return out


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
