"""Masks found by gradient descent, against one-image versions with torch's own optimisers and against known answers."""

from __future__ import annotations

import math

import pytest
import torch
from tests.networks import NETWORKS, SIDE
from torch import Tensor, nn
from torch.nn import functional

from snellen.classifier import Classifier
from snellen.maps.fills import MEAN, Blur
from snellen.methods.extremal_perturbation import ExtremalPerturbation, area_penalty, blurred, perturbed, smooth_masks
from snellen.methods.meaningful_perturbation import MeaningfulPerturbation, shifted, upsampling
from snellen.types import Rng

RNG = Rng(seed=4, ids=("a", "b", "c"))
TARGETS = torch.tensor([0, 3, 1])


def problem(name: str) -> tuple[nn.Module, Classifier, Tensor]:
    net = NETWORKS[name](activation=nn.SiLU)  # without kinks, which rounding alone could move
    return net, Classifier(net), RNG.normal("images", (3, SIDE, SIDE))


# Meaningful perturbation -----------------------------------------------------------------------------------------------


def slow_meaningful(
    method: MeaningfulPerturbation, net: nn.Module, image: Tensor, fill: Tensor, target: int, rng: Rng
) -> Tensor:
    """One image, autograd through everything, an optimiser of torch's own."""
    side = image.shape[-1]
    weights = torch.empty(side, method.cells)
    for pixel in range(side):
        for cell in range(method.cells):
            away = (pixel + 0.5) * method.cells / side - (cell + 0.5)
            weights[pixel, cell] = math.exp(-0.5 * (away * 8 / 5) ** 2)
    weights /= weights.sum(dim=1, keepdim=True)
    cells = torch.full((method.cells, method.cells), 0.5).requires_grad_()
    optimiser = torch.optim.Adam([cells], lr=0.1)
    for step in range(method.steps):
        optimiser.zero_grad()
        down, right = ((rng.uniform(f"jitter {step}", (2,))[0] * 3).long() - 1).tolist()  # one pixel either way at this size

        def moved(picture: Tensor, down: int = down, right: int = right) -> Tensor:
            padded = functional.pad(picture[None], (1, 1, 1, 1), mode="replicate")[0]
            return padded[:, 1 + down : 1 + down + side, 1 + right : 1 + right + side]

        mask = torch.einsum("pi,qj,ij->pq", weights, weights, cells)
        seen = mask * moved(image) + (1 - mask) * moved(fill)
        score = net(seen[None]).softmax(dim=1)[0, target]
        size = (1 - cells).abs().sum()
        rough = (cells[1:] - cells[:-1]).abs().pow(3).sum() + (cells[:, 1:] - cells[:, :-1]).abs().pow(3).sum()
        (score + method.area * size + method.roughness * rough).backward()
        optimiser.step()
        with torch.no_grad():
            cells.clamp_(0, 1)
    return 1 - torch.einsum("pi,qj,ij->pq", weights, weights, cells.detach())


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_meaningful_perturbation_agrees_with_a_slow_version(name: str) -> None:
    net, classifier, inputs = problem(name)
    method = MeaningfulPerturbation(steps=6, cells=9, fill=Blur(kernel=7, sigma=3.0), area=1e-3, roughness=0.05)
    maps = method(classifier, inputs, TARGETS, rng=RNG)
    fill = method.fill(classifier, inputs, rng=RNG)
    for i, target in enumerate(TARGETS.tolist()):
        expected = slow_meaningful(method, net, inputs[i], fill[i], target, RNG[i : i + 1])
        # Adam's first steps have a fixed length, so the rounding of a gradient near zero is seen in the third digit.
        torch.testing.assert_close(maps[i], expected, rtol=0, atol=1e-3)


def test_an_image_moves_as_a_whole_and_repeats_its_border() -> None:
    images = torch.arange(36.0).view(1, 1, 6, 6).repeat(40, 1, 1, 1)
    rng = Rng(0, tuple(str(i) for i in range(40)))
    seen = {tuple(image[0, 2:4, 2:4].flatten().tolist()) for image in shifted(images, rng, 0)}
    centre = images[0, 0]
    assert seen == {tuple(centre[2 + i : 4 + i, 2 + j : 4 + j].flatten().tolist()) for i in (-1, 0, 1) for j in (-1, 0, 1)}
    torch.testing.assert_close(shifted(images, rng, 3)[7:8], shifted(images[7:8], rng[7:8], 3))
    assert not torch.equal(shifted(images, rng, 3), shifted(images, rng, 4))


