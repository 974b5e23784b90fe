"""The choice: the formula by hand, stability and the Pareto set against naive twins, and honest answers."""

from __future__ import annotations

import io
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from tests.cards.planted_card_set import TESTS, hand_deck, planted_deck

from snellen.cards.printed_choice import PrintedProfiles, PrintedRecommendation
from snellen.cards.priorities import Priorities, profiles
from snellen.cards.recommend import DRAWS, pareto, recommend, stability
from snellen.cards.recommendation_json import as_json

EXPECTED = {
    "dataset-researcher": "grad-cam",
    "multimodal-researcher": "integrated-gradients(steps=8)",
    "fairness-researcher": "rise(masks=100)",
    "inspection-developer": "grad-cam",
    "evaluation-developer": "grad-cam",
    "spectrogram-developer": "gradient",
    "consultant": "grad-cam",
    "computational-biologist": "integrated-gradients(steps=8)",
    "radiologist": "grad-cam",
}


@pytest.fixture(scope="module")
def card_set():
    return planted_deck()


def shown(renderable, width=100) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(renderable)
    return console.file.getvalue()


def ask(**options) -> Priorities:
    return Priorities.read(**options)


# The formula -------------------------------------------------------------------------------------------------------------


def test_the_score_by_hand():
    card_set = hand_deck(
        {
            "grad-cam": {"determinism": 0.9, "minimality": 0.2, "input-sensitivity": 0.6},
            "gradient": {"determinism": 0.5, "minimality": 0.8},
        }
    )
    choice = recommend(card_set, ask(need=["determinism"], nice=["input-sensitivity"], unwanted=["minimality"]))
    first, second = choice.places
    assert (first.card.method, second.card.method) == ("grad-cam", "gradient")
    assert first.score == pytest.approx((3 * 0.9 + 1 * 0.6 + 1 * (1 - 0.2)) / 5)
    assert second.score == pytest.approx((3 * 0.5 + 1 * 0.5 + 1 * (1 - 0.8)) / 5)
    assert (first.state, second.state) == ("met", "met")  # half is enough, and what is nice may be unknown
    assert [reason.attribute for reason in first.decided] == ["determinism", "minimality", "input-sensitivity"]
    assert [reason.weighed for reason in first.decided] == pytest.approx([3 * 0.4 / 5, 0.6 / 5, 0.1 / 5])


def test_unwanted_reverses_the_order_and_refuses_nothing():
    card_set = hand_deck({"grad-cam": {"minimality": 0.1}, "gradient": {"minimality": 0.9}})
    liked = recommend(card_set, ask(nice=["minimality"]))
    unwanted = recommend(card_set, ask(unwanted=["minimality"]))
    assert [place.card.method for place in liked.places] == ["gradient", "grad-cam"]
    assert [place.card.method for place in unwanted.places] == ["grad-cam", "gradient"]
    assert all(place.state == "met" for place in unwanted.places)
    assert "much minimality 0.90" in shown(PrintedRecommendation(unwanted))


def test_groups_come_before_scores_and_ties_go_by_name():
    card_set = hand_deck(
        {
            "smoothgrad": {"determinism": 0.49, "minimality": 1.0, "input-sensitivity": 1.0},
            "rise": {"minimality": 1.0, "input-sensitivity": 1.0},
            "lime": {"determinism": 0.5, "minimality": 0.0},
            "gradient": {"determinism": 0.5, "minimality": 0.0},
        }
    )
    choice = recommend(card_set, ask(need=["determinism"], nice=["minimality,input-sensitivity"]))
    assert [(place.card.method, place.state) for place in choice.places] == [
        ("gradient", "met"), ("lime", "met"), ("rise", "not known"), ("smoothgrad", "missed"),
    ]  # fmt: skip
    assert [place.place for place in choice.places] == [1, 2, 3, 4]
    assert choice.sentence == "gradient and lime meet your needs on this data, none better than the others."
    output = shown(PrintedRecommendation(choice))
    assert "the name: lime has the same score" in output
    assert "first is gradient in 100 %; among equals the name decides" in " ".join(output.split())
    assert math.isnan(choice.places[2].first)  # no contender, for others qualify


