"""The deconvolutional network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from snellen.classifier import Classifier
from snellen.classifier.operations import Operation
from snellen.maps.folding import Fold, fold
from snellen.methods.guided_backprop import rectify
from snellen.methods.refusals import require_rectifiers
from snellen.plugins.registry import method
from snellen.types import Images, Maps, OneGradient, Output, Rng, Targets


@method(
    "deconvnet",
    cite="zeiler2014",
    family="gradient",
    needs={"gradients", "relu"},
    caveats={
        "springenberg2015": "on a network without max-pooling the map does not depend on the image at all",
        "nie2018": "with max-pooling it partly recovers the image, edges first, whatever the class",
        "mahendran2016": "it shows what excites the network at all rather than the target class",
    },
    presets={"kim2022": {}},
    ranges={"fold": ("absolute-sum", "norm", "sum"), "of": ("probability",)},
)
@dataclass(frozen=True)
class Deconvnet(OneGradient):
    """The gradient of the target's logit along paths on which every rectifier receives a positive gradient.

    Whether a rectifier was active for this image does not matter; which pixel was the maximum of a max-pooling does.
    It is defined for rectifiers only: a classifier without one, or with another activation function, is refused.
    """

    fold: Fold = "absolute-max"
    of: Output = "logit"

    def prepare(self, classifier: Classifier, inputs: Images) -> None:
        """Refuses a classifier whose activation functions are not rectifiers."""
        require_rectifiers("deconvnet", classifier, inputs)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        self.prepare(classifier, inputs)
        gradient, _ = classifier.gradient(inputs, targets, of=self.of, through=deconvolved, cached=True)
        return fold(gradient, self.fold)


def deconvolved(operation: Operation) -> Any:
    """Rectifiers that rectify the gradient, whatever their own input was."""
    if operation.kind != "rectifier":
        return operation.run()
    return _Deconvolved.apply(operation.values, operation.ceiling)  # type: ignore[no-untyped-call]


class _Deconvolved(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, ceiling: float) -> Tensor:
        return rectify(values, ceiling)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, None]:
        return upstream[0].clamp_min(0), None
