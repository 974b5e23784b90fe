"""Stated ranges, and files with any number of channels."""

from __future__ import annotations

import numpy as np
import pytest
import tifffile
import torch
from PIL import Image
from tests.images.test_decoding import png_16_bit

from snellen import SnellenError
from snellen.images import Reading, as_samples, from_arrays, from_folder
from snellen.images.conditions import Rotation, apply_condition
from snellen.images.geometry import AS_IS, Geometry
from snellen.images.reading import colours

DEEP = np.array([[0, 1000], [2000, 4095]], dtype=np.uint16)
MANY = np.random.default_rng(0).random((5, 6, 7), dtype=np.float32)


def refusal(path, **options) -> str:
    with pytest.raises(SnellenError) as caught:
        as_samples(path, **options)
    return str(caught.value).replace(str(path), "x").split("; repair")[0].split("; nothing")[0]


# Ranges --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["png", "tif", "npy"])
def test_a_stated_range_becomes_black_and_white(tmp_path, kind):
    path = tmp_path / f"x.{kind}"
    if kind == "npy":
        np.save(path, DEEP)
    else:
        Image.fromarray(DEEP).save(path)
    sample = as_samples(path, reading=Reading(range=(1000, 3000)))[0]
    np.testing.assert_allclose(sample.image[0].numpy(), [[0, 0], [0.5, 1]], atol=1e-6)


def test_without_a_range_16_bits_are_divided_by_65535(tmp_path):
    Image.fromarray(DEEP).save(tmp_path / "x.png")
    samples = as_samples(tmp_path / "x.png")
    np.testing.assert_allclose(samples[0].image[0].numpy(), DEEP / 65535, atol=1e-6)
    assert "or state --range 0,4095, unless" in samples.notes[0]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"window": (1, 0.5)}, "window is a centre and a width of at least 1, but the width is 0.5"),
        ({"window": (float("nan"), 2)}, "window must be two numbers, not nan,2"),
        ({"range": (5, 5)}, "range must be a lower and a higher value, not 5,5"),
        ({"frame": 0}, "frame counts from 1, but it is 0"),
        ({"show_channels": (1, 2)}, "show_channels must be one channel or three, counted from 1, such as 3,2,1, not 1,2"),
        ({"show_channels": (0,)}, "show_channels must be one channel or three, counted from 1, such as 3,2,1, not 0"),
    ],
)
def test_readings_that_mean_nothing_are_refused(options, words):
    with pytest.raises(SnellenError) as caught:
        Reading(**options)
    assert str(caught.value) == words


def test_options_that_no_file_would_use_are_refused(tmp_path):
    Image.fromarray(np.zeros((4, 4), dtype=np.uint8)).save(tmp_path / "x.png")
    path = tmp_path / "x.png"
    words = "--range is for pictures with more than 8 bits per channel, but 'x' has 8; leave it out"
    assert refusal(path, reading=Reading(range=(0, 9))) == words
    words = "--window is for DICOM files, but there are none, such as 'x'; leave it out"
    assert refusal(path, reading=Reading(window=(0, 9))) == words
    assert refusal(path, reading=Reading(frame=2)) == "'x' holds 1 frame, but --frame is 2"
    words = "--show-channels 4 names channel 4, but the pictures have 3"
    assert refusal(path, reading=Reading(show_channels=(4,))) == words


def test_deep_colours_are_refused_with_a_range(tmp_path):
    (tmp_path / "x.png").write_bytes(png_16_bit(np.zeros((4, 4, 3), dtype=np.uint16), 2))
    words = "'x' has colours with 16 bits, which are read with 8; to use --range, save it as .npy"
    assert refusal(tmp_path / "x.png", reading=Reading(range=(0, 9))) == words


def test_one_page_of_several(tmp_path):
    pages = [Image.fromarray(np.full((4, 4), value, dtype=np.uint8)) for value in (0, 255)]
    pages[0].save(tmp_path / "x.tif", save_all=True, append_images=pages[1:])
    assert float(as_samples(tmp_path / "x.tif", reading=Reading(frame=2))[0].image.mean()) == 1
    first = as_samples(tmp_path / "x.tif")
    assert float(first[0].image.mean()) == 0
    assert first.notes == (f"'{tmp_path / 'x.tif'}' holds several frames; only the first is used",)


