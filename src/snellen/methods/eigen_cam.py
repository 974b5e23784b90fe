"""Eigen-CAM."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.methods.class_activation import drawn_out, layer_of, prepare_layer
from snellen.plugins.registry import method
from snellen.plugins.traits import LAYERS
from snellen.types import Passes, Rng


@method(
    "eigen-cam",
    cite="muhammad2020",
    family="class-activation",
    signed=True,
    class_specific=False,
    needs={"layer"},
    caveats={"muhammad2020": "it never looks at the outputs, so the map is the same for every class"},
    ranges={"layer": LAYERS, "centred": (True,)},
)
@dataclass(frozen=True)
class EigenCam:
    """How far each place of a layer points along the direction in which its features vary most, whatever the class.

    The direction is the first right singular vector of the places × features matrix. Its sign, which a singular value
    decomposition leaves open, is the one that makes the largest value of the map positive. `centred` takes the mean over
    places away first, as pytorch-grad-cam does and the paper does not.
    """

    layer: str | None = None
    centred: bool = False

    def prepare(self, classifier: Classifier, inputs: Float[Tensor, "batch channels height width"]) -> None:
        """Finds the layer, or refuses one that does not exist or has no places."""
        prepare_layer(self.layer, classifier, inputs)

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward."""
        return Passes(1)

    def cache_key(self) -> Hashable:
        """The activations of the layer."""
        return "features", self.layer

    def __call__(
        self,
        classifier: Classifier,
        inputs: Float[Tensor, "batch channels height width"],
        targets: Int[Tensor, " batch"],
        *,
        rng: Rng,
    ) -> Float[Tensor, "batch height width"]:
        features = classifier.layer_features(inputs, layer_of(self.layer, classifier, inputs))
        places = features.flatten(2).transpose(1, 2).double()
        if self.centred:
            places = places - places.mean(dim=1, keepdim=True)
        coarse = _first_component(places)
        low, high = coarse.aminmax(dim=1, keepdim=True)
        coarse = torch.where(high < -low, -coarse, coarse)
        return drawn_out(coarse.unflatten(1, features.shape[2:]).to(inputs), inputs)


def _first_component(matrix: Float[Tensor, "batch places features"]) -> Float[Tensor, "batch places"]:
    """The matrix times its first right singular vector, from the smaller of its two Gram matrices."""
    if matrix.shape[1] <= matrix.shape[2]:
        values, vectors = torch.linalg.eigh(matrix @ matrix.mT)
        found: Tensor = vectors[..., -1] * values[:, -1:].clamp_min(0).sqrt()
    else:
        _, vectors = torch.linalg.eigh(matrix.mT @ matrix)
        found = (matrix @ vectors[..., -1:]).squeeze(2)
    return found
