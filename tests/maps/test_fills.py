from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import ndimage

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.maps.fills import BLACK, BLUR, MEAN, NOISE, Blur
from snellen.plugins.registry import FILLS, label, spec
from snellen.types import Rng

RNG = Rng(seed=3, ids=("a", "b"))


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return Classifier(lambda inputs: inputs.flatten(1)[:, :2], mean=(0.4, 0.5, 0.6), std=(0.2, 0.25, 0.3))


@pytest.fixture
def inputs() -> torch.Tensor:
    return RNG.normal("inputs", (3, 16, 20))


def test_black_is_zero_pixels(classifier, inputs):
    assert bool((classifier.to_pixels(BLACK(classifier, inputs, rng=RNG)).abs() < 1e-6).all())


def test_mean_is_zero_inputs_which_is_the_mean_colour(classifier, inputs):
    filled = MEAN(classifier, inputs, rng=RNG)
    assert bool((filled == 0).all())
    torch.testing.assert_close(classifier.to_pixels(filled)[0, :, 0, 0], torch.tensor([0.4, 0.5, 0.6]))


def test_noise_is_pixels_in_range_and_belongs_to_the_sample(classifier, inputs):
    filled = NOISE(classifier, inputs, rng=RNG)
    pixels = classifier.to_pixels(filled)
    assert bool(((pixels > -1e-6) & (pixels < 1 + 1e-6)).all())
    assert pixels.std() > 0.2
    assert torch.equal(NOISE(classifier, inputs[1:], rng=RNG[1:])[0], filled[1])
    assert not torch.equal(filled[0], filled[1])


def test_gaussian_is_standard_normal_inputs_and_belongs_to_the_sample(classifier, inputs):
    filled = FILLS.build("gaussian")(classifier, inputs, rng=RNG)
    wide = FILLS.build("gaussian")(classifier, torch.zeros(1, 3, 200, 200), rng=RNG[:1])
    assert abs(float(wide.mean())) < 0.02
    assert abs(float(wide.std()) - 1) < 0.02
    assert torch.equal(FILLS.build("gaussian")(classifier, inputs[1:], rng=RNG[1:])[0], filled[1])
    assert not torch.equal(filled[0], filled[1])


@pytest.mark.parametrize(("size", "sigma"), [(11, 5.0), (5, 5.0), (11, 1.0), (3, 0.5), (7, 40.0), (1, 5.0)])
def test_the_blur_kernel_is_a_reflecting_gaussian_filter_of_a_spike(classifier, size, sigma):
    """What the insertion test's authors use: a Gaussian filter applied to a delta *inside* the window."""
    window = np.zeros((size, size))
    window[size // 2, size // 2] = 1
    kernel = ndimage.gaussian_filter(window, sigma, mode="reflect")
    spike = torch.zeros(1, 3, 41, 41)
    spike[..., 20, 20] = 1
    half = size // 2
    seen = Blur(size, sigma)(classifier, spike, rng=RNG[:1])[0, 1]
    np.testing.assert_allclose(seen[20 - half : 21 + half, 20 - half : 21 + half].numpy(), kernel, atol=1e-7)
    assert seen.sum().item() == pytest.approx(1, abs=1e-5)


def test_the_default_blur_is_nearly_a_box(classifier):
    spike = torch.zeros(1, 1, 31, 31)
    spike[..., 15, 15] = 1
    seen = BLUR(classifier, spike, rng=RNG[:1])[0, 0, 10:21, 10:21]
    assert (seen.max() / seen.min()).item() == pytest.approx(1.14, abs=0.01)


def test_outside_the_picture_a_blur_sees_zero_input_and_channels_stay_apart(classifier):
    bright = torch.zeros(1, 3, 12, 12)
    bright[:, 1] = 1
    seen = Blur(3, 100.0)(classifier, bright, rng=RNG[:1])
    assert seen[0, 1, 5, 5].item() == pytest.approx(1, abs=1e-5)
    assert seen[0, 1, 0, 0].item() == pytest.approx(4 / 9, abs=1e-3)  # of the 3×3 window, 2×2 lie on the picture
    assert bool((seen[:, [0, 2]] == 0).all())


@pytest.mark.parametrize("fill", [BLACK, MEAN, BLUR, NOISE])
def test_a_fill_keeps_the_inputs_and_their_shape(classifier, inputs, fill):
    before = inputs.clone()
    filled = fill(classifier, inputs, rng=RNG)
    assert filled.shape == inputs.shape
    assert filled.data_ptr() != inputs.data_ptr()
    assert torch.equal(inputs, before)
    assert FILLS.parse(spec(fill)) == fill
    assert FILLS.parse(label(fill)) == fill


@pytest.mark.parametrize("kernel", [0, 4, -3])
def test_an_even_kernel_is_refused_in_words(kernel):
    with pytest.raises(SnellenError, match=f"fill 'blur': kernel must be odd and positive, not {kernel}"):
        FILLS.parse(f"blur(kernel={kernel})")


def test_every_fill_says_in_which_space_it_is_meant():
    assert {name: FILLS[name].traits.space for name in FILLS} == {
        "black": "pixels", "blur": "inputs", "gaussian": "inputs", "mean": "inputs", "noise": "pixels",
    }  # fmt: skip
