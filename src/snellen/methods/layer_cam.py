"""LayerCAM."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.methods.class_activation import drawn_out, layer_of, prepare_layer, shared_pass
from snellen.plugins.registry import method
from snellen.plugins.traits import LAYERS
from snellen.types import Passes, Rng


@method(
    "layer-cam",
    cite="jiang2021",
    family="class-activation",
    needs={"gradients", "layer"},
    caveats={"jiang2021": "it drops negative gradients, so that evidence against the class goes unseen"},
    ranges={"layer": LAYERS},
)
@dataclass(frozen=True)
class LayerCam:
    """The layer's activations where they raise the target's logit, each place weighed by its own positive gradient.

    Unlike grad-cam it stays sharp in early layers, where `layer` names one.
    """

    layer: str | None = None

    def prepare(self, classifier: Classifier, inputs: Float[Tensor, "batch channels height width"]) -> None:
        """Finds the layer, or refuses one that does not exist or has no places."""
        prepare_layer(self.layer, classifier, inputs)

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
        features, gradient = classifier.layer_gradient(inputs, targets, layer_of(self.layer, classifier, inputs))
        coarse = (gradient.relu() * features).sum(dim=1).relu()
        return drawn_out(coarse, inputs)
