"""XGrad-CAM."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.methods.class_activation import drawn_out, layer_of, prepare_layer, shared_pass
from snellen.plugins.registry import method
from snellen.plugins.traits import LAYERS
from snellen.types import Passes, Rng


@method(
    "xgrad-cam",
    cite="fu2020",
    family="class-activation",
    needs={"gradients", "layer"},
    caveats={
        "fu2020": "its weights are derived for ReLU networks; elsewhere a feature's sum may be near zero and its weight huge"
    },
    ranges={"layer": LAYERS},
)
@dataclass(frozen=True)
class XGradCam:
    """Where features are active, each weighed by the mean of its gradient, in which active places count more.

    A feature whose activations sum to zero has no such mean and the weight zero.
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
        total = features.sum(dim=(2, 3), keepdim=True)
        product = (gradient * features).sum(dim=(2, 3), keepdim=True)
        weights = torch.where(total != 0, product / total, 0)
        coarse = (weights * features).sum(dim=1).relu()
        return drawn_out(coarse, inputs)
