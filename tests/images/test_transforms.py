"""The transforms beside the Python Imaging Library, and their way back beside scikit-image."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from skimage.transform import AffineTransform, rotate, warp

from snellen.classifier import Classifier
from snellen.images.transforms import STEPS, TRANSFORMS, augmentations, draw_magnitudes
from snellen.types import Rng

BY_NAME = {transform.name: transform for transform in TRANSFORMS}
ALL_STEPS = [step for step in range(-STEPS, STEPS + 1) if step]


def classifier(channels: int = 3) -> Classifier:
    return Classifier(lambda inputs: inputs.flatten(1)[:, :2], mean=0.4, std=0.3, channels=channels)


def pictures(count: int, channels: int = 3, size: tuple[int, int] = (20, 27)) -> np.ndarray:
    """Random, but each with another range of levels, so that stretching has something to stretch."""
    random = np.random.default_rng(1)
    out = random.integers(0, 256, size=(count, channels, *size))
    out[1::2] = 60 + out[1::2] // 3
    return out.astype(np.uint8)


def by_pil(name: str, image: Image.Image, step: int) -> Image.Image:
    """The published operation, one picture at a time."""
    factor = 1.0 + 0.99 * step / 30
    width, height = image.size
    if name.startswith("translate"):
        side = width if name.endswith("x") else height
        shift = int(side * 32 * step / (224 * 30)) or int(math.copysign(1, step))
        matrix = (1, 0, -shift, 0, 1, 0) if name.endswith("x") else (1, 0, 0, 0, 1, -shift)
        return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST, fillcolor=0)
    if name == "rotate":
        return image.rotate(135.0 * step / 30, Image.Resampling.NEAREST, fillcolor=0)
    return {
        "flip-lr": lambda: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
        "flip-ud": lambda: image.transpose(Image.Transpose.FLIP_TOP_BOTTOM),
        "brightness": lambda: ImageEnhance.Brightness(image).enhance(factor),
        "color": lambda: ImageEnhance.Color(image).enhance(factor),
        "contrast": lambda: ImageEnhance.Contrast(image).enhance(factor),
        "sharpness": lambda: ImageEnhance.Sharpness(image).enhance(factor),
        "autocontrast": lambda: ImageOps.autocontrast(image),
        "equalize": lambda: ImageOps.equalize(image),
        "blur": lambda: image.filter(ImageFilter.BLUR),
        "smooth": lambda: image.filter(ImageFilter.SMOOTH),
    }[name]()


def picture_of(levels: np.ndarray) -> Image.Image:
    return Image.fromarray(levels[0] if len(levels) == 1 else levels.transpose(1, 2, 0))


def levels_of(image: Image.Image) -> np.ndarray:
    levels = np.array(image)
    return levels[None] if levels.ndim == 2 else levels.transpose(2, 0, 1)


@pytest.mark.parametrize("channels", [3, 1])
@pytest.mark.parametrize("size", [(20, 27), (24, 24), (31, 31), (4, 4)], ids=str)
@pytest.mark.parametrize("name", list(BY_NAME))
def test_every_operation_is_that_of_pil_level_for_level(name, size, channels):
    model = classifier(channels)
    steps = ALL_STEPS if BY_NAME[name].signed else [0, 0, 0]
    levels = pictures(len(steps), channels, size)
    inputs = model.to_inputs(torch.from_numpy(levels).float() / 255)
    transformed = model.to_pixels(BY_NAME[name](model, inputs, torch.tensor(steps))) * 255
    expected = np.stack(
        [levels_of(by_pil(name, picture_of(picture), step)) for picture, step in zip(levels, steps, strict=True)]
    )
    assert np.abs(transformed.numpy() - expected).max() < 1e-3  # levels are whole numbers; normalising rounds


def test_pictures_of_one_level_stay_as_they_are_when_stretched():
    model = classifier()
    inputs = model.to_inputs(torch.full((1, 3, 8, 8), 77 / 255))
    for name in ("autocontrast", "equalize", "blur", "smooth"):
        torch.testing.assert_close(BY_NAME[name](model, inputs, torch.tensor([0])), inputs)


@pytest.mark.parametrize("size", [(20, 27), (24, 24), (31, 31)], ids=str)
def test_the_inverse_is_that_of_skimage(size):
    maps = torch.from_numpy(np.random.default_rng(2).normal(size=(len(ALL_STEPS), *size))).float()
    for name in ("translate-x", "translate-y", "rotate"):
        restored, within = BY_NAME[name].undo(maps, torch.tensor(ALL_STEPS))
        for original, back, valid, step in zip(maps.double().numpy(), restored, within, ALL_STEPS, strict=True):
            ones = np.array(by_pil(name, Image.fromarray(np.full(size, 255, np.uint8)), step)) / 255.0
            if name == "rotate":
                pair = [rotate(each, -135.0 * step / 30, order=1, mode="constant", cval=0) for each in (original, ones)]
            else:
                side = size[1] if name == "translate-x" else size[0]
                shift = int(side * 32 * step / (224 * 30)) or int(math.copysign(1, step))
                move = AffineTransform(translation=(shift, 0) if name == "translate-x" else (0, shift))
                pair = [warp(each, move, order=1, mode="constant", cval=0) for each in (original, ones)]
            np.testing.assert_allclose(back.numpy(), pair[0], atol=1e-5)
            assert np.array_equal(valid.numpy(), pair[1] > 1e-6), (name, step)
        assert not bool(within[0].all() or within[-1].all())


@pytest.mark.parametrize("name", ["flip-lr", "flip-ud"])
def test_a_flip_undoes_itself(name):
    maps = torch.arange(12.0).view(1, 3, 4)
    flipped = maps.flip(2 if name == "flip-lr" else 1)
    restored, within = BY_NAME[name].undo(flipped, torch.zeros(1, dtype=torch.long))
    assert torch.equal(restored, maps)
    assert within is None


def test_a_map_that_moves_with_the_picture_comes_back_within_the_valid_region():
    """A smooth map, moved as the picture is, then back: nearly the same wherever it counts, and not elsewhere."""
    model = Classifier(lambda inputs: inputs.flatten(1)[:, :2], channels=1)
    place = torch.linspace(0, 3, 48)
    picture = ((place.view(-1, 1).sin() + place.cos()) / 4 + 0.5).expand(len(ALL_STEPS), 1, 48, 48).contiguous()
    steps = torch.tensor(ALL_STEPS)
    for transform in TRANSFORMS:
        if transform.kind == "geometric":
            back, within = transform.undo(transform(model, picture, steps).squeeze(1), steps)
            gap = (back - picture.squeeze(1)).abs()
            within = torch.ones_like(back, dtype=torch.bool) if within is None else within
            whole = -torch.nn.functional.max_pool2d(-within.float(), 5, stride=1) > 0  # the 5×5 erosion
            assert float(gap[:, 2:-2, 2:-2][whole].max()) < 0.05
            assert bool((gap > 0.05).any()) == transform.signed


def test_photometric_maps_stay_where_they_are():
    maps = torch.rand(2, 5, 5)
    for transform in TRANSFORMS:
        if transform.kind == "photometric":
            back, within = transform.undo(maps, torch.tensor([3, -3]))
            assert torch.equal(back, maps)
            assert within is None


def test_at_224_a_translation_is_that_of_the_paper():
    model = Classifier(lambda inputs: inputs.flatten(1)[:, :2], channels=1)
    picture = torch.zeros(3, 1, 224, 224)
    picture[:, :, 100, 100] = 1
    moved = BY_NAME["translate-x"](model, picture, torch.tensor([30, -30, 1]))
    assert [image.nonzero()[0].tolist() for image in moved] == [[0, 100, 132], [0, 100, 68], [0, 100, 101]]


def test_magnitudes_are_different_and_belong_to_the_sample():
    rng = Rng(0, ("a", "b", "c"))
    magnitudes = draw_magnitudes(BY_NAME["rotate"], 6, rng=rng)
    assert magnitudes.shape == (3, 6)
    assert all(len(set(row)) == 6 and 0 not in row for row in magnitudes.tolist())
    assert torch.equal(magnitudes[1:2], draw_magnitudes(BY_NAME["rotate"], 6, rng=rng[1:2]))
    assert not torch.equal(magnitudes, draw_magnitudes(BY_NAME["color"], 6, rng=rng))
    assert torch.equal(
        magnitudes[:, :3], draw_magnitudes(BY_NAME["rotate"], 3, rng=rng)
    )  # fewer draws are the first of more


def test_the_paper_has_48_rows_of_data():
    geometric, photometric = (augmentations(kind, 6) for kind in ("geometric", "photometric"))
    assert (len(geometric), len(photometric)) == (20, 28)
    names = [transform.name for transform in (*geometric, *photometric)]
    assert len(set(names)) == 48
    assert "geometric/rotate/3" in names
    assert "photometric/equalize" in names
