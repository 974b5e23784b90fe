from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image

from snellen.charts import pictures
from snellen.study.making.rendering import GAP, LEAST, MOST, encoded, photograph, picture

SMALL, LARGE = 32, 224


def _image(side: int, seed: int = 0) -> torch.Tensor:
    """A smooth picture with colours, as photographs are."""
    coarse = torch.rand(1, 3, 4, 4, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.interpolate(coarse, size=(side, side), mode="bilinear")[0]


def _map(side: int, *, signed: bool = False) -> np.ndarray:
    values = _image(side, seed=1).sum(dim=0).numpy()
    return values - values.mean() if signed else values


def _decoded(content: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(content)) as image:
        assert not image.info.get("exif")
        assert not image.getexif()
        return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize("signed", [False, True])
def test_a_small_picture_is_the_overlay_of_the_report_pixel_for_pixel(signed: bool) -> None:
    photo, values = photograph(_image(SMALL)), _map(SMALL, signed=signed)
    positive = np.where(values > 0, values, 0)
    for presentation, expected in (
        ("overlay", pictures.overlay(photo, positive, False, pictures.limits(positive, False))),
        ("map", pictures.tile(positive, False, pictures.limits(positive, False))),
        ("photograph", photo),
    ):
        pixels = _decoded(encoded(picture(photo, values, presentation), photo))
        assert pixels.shape == (LEAST, LEAST, 3)
        assert (pixels == expected.repeat(10, axis=0).repeat(10, axis=1)).all()


def test_photo_and_map_stand_side_by_side() -> None:
    photo, values = photograph(_image(SMALL)), _map(SMALL)
    both = picture(photo, values, "side-by-side")
    assert both.shape == (LEAST, 2 * LEAST + GAP, 3)
    assert (both[:, :LEAST] == picture(photo, None, "photograph")).all()
    assert (both[:, LEAST + GAP :] == picture(photo, values, "map")).all()


def test_a_photograph_is_enlarged_smoothly_and_compressed_without_harm() -> None:
    photo, values = photograph(_image(LARGE)), _map(LARGE)
    shown = picture(photo, values, "overlay")
    assert shown.shape == (2 * LARGE, 2 * LARGE, 3)
    content = encoded(shown, photo)
    assert len(content) < 40_000
    difference = np.abs(_decoded(content).astype(int) - shown)
    assert difference.mean() < 3
    halved = np.asarray(Image.fromarray(shown).resize((LARGE, LARGE), Image.Resampling.BOX)).astype(int)
    assert np.abs(halved - pictures.overlay(photo, values, False, pictures.limits(values, False))).mean() < 2


@pytest.mark.parametrize("side", [8, 32, 64, 100, 128, 129, 224, 319, 320, 500, 640, 1000])
def test_pictures_are_neither_too_small_nor_too_large(side: int) -> None:
    shown = picture(photograph(_image(side)), None, "photograph")
    assert LEAST <= max(shown.shape[:2]) <= MOST


def test_every_arm_is_drawn_by_the_same_rule_whatever_its_units_and_signs() -> None:
    photo, values = photograph(_image(SMALL)), _map(SMALL)
    for other in (7e4 * values, 2**-20 * values):
        assert (picture(photo, other, "overlay") == picture(photo, values, "overlay")).all()
    # What speaks against the answer is as dark as what says nothing.
    against = np.where(np.arange(SMALL) < 5, -3.0, 0.0) + np.where(np.arange(SMALL) > 20, 1.0, 0.0)
    nothing = np.maximum(against, 0)
    assert (picture(photo, np.tile(against, (SMALL, 1)), "map") == picture(photo, np.tile(nothing, (SMALL, 1)), "map")).all()


def test_a_grey_image_is_shown_in_grey_and_a_map_without_numbers_does_no_harm() -> None:
    photo = photograph(torch.rand(1, 16, 16, generator=torch.Generator().manual_seed(0)))
    assert photo.shape == (16, 16, 3)
    assert (photo[..., 0] == photo[..., 2]).all()
    for values in (np.zeros((16, 16)), np.full((16, 16), np.nan), np.full((16, 16), -1.0)):
        assert picture(photo, values, "overlay").shape == (LEAST, LEAST, 3)
