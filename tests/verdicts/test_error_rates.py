"""Simulated scores of known effect: a method that is no better than some control passes in at most one test of twenty."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from tests.verdicts.scored import axiom

from populations import POPULATIONS, scores
from snellen.verdicts.intervals import simultaneous
from snellen.verdicts.rule import _axiom, against_controls, axiom_gaps, decide_verdict
from snellen.verdicts.statistics import SummaryRow

CELLS = list(itertools.product(POPULATIONS, (30, 100), ((1, 4), (8, 4))))
HARDEST = ("log-normal, long tail down, constant control", 30, (1, 4))


def passes(name: str, images: int, family: tuple[int, int], draws: int, effect: float = 0.0, expected: str = "pass") -> int:
    """In how many simulated tests some method gets the verdict."""
    rng = np.random.default_rng(11)
    controls = [f"control {at}" for at in range(family[1])]
    count = 0
    for at in range(draws):
        own, rivals = scores(name, rng, images, *family, effect)
        judged = against_controls(own, rivals, controls, seed=at)
        count += any(decide_verdict(against)[0] == expected for against in judged)
    return count


def most(draws: int, rate: float = 0.05) -> int:
    """More than this many would come by chance in one simulation of a thousand, were the rate allowed."""
    return int(scipy.stats.binom.ppf(0.999, draws, rate))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "images", "family"), CELLS)
def test_false_passes_are_rare(name, images, family):
    assert passes(name, images, family, 25) <= most(25)


@pytest.mark.slow
def test_false_passes_are_rare_in_the_hardest_case():
    assert passes(*HARDEST, 500) <= 25


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)  # half a minute each, but not while others compute
@pytest.mark.parametrize(("name", "images", "family"), [*CELLS, *((name, 30, (1, 1)) for name in POPULATIONS)])
def test_false_passes_are_rare_in_many_draws(name, images, family):
    assert passes(name, images, family, 2000) <= 100


@pytest.mark.parametrize("images", [30, 100])
def test_hit_or_miss_is_safe_for_every_share_of_hits(images):
    """Exactly: by counting how many images can be better (up) and worse (down), and how likely that is for equal maps."""
    passing = []
    for up, down in itertools.product(range(1, 19), range(10)):
        values = np.repeat([1.0, -1.0, 0.0], [up, down, images - up - down])
        if simultaneous(values[:, None], resamples=500)[1][0] > 0:
            passing.append((up, down))
    assert (6, 0) in passing
    assert (3, 0) not in passing
    for share in np.linspace(0.01, 0.3, 15):
        counts = [(up, down, images - up - down) for up, down in passing]
        assert scipy.stats.multinomial.pmf(counts, images, [share, share, 1 - 2 * share]).sum() <= 0.02


@pytest.mark.slow
def test_worse_methods_never_pass_and_better_ones_seldom_fail():
    assert passes("normal", 60, (8, 4), 40, effect=-0.3) == 0
    assert passes("normal", 60, (8, 4), 40, effect=0.5, expected="fail") <= most(40)
    assert passes("log-normal", 60, (8, 4), 40, effect=0.5, expected="fail") <= most(40)


def test_a_clear_effect_passes():
    assert passes("normal", 60, (1, 4), 40, effect=1.2) >= 36
    assert passes("log-normal, long tail down", 100, (1, 4), 40, effect=1.2) >= 36


def test_an_axiom_that_is_just_broken_seldom_passes():
    """Distances with a long tail upwards, whose mean is the tolerance itself: few images look better than they are."""
    rng = np.random.default_rng(5)
    by = axiom(0.05)

    row = SummaryRow(
        method="a", metric="gap", mean=0.0, low=0.0, high=0.0, n=30, undefined=0, missing=0, reason="", control=False,
        higher_is_better=False, tolerance=0.05, best=0.0,
    )  # fmt: skip
    kept = 0
    for at in range(300):
        gaps = rng.lognormal(size=(30, 1))
        kept += _axiom(axiom_gaps(-gaps / np.exp(0.5) * 0.05, by, seed=at)[0], [30], by, [row])[0].verdict == "pass"
    assert kept <= most(300)
