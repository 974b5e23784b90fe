"""Grad-CAM."""

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
    "grad-cam",
    cite="selvaraju2017",
    family="class-activation",
    needs={"gradients", "layer"},
    caveats={
        "draelos2020": "it averages the gradient over places, so it can point at places that the classifier did not use",
        "viering2019": "a few changed weights can turn its map into any other, while the outputs stay nearly the same",
    },
    # The published wrapper of boggust2023 leaves out the ReLU; its text does not.
    presets={"zhang2024": {}, "cose2023": {}, "kim2022": {}, "boggust2023": {}},
    ranges={"layer": LAYERS},
)
@dataclass(frozen=True)
class GradCam:
    """Where the features that raise the target's logit are active, in a layer's coarse grid drawn out to the image's size.

    `layer` is by default the last one that still has places.
    """

    layer: str | None = None

    def prepare(self, classifier: Classifier, inputs: Float[Tensor, "batch channels height width"]) -> None:
        """Finds the layer, or refuses one that does not exist or has no places."""
        prepare_layer(self.layer, classifier, inputs)

    def layer_in(self, classifier: Classifier, inputs: Float[Tensor, "batch channels height width"]) -> str:
        """The name of the layer that is looked at."""
        return layer_of(self.layer, classifier, inputs)

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
        features, gradient = classifier.layer_gradient(inputs, targets, self.layer_in(classifier, inputs))
        weights = gradient.mean(dim=(2, 3), keepdim=True)
        coarse = (weights * features).sum(dim=1).relu()
        return drawn_out(coarse, inputs)
