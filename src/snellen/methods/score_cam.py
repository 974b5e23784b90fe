"""Score-CAM."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.row_ranges import row_range
from snellen.methods.class_activation import class_activation_method, count_features, find_layer, upsample
from snellen.types import Images, Maps, Output, Passes, Rng, Targets


@class_activation_method(
    "score-cam",
    cite="wang2020",
    gradients=False,
    at_most=True,
    caveats={
        "hooker2019": "its weights are outputs for masked images, which lie outside of what the classifier was trained on",
    },
    presets={"zhang2024": {"corners": True}},
    ranges={"of": ("probability",), "corners": (True,)},
)
@dataclass(frozen=True)
class ScoreCam:
    """Where features are active, each weighed by the target's output for the image seen through that feature alone.

    Every feature's grid is upsampled, stretched to [0, 1] and multiplied with the inputs; the weights are the softmax of
    the outputs over features, so subtracting a baseline's output would change nothing. `corners` puts the outermost cells
    of these masks on the image's corners, as pytorch-grad-cam does; the paper's authors do not.
    """

    layer: str | None = None
    """Name of the layer; None for the last one whose features have spatial positions."""
    of: Output = "logit"
    corners: bool = False

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward, and one more for each mask; features with the same mask share it."""
        return Passes(1 + count_features(self.layer, classifier, size))

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        features = classifier.layer_features(inputs, find_layer(self.layer, classifier, inputs))
        grids, grid_of_feature = zip(*(_different(image_features) for image_features in features), strict=True)
        rows = classifier.rows_for(inputs)

        def blocks() -> Iterator[tuple[Tensor, Tensor]]:
            for i, image_grids in enumerate(grids):
                for part in image_grids.split(rows):
                    masks = _stretched(upsample(part, inputs, corners=self.corners))
                    yield inputs[i] * masks[:, None], targets[i].expand(len(part))

        scores = classifier.scores(blocks(), of=self.of).split([len(image_grids) for image_grids in grids])
        weights = torch.stack(
            [score[indices].softmax(dim=0) for score, indices in zip(scores, grid_of_feature, strict=True)]
        )
        coarse = (weights.to(features)[:, :, None, None] * features).sum(dim=1).relu()
        return upsample(coarse, inputs)


def _different(
    features: Float[Tensor, "features rows columns"],
) -> tuple[Float[Tensor, "masks rows columns"], Int[Tensor, " features"]]:
    """The grids that give different masks, and the index of each feature's grid among them.

    Stretching before upsampling changes no mask, but it makes grids equal that differ only by a factor, such as all grids
    with a single active cell in the same position. A grid without contrast becomes zero.
    """
    grids, indices = torch.unique(_stretched(features), dim=0, return_inverse=True)
    return grids, indices


def _stretched(grids: Float[Tensor, "grids rows columns"]) -> Float[Tensor, "grids rows columns"]:
    """Each grid's values from 0 to 1; all zero where they are equal."""
    low, high = row_range(grids.flatten(1))
    span = torch.where(high > low, high - low, 1)[:, None, None]
    return (grids - low[:, None, None]) / span