def test_those_that_share_the_first_place_are_named_together():
    card_set = hand_deck({"rise": {"minimality": 0.9}, "lime": {"minimality": 0.9}, "gradient": {"minimality": 0.6}})
    choice = recommend(card_set, ask(need=["minimality"]))
    assert choice.sentence == (
        "lime and rise meet your needs best on this data, with the same score, and 1 other method does too."
    )
    assert [place.card.method for place in choice.level] == ["lime", "rise"]


def test_conditions_are_hard_and_an_unknown_cost_is_not_known_to_meet_one():
    card_set = hand_deck(
        {name: {"minimality": 0.9} for name in ("rise", "lime", "occlusion", "gradient", "grad-cam")},
        seconds={"rise": 2.0, "lime": 2.1, "gradient": 0.1, "grad-cam": 9.0},
    )
    choice = recommend(card_set, ask(nice=["minimality"], avoid_cost="2s", black_box=True))
    assert {place.card.method: place.state for place in choice.places} == {
        "rise": "met", "occlusion": "not known", "lime": "missed", "gradient": "missed", "grad-cam": "missed",
    }  # fmt: skip
    words = {(place.card.method, need.name): need.words for place in choice.places for need in place.needs}
    assert words["lime", "avoid-cost"] == "takes 2.10 s per image, more than 2.00 s"
    assert words["gradient", "black-box"] == "needs the model's gradients"
    assert words["grad-cam", "black-box"] == "needs the model's gradients and layer"


def test_conditions_alone_choose_without_a_score():
    card_set = hand_deck({"rise": {}, "gradient": {}, "lime": {}})
    choice = recommend(card_set, ask(black_box=True))
    assert [place.card.method for place in choice.qualified] == ["lime", "rise"]
    assert all(math.isnan(place.score) and math.isnan(place.first) for place in choice.places)
    assert choice.sentence == "lime and rise meet your needs on this data, none better than the others."
    output = shown(PrintedRecommendation(choice))
    assert "the name: conditions alone put no method before another" in output
    assert "score 0" not in output


def test_what_is_sacrificed_is_the_widest_gap_to_the_best():
    card_set = hand_deck(
        {
            "grad-cam": {"determinism": 1.0, "minimality": 0.3, "input-sensitivity": 0.7},
            "gradient": {"determinism": 0.6, "minimality": 0.6, "input-sensitivity": 0.9},
            "rise": {"minimality": 0.9},
        }
    )
    choice = recommend(card_set, ask(need=["determinism"], nice=["minimality,input-sensitivity"]))
    lost = {place.card.method: place.sacrifice for place in choice.places}
    assert (lost["grad-cam"].attribute, lost["grad-cam"].method) == ("minimality", "rise")
    assert (lost["grad-cam"].own, lost["grad-cam"].other) == (0.3, 0.9)
    assert (lost["gradient"].attribute, lost["gradient"].method) == ("determinism", "grad-cam")
    assert lost["rise"] is None  # what is not known of it is no sacrifice


# Stability and the Pareto set --------------------------------------------------------------------------------------------


def test_stability_is_what_geometry_says():
    # The first wins unless the second's weight gains a factor above 3: a corner of the square of both logarithms.
    first, holds = stability(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([3.0, 1.0]))
    exact = 1 - (2 - math.log2(3)) ** 2 / 8
    assert first[0] == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / DRAWS))
    assert first.sum() == pytest.approx(1)
    assert holds == first[0]


