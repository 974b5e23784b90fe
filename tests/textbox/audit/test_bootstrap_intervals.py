"""Intervals over networks, maps and images: by hand, and what they promise where those over images alone are too narrow."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from snellen.textbox.audit.agreement import Pairs, auc_of_success
from snellen.textbox.audit.bootstrap_intervals import BootstrapInterval, Resamples, draw_resamples

RIGHT = np.array([[0.9, 0.1]])
"""The truths of two maps, of which the first is right."""


def by_network(values: list[float], images: int, *, resamples: int = 2000) -> tuple[Resamples, Pairs]:
    """Networks on which a metric prefers the right one of two maps in so many of ten images, always the same share."""
    networks = [f"{place}" for place in range(len(values)) for _ in range(images)]
    prefers = np.concatenate([np.arange(images) < round(value * images) for value in values])
    quality = np.where(prefers[:, None], [1.0, 0.0], [0.0, 1.0])
    strata = np.repeat(np.arange(len(values)), images)
    truth = np.repeat(RIGHT, len(quality), axis=0)
    return draw_resamples(networks, strata, ["oracle", "control"], resamples=resamples), auc_of_success(truth, quality)


def interval(drawn: Resamples, pairs: Pairs, columns: list[int] | None = None) -> BootstrapInterval:
    return drawn.group(range(len(drawn.networks))).interval(drawn.measure(pairs, columns))


def test_networks_that_disagree_widen_the_interval_by_hand() -> None:
    """Five networks with .9, .7, .7, .7 and .5: their mean .7 has a standard error of √(.02 / 5) = .0632.

    The ten images of each bring √((.09 + .21 + .21 + .21 + .25) / 9) / 5 = .0657. Drawn together their variance counts
    twice, since a network that is drawn twice brings the same images: √(.0632² + 2 · .0657²) = .1123.
    """
    drawn, pairs = by_network([0.9, 0.7, 0.7, 0.7, 0.5], 10)
    bounds = interval(drawn, pairs)
    assert bounds.mean == pytest.approx(0.7)
    assert bounds.errors["networks"] == pytest.approx(math.sqrt(0.02 / 5), rel=0.05)
    assert bounds.errors["images"] == pytest.approx(math.sqrt((0.09 + 3 * 0.21 + 0.25) / 9 / 25), rel=0.05)
    assert bounds.errors["maps"] == 0  # one of each kind: there is nothing to draw
    assert bounds.error == pytest.approx(0.1123, rel=0.05)
    assert (bounds.images, bounds.networks) == (50, 5)
    # Student's with so few networks: farther away than two standard errors.
    assert bounds.low < 0.7 - 2 * bounds.error
    # One network says nothing of others, so only its images are drawn.
    alone = drawn.group(range(10)).interval(drawn.measure(pairs))
    assert (alone.networks, alone.errors["networks"]) == (1, 0)


def test_maps_are_drawn_within_their_kind_by_hand() -> None:
    """One right map and four wrong ones, of which the metric is fooled by one in every image: 3 of 4, √(3/16 · 4/3) / √4."""
    truth = np.repeat([[1.0, 0.1, 0.1, 0.1, 0.1]], 40, axis=0)
    quality = np.repeat([[0.5, 0.9, 0.1, 0.1, 0.1]], 40, axis=0)
    drawn = draw_resamples(["one", "two"] * 20, np.arange(40) % 2, ["oracle", *["method"] * 4])
    bounds = interval(drawn, auc_of_success(truth, quality), [0, 1, 2, 3, 4])
    assert bounds.mean == 0.75
    assert bounds.errors["maps"] == pytest.approx(math.sqrt(3 / 16 * 4 / 3) / 2, rel=0.05)
    assert (bounds.errors["networks"], bounds.errors["images"]) == (0, 0)
    assert bounds.freedom == pytest.approx(3)  # four methods
    assert 0 <= bounds.low < 0.5
    assert 0.75 < bounds.high <= 1


def test_an_interval_excludes_guessing_where_its_p_value_is_below_05() -> None:
    for values in itertools.combinations([0.2, 0.5, 0.6, 0.7, 0.8, 1.0], 4):
        bounds = interval(*by_network(list(values), 10, resamples=400))
        assert (bounds.p_value(0.5) < 0.05) == (not bounds.low <= 0.5 <= bounds.high)


def test_intervals_of_few_and_of_equal_values() -> None:
    drawn, pairs = by_network([1.0, 1.0, 1.0], 4)
    bounds = interval(drawn, pairs)
    assert (bounds.mean, bounds.low, bounds.high, bounds.p_value(0.5)) == (1, 1, 1, 0)
    guess = auc_of_success(np.repeat(RIGHT, 12, axis=0), np.zeros((12, 2)))
    bounds = interval(drawn, guess)
    assert (bounds.mean, bounds.low, bounds.high, bounds.p_value(0.5)) == (0.5, 0.5, 0.5, 1)
    unknown = np.full((12, 2), np.nan)
    for defined, mean in ((0, math.nan), (1, 1.0)):
        unknown[:defined] = [1.0, 0.0]
        bounds = interval(drawn, auc_of_success(np.repeat(RIGHT, 12, axis=0), unknown))
        assert bounds.images == defined
        assert [bounds.mean, bounds.low, bounds.p_value(0.5)] == pytest.approx([mean, math.nan, math.nan], nan_ok=True)


def test_there_is_no_interval_where_most_draws_of_maps_leave_no_pair() -> None:
    """Two methods, one of them right: drawn again one fewer, they are never both there."""
    drawn = draw_resamples(["one", "two"] * 6, np.arange(12) % 2, ["method", "method"])
    bounds = interval(drawn, auc_of_success(np.repeat(RIGHT, 12, axis=0), np.repeat([[1.0, 0.0]], 12, axis=0)), [0, 1])
    assert bounds.mean == 1
    assert [bounds.low, bounds.high, bounds.p_value(0.5)] == pytest.approx([math.nan] * 3, nan_ok=True)


def trial(generator: np.random.Generator, networks: int, methods: int, images: int) -> tuple[Resamples, Pairs]:
    """A trial in which a metric suits some networks better than others, and likes some methods whatever they show."""
    size = (networks, images, methods)
    methodical = generator.normal(0, 0.8, methods) + generator.normal(0, 0.6, (networks, 1, methods))
    truth = 1 / (1 + np.exp(0.3 - methodical - generator.normal(0, 0.7, size)))
    suits = generator.normal(3.0, 1.8, (networks, 1, 1))
    liked = generator.normal(0, 0.6, methods) + generator.normal(0, 0.6, (networks, 1, methods))
    quality = suits * (truth - 0.5) + liked + generator.normal(0, 1.0, size)
    names = [f"{place}" for place in range(networks) for _ in range(images)]
    strata = np.repeat(np.arange(networks), images)
    pairs = auc_of_success(truth.reshape(-1, methods), quality.reshape(-1, methods))
    return draw_resamples(names, strata, ["method"] * methods, resamples=300, seed=int(generator.integers(1 << 30))), pairs


def coverage(networks: int, *, trials: int, seed: int) -> tuple[float, float]:
    """How many intervals hold the mean over further trials: those over everything, and those over images alone."""
    generator = np.random.default_rng(seed)
    truth = np.mean([np.nanmean(trial(generator, networks, 14, 20)[1].values()) for _ in range(4 * trials)])
    held = []
    for _ in range(trials):
        bounds = interval(*trial(generator, networks, 14, 20), list(range(14)))
        narrow = 1.96 * bounds.errors["images"]
        held.append((bounds.low <= truth <= bounds.high, abs(bounds.mean - truth) <= narrow))
    everything, images_alone = np.mean(held, axis=0)
    return float(everything), float(images_alone)


@pytest.mark.slow
def test_intervals_over_images_alone_are_too_narrow_and_those_over_everything_hold() -> None:
    everything, images_alone = coverage(5, trials=100, seed=3)
    assert images_alone < 0.5
    assert everything >= 0.9


@pytest.mark.exhaustive
@pytest.mark.parametrize("networks", [2, 3, 5, 7])
def test_intervals_hold_however_few_networks_there_are(networks: int) -> None:
    everything, images_alone = coverage(networks, trials=500, seed=networks)
    print(
        f"{networks} networks: {everything:.1%} of intervals over everything hold, {images_alone:.1%} of those over images"
    )
    assert everything >= 0.92
    assert images_alone < 0.5
