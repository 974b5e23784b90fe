"""A pass has a note about failures too rare to be seen, and the margin, estimated from the same scores, is not too wide."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.verdicts.scored import axiom, long, method, metric

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import populations
from snellen.verdicts import judge
from snellen.verdicts.rare_failures import worst_value
from snellen.verdicts.rule import MARGIN, against_controls
from snellen.verdicts.statistics import student_quantile


def judged(columns, controls=("random",), by=None):
    by = by or metric()
    methods = [method(name, name in controls) for name in columns]
    scores = long({(name, by.label): list(values) for name, values in columns.items()})
    return {judgement.method: judgement for judgement in judge(scores, methods, [by])}


def bounded(low=0.0, high=1.0, higher=True):
    return metric(higher=higher, bounds=(low, high))


def test_false_passes_by_rare_failures_carry_the_note():
    """+1 on 95 % of the images and −19 on 5 %: of thirty images a fifth of the methods show no failure, and pass."""
    rng = np.random.default_rng(0)
    wrong = []
    for _ in range(10):
        own, rivals = populations.rare_failures(rng, 30, 8, 4)
        columns = {f"method {at}": own[:, at] for at in range(8)} | {f"control {at}": rivals[:, at] for at in range(4)}
        judgements = judged(columns, controls=tuple(columns)[8:])
        wrong += [judgement for judgement in judgements.values() if judgement.verdict == "pass"]
    assert len(wrong) >= 10
    assert {judgement.note for judgement in wrong} == {
        "could be undone by large failures on fewer than 1 in 10 images, which 30 need not show"
    }


def test_differences_that_never_vary_carry_the_note_where_scores_are_unbounded():
    columns = {"a": np.ones(30), "random": np.zeros(30)}
    assert judged(columns)["a"].note
    # At the worst score already, the control cannot be beaten by a method that fails.
    assert judged(columns, by=bounded())["a"].note == ""
    assert judged(columns, by=bounded(-20.0, 1.0))["a"].note


@pytest.mark.parametrize(("images", "noted"), [(30, True), (400, False)])
def test_the_note_disappears_with_more_images(images, noted):
    """Controls at .5 of [0, 1], a lead of about .05: a tenth of the images at 0 would cost .055, 3 of 400 cost little."""
    own = 0.55 + np.tile([-0.02, 0.0, 0.02, 0.01, -0.01], images // 5)
    columns = {"a": own, "random": np.full(images, 0.5)}
    judgement = judged(columns, by=bounded())["a"]
    assert judgement.verdict == "pass"
    # By hand: the low end of the lead against 3/n of a fall from .55 to 0.
    assert (judgement.against[0].low <= 3 / images * 0.55) == noted
    assert bool(judgement.note) == noted
    turned = judged({name: 1 - values for name, values in columns.items()}, by=bounded(higher=False))["a"]
    assert turned.note == judgement.note


def test_only_a_pass_carries_the_note():
    rng = np.random.default_rng(1)
    for effect, verdict in ((0.0, "inconclusive"), (-2.0, "fail")):
        columns = {"a": rng.normal(size=60) + effect, "b": rng.normal(size=60) + 5, "random": rng.normal(size=60)}
        judgement = judged(columns)["a"]
        assert (judgement.verdict, judgement.note) == (verdict, "")


def test_the_rule_of_an_axiom_says_what_images_need_not_show():
    """Its tolerance is so small that a note would stand beside every pass."""
    judgement = judged({"a": np.zeros(60), "b": np.ones(60), "random": np.zeros(60)}, by=axiom())["a"]
    assert (judgement.verdict, judgement.note) == ("pass", "")
    assert "breaks on fewer than 3 in n images, n of them need not show it" in judgement.rule


def test_the_worst_value_is_that_of_the_metric():
    assert worst_value(bounded(0.0, 1.0)) == 0.0
    assert worst_value(bounded(-1.0, 1.0, higher=False)) == -1.0
    assert worst_value(bounded(0.0, None, higher=False)) == -math.inf
    assert worst_value(metric()) == -math.inf


# The margin --------------------------------------------------------------------------------------------------------------


def at_margin(draw, images, draws, factor=1.0):
    """How often methods that are just beyond the margin are called alike."""
    rng, wrong, before = np.random.default_rng(2), 0, 0
    for at in range(draws):
        own, rivals = populations.at_the_margin(draw, rng, images, 1, 1, factor * MARGIN)
        (difference,) = against_controls(own, rivals, ["control"], seed=at)[0]
        wrong += difference.alike
        before += difference.high <= MARGIN * math.sqrt((own.var(ddof=1) + rivals.var(ddof=1)) / 2)
    return wrong / draws, before / draws


@pytest.mark.parametrize("draw", [populations.tail_up, populations.normal])
def test_a_method_at_the_margin_is_seldom_called_alike(draw):
    """Log-normal scores, tightly paired: by the margin as estimated every fifth to third was."""
    now, before = at_margin(draw, 60, 100)
    assert before > 0.12
    assert now <= 0.05


def test_a_method_well_within_the_margin_is_still_called_alike():
    assert at_margin(populations.normal, 100, 20, factor=0.5)[0] == 1.0


def test_the_lower_limit_of_the_margin_by_hand():
    own = np.array([0.0, 1.0, 2.0, 5.0] * 10)[:, None]
    (difference,) = against_controls(own, own - 9, ["control"])[0]
    squares = (own - 2.0) ** 2
    error = squares.std(ddof=1) / math.sqrt(40) / squares.mean()
    assert difference.margin == pytest.approx(MARGIN * own.std(ddof=1) * math.exp(-student_quantile(0.99, 39) * error / 2))


@pytest.mark.exhaustive
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("draw", [populations.tail_up, populations.normal, populations.heavy])
@pytest.mark.parametrize("images", [30, 100, 300])
def test_a_method_at_the_margin_is_seldom_called_alike_in_many_draws(draw, images):
    assert at_margin(draw, images, 1000)[0] <= 0.05
