"""XRAI against PAIR's `saliency`, and by hand."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest
import torch
from saliency import core as pair
from saliency.core import xrai as pair_xrai
from scipy import sparse
from skimage.morphology import dilation, disk
from tests.networks import plain
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.methods.integrated_gradients import IntegratedGradients
from snellen.methods.xrai import LEAST_NEW, Baselines, Xrai, _widened, ranked, segments_of
from snellen.plugins.checks.planted import planted_batch
from snellen.plugins.registry import METHODS
from snellen.types import Rng
from snellen.zoo import digits, load_classifier


@pytest.fixture(scope="module")
def picture() -> np.ndarray:
    """A photograph as the network sees it, channels last."""
    from snellen import zoo

    classifier = zoo.load_classifier(zoo.EMBEDDED)
    return classifier.to_inputs(zoo.photographs(classifier.geometry)[1].image[None])[0].movedim(0, 2).numpy()


@pytest.fixture(scope="module")
def masks(picture: np.ndarray) -> list[np.ndarray]:
    return pair_xrai._get_segments_felzenszwalb(picture)


def noise(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


def as_columns(masks: list[np.ndarray]) -> sparse.csr_array:
    return sparse.csr_array(np.stack([mask.ravel() for mask in masks], axis=1).astype(np.uint8))


def test_segments_of_a_photograph_are_those_of_pair(picture: np.ndarray, masks: list[np.ndarray]) -> None:
    assert len(masks) > 100
    assert (segments_of(picture) != as_columns(masks)).nnz == 0


@pytest.mark.slow
@pytest.mark.parametrize("size", [(256, 240), (300, 448)])
def test_segments_of_a_larger_picture_are_those_of_pair(picture: np.ndarray, size: tuple[int, int]) -> None:
    rows, columns = (np.linspace(0, 223, length).round().astype(int) for length in size)
    larger = picture[np.ix_(rows, columns)]
    segments = segments_of(larger)
    expected = as_columns(pair_xrai._get_segments_felzenszwalb(larger))
    assert segments.shape == expected.shape
    assert (segments != expected).nnz == 0


@pytest.mark.parametrize("algorithm", ["full", "fast"])
def test_regions_are_taken_in_pairs_order(masks: list[np.ndarray], algorithm: str) -> None:
    """The same attribution and the same segments: the same regions to the pixel, their densities to 1e-5."""
    chosen = masks[::3]  # PAIR's loop takes seconds per photograph with all of them
    attribution = noise(masks[0].shape)
    run = pair.XRAI._xrai if algorithm == "full" else pair.XRAI._xrai_fast
    expected, order = run(attribution, chosen)
    maps = ranked(attribution, as_columns(chosen), LEAST_NEW, fast=algorithm == "fast")
    np.testing.assert_allclose(maps, expected, rtol=1e-4, atol=1e-6)
    assert len(np.unique(order)) > 20
    rank = np.empty_like(order)
    for place, value in enumerate(sorted({maps[order == step][0] for step in np.unique(order)[:-1]}, reverse=True), 1):
        rank[maps == value] = place
    left_over = order == order.max()
    assert np.array_equal(rank[~left_over], order[~left_over])


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["full", "fast"])
def test_xrai_of_a_network_is_that_of_pair_up_to_the_quadrature_of_its_base(algorithm: str) -> None:
    """A smooth network and 100 steps: the bases agree to a percent, and so do the densities nearly everywhere."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.AvgPool2d(7), plain(activation=nn.Tanh))
    coarse = Rng(seed=1, ids=("a",)).normal("image", (3, 8, 8))
    inputs = nn.functional.interpolate(coarse, size=(224, 224), mode="nearest")
    target = torch.tensor([2])

    def gradients(images: np.ndarray, call_model_args=None, expected_keys=None) -> dict[str, np.ndarray]:
        leaf = torch.tensor(images, dtype=torch.float32).movedim(3, 1).contiguous().requires_grad_()
        (gradient,) = torch.autograd.grad(net(leaf)[:, 2].sum(), leaf)
        return {pair.INPUT_OUTPUT_GRADIENTS: gradient.movedim(1, 3).numpy()}

    settings = pair.XRAIParameters(algorithm=algorithm, steps=100)
    expected = pair.XRAI().GetMask(inputs[0].movedim(0, 2).numpy(), gradients, batch_size=50, extra_parameters=settings)
    method = METHODS.build("xrai@boggust2023", {"fast": algorithm == "fast"})
    maps = method(Classifier(net), inputs, target, rng=Rng(seed=0, ids=("a",)))[0].numpy()
    size = np.abs(expected).max()
    assert (np.abs(maps - expected) <= 0.02 * size).mean() > 0.99


