"""Positive controls: the truth of a sample as its map. They show what a map scores that is right by the mask.

A run makes them of the masks of its own samples; nobody else can, because no method sees the truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.plugins.registry import label, method
from snellen.types import Images, Maps, Rng, Targets, WithoutClassifier

POSITIVE_CONTROLS = ("truth", "blurred-truth")
"""The two positive controls, which a suite brings along where every sample has a mask."""


@method("truth", cite="boggust2023", class_specific=False, needs={"truth"})
@dataclass(frozen=True)
class TruthMap(WithoutClassifier):
    """The mask itself as a map: 1 inside the region that it marks, 0 outside.

    Nobody can point out the region better. It is where a person sees the object, which need not be what the model uses.
    """

    def maps_of(self, truth: Bool[Tensor, "batch height width"]) -> Maps:
        """1 inside, 0 outside."""
        return truth.float()

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        _refuse_to_explain(self)


@method(
    "blurred-truth",
    cite="boggust2023",
    class_specific=False,
    needs={"truth"},
    ranges={"sigma": (0.02, 0.1)},
)
@dataclass(frozen=True)
class BlurredTruth(WithoutClassifier):
    """The mask smoothed by a Gaussian `sigma` sides wide: the right place without sharp edges, as coarse methods show it.

    Each value is the mean of the mask around the pixel, weighted by a Gaussian that ends at the border of the image, so
    that a mask of the whole image stays 1 everywhere. The default of a twentieth of a side is about as smooth as a map of
    8×8 cells that was upsampled.
    """

    sigma: float = 0.05
    """Width of the Gaussian, in sides of the image."""

    def __post_init__(self) -> None:
        if self.sigma <= 0:
            raise ValueError(f"sigma must be positive, not {self.sigma}")

    def maps_of(self, truth: Bool[Tensor, "batch height width"]) -> Maps:
        """The weighted means, in double precision so that no map depends on the rest of the batch."""
        height, width = truth.shape[1:]
        return (self._weights(height) @ truth.double() @ self._weights(width).T).float()

    def _weights(self, side: int) -> Float[Tensor, "side side"]:
        """Row i holds the weights of all pixels along a side in the mean around pixel i."""
        places = torch.arange(side, dtype=torch.float64)
        weights = torch.exp(-0.5 * ((places[:, None] - places) / (self.sigma * side)) ** 2)
        return weights / weights.sum(dim=1, keepdim=True)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        _refuse_to_explain(self)


def _refuse_to_explain(control: Any) -> NoReturn:
    raise SnellenError(
        f"'{label(control)}' is a positive control, made of the masks of a run's own images, so it cannot explain other "
        "images, targets or models (it belongs in --methods of snellen run or suite, with --masks or --boxes)"
    )
