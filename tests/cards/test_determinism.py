from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import spearmanr

from snellen.cards.determinism import determinism, repetitions


def maps(seed: int, count: int = 3) -> torch.Tensor:
    return torch.rand(count, 6, 5, generator=torch.Generator().manual_seed(seed))


def test_the_same_maps_are_exact() -> None:
    finding = determinism(maps(0), [maps(0), maps(0), maps(0)])
    assert (finding.word, finding.share) == ("exact", 1.0)
    assert finding.numbers["changed"] == 0
    assert finding.sentence == "3 images explained under 3 other seeds: every map is the same to the last bit."


def test_one_bit_of_one_map_is_a_change_but_hardly_one() -> None:
    other = maps(0)
    other[1, 2, 3] = torch.nextafter(other[1, 2, 3], torch.tensor(2.0))
    finding = determinism(maps(0), [maps(0), other])
    assert finding.word == "nearly the same"
    assert finding.numbers["changed"] == pytest.approx(1 / 3)
    assert finding.share == pytest.approx(1.0)
    assert "of 3 maps under the later seeds 1 differs from those under the first;" in finding.sentence


def test_numbers_are_those_of_a_naive_twin() -> None:
    own, others = maps(0), [0.3 * maps(1) + 0.7 * maps(0), 0.5 * maps(2) + 0.5 * maps(0)]
    twin = [float(spearmanr(a.flatten(), b.flatten())[0]) for other in others for a, b in zip(own, other, strict=True)]
    finding = determinism(own, others)
    assert finding.word == "varies"
    assert finding.numbers["changed"] == 1.0
    assert finding.numbers["mean"] == pytest.approx(sum(twin) / len(twin), abs=1e-5)
    assert finding.numbers["lowest"] == pytest.approx(min(twin), abs=1e-5)
    assert finding.share == pytest.approx(finding.numbers["mean"])
    assert f"{sum(twin) / len(twin):.2f} on average, {min(twin):.2f} at the lowest" in finding.sentence


def test_maps_that_turn_round_have_no_share_below_zero() -> None:
    finding = determinism(maps(0), [-maps(0), 1 - maps(0)])
    assert finding.numbers["mean"] == pytest.approx(-1.0)
    assert finding.share == 0.0


def test_constant_maps_are_counted_not_guessed() -> None:
    still = torch.ones(3, 6, 5)
    finding = determinism(maps(0), [maps(0), torch.cat([still[:1], maps(0)[1:]])])
    assert finding.numbers["undefined"] == 1
    assert finding.share == pytest.approx(1.0)
    assert "(1 undefined: constant maps)" in finding.sentence
    nothing = determinism(still, [still, 2 * still])
    assert (nothing.word, nothing.numbers["undefined"]) == ("varies", 6)
    assert math.isnan(nothing.share)
    assert "no rank correlation is defined" in nothing.sentence
    assert determinism(still, [still, still]).share == 1.0


@pytest.mark.parametrize(
    ("weight", "budget", "expected"),
    [
        (10, 120, (4, 3)),  # 4 × 3 maps fit exactly
        (10, 119, (3, 3)),
        (10, 30, (1, 3)),
        (10, 29, (1, 2)),
        (10, 0, (1, 2)),  # two seeds are always tried: one could not tell luck from rounding
        (0, 0, (4, 3)),
    ],
)
def test_more_seeds_come_before_more_images(weight: int, budget: int, expected: tuple[int, int]) -> None:
    assert repetitions(float(weight), images=4, seeds=3, budget=float(budget)) == expected
