"""Samples for a classifier: images of its size and channels, with labels of its kind."""

from __future__ import annotations

from typing import Any

from snellen.classifier import Classifier
from snellen.images import Samples, as_samples


def samples_for(classifier: Classifier, source: Any) -> Samples:
    """Samples from whatever holds images, read as this classifier needs them; see `as_samples`."""
    return as_samples(
        source,
        geometry=classifier.geometry,
        channels=classifier.channels,
        classes=classifier.classes,
        numbers=not classifier.head.decides,
    )
