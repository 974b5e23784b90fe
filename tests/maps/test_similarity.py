"""Likeness of maps beside scikit-image, SciPy and answers known by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import ndimage, stats
from skimage.metrics import structural_similarity
from skimage.transform import rotate

from snellen.maps.similarity import likeness, likeness_to, pearson, rank_correlation, spearman, ssim
from snellen.types import Rng

RNG = Rng(0, tuple("abcd"))


def pair(size: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    first = RNG.normal("one", size) * torch.tensor([1.0, 1e-3, 50.0, 1.0]).view(4, 1, 1)
    return first, 0.6 * first + 0.4 * RNG.normal("two", size)


@pytest.mark.parametrize("size", [(5, 5), (12, 17), (24, 24)])
def test_ssim_is_that_of_scikit_image(size):
    first, second = pair(size)
    for i, ours in enumerate(ssim(first, second).tolist()):
        a, b = first[i].double().numpy(), second[i].double().numpy()
        theirs = structural_similarity(a, b, win_size=5, data_range=max(np.ptp(a), np.ptp(b)))
        assert ours == pytest.approx(theirs, abs=1e-6)


@pytest.mark.parametrize("how", ["ssim", "pearson", "spearman"])
def test_several_maps_held_against_the_same_one_are_as_alike_as_each_alone(how):
    first, second = pair((12, 17))
    alike = likeness_to(first, how)
    for other in (second, first, second.flip(1)):
        assert torch.equal(alike(other), likeness(first, other, how))


def test_ssim_within_a_mask_is_the_mean_over_the_eroded_mask():
    first, second = pair((16, 20))
    within = torch.ones(4, 16, 20, dtype=torch.bool)
    within[:, :3] = False
    within[1:, 10, 7] = False
    for i, ours in enumerate(ssim(first, second, within=within).tolist()):
        a, b = first[i].double().numpy(), second[i].double().numpy()
        _, full = structural_similarity(a, b, win_size=5, data_range=max(np.ptp(a), np.ptp(b)), full=True)
        eroded = ndimage.binary_erosion(within[i].numpy(), np.ones((5, 5)))
        assert ours == pytest.approx(full[eroded].mean(), abs=1e-6)


def mirrored_ssim_by_loops(first: np.ndarray, second: np.ndarray, within: np.ndarray) -> float:
    """The mean over pixels whose 5×5 neighbours in the picture all count; windows are mirrored at the rim: a | a b c."""
    height, width = first.shape
    span = max(np.ptp(first), np.ptp(second))
    values = []
    for down in range(height):
        for across in range(width):
            near = [(down + i, across + j) for i in range(-2, 3) for j in range(-2, 3)]
            inside = [(i, j) for i, j in near if 0 <= i < height and 0 <= j < width]
            if all(within[place] for place in inside):
                mirror = [(min(max(i, -1 - i), 2 * height - 1 - i), min(max(j, -1 - j), 2 * width - 1 - j)) for i, j in near]
                a, b = (np.array([maps[place] for place in mirror]) for maps in (first, second))
                (spread_a, shared), (_, spread_b) = np.cov(a, b)
                light = (2 * a.mean() * b.mean() + (0.01 * span) ** 2) / (a.mean() ** 2 + b.mean() ** 2 + (0.01 * span) ** 2)
                values.append(light * (2 * shared + (0.03 * span) ** 2) / (spread_a + spread_b + (0.03 * span) ** 2))
    return float(np.mean(values))


def test_mirrored_ssim_is_that_of_the_authors_of_cose():
    """Their words: the full map of scikit-image, averaged over the mask after an erosion by 5×5 (outside counts)."""
    first, second = pair((11, 13))
    within = torch.ones(4, 11, 13, dtype=torch.bool)
    within[1:, :3] = False  # moved down: the rim still counts on three sides
    within[2, 6, 7] = False
    within[3] = torch.from_numpy(rotate(np.ones((11, 13)), 30, order=1) > 0)
    scores = likeness(first, second, "ssim-mirrored", within=within)
    for i, ours in enumerate(scores.tolist()):
        a, b = first[i].double().numpy(), second[i].double().numpy()
        _, full = structural_similarity(a, b, win_size=5, data_range=max(np.ptp(a), np.ptp(b)), full=True)
        theirs = full[ndimage.binary_erosion(within[i].numpy(), np.ones((5, 5)), border_value=1)].mean()
        assert ours == pytest.approx(theirs, abs=1e-6)
        assert ours == pytest.approx(mirrored_ssim_by_loops(a, b, within[i].numpy()), abs=1e-6)
    assert bool(((scores - likeness(first, second, "ssim", within=within)).abs() > 1e-4).all())
    assert torch.equal(
        likeness(first, second, "ssim-mirrored"), likeness(first, second, "ssim")
    )  # nothing was moved: as printed


def test_ssim_of_constant_maps_is_undefined_and_of_equal_maps_is_one():
    first, _ = pair((8, 8))
    assert ssim(first, first).tolist() == pytest.approx([1.0] * 4)
    assert ssim(torch.ones(1, 8, 8), torch.full((1, 8, 8), 3.0)).isnan().all()
    nothing = torch.zeros(4, 8, 8, dtype=torch.bool)
    assert ssim(first, first, within=nothing).isnan().all()


@pytest.mark.parametrize("how", ["ssim", "pearson", "spearman"])
def test_a_map_with_nan_is_like_no_other(how):
    first, second = pair((8, 9))
    second[1, 3, 3] = torch.nan
    second[2] = torch.nan
    within = torch.ones(4, 8, 9, dtype=torch.bool)
    for scores in (
        likeness(first, second, how),
        likeness(second, first, how, within=within),
        likeness_to(first, how)(second),
    ):
        assert scores.isnan().tolist() == [False, True, True, False]


@pytest.mark.parametrize("size", [(3, 9), (4, 4)])
def test_ssim_of_maps_smaller_than_the_window_is_undefined(size):
    first, second = pair(size)
    assert ssim(first, second).isnan().all()
    assert ssim(first, second, within=torch.ones(4, *size, dtype=torch.bool)).isnan().all()


def test_correlations_are_those_of_scipy_with_ties_and_masks():
    first, second = pair((9, 7))
    first, second = (first * 3).round(), (second * 3).round()
    within = RNG.uniform("within", (9, 7)) > 0.3
    for i in range(4):
        kept = within[i].numpy()
        a, b = first[i].numpy()[kept], second[i].numpy()[kept]
        if i != 1:  # all zeros after rounding
            assert float(pearson(first, second, within=within)[i]) == pytest.approx(stats.pearsonr(a, b)[0], abs=1e-6)
            assert float(spearman(first, second, within=within)[i]) == pytest.approx(stats.spearmanr(a, b)[0], abs=1e-6)


def test_a_constant_has_no_correlation_and_a_line_has_all():
    first, _ = pair((6, 6))
    third = torch.full((4, 6, 6), 1 / 3)
    assert pearson(first, third).isnan().all()
    assert spearman(third, first).isnan().all()
    assert pearson(first, 3 * first + 1).tolist() == pytest.approx([1.0] * 4)
    assert likeness(first, -first, "spearman").tolist() == pytest.approx([-1.0] * 4)
    assert likeness(first, first**3, "spearman").tolist() == pytest.approx([1.0] * 4)


def test_rank_correlation_by_hand():
    # ranks 1 2 3 4 against 2 1 4 3: 1 - 6·(1+1+1+1) / (4·15) = 0.6
    correlation = rank_correlation(torch.tensor([[1.0, 2.0, 3.0, 4.0]]), torch.tensor([[20.0, 10.0, 40.0, 30.0]]))
    assert correlation.tolist() == pytest.approx([0.6])
