"""Rows per pass, and regrouping into full passes."""

from __future__ import annotations

import pytest
import torch
from tests.networks import SIDE, plain, residual
from torch import Tensor

from snellen.classifier import Classifier
from snellen.types import Rng

IDS = tuple("abcdefg")
RNG = Rng(seed=4, ids=IDS)


def images(count: int = 7, channels: int = 3) -> Tensor:
    return RNG[:count].normal("images", (channels, SIDE, SIDE))


@pytest.mark.parametrize("sizes", [(7,), (1, 2, 4), (3, 4), (5, 1, 1)])
@pytest.mark.parametrize("rows", [1, 2, 4, 64])
def test_scores_of_regrouped_blocks_are_the_logits(sizes: tuple[int, ...], rows: int) -> None:
    classifier = Classifier(plain(), rows=rows)
    targets = torch.tensor([0, 1, 2, 3, 4, 0, 1])
    calls: list[int] = []
    blocks = list(zip(images().split(sizes), targets.split(sizes), strict=True))
    with classifier.counting(lambda passes: calls.append(passes.forward)):
        logit = classifier.scores(iter(blocks), of="logit")
        probability = classifier.scores(iter(blocks), of="probability")
    expected = classifier.logits(images())
    torch.testing.assert_close(logit, expected.gather(1, targets[:, None])[:, 0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(probability, expected.softmax(1).gather(1, targets[:, None])[:, 0], rtol=1e-4, atol=1e-5)
    # Every pass is full but the last one.
    full, rest = divmod(7, rows)
    assert calls == 2 * ([rows] * full + [rest] * bool(rest))


def test_scores_of_nothing_is_nothing() -> None:
    assert Classifier(plain()).scores(iter(()), of="logit").shape == (0,)


@pytest.mark.parametrize("side", [8, 32, 96])
def test_rows_are_a_power_of_two_and_fewer_for_larger_images(side: int) -> None:
    net = residual()
    classifier, larger = Classifier(net), Classifier(net)
    for gradients in (False, True):
        rows = classifier.rows_for(torch.zeros(1, 3, side, side), gradients=gradients)
        assert 1 <= rows <= 512
        assert rows & (rows - 1) == 0
        assert larger.rows_for(torch.zeros(1, 3, 8 * side, 8 * side), gradients=gradients) <= rows
    assert classifier.copies(torch.zeros(7, 3, side, side)) == max(
        1, classifier.rows_for(torch.zeros(1, 3, side, side)) // 7
    )
    assert Classifier(net, rows=4).rows_for(torch.zeros(1, 3, side, side)) == 4