@pytest.mark.parametrize(
    ("baselines", "ends"),
    [("both", (torch.amin, torch.amax)), ("darkest", (torch.amin,)), ("brightest", (torch.amax,))],
)
def test_the_base_is_integrated_gradients_from_the_ends(baselines: Baselines, ends: tuple[Any, ...]) -> None:
    """For a single channel the base is the mean of plain maps, from the darkest and from the brightest value."""
    case = planted_batch(2)
    grey = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(4 * 24 * 24, 3))
    classifier, inputs = Classifier(grey, channels=1), case.inputs[:, :1].contiguous()
    expected = torch.zeros(2, 24, 24)
    for reduce in ends:
        for i in range(2):
            end = float(reduce(inputs[i]))
            # Zero inputs are the baseline of plain integrated gradients, so the picture is moved to start there.
            moved = Classifier(nn.Sequential(Moved(end), grey), channels=1)
            expected[i] += IntegratedGradients(steps=12)(
                moved, inputs[i : i + 1] - end, case.targets[i : i + 1], rng=case.rng[i : i + 1]
            )[0]
    maps = Xrai(steps=12, baselines=baselines)._attributions(classifier, inputs, case.targets)
    torch.testing.assert_close(maps, expected / len(ends), rtol=1e-4, atol=1e-6)


def test_on_light_digits_the_brightest_baseline_credits_the_paper() -> None:
    """Why the method is at chance on the default subject: half of it answers for what is dark."""
    classifier, scenes = load_classifier("digits"), digits.scenes("evaluation", 16)
    inputs = classifier.to_inputs(scenes.pixels)
    rng = Rng(seed=0, ids=tuple(map(str, range(16))))
    share = {}
    for baselines in get_args(Baselines):
        method = Xrai(steps=8, baselines=baselines)
        maps = method(classifier, inputs, scenes.labels, rng=rng)
        best = maps == maps.amax(dim=(1, 2), keepdim=True)
        share[baselines] = float(((best & scenes.truth).sum(dim=(1, 2)) / best.sum(dim=(1, 2))).mean())
    assert share["darkest"] > 0.7
    assert share["brightest"] < 0.2
    assert share["both"] < 0.2


class Moved(nn.Module):
    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = by

    def forward(self, inputs: Tensor) -> Tensor:
        return inputs + self.by


@pytest.mark.parametrize("radius", [0, 1, 3, 5])
def test_widened_segments_are_dilated_masks(radius: int) -> None:
    """More than 64 labels, so that more than one word of bits is needed."""
    labels = np.random.default_rng(0).integers(0, 150, (6, 7)).repeat(5, axis=0).repeat(4, axis=1)
    masks = _widened(labels, radius).toarray()
    assert masks.shape == (30 * 28, labels.max() + 1)
    for label in range(labels.max() + 1):
        expected = dilation((labels == label).astype(np.uint8), disk(radius))
        assert np.array_equal(masks[:, label].reshape(labels.shape), expected)


def test_regions_by_hand() -> None:
    """Six pixels in a row, three overlapping regions of density 3, 2.5 and 2, at least one new pixel each.

    Full: A = pixels 0-1 (5, 1) is densest with 3. What A leaves of B = pixels 1-2 (1, 4) is 4, and of C = pixels 2-4
    (4, 2, 0) is 2: B is taken for pixel 2, then C for pixels 3-4 with mean 1. Pixel 5 is in no region and keeps its -6.
    Fast ranks A, B, C by their first densities, which here is the same order.
    """
    values = np.array([[5.0, 1.0, 4.0, 2.0, 0.0, -6.0]], dtype=np.float32)
    regions = [(0, 1), (1, 2), (2, 3, 4)]
    inside = np.zeros((6, 3), dtype=np.uint8)
    for column, region in enumerate(regions):
        inside[list(region), column] = 1
    for fast in (False, True):
        maps = ranked(values, sparse.csr_array(inside), 1, fast=fast)
        assert maps.tolist() == [[3.0, 3.0, 4.0, 1.0, 1.0, -6.0]]
    # When two new pixels are the least, B has only one left and is passed over.
    assert ranked(values, sparse.csr_array(inside), 2, fast=False).tolist() == [[3.0, 3.0, 2.0, 2.0, 2.0, -6.0]]
    # Where the orders differ: after A, C is left with (4, 9, 0), more than B; fast takes B first all the same.
    values = np.array([[5.0, 7.0, 3.0, 9.0, 0.0, 0.0]])
    assert ranked(values, sparse.csr_array(inside), 1, fast=False).tolist() == [[6.0, 6.0, 4.0, 4.0, 4.0, 0.0]]
    assert ranked(values, sparse.csr_array(inside), 1, fast=True).tolist() == [[6.0, 6.0, 3.0, 4.5, 4.5, 0.0]]


def test_a_picture_without_contrast_gets_a_map() -> None:
    case = planted_batch(1)
    flat = torch.zeros_like(case.inputs)
    maps = Xrai(steps=2)(case.classifier, flat, case.targets, rng=case.rng)
    assert torch.equal(maps, torch.zeros(1, 24, 24))
