"""What all class-activation methods share: which layer they look at, and how its coarse grid becomes a map."""

from __future__ import annotations

from collections.abc import Hashable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from snellen.classifier import Classifier

Images = Float[Tensor, "batch channels height width"]
Features = Float[Tensor, "batch features rows columns"]


def layer_of(layer: str | None, classifier: Classifier, inputs: Images) -> str:
    """The named layer, or else the last one that still has places."""
    return classifier.feature_layer(inputs) if layer is None else layer


def prepare_layer(layer: str | None, classifier: Classifier, inputs: Images) -> None:
    """Finds the layer, or refuses one that does not exist or has no places."""
    classifier.rows_for(inputs)
    classifier.layer_shape(inputs, layer_of(layer, classifier, inputs))


def blank(classifier: Classifier, size: tuple[int, int]) -> Float[Tensor, "1 channels height width"]:
    """An empty image, to ask about shapes before there is any picture."""
    return torch.zeros(1, classifier.channels, *size)


def shared_pass(layer: str | None) -> Hashable:
    """Names the one forward and backward that all methods need which weigh a layer by its gradient."""
    return "layer", layer, "logit"


def drawn_out(
    coarse: Float[Tensor, "grids rows columns"], inputs: Images, *, corners: bool = False
) -> Float[Tensor, "grids height width"]:
    """The grid at the image's size, each cell's value at the centre of the pixels that the cell covers.

    `corners` puts the centres of the outermost cells on the image's corners instead, which shifts and stretches the map.
    """
    size = inputs.shape[2:]
    return functional.interpolate(coarse[:, None], size=size, mode="bilinear", align_corners=corners).squeeze(1)
