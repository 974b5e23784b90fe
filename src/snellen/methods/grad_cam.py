"""Grad-CAM."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from snellen.classifier import Classifier
from snellen.registry import method
from snellen.types import Passes, Rng


@method("grad-cam", cite="selvaraju2017", needs={"gradients", "layer"})
@dataclass(frozen=True)
class GradCam:
    """Where the features that raise the target's logit are active, in a layer's coarse grid drawn out to the image's size.

    `layer` is by default the last one that still has places.
    """

    layer: str | None = None

    def prepare(self, classifier: Classifier, inputs: Float[Tensor, "batch channels height width"]) -> None:
        """Finds the layer, or refuses one that does not exist or has no places."""
        classifier.rows_for(inputs)  # looks at the model itself, so it comes before the recording
        with classifier.recording(self.layer_in(classifier, inputs)):
            classifier.logits(inputs[:1])

    def layer_in(self, classifier: Classifier, inputs: Float[Tensor, "batch channels height width"]) -> str:
        """The name of the layer that is looked at; searched once per classifier and image size."""
        if self.layer is not None:
            return self.layer
        found = _LAYERS.setdefault(classifier, {})
        size = tuple(inputs.shape[1:])
        if size not in found:
            found[size] = classifier.feature_layer(inputs)
        return found[size]

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward, and one backward that ends at the layer."""
        return Passes(1, 1)

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
        coarse = (weights * features).sum(dim=1, keepdim=True).relu()
        return functional.interpolate(coarse, size=inputs.shape[2:], mode="bilinear", align_corners=False).squeeze(1)


_LAYERS: WeakKeyDictionary[Classifier, dict[tuple[int, ...], str]] = WeakKeyDictionary()
