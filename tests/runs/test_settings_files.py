"""Files that describe pictures, beside pictures that bring their own description."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

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


def test_the_schema_for_editors_describes_every_setting() -> None:
    path = Path(__file__).parents[2] / "docs" / "schema" / "settings.json"
    schema = json.loads(path.read_text(encoding="utf-8"))
    assert list(schema["properties"]) == [field.name for field in dataclasses.fields(Settings)]
    assert all(setting["description"] for setting in schema["properties"].values())
    assert schema["additionalProperties"] is False
