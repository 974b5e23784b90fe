"""Class activation mapping, the original."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.methods.class_activation import drawn_out, layer_of, prepare_layer, shared_pass
from snellen.methods.refusals import refuse
from snellen.plugins.registry import method
from snellen.plugins.traits import LAYERS
from snellen.types import Passes, Rng

_REMEDY = "it is defined for a mean over all places and one linear layer; use grad-cam"


@method(
    "cam",
    cite="zhou2016",
    family="class-activation",
    signed=True,
    needs={"gradients", "layer"},
    caveats={"zhou2016": "it is defined only for a head of one global mean and one linear layer"},
    ranges={"layer": LAYERS},
)
@dataclass(frozen=True)
class Cam:
    """How much each place of the last layer adds to the target's logit: its activations times the head's own weights.

    The mean of the coarse map is the logit without its bias. Any other head than a mean over all places and one linear
    layer is refused.
    """

    layer: str | None = None

    def prepare(self, classifier: Classifier, inputs: Float[Tensor, "batch channels height width"]) -> None:
        """Finds the layer, and refuses a head that is not a mean over all places and one linear layer."""
        prepare_layer(self.layer, classifier, inputs)
        linear = pooled = 0
        for operation in classifier.operations(inputs, after=layer_of(self.layer, classifier, inputs)):
            if operation.kind in ("shape", "identity"):
                continue
            if operation.kind == "mean-pool" and not linear:
                pooled += 1
            elif operation.kind == "linear" and pooled and not linear:
                linear += 1
            else:
                raise refuse("cam", operation, _REMEDY)
        if not (pooled and linear):
            raise SnellenError(f"cam found no linear layer behind a mean in '{classifier.name}'; {_REMEDY}")

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward, and one backward that ends at the layer."""
        return Passes(1, 1)

    def cache_key(self) -> Hashable:
        """The activations and the gradient at the layer."""
        return shared_pass(self.layer)

    def __call__(
        self,
        classifier: Classifier,
        inputs: Float[Tensor, "batch channels height width"],
        targets: Int[Tensor, " batch"],
        *,
        rng: Rng,
    ) -> Float[Tensor, "batch height width"]:
        self.prepare(classifier, inputs)
        layer = layer_of(self.layer, classifier, inputs)
        features, gradient = classifier.layer_gradient(inputs, targets, layer)
        # Behind such a head, the gradient is the head's weight divided by the number of places, at every place.
        weights = gradient.sum(dim=(2, 3), keepdim=True)
        spread = (gradient * gradient[0, 0].numel() - weights).abs().amax()
        if bool(spread > 1e-4 * weights.abs().amax()):
            raise SnellenError(
                f"cam cannot read '{classifier.name}': the mean behind '{layer}' is not one over all places; use grad-cam"
            )
        return drawn_out((weights * features).sum(dim=1), inputs)
