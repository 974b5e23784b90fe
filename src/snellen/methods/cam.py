"""Class activation mapping, the original."""

from __future__ import annotations

from dataclasses import dataclass

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.methods.class_activation import class_activation_method, find_layer, prepare_layer, upsample
from snellen.methods.refusals import refusal
from snellen.types import Images, Maps, Rng, Targets

_REMEDY = "it is defined for a mean over all positions and one linear layer; use grad-cam"


@class_activation_method(
    "cam",
    cite="zhou2016",
    signed=True,
    caveats={"zhou2016": "it is defined only for a head of one global mean and one linear layer"},
)
@dataclass(frozen=True)
class Cam:
    """How much each position of the last layer adds to the target's logit: its activations times the head's own weights.

    The mean of the coarse map is the logit without its bias. Any other head than a mean over all positions and one linear
    layer is refused.
    """

    layer: str | None = None
    """Name of the layer; None for the last one whose features have spatial positions."""

    def prepare(self, classifier: Classifier, inputs: Images) -> None:
        """Finds the layer; refuses a head that is not a mean over all positions and one linear layer."""
        prepare_layer(self.layer, classifier, inputs)
        linear = pooled = 0
        for operation in classifier.operations(inputs, after=find_layer(self.layer, classifier, inputs)):
            if operation.kind in ("shape", "identity"):
                continue
            if operation.kind == "mean-pool" and not linear:
                pooled += 1
            elif operation.kind == "linear" and pooled and not linear:
                linear += 1
            else:
                raise refusal("cam", operation, _REMEDY)
        if not (pooled and linear):
            raise SnellenError(f"cam found no linear layer behind a mean in '{classifier.name}'; {_REMEDY}")

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        self.prepare(classifier, inputs)
        layer = find_layer(self.layer, classifier, inputs)
        features, gradient = classifier.layer_gradient(inputs, targets, layer)
        # Behind such a head, the gradient is the head's weight divided by the number of positions, at every position.
        weights = gradient.sum(dim=(2, 3), keepdim=True)
        spread = (gradient * gradient[0, 0].numel() - weights).abs().amax()
        if bool(spread > 1e-4 * weights.abs().amax()):
            raise SnellenError(
                f"cam cannot read '{classifier.name}': the mean behind '{layer}' is not one over all positions; use grad-cam"
            )
        return upsample((weights * features).sum(dim=1), inputs)