def test_stability_against_a_naive_twin():
    shares, weights = np.random.default_rng(3).random((5, 4)), np.array([3.0, 1.0, 1.0, 3.0])
    shares = shares[np.argsort(-(shares @ weights))]
    first, holds = stability(shares, weights, draws=300, seed=7)
    factors = np.random.default_rng(7).uniform(-1, 1, (300, 4))
    wins, kept = [0] * 5, 0
    for factor in factors:
        moved = [weight * 2**power for weight, power in zip(weights, factor, strict=True)]
        scores = [sum(w * g for w, g in zip(moved, row, strict=True)) / sum(moved) for row in shares]
        order = sorted(range(5), key=lambda at: -scores[at])
        wins[order[0]] += 1
        kept += order[:3] == [0, 1, 2]
    np.testing.assert_allclose(first, np.array(wins) / 300)
    assert holds == kept / 300
    assert 0 < holds < 1


def test_methods_that_are_alike_keep_their_order():
    first, holds = stability(np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([1.0, 3.0]))
    assert first.tolist() == [1.0, 0.0]
    assert holds == 1.0


def test_the_pareto_set_against_a_naive_twin():
    shares = np.random.default_rng(0).integers(0, 4, (40, 3)) / 3
    front = pareto(shares)
    for at, own in enumerate(shares.tolist()):
        beaten = False
        for other in shares.tolist():
            no_worse = sum(b >= a for a, b in zip(own, other, strict=True)) == 3
            better = sum(b > a for a, b in zip(own, other, strict=True)) > 0
            beaten = beaten or (no_worse and better)
        assert front[at] is not beaten
    assert 0 < sum(front) < 40


# Nine people -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("profile", [profile.name for profile in profiles()])
def test_every_profile_gets_the_method_that_was_planted_for_it_and_a_reason(card_set, profile):
    choice = recommend(card_set, ask(profile=profile))
    best = choice.places[0]
    assert (best.card.method, best.state) == (EXPECTED[profile], "met")
    assert all(need.words and need.grade.share >= 0.5 for need in best.needs)
    output = shown(PrintedRecommendation(choice))
    assert f"{EXPECTED[profile]} meets your needs best on this data" in output
    assert "gives up" in output
    assert {place.card.method for place in choice.places} == set(TESTS)  # controls are never recommended
    for place in choice.places[1:]:
        assert place.state == "met" or any(need.state == "missed" and need.words for need in place.needs)
    if len(choice.qualified) > 1:
        assert best.decided
        assert "decided by" in output
        assert sum(place.first for place in choice.qualified) == pytest.approx(1)
    assert best.pareto


def test_minimality_divides_two_of_the_nine(card_set):
    wants = recommend(card_set, ask(profile="inspection-developer", nice=["minimality"]))
    unwants = recommend(card_set, ask(profile="inspection-developer"))
    score = {
        at: {place.card.method: place.score for place in choice.places}
        for at, choice in (("with", wants), ("without", unwants))
    }
    minimal, broad = "integrated-gradients(steps=8)", "grad-cam"
    assert score["with"][minimal] > score["without"][minimal]
    assert score["with"][broad] < score["without"][broad]


def test_reasons_carry_tests_and_numbers(card_set):
    choice = recommend(card_set, ask(need=["input-sensitivity"]))
    words = {place.card.method: place.needs[0].words for place in choice.places}
    assert words["grad-cam"].startswith("passes 2 of 2 tests (Test 1 of input-sensitivity: better than ")
    assert "+0.4" in words["grad-cam"]
    assert words["gradient"].startswith("fails 2 of 2 tests (Test 1 of input-sensitivity: worse than ")
    assert "−0.2" in words["gradient"]


# Honest answers ----------------------------------------------------------------------------------------------------------


def test_none_qualifies(card_set):
    choice = recommend(card_set, ask(need=["minimality,perceptual-correspondence,determinism"]))
    assert choice.qualified == ()
    assert choice.sentence.startswith("No method meets your needs on this data; ")
    assert {place.card.method: [need.name for need in place.unmet] for place in choice.nearest} == {
        "grad-cam": ["minimality"],
        "integrated-gradients(steps=8)": ["perceptual-correspondence"],
        "gradient": ["perceptual-correspondence"],
    }  # rise misses two
    gaps = [place.unmet[0].short for place in choice.nearest]
    assert gaps == sorted(gaps)
    output = shown(PrintedRecommendation(choice))
    assert "Nearest: " in output
    assert "misses " in output
    assert math.isnan(choice.places[0].first)


