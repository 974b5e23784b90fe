"""Studies with known effects are analysed: what was put in is found, and where nothing was put in nothing is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.study.analysed import CAREFUL, by_name

from snellen.study.analysis import Analysis, analyse
from snellen.study.analysis.comparisons import contrasts
from snellen.study.analysis.outcomes import outcomes
from snellen.study.analysis.page import page
from snellen.study.analysis.sentences import findings, headline
from snellen.study.folder import Study
from snellen.study.simulation.behaviour import simulate_answers
from snellen.study.simulation.effect import Effect


@pytest.fixture(scope="module")
def recovered(between: Study) -> Analysis:
    effect = Effect.of("grad-cam=1.2,lime=0.4", between.protocol, CAREFUL)
    return analyse(between, simulate_answers(between, 150, effect, seed=5))


def test_effects_that_were_put_in_are_found_with_their_order_and_size(recovered: Analysis) -> None:
    outcomes = by_name(recovered)
    for name in ("error-detection", "class-accuracy", "betting"):
        outcome = outcomes[name]
        sign = 1 if outcome.facts.better == "high" else -1
        assert outcome.conclusion == "differ"
        assert outcome.mixed is not None
        assert outcome.mixed.overall.p < 0.05
        means = {some.arm: sign * some.mean for some in outcome.distributions}
        assert means["grad-cam"] > means["lime"] > means["none"]
        pairs = {(pair.first, pair.second): pair for pair in outcome.comparison.contrasts}
        first = pairs["grad-cam", "none"]
        assert sign * first.g_low < 1.2 < sign * first.g_high or sign * first.g_high < 1.2 < sign * first.g_low
        assert outcome.different(first, 0.05)
        assert outcome.without_exclusions.participants == 150
    sentences = dict(findings(recovered))
    assert sentences["Error detection"].startswith("the arms differ, p < 0.001. Best with grad-cam")
    assert "Against no explanation: grad-cam +" in sentences["Error detection"]
    assert "Against no explanation: grad-cam −" in sentences["Class accuracy"]  # fewer points off


def test_trust_that_is_equal_is_shown_to_be_equal_when_there_are_enough_people(recovered: Analysis) -> None:
    trust = by_name(recovered)["trust"]
    assert trust.conclusion == "no difference found"
    assert [equivalence.conclusion for equivalence in trust.equivalences] == ["equal"] * 3
    assert "All 3 pairs of arms were shown to be equal within 0.5 points." in dict(findings(recovered))["Trust"]


def test_with_few_people_nothing_is_found_and_nothing_is_called_equal(between: Study) -> None:
    analysis = analyse(between, simulate_answers(between, 24, Effect(mix=CAREFUL), seed=1))
    trust = by_name(analysis)["trust"]
    assert trust.conclusion == "no difference found"
    assert "neither" in {equivalence.conclusion for equivalence in trust.equivalences}
    assert (
        "may be there" in dict(findings(analysis))["Trust"] or "no evidence of absence" in dict(findings(analysis))["Trust"]
    )
    assert "remain possible" in dict(findings(analysis))["Betting"]


def test_in_a_null_study_nothing_is_found(between: Study) -> None:
    analysis = analyse(between, simulate_answers(between, 60, Effect(mix=CAREFUL), seed=11))
    assert {outcome.conclusion for outcome in analysis.outcomes} == {"no difference found"}
    assert "No difference between arms was found on 6 outcomes." in headline(analysis)
    assert not [
        pair for outcome in analysis.outcomes for pair in outcome.comparison.contrasts if outcome.different(pair, 0.05)
    ]


@pytest.mark.slow
def test_trust_that_differs_is_called_different_and_not_equal(between: Study) -> None:
    effect = Effect.of("trust:grad-cam=1.5", between.protocol, CAREFUL)
    trust = by_name(analyse(between, simulate_answers(between, 150, effect, seed=3)))["trust"]
    verdicts = {(equivalence.first, equivalence.second): equivalence.conclusion for equivalence in trust.equivalences}
    assert verdicts["grad-cam", "none"] == verdicts["grad-cam", "lime"] == "different"
    assert verdicts["lime", "none"] == "equal"


def test_within_subjects_effects_are_found_too(within: Study) -> None:
    effect = Effect.of("grad-cam=1.2", within.protocol, CAREFUL)
    analysis = analyse(within, simulate_answers(within, 36, effect, seed=2))
    outcomes = by_name(analysis)
    for name in ("error-detection", "confidence"):
        assert outcomes[name].conclusion == "differ"
        pairs = {(pair.first, pair.second): pair for pair in outcomes[name].comparison.contrasts}
        assert outcomes[name].different(pairs["grad-cam", "none"], 0.05)
        assert not outcomes[name].different(pairs["lime", "none"], 0.05)
        assert outcomes[name].mixed.overall.p < 0.01  # type: ignore[union-attr]
    assert outcomes["trust"].conclusion == "no difference found"
    assert outcomes["trust"].distributions[0].n == 36
    assert "Greenhouse" in page(analysis)


def test_presentation_is_tested_where_it_is_a_factor(crossed: Study) -> None:
    collected = simulate_answers(crossed, 90, Effect(mix=CAREFUL), seed=4)
    on_map = collected.answers["presentation"] == "map"
    rng = np.random.default_rng(0)
    worse = collected.answers["score"].where(~on_map | (rng.random(len(on_map)) < 0.5), 0.0)
    changed = replace(collected, answers=collected.answers.assign(score=worse))
    comparison = by_name(analyse(crossed, changed))["error-detection"].comparison
    tests = {factor.name: factor for factor in comparison.factors}
    assert set(tests) == {"Arm", "Presentation", "Arm × presentation"}
    assert tests["Presentation"].p < 0.001
    assert tests["Arm"].p > 0.001
    assert "Arm and presentation together" in page(analyse(crossed, changed))


def test_calibration_is_found_as_it_was_put_in(between: Study) -> None:
    """People who stake by what they know have insight; people who always stake the middle have none."""
    knowing = replace(Effect(mix=CAREFUL), spread=replace(Effect().spread, bets=1.0, moments=2.0))
    blind = replace(knowing, spread=replace(knowing.spread, bets=0.0))
    bets = [analyse(between, simulate_answers(between, 60, answer_model, seed=6)).bets for answer_model in (knowing, blind)]
    assert all(arm.insight.low > 0 for arm in bets[0])
    assert all(arm.insight.low < 0 < arm.insight.high for arm in bets[1])


@pytest.mark.exhaustive
def test_effects_are_covered_by_their_intervals_as_often_as_promised(between: Study) -> None:
    effect = Effect.of("grad-cam=0.8", between.protocol, CAREFUL)
    hits = []
    for seed in range(60):
        for outcome in outcomes(between, simulate_answers(between, 90, effect, seed=seed).counted):
            if outcome.facts.name in ("error-detection", "class-accuracy", "betting"):
                sign = 1 if outcome.facts.better == "high" else -1
                pair = next(some for some in contrasts(outcome.by_arm) if (some.first, some.second) == ("grad-cam", "none"))
                low, high = sorted((sign * pair.g_low, sign * pair.g_high))
                hits.append(low < 0.8 < high)
    assert 0.88 < np.mean(hits) < 0.99
