"""Score-CAM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.methods.class_activation import blank, drawn_out, layer_of, prepare_layer
from snellen.plugins.registry import method
from snellen.plugins.traits import LAYERS
from snellen.types import Output, Passes, Rng


@method(
    "score-cam",
    cite="wang2020",
    family="class-activation",
    needs={"layer"},
    at_most=True,
    caveats={
        "hooker2019": "its weights are outputs for masked images, which lie outside of what the classifier was trained on",
    },
    presets={"zhang2024": {"corners": True}},
    ranges={"layer": LAYERS, "of": ("probability",), "corners": (True,)},
)
@dataclass(frozen=True)
class ScoreCam:
    """Where features are active, each weighed by the target's output for the image seen through that feature alone.

    Every feature's grid is drawn out, stretched to [0, 1] and multiplied with the inputs; the weights are the softmax of
    the outputs over features, so subtracting a baseline's output would change nothing. `corners` puts the outermost cells
    of these masks on the image's corners, as pytorch-grad-cam does; the paper's authors do not.
    """

    layer: str | None = None
    of: Output = "logit"
    corners: bool = False

    def prepare(self, classifier: Classifier, inputs: Float[Tensor, "batch channels height width"]) -> None:
        """Finds the layer, or refuses one that does not exist or has no places."""
        prepare_layer(self.layer, classifier, inputs)

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward, and one more for each mask; features with the same mask share it."""
        image = blank(classifier, size)
        return Passes(1 + classifier.layer_shape(image, layer_of(self.layer, classifier, image))[0])

    def __call__(
        self,
        classifier: Classifier,
        inputs: Float[Tensor, "batch channels height width"],
        targets: Int[Tensor, " batch"],
        *,
        rng: Rng,
    ) -> Float[Tensor, "batch height width"]:
        features = classifier.layer_features(inputs, layer_of(self.layer, classifier, inputs))
        grids, places = zip(*(_different(one) for one in features), strict=True)
        rows = classifier.rows_for(inputs)

        def blocks() -> Iterator[tuple[Tensor, Tensor]]:
            for i, own in enumerate(grids):
                for part in own.split(rows):
                    masks = _stretched(drawn_out(part, inputs, corners=self.corners))
                    yield inputs[i] * masks[:, None], targets[i].expand(len(part))

        scores = classifier.scores(blocks(), of=self.of).split([len(one) for one in grids])
        weights = torch.stack([score[place].softmax(dim=0) for score, place in zip(scores, places, strict=True)])
        coarse = (weights.to(features)[:, :, None, None] * features).sum(dim=1).relu()
        return drawn_out(coarse, inputs)


def _different(
    features: Float[Tensor, "features rows columns"],
) -> tuple[Float[Tensor, "masks rows columns"], Int[Tensor, " features"]]:
    """The grids that give different masks, and which of them each feature has.

    Stretching before drawing out changes no mask. It makes grids equal that differ by a factor, such as all with one active
    cell in the same place; and a grid without any contrast becomes zero.
    """
    grids, places = torch.unique(_stretched(features), dim=0, return_inverse=True)
    return grids, places


def _stretched(grids: Float[Tensor, "grids rows columns"]) -> Float[Tensor, "grids rows columns"]:
    """Each grid's values from 0 to 1; all zero where they are equal."""
    low, high = grids.flatten(1).aminmax(dim=1)
    span = torch.where(high > low, high - low, 1)[:, None, None]
    return (grids - low[:, None, None]) / span
