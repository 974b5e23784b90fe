"""From what a user writes to a Classifier."""

from __future__ import annotations

from snellen.classifier import Classifier
from snellen.zoo import efficientnet_lite0 as lite0

EMBEDDED = "efficientnet-lite0"


def load_classifier(spec: str) -> Classifier:
    """The classifier that this text names."""
    return Classifier(
        lite0.efficientnet_lite0(),
        mean=lite0.MEAN,
        std=lite0.STD,
        classes=lite0.class_names(),
        name=EMBEDDED,
        geometry=lite0.GEOMETRY,
    )