def test_the_nearest_say_what_they_take(card_set):
    output = shown(
        PrintedRecommendation(recommend(card_set, ask(need=["perceptual-correspondence"], avoid_cost="1s", black_box=True)))
    )
    assert "No method meets your needs on this data; " in output
    nearest = " ".join(output.partition("Nearest: ")[2].split("1  ■")[0].split())
    assert nearest.startswith(
        "grad-cam needs the model's gradients and layer; rise(masks=100) takes 4.00 s per image, more than"
    )


def test_too_few_images_are_said_with_how_many_are_missing():
    choice = recommend(planted_deck(images=7), ask(need=["determinism,model-sensitivity"]))
    assert choice.sentence == "No method is shown to meet your needs on this data: model sensitivity is not known."
    assert choice.places[0].state == "not known"
    assert "model sensitivity: 23 more images would allow a verdict" in choice.remedies
    assert "7 images are too few for a verdict, which needs at least 30" in choice.cautions
    assert "7 images of the 30 that a verdict needs" in shown(PrintedRecommendation(choice))


def test_what_was_never_measured_is_said_with_the_command_that_measures_it():
    card_set = hand_deck({"grad-cam": {"minimality": 0.9}, "gradient": {"minimality": 0.2}})
    choice = recommend(card_set, ask(need=["determinism,label-sensitivity"], nice=["minimality"], avoid_cost="2s"))
    assert choice.sentence.endswith("determinism, label sensitivity and cost are not known.")
    assert choice.remedies[0].endswith("measures determinism and cost")
    assert "--metrics random-logit" in choice.remedies[1]


def test_marks_of_metrics_that_decide_are_told(card_set):
    def doubt(row):
        return (
            replace(row, trust=replace(row.trust, fooled_by=("edge",), beaten=0.4)) if row.metric == "minimality-1" else row
        )

    doubted = replace(
        card_set, cards=tuple(replace(card, evidence=tuple(map(doubt, card.evidence))) for card in card_set.cards)
    )
    assert not any("marked" in caution for caution in recommend(card_set, ask(nice=["minimality"])).cautions)
    cautions = recommend(doubted, ask(nice=["minimality"])).cautions
    assert any(
        "1 of 2 tests by marked metrics; minimality-1" in caution and "fooled: edge" in caution for caution in cautions
    )


def test_a_first_choice_that_is_deaf_to_the_input_is_said_to_be_though_nobody_asked(card_set):
    warned = [
        caution
        for caution in recommend(card_set, ask(need=["minimality,determinism,hyperparameter-dependence"])).cautions
        if "did not" in caution
    ]
    assert len(warned) == 1
    assert warned[0].startswith(
        "you did not ask for input sensitivity, but gradient has only 0.17 there: fails 2 of 2 tests"
    )
    choice = recommend(card_set, ask(need=["minimality,determinism"], nice=["input-sensitivity"]))
    assert not any("did not ask" in caution for caution in choice.cautions)


# What is printed and written ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [80, 120])
def test_lines_fit_and_shapes_carry_words(card_set, width):
    output = shown(PrintedRecommendation(recommend(card_set, ask(profile="fairness-researcher"))), width)
    assert max(map(len, output.splitlines())) <= width
    assert "● meets your needs" in output
    assert "■ misses a need" in output
    assert max(map(len, shown(PrintedProfiles(profiles()), width).splitlines())) <= width


def test_json_holds_the_same(card_set):
    choice = recommend(card_set, ask(profile="radiologist", avoid_cost="1s"))
    read = json.loads(json.dumps(as_json(choice), allow_nan=False))
    assert read["sentence"] == choice.sentence
    assert [place["method"] for place in read["places"]] == [place.card.method for place in choice.places]
    assert read["places"][0]["needs"][0]["name"] == "determinism"
    assert read["priorities"]["levels"]["minimality"] == "unimportant"
    assert read["priorities"]["avoid_cost"] == 1.0
    assert any(place["first"] is None for place in read["places"])
