"""Sufficient input subsets against a slow version with sets, one image at a time, and against sums that can be sorted."""

from __future__ import annotations

import math

import pytest
import torch
from tests.networks import NETWORKS, SIDE
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.maps.fills import BLACK
from snellen.methods.sis import Sis, SisRemoval
from snellen.plugins.registry import METHODS
from snellen.types import Rng


def slow(net: nn.Module, image: Tensor, fill: Tensor, target: int, threshold: float, per_step: int) -> tuple[list[set], int]:
    """Every subset on the way from all pixels to few, and which of them is the last that suffices."""
    width = image.shape[2]
    left = {(row, column) for row in range(image.shape[1]) for column in range(width)}
    subsets, probabilities = [], []
    while left:
        mask = torch.zeros(image.shape[1:])
        for place in left:
            mask[place] = 1
        mask.requires_grad_()
        probability = net((mask * image + (1 - mask) * fill)[None]).softmax(dim=1)[0, target]
        (slope,) = torch.autograd.grad(probability, mask)
        subsets.append(set(left))
        probabilities.append(float(probability.detach()))
        left -= set(sorted(left, key=lambda place: float(slope[place]))[:per_step])
    needed = threshold if probabilities[0] >= threshold else threshold * probabilities[0]
    return subsets, max(step for step, probability in enumerate(probabilities) if probability >= needed)


@pytest.mark.parametrize("name", sorted(NETWORKS))
@pytest.mark.parametrize(("threshold", "per_step"), [(0.15, 40), (0.85, 90)])
def test_sis_agrees_with_a_slow_version(name: str, threshold: float, per_step: int) -> None:
    net = NETWORKS[name](activation=nn.SiLU).eval()
    rng = Rng(seed=1, ids=("a", "b", "c"))
    classifier = Classifier(net, mean=0.5, std=0.25)
    inputs, targets = classifier.to_inputs(rng.uniform("images", (3, SIDE, SIDE))), torch.tensor([0, 3, 1])
    ranked = Sis(threshold=threshold, per_step=per_step, fill=BLACK)(classifier, inputs, targets, rng=rng)
    plain = Sis(threshold=threshold, per_step=per_step, fill=BLACK, ranked=False)(classifier, inputs, targets, rng=rng)
    for row in range(3):
        fill = torch.full_like(inputs[row], -2.0)  # black pixels, as the network sees them
        subsets, last = slow(net, inputs[row], fill, int(targets[row]), threshold, per_step)
        inside, survived = torch.zeros(SIDE, SIDE), torch.zeros(SIDE, SIDE)
        for place in subsets[last]:
            inside[place] = 1
            survived[place] = sum(place in subset for subset in subsets) / len(subsets)
        assert torch.equal(plain[row], inside)
        torch.testing.assert_close(ranked[row], survived)


class Sums(nn.Module):
    """Two classes; the first one's logit is a weighted sum of the pixels, the other's is zero."""

    def __init__(self, weights: Tensor) -> None:
        super().__init__()
        self.weights = nn.Parameter(weights)

    def forward(self, inputs: Tensor) -> Tensor:
        total = (inputs * self.weights).sum(dim=(1, 2, 3))
        return torch.stack([total, torch.zeros_like(total)], dim=1)


@pytest.mark.parametrize("whole", [6.0, -1.0])
def test_the_subset_of_a_sum_is_its_largest_terms(whole: float) -> None:
    weights = Rng(seed=0, ids=("a",)).normal("weights", (1, 5, 6))[0]
    weights += (whole - weights.sum()) / weights.numel()
    saliency = Sis(threshold=0.9, per_step=1)(
        Classifier(Sums(weights), channels=1), torch.ones(1, 1, 5, 6), torch.tensor([0]), rng=Rng(seed=0, ids=("a",))
    )[0].flatten()
    terms, order = weights.flatten().sort(descending=True)
    probability = 1 / (1 + math.exp(-whole))
    needed = 0.9 if probability >= 0.9 else 0.9 * probability
    logit = math.log(needed / (1 - needed))
    # The fewest of the largest terms that reach it; at a low need a single one may do.
    count = next(n for n in range(1, 31) if float(terms[:n].sum()) >= logit)
    assert (saliency > 0).sum() == count
    assert set(saliency.nonzero().flatten().tolist()) == set(order[:count].tolist())
    torch.testing.assert_close(saliency[order[:count]], 1 - torch.arange(count) / 30)


def test_the_subset_of_a_photograph_suffices() -> None:
    from snellen import zoo

    classifier = zoo.load_classifier(zoo.EMBEDDED)
    samples = zoo.photographs(classifier.geometry)[:1]
    inputs = classifier.to_inputs(torch.stack([sample.image for sample in samples]))
    own, targets = classifier.probabilities(inputs).max(dim=1)
    rng = Rng(seed=0, ids=tuple(sample.id for sample in samples))
    maps = Sis(per_step=5000)(classifier, inputs, targets, rng=rng)
    subset = classifier.probabilities(inputs * (maps > 0)[:, None]).gather(1, targets[:, None])[:, 0]
    assert bool((subset >= torch.where(own >= 0.85, 0.85, 0.85 * own) - 1e-4).all())
    assert bool(((maps > 0).float().mean(dim=(1, 2)) < 0.9).all())


def test_preset_of_sis_is_the_subset_alone() -> None:
    assert METHODS.parse("sis@boggust2023") == Sis(threshold=0.85, per_step=100, ranked=False)


def test_sis_removal_agrees_with_a_search_over_sets() -> None:
    net = NETWORKS["plain"](activation=nn.SiLU).eval()
    rng = Rng(seed=1, ids=("a", "b"))
    inputs, targets = rng.normal("images", (3, SIDE, SIDE))[..., :5, :4], torch.tensor([0, 3])

    def pad(images: Tensor) -> Tensor:
        return net(nn.functional.pad(images, (0, SIDE - 4, 0, SIDE - 5)))

    classifier = Classifier(pad)
    with classifier.counting() as ledger:
        maps = SisRemoval()(classifier, inputs, targets, rng=rng)
    assert ledger.passes.forward == 2 * 20 * 21 // 2
    for row in range(2):

        def probability(places: set, row: int = row) -> float:
            mask = torch.zeros(5, 4)
            for place in places:
                mask[place] = 1
            with torch.no_grad():
                return float(pad((inputs[row] * mask)[None]).softmax(dim=1)[0, targets[row]])

        left = {(i, j) for i in range(5) for j in range(4)}
        subsets = [set(left)]
        while len(left) > 1:
            left -= {max(left, key=lambda place: probability(left - {place}))}
            subsets.append(set(left))
        whole = probability(subsets[0])
        needed = 0.85 if whole >= 0.85 else 0.85 * whole
        smallest = [subset for subset in subsets if probability(subset) >= needed][-1]
        expected = torch.zeros(5, 4)
        for place in smallest:
            expected[place] = sum(place in subset for subset in subsets) / 20
        torch.testing.assert_close(maps[row], expected)