@pytest.mark.parametrize("layout", ["contig", "separate"])
def test_three_channels_that_are_not_called_colours(tmp_path, layout):
    values = MANY[:3] if layout == "separate" else np.ascontiguousarray(MANY[:3].transpose(1, 2, 0))
    tifffile.imwrite(tmp_path / "x.tif", values, photometric="minisblack", planarconfig=layout)
    samples = as_samples(tmp_path / "x.tif")
    np.testing.assert_allclose(samples[0].image.numpy(), MANY[:3], atol=1e-6)
    assert samples.notes == ()


def test_channels_beyond_those_of_the_classifier(tmp_path):
    values = (np.ascontiguousarray(MANY[:4].transpose(1, 2, 0)) * 255).round().astype(np.uint8)
    tifffile.imwrite(tmp_path / "x.tif", values, photometric="minisblack", planarconfig="contig")
    height, width = values.shape[:2]
    words = f"'x' is {height}×{width}×4, but the classifier takes 3 channels; the first or last of the three must be 3"
    assert refusal(tmp_path / "x.tif") == words
    tifffile.imwrite(tmp_path / "x.tif", values, photometric="rgb", planarconfig="contig", extrasamples=["unspecified"])
    samples = as_samples(tmp_path / "x.tif")
    np.testing.assert_allclose(samples[0].image.numpy(), values.transpose(2, 0, 1)[:3] / 255, atol=1e-6)
    assert samples.notes == (f"'{tmp_path / 'x.tif'}' has further channels, which are not used",)


def test_frames_are_not_mistaken_for_channels(tmp_path):
    tifffile.imwrite(tmp_path / "x.tif", MANY[:3].astype(np.float64), photometric="minisblack")
    assert refusal(tmp_path / "x.tif") == "'x' holds several frames; save the one to use as a file of its own"
    tifffile.imwrite(tmp_path / "x.tif", MANY, photometric="minisblack")
    words = "--frame is 2, but 'x' is read as channels, not as frames; leave it out"
    assert refusal(tmp_path / "x.tif", channels=5, reading=Reading(frame=2)) == words


# Many channels -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("kind", ["npy", "tif", "pages", "deflate"])
def test_files_with_many_channels(tmp_path, kind, last):
    values = np.ascontiguousarray(MANY.transpose(1, 2, 0)) if last else MANY
    path = tmp_path / ("x.npy" if kind == "npy" else "x.tif")
    if kind == "npy":
        np.save(path, values)
    elif kind == "pages":
        tifffile.imwrite(path, MANY, photometric="minisblack")
    else:
        layout = {"planarconfig": "contig" if last else "separate", "photometric": "minisblack"}
        tifffile.imwrite(path, values, compression="zlib" if kind == "deflate" else None, **layout)
    sample = as_samples(path, channels=5)[0]
    np.testing.assert_allclose(sample.image.numpy(), MANY, atol=1e-6)
    resized = as_samples(path, channels=5, geometry=Geometry((3, 3), crop=1.0))[0]
    assert resized.image.shape == (5, 3, 3)


