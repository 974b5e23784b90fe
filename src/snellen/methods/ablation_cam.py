"""Ablation-CAM."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from snellen.classifier import Classifier
from snellen.methods.class_activation import (
    blank_image,
    class_activation_method,
    count_features,
    find_layer,
    prepare_layer,
    upsample,
)
from snellen.types import Images, Maps, Passes, Rng, Targets


@class_activation_method(
    "ablation-cam",
    cite="desai2020",
    gradients=False,
    at_most=True,
    caveats={
        "desai2020": "features are removed one at a time, so two that can replace each other both seem unimportant",
    },
)
@dataclass(frozen=True)
class AblationCam:
    """Where features are active, each weighed by the share of the target's logit that is lost when the feature is zero.

    The share is (y - y_k) / y as in the paper, so a target whose logit is negative turns the sign of every weight.
    pytorch-grad-cam does the same behind a ReLU; in a layer with negative activations it puts a value of about -10⁷ in the
    feature's place, where zero stands here.
    """

    layer: str | None = None
    """Name of the layer; None for the last one whose features have spatial positions."""

    def prepare(self, classifier: Classifier, inputs: Images) -> None:
        """Finds the layer, and whether the rest of the model can run alone."""
        prepare_layer(self.layer, classifier, inputs)
        classifier.layer_to_logits(inputs, find_layer(self.layer, classifier, inputs))

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """One forward, and one more for each active feature where the rest of the model cannot run alone."""
        image = blank_image(classifier, size)
        if classifier.layer_to_logits(image, find_layer(self.layer, classifier, image)) is not None:
            return Passes(1)
        return Passes(2 + count_features(self.layer, classifier, size))

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        layer = find_layer(self.layer, classifier, inputs)
        features = classifier.layer_features(inputs, layer)
        # A feature that is zero already changes nothing. The last column is the image with all of its features.
        active = features.flatten(2).any(dim=2)
        owners, missing = torch.nonzero(torch.cat([active, torch.ones_like(active[:, :1])], dim=1), as_tuple=True)
        scores = torch.zeros(len(inputs), features.shape[1] + 1).to(features)
        rows = classifier.resume_rows(inputs, layer)
        for owner, feature in zip(owners.split(rows), missing.split(rows), strict=True):
            ablated = features[owner]
            within = torch.nonzero(feature < features.shape[1]).squeeze(1)
            ablated[within, feature[within]] = 0
            logits = classifier.resume(inputs, layer, ablated, owner)
            scores[owner, feature] = logits.gather(1, targets[owner, None]).squeeze(1)
        whole = scores[:, -1:]
        weights = torch.where(active, whole - scores[:, :-1], 0) / torch.where(whole == 0, 1, whole)
        coarse = (weights[:, :, None, None] * features).sum(dim=1).relu()
        return upsample(coarse, inputs)