def test_an_upsampled_grid_keeps_its_position_and_its_level() -> None:
    weights = upsampling(7, 224)
    torch.testing.assert_close(weights.sum(dim=1), torch.ones(224))
    torch.testing.assert_close(weights, weights.flip(0, 1))
    middle = weights[:, 3]
    assert float((middle * torch.arange(224)).sum() / middle.sum()) == pytest.approx(111.5, abs=1e-3)


class Patch(nn.Module):
    """Two logits: the brightness of one rectangle, and nothing."""

    def __init__(self, rows: slice, columns: slice, gain: float) -> None:
        super().__init__()
        weights = torch.zeros(3, SIDE, SIDE)
        weights[:, rows, columns] = gain / (3 * (rows.stop - rows.start) * (columns.stop - columns.start))
        self.register_buffer("weights", weights)

    def forward(self, inputs: Tensor) -> Tensor:
        score = (inputs * self.weights).sum(dim=(1, 2, 3))
        return torch.stack([score, torch.zeros_like(score)], dim=1)


def test_meaningful_perturbation_covers_the_pixels_that_carry_the_weight() -> None:
    """A linear model on a bright image: whatever carries weight must go, and nothing else may."""
    inside = torch.zeros(SIDE, SIDE, dtype=torch.bool)
    inside[8:20, 4:16] = True
    classifier = Classifier(Patch(slice(8, 20), slice(4, 16), 4.0))
    method = MeaningfulPerturbation(steps=150, cells=16, fill=MEAN, area=1e-3, roughness=0.0)
    maps = method(classifier, torch.ones(1, 3, SIDE, SIDE), torch.tensor([0]), rng=Rng(0, ("a",)))[0]
    near = functional.max_pool2d(inside[None, None].float(), 9, stride=1, padding=4)[0, 0] > 0
    deep = functional.max_pool2d((~inside)[None, None].float(), 5, stride=1, padding=2)[0, 0] == 0
    assert float(maps[deep].min()) > 0.95
    assert float(maps[~near].max()) < 0.05


# Extremal perturbation -------------------------------------------------------------------------------------------------


def slow_mask(cells: Tensor) -> Tensor:
    return torch.clamp(slow_largest(cells) / slow_largest(torch.ones_like(cells)), max=1)


