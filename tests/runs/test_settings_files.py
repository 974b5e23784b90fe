"""Files that describe pictures, beside pictures that bring their own description."""

from __future__ import annotations

import pytest

from snellen.errors import SnellenError
from snellen.runs.progress import Silent
from snellen.runs.settings import Settings


@pytest.mark.parametrize("option", ["labels", "masks", "boxes"])
@pytest.mark.parametrize("images", ["zoo:digits", "zoo:photographs"])
def test_labels_and_truth_beside_pictures_that_bring_their_own_are_refused(images: str, option: str) -> None:
    settings = Settings.of({"model": "digits", "images": images, option: "mine"})
    with pytest.raises(SnellenError, match=f"{images} bring their own labels and truth; leave out --{option} 'mine'"):
        settings.samples(settings.classifier(), Silent())


def test_labels_beside_training_scenes_are_refused() -> None:
    settings = Settings.of({"model": "digits", "training": "zoo:digits-training", "training_labels": "mine.csv"})
    with pytest.raises(SnellenError, match="zoo:digits-training bring their own labels; leave out --training-labels"):
        settings.training_samples(settings.classifier(), Silent())
