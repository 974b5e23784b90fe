"""The metrics on trial: reliability against naive twins and published numbers, weights by hand, and what TextBox knows."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from tests.verdicts.scored import axiom, long, method, metric

from snellen.plugins.registry import METRICS
from snellen.textbox.audit.audit import WORDS
from snellen.verdicts import trust
from snellen.verdicts.trust import TRUTH, TextBoxResult, Trust, krippendorff, split_half, textbox_results

AUDIT = Path(__file__).parents[2] / "docs" / "textbox-audit.md"
NAN = math.nan


# Krippendorff's α --------------------------------------------------------------------------------------------------------


def naive_alpha(values: np.ndarray) -> float:
    """By all pairs of values, as the definition reads."""
    units = [column[~np.isnan(column)] for column in values.T]
    units = [unit for unit in units if len(unit) >= 2]
    everything = np.concatenate(units)
    total = len(everything)
    observed = sum(
        sum((first - second) ** 2 for first, second in itertools.permutations(unit, 2)) / (len(unit) - 1) for unit in units
    )
    expected = sum((first - second) ** 2 for first, second in itertools.permutations(everything, 2)) / (total - 1)
    return 1 - observed / expected


def test_alpha_is_the_number_that_krippendorff_publishes():
    """Four observers and twelve units with gaps, from his note of 2011 on computing α: 0.849 for interval data."""
    rows = ["1 2 3 3 2 1 4 1 2 . . .", "1 2 3 3 2 2 4 1 2 5 . 3", ". 3 3 3 2 3 4 2 2 5 1 .", "1 2 3 3 2 4 4 1 2 5 1 ."]
    values = np.array([[NAN if cell == "." else float(cell) for cell in row.split()] for row in rows])
    assert krippendorff(values) == pytest.approx(0.849, abs=5e-4)


@pytest.mark.parametrize("seed", range(4))
def test_alpha_agrees_with_its_naive_twin(seed):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(6, 5)) + rng.normal(size=5)
    values[rng.random(values.shape) < 0.25] = NAN
    assert krippendorff(values) == pytest.approx(naive_alpha(values))


def test_alpha_where_nothing_varies_or_nothing_is_defined():
    assert math.isnan(krippendorff(np.ones((4, 3))))
    assert math.isnan(krippendorff(np.full((4, 3), NAN)))
    assert math.isnan(krippendorff(np.array([[1.0, NAN], [NAN, 2.0]])))
    # Two raters who always disagree: Dₒ = 1, Dₑ = 2/3.
    assert krippendorff(np.array([[0.0, 1.0], [1.0, 0.0]])) == pytest.approx(-0.5)


# Split-half --------------------------------------------------------------------------------------------------------------


def naive_split_half(values: np.ndarray, splits: int, seed: int) -> float:
    values = values[:, ~np.isnan(values).all(axis=0)]
    images = np.flatnonzero(~np.isnan(values).all(axis=1))
    rng = np.random.default_rng(seed)
    correlations = []
    for _ in range(splits):
        order = rng.permutation(len(images))
        half = len(images) // 2
        means = [np.array([np.nanmean(column) if (~np.isnan(column)).any() else NAN for column in values[images[part]].T])
                 for part in (order[:half], order[half:])]  # fmt: skip
        both = ~np.isnan(means[0]) & ~np.isnan(means[1])
        if both.sum() >= 3 and all(np.ptp(mean[both]) > 0 for mean in means):
            correlations.append(scipy.stats.spearmanr(means[0][both], means[1][both]).statistic)
    r = float(np.mean(correlations))
    return 2 * r / (1 + r) if r > 0 else r


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_split_half_agrees_with_its_naive_twin(seed, gaps):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(15, 5)) + 0.4 * rng.normal(size=5)
    values[rng.random(values.shape) < gaps] = NAN
    values = np.concatenate([values, np.full((15, 1), NAN)], axis=1)
    assert split_half(values, splits=30, seed=seed) == pytest.approx(naive_split_half(values, 30, seed))


def test_split_half_by_hand():
    ordered = np.tile([1.0, 2.0, 3.0], (8, 1))
    assert split_half(ordered) == pytest.approx(1)
    # Even images say 1, 2, 3 and odd ones 3, 2, 1: halves tend to oppose each other, and the formula is left out.
    opposed = np.array([[1.0, 2.0, 3.1], [3.0, 2.0, 1.0]] * 3)
    assert -1 <= split_half(opposed) < 0
    assert abs(split_half(np.random.default_rng(0).normal(size=(400, 30)))) < 0.5
    assert math.isnan(split_half(np.full((8, 4), 0.3)))
    assert math.isnan(split_half(ordered[:, :2]))
    assert math.isnan(split_half(ordered[:5]))
    assert math.isnan(split_half(np.full((8, 3), NAN)))
    assert math.isnan(split_half(np.zeros((0, 3))))


def test_split_half_follows_what_it_estimates():
    """For many methods of equal noise, reliability is the share of variance that methods have in means over all images."""
    rng = np.random.default_rng(1)
    images, methods, signal = 50, 1000, 0.2
    values = signal * rng.normal(size=methods) + rng.normal(size=(images, methods))
    # Ranks correlate a little less than values.
    assert split_half(values, splits=40) == pytest.approx(signal**2 / (signal**2 + 1 / images), abs=0.04)


# Weights and marks -------------------------------------------------------------------------------------------------------


def textbox_result(verdict):
    return TextBoxResult("m", 0.4, 0.35, 0.45, 99, verdict)


@pytest.mark.parametrize(
    ("facts", "weight", "marks"),
    [
        (((), 0.2, 0.9, 0.8, None), 0.9, []),
        (((), 0.2, NAN, NAN, None), 1.0, []),
        ((("edge",), 0.3, 0.9, 0.8, None), 0.7 * 0.9, ["fooled: edge is in its top two", "30% of pairs"]),
        ((("edge", "random"), 0.25, 1.0, 1.0, None), 0.75, ["fooled: edge, random are in its top two"]),
        ((("edge",), NAN, 1.0, 1.0, None), 0.0, ["fooled"]),
        (((), 0.2, 0.5, 0.8, None), 0.5, ["unreliable: two halves of the images order the methods alike only to 0.50"]),
        (((), 0.2, -0.4, 0.8, None), 0.0, ["unreliable", "-0.40"]),
        (((), 0.2, 0.9, 0.1, None), 0.9, ["one image says little: Krippendorff's α over images is 0.10"]),
        (((), 0.2, 0.8, 0.8, textbox_result("misleads")), 0.4, ["prefers the wrong map", "40% of pairs [35%, 45%]"]),
        (((), 0.2, 0.8, 0.8, textbox_result("blind")), 0.6, ["does not see the right map"]),
        (((), 0.2, 0.8, 0.8, textbox_result("shape")), 0.6, ["goes by the shape"]),
        (
            ((), 0.2, 0.8, 0.8, textbox_result("unclear")),
            0.6,
            ["is not shown to prefer the right map", "over networks, methods and"],
        ),
        (((), 0.2, 0.8, 0.8, textbox_result("sees")), 0.8, []),
        (((), 0.2, 0.8, 0.8, textbox_result("faint")), 0.8, []),
        ((("edge",), 0.5, 0.5, 0.5, textbox_result("misleads")), 0.125, ["fooled", "unreliable", "one image", "wrong map"]),
    ],
)
def test_weight_and_marks_by_hand(facts, weight, marks):
    metric_trust = Trust("m", *facts)
    assert metric_trust.weight == pytest.approx(weight)
    text = "; ".join(metric_trust.marks)
    assert all(mark in text for mark in marks)
    assert bool(metric_trust.marks) == bool(marks)


def test_an_axiom_weighs_fully_whatever_controls_do():
    metric_trust = Trust("m", ("edge",), 1.0, 0.1, 0.1, textbox_result("misleads"), axiom=True)
    assert metric_trust.weight == 1
    assert metric_trust.marks == ()


def test_trust_of_a_run():
    rng = np.random.default_rng(0)
    noise = lambda: rng.normal(0, 0.1, 40)  # noqa: E731
    scores = {
        ("a", "good"): 3 + noise(), ("b", "good"): 2 + noise(), ("c", "good"): 1 + noise(), ("edge", "good"): noise(),
        ("a", "deaf"): noise(), ("b", "deaf"): noise(), ("c", "deaf"): noise(), ("edge", "deaf"): 9 + noise(),
        ("a", "gap"): np.zeros(40), ("b", "gap"): np.zeros(40), ("c", "gap"): np.zeros(40), ("edge", "gap"): np.zeros(40),
    }  # fmt: skip
    methods = [method("a"), method("b"), method("c"), method("edge", True)]
    trusts = trust(long(scores), methods, [metric("good", name="complexity"), metric("deaf"), axiom()])
    assert list(trusts) == ["good", "deaf", "gap"]
    good, deaf, gap = trusts.values()
    assert (good.fooled_by, good.beaten, good.split_half, good.alpha) == ((), 0.0, pytest.approx(1), pytest.approx(1))
    assert good.known is textbox_results()["complexity"]
    assert good.weight == pytest.approx(TRUTH["shape"])
    assert (deaf.fooled_by, deaf.beaten, deaf.weight) == (("edge",), 1.0, 0.0)
    assert deaf.alpha < 0.2
    assert gap.axiom
    lower = {key: -values for key, values in scores.items()}
    turned = trust(long(lower), methods, [metric("good", False), metric("deaf", False)])
    assert turned["good"].beaten == 0
    assert turned["deaf"].fooled_by == ("edge",)


# What TextBox knows ------------------------------------------------------------------------------------------------------


def audited() -> dict[str, tuple[str, str]]:
    """Metric to verdict and AUC in complex settings; those that look at the truth and the coin are not on trial."""
    section = AUDIT.read_text(encoding="utf-8").split("\n## Complex settings")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([\w-]+)[^`]*` [↑↓] \| [\w-]+ \| \S (\w+) \| ([^|]+?) \|.*$", section, re.MULTILINE)
    return {
        name: (verdict, auc) for name, verdict, auc in rows if name in METRICS and "truth" not in METRICS[name].traits.needs
    }


def test_the_table_is_that_of_the_published_audit():
    published = audited()
    assert set(textbox_results()) == set(published)
    for name, result in textbox_results().items():
        words = f"{result.auc:.2f} [{result.low:.2f}, {result.high:.2f}]".replace("0.", ".")
        assert (result.verdict, words) == published[name], name


def test_the_table_names_registered_metrics_and_known_verdicts():
    assert len(textbox_results()) == 43
    assert set(textbox_results()) <= set(METRICS)
    assert "sees" in {result.verdict for result in textbox_results().values()} <= set(WORDS)
    assert set(TRUTH) < set(WORDS)


def test_only_what_is_shown_over_networks_methods_and_images_counts_fully():
    """Among the metrics that were tried; a lower end that reaches one half is a doubt, whatever the mean is."""
    for name, result in textbox_results().items():
        shown = result.low > 0.5 and result.verdict in ("sees", "faint")
        assert TRUTH.get(result.verdict, 1.0) == 1.0 if shown else TRUTH[result.verdict] < 1.0, name