def test_stored_values_of_many_channels_by_a_range(tmp_path):
    np.save(tmp_path / "x.npy", np.stack([DEEP] * 5))
    words = "'x' holds uint16 values from 0 to 4095, whose range is unknown; state it with --range, such as --range 0,4095"
    assert refusal(tmp_path / "x.npy", channels=5) == words
    sample = as_samples(tmp_path / "x.npy", channels=5, reading=Reading(range=(0, 4095)))[0]
    np.testing.assert_allclose(sample.image[4].numpy(), DEEP / 4095, atol=1e-6)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (np.zeros((4, 8, 8), dtype=np.uint8), "'x' is 4×8×8, but the classifier takes 5 channels; "
         "the first or last of the three must be 5"),
        (np.zeros((8, 8), dtype=np.uint8), "'x' has 1 channel, but the classifier takes 5"),
        (np.zeros((2, 5, 8, 8), dtype=np.uint8), "'x' is an array of 2×5×8×8; "
         "a picture is channels×height×width, height×width×channels or height×width"),
        (np.full((5, 8, 8), np.nan, dtype=np.float32), "'x' holds NaN or infinite values"),
        (np.full((5, 8, 8), 2.0, dtype=np.float32), "'x' holds float32 values from 2 to 2, whose range is unknown; "
         "state it with --range, such as --range 0,4095"),
        (np.zeros((5, 8, 8), dtype=complex), "'x' holds complex128, not real numbers"),
        (np.array([{}], dtype=object), "'x' is damaged, or not an array of numbers in the .npy format"),
    ],
)  # fmt: skip
def test_arrays_that_cannot_be_used_are_one_sentence(tmp_path, values, words):
    np.save(tmp_path / "x.npy", values, allow_pickle=True)
    assert refusal(tmp_path / "x.npy", channels=5) == words


def test_arrays_of_too_many_values_are_refused_before_they_are_read(tmp_path):
    for shape, words in (
        ((5, 9000, 9000), "'x' is larger than 64 million pixels; make it smaller first"),
        ((5, 7000, 7000), "'x' holds more than 192 million values; make it smaller first"),
    ):
        np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.uint8, shape=shape).flush()  # a sparse file
        assert refusal(tmp_path / "x.npy", channels=5) == words


def test_other_files_cannot_hold_many_channels(tmp_path):
    Image.fromarray(np.zeros((4, 4, 3), dtype=np.uint8)).save(tmp_path / "x.png")
    words = "'x' cannot hold 5 channels, which the classifier takes; give TIFF or .npy files"
    assert refusal(tmp_path / "x.png", channels=5) == words


def test_compression_of_tiff_that_is_not_limited_is_refused(tmp_path):
    Image.fromarray(np.zeros((4, 4), dtype=np.uint8)).save(
        tmp_path / "x.tif", save_all=True, append_images=[Image.new("L", (4, 4))] * 4, compression="tiff_lzw"
    )
    words = "'x' has several channels and is compressed with LZW; save it without compression, with deflate, or as .npy"
    assert refusal(tmp_path / "x.tif", channels=5) == words


def test_arrays_beside_pictures_are_ignored_and_alone_they_are_pictures(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((4, 4, 3), dtype=np.uint8))
    assert from_folder(tmp_path, geometry=AS_IS).ids == ("x.npy",)
    Image.fromarray(np.zeros((4, 4, 3), dtype=np.uint8)).save(tmp_path / "x.png")
    assert from_folder(tmp_path, geometry=AS_IS).ids == ("x.png",)


def test_arrays_in_memory_and_conditions_know_the_channels_to_show():
    samples = as_samples(np.stack([MANY] * 2), channels=5, reading=Reading(show_channels=(5, 3, 1)))
    assert samples.show_channels == (5, 3, 1)
    assert samples[:1].show_channels == (5, 3, 1)
    assert apply_condition(samples, Rotation(degrees=45.0), seed=0).show_channels == (5, 3, 1)
    last = from_arrays(np.stack([MANY.transpose(1, 2, 0)] * 2), channels=5)
    assert torch.equal(last[0].image, samples[0].image)
    with pytest.raises(SnellenError, match=r"images of shape 2×5×6×7 do not have the 4 channels that the classifier takes"):
        from_arrays(np.stack([MANY] * 2), channels=4)
    with pytest.raises(SnellenError, match="have neither 1 nor 3 channels"):
        from_arrays(np.stack([MANY] * 2))


def test_what_pages_show():
    image = torch.arange(5.0).view(5, 1, 1)
    assert colours(image, (5, 3, 1)).flatten().tolist() == [4, 2, 0]
    assert colours(image, (2,)).flatten().tolist() == [1, 1, 1]
    assert colours(image, None).flatten().tolist() == [0, 1, 2]
    assert colours(image[:2], None).flatten().tolist() == [0, 0, 0]
    assert colours(image[:1], None).flatten().tolist() == [0, 0, 0]
