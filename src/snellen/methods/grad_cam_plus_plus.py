"""Grad-CAM++."""

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
    "grad-cam++",
    cite="chattopadhay2018",
    family="class-activation",
    needs={"gradients", "layer"},
    caveats={"lerma2022": "its maps are nearly those of grad-cam with only the positive gradients kept"},
    presets={"zhang2024": {"epsilon": 1e-6}, "cose2023": {"epsilon": 1e-6}},
    ranges={"layer": LAYERS, "epsilon": (1e-8, 1e-6, 1e-4)},
)
@dataclass(frozen=True)
class GradCamPlusPlus:
    """Where features are active, each weighed by its positive gradients, more so where the feature has few places.

    The weights are those of the paper's equation 19, whose short form holds for the exponential of the logit only: there
    the higher derivatives are powers g², g³ of the logit's gradient g. They are meant for a layer behind a ReLU. `epsilon`
    is added to the denominator; the definition has none, and 1e-6 is that of pytorch-grad-cam, too large to go unseen where
    gradients are near 1e-3.
    """

    layer: str | None = None
    epsilon: float = 0.0

    def __post_init__(self) -> None:
        if self.epsilon < 0:
            raise ValueError(f"epsilon must not be negative, not {self.epsilon}")

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
        square = gradient.square()
        below = 2 * square + features.sum(dim=(2, 3), keepdim=True) * square * gradient + self.epsilon
        shares = torch.where((gradient != 0) & (below != 0), square / below, 0)
        weights = (shares * gradient.relu()).sum(dim=(2, 3), keepdim=True)
        coarse = (weights * features).sum(dim=1).relu()
        return drawn_out(coarse, inputs)