def slow_largest(cells: Tensor) -> Tensor:
    """Every point of the finer grid against every cell: the soft maximum of those at most five cells away from its own."""
    count = cells.shape[0]
    points = [(row, column) for row in range(2 * count) for column in range(2 * count)]
    places = [(i, j) for i in range(count) for j in range(count)]
    bumps = torch.zeros(len(points), len(places))
    for place, (row, column) in enumerate(points):
        for cell, (i, j) in enumerate(places):
            away = math.hypot((row + 0.5) / 2 - (i + 0.5), (column + 0.5) / 2 - (j + 0.5))
            near = abs(i - row // 2) <= 5 and abs(j - column // 2) <= 5
            bumps[place, cell] = math.exp(-(max(0.0, away - 1) ** 2) / 4) if near else math.nan
    heights = bumps.nan_to_num(0.0) * cells.flatten()
    power = (20 * heights).exp() * ~bumps.isnan()
    return ((heights * power).sum(dim=1) / power.sum(dim=1)).view(2 * count, 2 * count)


def slow_seen(image: Tensor, mask: Tensor) -> Tensor:
    """Eight blurred copies, each made by one dense matrix per axis, and a line between each and the next."""
    side = image.shape[-1]
    places = torch.arange(side).float()
    copies = [image]
    for level in range(1, 8):
        sigma = side * 20 / 224 * level / 7
        weights = torch.exp(-((places[:, None] - places) ** 2) / (2 * sigma**2))
        weights = weights / weights.sum(dim=1, keepdim=True)
        copies.append(torch.einsum("pi,qj,cij->cpq", weights, weights, image))
    depth = 7 * (1 - mask)
    total = torch.zeros_like(image)
    for level in range(7):
        here = (depth >= level) & ((depth < level + 1) | (level == 6))
        total = total + here * (copies[level] * (level + 1 - depth) + copies[level + 1] * (depth - level))
    return total


def slow_extremal(method: ExtremalPerturbation, net: nn.Module, image: Tensor, target: int, area: float) -> Tensor:
    """One image and one area, autograd through everything, an optimiser of torch's own."""
    size = image.shape[1:]
    full = torch.ones(method.cells, method.cells).requires_grad_()
    (evenly,) = torch.autograd.grad(slow_mask(full).sum(), full)
    cells = torch.ones(method.cells, method.cells).requires_grad_()
    optimiser = torch.optim.SGD([cells], lr=0.02, momentum=0.9)

    def drawn(mask: Tensor) -> Tensor:
        return functional.interpolate(mask[None, None], size=size, mode="bilinear", align_corners=False)[0, 0]

    for step in range(method.steps):
        optimiser.zero_grad()
        mask = slow_mask(cells)
        weight = math.exp(math.log(6) + math.log(1200 / 6) * (step + 1) / method.steps)
        values = mask.flatten().sort().values
        wish = torch.tensor([min(1.0, max(0.0, area * len(values) - rank)) for rank in range(len(values))]).flip(0)
        start = 0
        for end in range(1, len(values) + 1):
            if end == len(values) or float((values[end] - values[end - 1]).detach()) > 1e-6:
                wish[start:end] = wish[start:end].mean()
                start = end
        score = net(slow_seen(image, drawn(mask))[None])[0, target]
        (-score + weight * (values - wish).square().mean()).backward()
        assert cells.grad is not None
        cells.grad *= evenly.mean() / evenly
        optimiser.step()
        with torch.no_grad():
            cells.clamp_(0, 1)
    return drawn(slow_mask(cells.detach()))


class Loud(nn.Module):
    """A network whose logits are large: where the target hardly asks for anything, rounding would rank the mask's values."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, inputs: Tensor) -> Tensor:
        return 100 * self.net(inputs)


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_extremal_perturbation_agrees_with_a_slow_version(name: str) -> None:
    quiet, _, inputs = problem(name)
    net = Loud(quiet)
    classifier = Classifier(net)
    method = ExtremalPerturbation(areas=(0.1, 0.3), steps=4, cells=4)
    maps = method(classifier, inputs, TARGETS, rng=RNG)
    for i, target in enumerate(TARGETS.tolist()):
        expected = torch.stack([slow_extremal(method, net, inputs[i], target, area) for area in method.areas]).mean(dim=0)
        torch.testing.assert_close(maps[i], expected, rtol=1e-3, atol=1e-4)


def test_smooth_masks_lie_between_nothing_and_all_and_follow_a_lone_cell() -> None:
    torch.testing.assert_close(smooth_masks(torch.ones(1, 9, 9)), torch.ones(1, 18, 18))
    cells = torch.zeros(1, 9, 9)
    torch.testing.assert_close(smooth_masks(cells), torch.zeros(1, 18, 18))
    cells[0, 4, 4] = 1
    mask = smooth_masks(cells)[0]
    top = (mask == mask.max()).nonzero().float().mean(dim=0)
    assert top.tolist() == [8.5, 8.5], "the middle of the two points that cell (4, 4) has on either axis"
    assert 0.9 < float(mask.max()) <= 1
    torch.testing.assert_close(mask, slow_mask(cells[0]))


def test_the_area_penalty_by_hand() -> None:
    masks = torch.tensor([[[0.1, 0.9], [0.6, 0.2]], [[0.5, 0.5], [0.5, 0.5]]])
    expected = torch.tensor([(0.01 + 0.04 + 0.16 + 0.01) / 4, 0.0])
    torch.testing.assert_close(area_penalty(masks, torch.tensor([0.5, 0.5])), expected)
    sharp = torch.tensor([[[1.0, 0.0], [0.0, 0.0]]])
    assert float(area_penalty(sharp, torch.tensor([0.25]))) == 0


def test_a_full_mask_shows_the_image_and_an_empty_one_the_widest_blur() -> None:
    inputs = RNG.normal("images", (3, SIDE, SIDE))[:1]
    pyramid, owners = blurred(inputs), torch.zeros(2, dtype=torch.long)
    seen = perturbed(pyramid, owners, torch.stack([torch.ones(SIDE, SIDE), torch.zeros(SIDE, SIDE)]))
    torch.testing.assert_close(seen[0], inputs[0])
    torch.testing.assert_close(seen[1], pyramid[0, -1])
    torch.testing.assert_close(blurred(torch.ones_like(inputs)), torch.ones_like(pyramid))


def test_extremal_perturbation_keeps_the_pixels_that_carry_the_weight() -> None:
    """A linear model that likes contrast in one square: the kept area lies there, and is as large as was asked for."""
    inside = torch.zeros(SIDE, SIDE, dtype=torch.bool)
    inside[14:28, 12:26] = True
    sign = torch.ones(SIDE, SIDE)
    sign[::2] *= -1
    sign[:, ::2] *= -1
    net = Patch(slice(14, 28), slice(12, 26), 30.0)
    net.weights *= sign
    method = ExtremalPerturbation(areas=(0.1,), steps=150, cells=16)
    maps = method(Classifier(net), sign.expand(1, 3, -1, -1).clone(), torch.tensor([0]), rng=Rng(0, ("a",)))[0]
    assert float(maps.mean()) == pytest.approx(0.1, abs=0.05)
    assert float(maps[inside].sum() / maps.sum()) > 0.8
