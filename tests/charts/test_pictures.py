"""Colours mean what the legend says, for every method alike."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest
from PIL import Image

from snellen.charts import pictures
from snellen.charts.pictures import contact_sheet, data_uri, lightness, limits, overlay, scale_bar, shrink, tile


@pytest.mark.parametrize(
    "table", [pictures.SEQUENTIAL, pictures.POSITIVE, pictures.NEGATIVE], ids=["unsigned", "positive", "negative"]
)
def test_every_step_of_a_scale_changes_the_lightness_by_about_as_much(table):
    light = lightness(table)
    even = np.linspace(light[0], light[-1], 256)
    assert np.abs(light - even).max() < 1.0
    assert abs(light[-1] - light[0]) > 70


def test_lightness_of_known_colours():
    colours = np.array([[0, 0, 0], [255, 255, 255], [119, 119, 119]], dtype=np.uint8)
    assert lightness(colours) == pytest.approx([0, 100, 50.03], abs=0.1)


def test_a_signed_map_is_white_at_zero_and_equally_dark_at_both_ends():
    values = np.array([[-2.0, -1.0, 0.0, 1.0, 2.0]])
    picture = tile(values, True, (-2.0, 2.0))
    assert picture[0, 2].tolist() == [255, 255, 255]
    against, favour = picture[0, 0].astype(int), picture[0, 4].astype(int)
    assert against[2] > against[0]
    assert favour[0] > favour[2]
    light = lightness(picture)[0]
    assert light[0] == pytest.approx(light[4], abs=1)
    assert light[1] == pytest.approx(light[3], abs=1)


def test_an_unsigned_map_gets_lighter_with_its_value():
    light = lightness(tile(np.linspace(3.0, 5.0, 50)[None], False, (3.0, 5.0)))[0]
    assert (np.diff(light) > 0).all()


def test_a_positive_factor_changes_no_colour():
    values = np.random.default_rng(0).normal(size=(16, 16))
    for signed in (False, True):
        coloured = tile(values, signed, limits(values, signed))
        assert np.array_equal(coloured, tile(values * 1000, signed, limits(values * 1000, signed)))


def test_limits_are_what_the_legend_says():
    values = np.arange(1000, dtype=np.float64).reshape(20, 50) + 7
    assert limits(values, False) == (7.0, pytest.approx(np.percentile(values, 99.5)))
    assert limits(-values, True) == pytest.approx((-np.percentile(values, 99.5), np.percentile(values, 99.5)))


def test_a_map_of_a_single_bright_pixel_shows_it():
    values = np.zeros((100, 100))
    values[3, 4] = 0.01
    picture = tile(values, False, limits(values, False))
    assert picture[3, 4].tolist() == pictures.SEQUENTIAL[-1].tolist()
    assert picture[0, 0].tolist() == pictures.SEQUENTIAL[0].tolist()


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("value", [0.0, 3.5, -3.5])
def test_a_constant_map_is_one_colour(signed, value):
    values = np.full((5, 5), value)
    assert len(np.unique(tile(values, signed, limits(values, signed)).reshape(-1, 3), axis=0)) == 1


def test_values_that_are_not_numbers_are_grey():
    values = np.array([[np.nan, 1.0], [np.inf, 0.0]])
    picture = tile(values, False, limits(values, False))
    assert picture[0, 0].tolist() == [150, 150, 150]
    assert picture[1, 0].tolist() == [150, 150, 150]
    assert limits(np.full((2, 2), np.nan), True) == (0.0, 0.0)


def test_where_a_map_is_at_its_lowest_the_grey_photo_shows_through():
    photo = np.full((4, 4, 3), (200, 100, 0), dtype=np.uint8)
    values = np.zeros((4, 4))
    values[0, 0] = 1.0
    picture = overlay(photo, values, False, limits(values, False))
    grey = round(0.299 * 200 + 0.587 * 100)
    assert picture[3, 3].tolist() == [grey] * 3
    assert picture[0, 0].tolist() != [grey] * 3


def test_a_scale_bar_runs_through_the_whole_scale():
    assert scale_bar(False)[0, 0].tolist() == pictures.SEQUENTIAL[0].tolist()
    assert scale_bar(False)[0, -1].tolist() == pictures.SEQUENTIAL[-1].tolist()
    assert scale_bar(True, width=3)[0, 1].tolist() == [255, 255, 255]


def test_pictures_for_the_page_are_small_jpegs():
    picture = np.random.default_rng(0).integers(0, 255, (600, 300, 3), dtype=np.uint8)
    assert shrink(picture, 200).shape == (200, 100, 3)
    assert shrink(picture, 900) is picture
    head, body = data_uri(picture, longest=200).split(",")
    assert head == "data:image/jpeg;base64"
    assert Image.open(io.BytesIO(base64.b64decode(body))).size == (100, 200)


@pytest.mark.parametrize("count", [1, 3, 7])
def test_the_sheet_holds_photo_map_and_overlay_of_every_method(count):
    photo = np.full((224, 224, 3), (10, 200, 30), dtype=np.uint8)
    maps = {f"method {at} with a label that is far too long for its place": np.full((224, 224), -1.0) for at in range(count)}
    page = np.asarray(contact_sheet(photo, maps, {}, heading="tabby, p = 0.81"))
    green = (page == (10, 200, 30)).all(axis=2).sum()
    blue = (page == pictures.NEGATIVE[-1]).all(axis=2).sum()
    assert green == 224 * 224
    assert blue == count * 224 * 224
    assert not (page[:, -8:] != (253, 252, 249)).any()


def test_a_long_heading_ends_above_the_legend():
    photo = np.zeros((224, 224, 3), dtype=np.uint8)
    heights = [
        contact_sheet(photo, {"a": np.eye(64)}, {}, heading=heading).height
        for heading in ("tabby, p = 0.81", "Lung Lesion, not Pneumothorax, p = 0.36", "word " * 200)
    ]
    assert heights == [heights[0], heights[0] + 13, heights[0] + 2 * 21 + 13]


def test_the_sheet_takes_a_photo_of_another_size_than_its_maps():
    photo = np.zeros((300, 200, 3), dtype=np.uint8)
    page = contact_sheet(photo, {"a": np.eye(64)}, {"a": "renamed"}, signed={"a": False})
    assert page.width > 400
