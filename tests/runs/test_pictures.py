"""Runs on pictures of other kinds: options of the command line, stored, resumed and shown."""

from __future__ import annotations

import html
import json

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import snellen
from snellen import SnellenError
from snellen.images import Reading, as_samples
from snellen.runs.progress import Silent
from snellen.runs.reload import reload_subject
from snellen.runs.settings import Settings

SCENES = np.random.default_rng(0).integers(0, 4096, (3, 5, 8, 8), dtype=np.uint16)


class Five(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Conv2d(5, 4, 3, bias=False)
        nn.init.constant_(self.body.weight, 0.1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.body(images).amax(dim=(2, 3))


def load() -> nn.Module:
    return Five()


@pytest.fixture
def scenes(tmp_path):
    (tmp_path / "scenes").mkdir()
    for place, values in enumerate(SCENES):
        np.save(tmp_path / "scenes" / f"{place}.npy", values)
    return tmp_path / "scenes"


def shown(run: snellen.Run) -> np.ndarray:
    """The pixels of the first picture of a run, as its pages show it."""
    return run.picture("0.npy").astype(float)


def test_options_are_stored_resumed_and_shown(tmp_path, scenes):
    values = {
        "model": f"{__name__}:load", "channels": 5, "images": str(scenes), "range": [0, 4095], "show_channels": [5, 3, 1],
        "methods": ["gradient"], "metrics": ["deletion(steps=4)"], "out": str(tmp_path / "run"),
    }  # fmt: skip
    run = Settings.of(values).run(Silent())
    assert json.loads((tmp_path / "run" / "run.json").read_text())["request"] | {"out": values["out"]} == values
    expected = (SCENES[0, [4, 2, 0]].transpose(1, 2, 0) / 4095 * 255).round()
    assert np.abs(shown(run) - expected).max() <= 1
    assert run.record.samples.source == f"3 pictures from '{scenes}', range 0 to 4095, shown by channels 5, 3, 1"
    assert "range 0 to 4095, shown by channels 5, 3, 1" in run.report().read_text()
    _, samples = reload_subject(run, None, None, Silent(), usage="")
    assert samples.show_channels == (5, 3, 1)
    again = Settings.of(run.record.request | {"show_channels": [2]}).run(Silent())
    assert np.abs(shown(again)[..., 0] - (SCENES[0, 1] / 4095 * 255).round()).max() <= 1


def test_other_readings_give_other_images_to_a_stored_run(tmp_path, scenes):
    classifier = snellen.Classifier(Five(), channels=5)
    samples = as_samples(scenes, channels=5, reading=Reading(range=(0, 4095)))
    run = snellen.evaluate(classifier, samples, methods="gradient", metrics=None, out=tmp_path / "run")
    darker = as_samples(scenes, channels=5, reading=Reading(range=(0, 65535)))
    with pytest.raises(SnellenError, match="was made with other images"):
        reload_subject(run, classifier, darker, Silent(), usage="")


def test_saliency_maps_show_the_chosen_channels(scenes):
    samples = as_samples(scenes, channels=5, reading=Reading(range=(0, 4095), show_channels=(2,)))
    maps = snellen.explain(snellen.Classifier(Five(), channels=5), samples, methods=["gradient"])
    assert np.abs(maps.images[1][..., 2] - SCENES[1, 1] / 4095 * 255).max() <= 1


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"window": [40, 0]}, "window is a centre and a width of at least 1, but the width is 0"),
        ({"range": [9, 3]}, "range must be a lower and a higher value, not 9,3"),
        ({"frame": 0}, "frame"),
        ({"show_channels": [1, 2]}, "show_channels must be one channel or three"),
        ({"window": [40]}, "window"),
        ({"channels": 0}, "channels"),
    ],
)
def test_values_that_mean_nothing_are_refused_before_a_model_is_loaded(values, words):
    with pytest.raises(SnellenError, match=words):
        Settings.of({"model": "nowhere:nothing", "methods": ["gradient"], "images": "none", **values})


def test_options_for_files_are_refused_for_built_in_pictures():
    settings = Settings.of({"model": "digits", "images": "zoo:digits", "range": [0, 9]})
    with pytest.raises(
        SnellenError, match="--range is for your own picture files, but --images is zoo:digits; leave it out"
    ):
        settings.load(Silent())


def test_notes_about_model_and_pictures_are_shown_and_stored(tmp_path):
    pages = [Image.fromarray(np.full((8, 8), value, dtype=np.uint8)) for value in (9, 255)]
    (tmp_path / "pages").mkdir()
    pages[0].save(tmp_path / "pages" / "a.tif", save_all=True, append_images=pages[1:])
    classifier = snellen.Classifier(nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()))
    classifier.notes = ("the model crops & resizes",)
    seen = Noted()
    run = snellen.evaluate(
        classifier, as_samples(tmp_path / "pages"), methods="gradient", metrics=None, out=tmp_path / "run", observer=seen
    )
    notes = ("the model crops & resizes", "'a.tif' holds several frames; only the first is used")
    assert tuple(seen.sentences[:2]) == run.record.notes[:2] == notes
    page = html.unescape(run.report().read_text())
    assert all(f"<p>{note}</p>" in page for note in notes)


class Noted(Silent):
    def __init__(self) -> None:
        self.sentences: list[str] = []

    def note(self, text: str) -> None:
        self.sentences.append(text)
