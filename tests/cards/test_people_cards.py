"""People on cards: shown beside formulas in every form, graded by the same formula, weighed on request, never invented."""

from __future__ import annotations

import io
import json
import math
import re
from dataclasses import replace

import pytest
from rich.console import Console
from tests.cards.planted_card_set import planted_deck
from tests.cards.studied_card_set import SAID, scale, seen_by_many, studied_deck, study
from tests.report.outline import Outline, words
from typer.testing import CliRunner

from snellen.cards.card_json import as_json, read_json, write_json
from snellen.cards.card_set import CardSet
from snellen.cards.compare import CardComparison
from snellen.cards.compare_page import page as comparison_page
from snellen.cards.markdown_reader import read_markdown
from snellen.cards.markdown_writer import document, write_markdown
from snellen.cards.page import card_page, page
from snellen.cards.people import categories, opposed
from snellen.cards.printed_card import printable
from snellen.cards.printed_choice import PrintedComparison, PrintedRecommendation
from snellen.cards.priorities import Priorities
from snellen.cards.recommend import recommend
from snellen.cards.recommendation_json import as_json as choice_json
from snellen.cards.schema import ATTRIBUTES, PRIORITIES
from snellen.cards.tables import grid_of, results_markdown
from snellen.cli.main import app
from snellen.errors import SnellenError
from snellen.suite.page import page as suite_page


@pytest.fixture(scope="module")
def card_set() -> CardSet:
    return studied_deck()


@pytest.fixture(scope="module")
def simulated() -> CardSet:
    return studied_deck(study(source="simulated"))


def printed(printable_object, width: int = 110) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    console.print(printable_object)
    return " ".join(console.file.getvalue().split())


# Evidence and grades -----------------------------------------------------------------------------------------------------


def test_the_grade_is_the_formula_of_every_grade(card_set):
    assert card_set.studied
    # (½ + Σ v) / (1 + n): a pass counts 1, an open test ½, a fail 0; questionnaires and sharpness count nothing here.
    expected = {"grad-cam": (0.5 + 1 + 0.5) / 3, "rise(masks=100)": 0.5 / 3, "gradient": (0.5 + 0.5) / 3,
              "integrated-gradients(steps=8)": 2.5 / 3}  # fmt: skip
    for name, share in expected.items():
        assert card_set.find(name).grades["people"].share == pytest.approx(share)
    assert list(card_set.cards[0].grades) == list(PRIORITIES)


def test_the_ten_attributes_stay_ten(card_set):
    assert len(ATTRIBUTES) == 10
    plain = planted_deck()
    assert list(plain.cards[0].grades) == list(ATTRIBUTES)
    assert categories(plain.cards[0].grades).keys() == {"methodology", "sensitivity", "perceptibility"}
    for card in card_set.methods:
        before = plain.find(card.method)
        for attribute in ATTRIBUTES:
            if attribute != "minimality":  # there people answered a test of the card's own
                assert card.grades[attribute] == before.grades[attribute] or math.isnan(before.grades[attribute].share)


def test_a_task_says_what_it_was_held_against_and_who_saw_what(card_set):
    row = next(
        evidence_row
        for evidence_row in card_set.find("grad-cam").evidence
        if evidence_row.metric == "people:error-detection"
    )
    assert (row.test, row.verdict, row.n, row.counted) == ("Error detection", "pass", 30, "30 people")
    assert row.mean == pytest.approx(0.8)
    assert [(each.control, each.mean) for each in row.against] == [("no map", pytest.approx(0.2))]
    assert row.source.kind == "people"
    assert row.source.data == "30 people saw its maps (overlay), 31 saw none"
    assert "2026-02-03 to 2026-02-17" in row.source.settings
    assert row.weight == 1.0


def test_sharpness_fills_the_card_s_own_test_and_counts_there(card_set):
    plain = planted_deck()
    for name, signs in SAID.items():
        card = card_set.find(name)
        (mine,) = [evidence_row for evidence_row in card.measured("minimality") if evidence_row.test == "Visual Sharpening"]
        assert mine.verdict == {"+": "pass", "=": "fail", "?": "inconclusive"}[signs[2]]
        assert {each.control for each in mine.against} == {"random", "edge"}
    before, after = (compared.find("grad-cam").grades["minimality"] for compared in (plain, card_set))
    assert after.weight == pytest.approx(before.weight + 1)
    assert after.share > before.share


def test_a_method_that_people_did_not_see_is_not_known():
    card_set = seen_by_many(40)
    grade = card_set.find("occlusion").grades["people"]
    assert math.isnan(grade.share)
    assert grade.reason == "its maps were not shown to people"


def test_several_studies_stand_beside_each_other():
    other = study(digest="6" * 32, title="Again", outcomes=study().outcomes[:1])
    card = studied_deck(study(), other).find("grad-cam")
    labels = [row.metric for row in card.measured("people") if row.weight]
    assert len(set(labels)) == len(labels) == 3
    assert card.grades["people"].share == pytest.approx((0.5 + 1 + 0.5 + 1) / 4)


def test_without_an_arm_without_maps_nothing_counts():
    first = study().outcomes[0]
    nobody = {"verdict": "not counted", "reason": "no arm without maps to compare with", "against": ()}
    standings = tuple(replace(standing, others=standing.against, **nobody) for standing in first.standings)
    arms = tuple(arm for arm in first.arms if arm.method != "none")
    card_set = studied_deck(study(outcomes=(replace(first, standings=standings, arms=arms),)))
    assert card_set.studied
    card = card_set.find("grad-cam")
    assert math.isnan(card.grades["people"].share)
    assert card.grades["people"].reason == "no arm without maps to compare with"
    choice = recommend(card_set, Priorities.read(need=["people"]))
    assert {place.state for place in choice.places} == {"not known"}
    assert any("a study that shows" in remedy for remedy in choice.remedies)


# Simulated people --------------------------------------------------------------------------------------------------------


def test_simulated_people_are_marked_and_count_nothing(simulated):
    assert not simulated.studied
    plain = planted_deck()
    for card in simulated.methods:
        assert all(row.weight == 0 and row.verdict == "not counted" for row in card.evidence if row.by_people)
        for attribute in ATTRIBUTES:
            before = plain.find(card.method).grades[attribute]
            assert card.grades[attribute] == before or math.isnan(before.share)
        assert math.isnan(card.grades["people"].share)
    assert opposed(simulated.run) == {}
    assert all(not trust.people for trust in simulated.trust.values())
    assert any("simulated people" in note for note in simulated.notes)
    card = simulated.find("grad-cam")
    for form in (words(page(simulated)), words(card_page(card, simulated)), write_markdown(card), printed(printable(card))):
        assert "simulated people" in form
        assert "otherwise pass" in form
    assert "simulated people" in {row["source"]["kind"] for row in as_json(card)["evidence"]}


def test_simulated_people_are_no_reason_to_recommend_anything(simulated):
    with pytest.raises(SnellenError, match="no study with people belongs to"):
        recommend(simulated, Priorities.read(nice=["people"]))
    assert "People can do more with it" not in page(simulated)
    row = next(test_row for test_row in grid_of(simulated).tests if test_row.test == "Visual Sharpening")
    assert row.reason == "not run: needs people"


# Every form --------------------------------------------------------------------------------------------------------------


def test_the_page_has_a_section_of_people_and_is_well_formed(card_set):
    text = page(card_set)
    outline, seen = Outline(text), words(text)
    assert (outline.wrong, outline.open) == ([], [])
    assert len(outline.ids) == len(set(outline.ids))
    assert all(after <= before + 1 for before, after in zip(outline.headings, outline.headings[1:], strict=False))
    assert seen.count("Study “Do maps help?”, 2026-02-03 to 2026-02-17, between subjects.") == len(SAID)
    assert "+0.20 [+0.10, +0.30] against no map (+ is better)" in seen
    assert "30 people saw its maps (overlay), 31 saw none" in seen
    assert "goes against people: error detection in “Do maps help?”, −0.61 [−0.80, −0.40] over 12 items" in seen
    assert "too few yet" not in seen  # thirty people are no thirty images
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert list(data["wishes"]) == list(PRIORITIES)
    assert [entry["grades"]["people"] for entry in data["methods"]] == [
        card.grades["people"].share for card in card_set.methods
    ]


def test_a_single_card_and_a_comparison_have_it_too(card_set):
    single = words(card_page(card_set.find("grad-cam"), card_set))
    assert "Use to people" in single
    assert "a questionnaire is information" in single
    comparison = CardComparison.of(card_set, ["grad-cam", "rise"])
    assert [row.attribute for row in comparison.rows] == list(PRIORITIES)
    text = comparison_page(comparison)
    assert Outline(text).wrong == []
    assert "Error detection" in words(text)
    assert "use to people: grad-cam 0.67: passes 1 of 2 tests" in " ".join(
        difference.words for difference in comparison.differences
    )
    assert "PEOPLE" in printed(PrintedComparison(comparison))


def test_the_terminal_says_verdict_difference_and_study(card_set):
    seen = printed(printable(card_set.find("grad-cam")), 200)
    assert "Use to people ● good 0.67" in seen
    assert "+0.20 [+0.10, +0.30] against no map (+ is better)" in seen
    assert "“Do maps help?”, 2026-02-03 to 2026-02-17" in seen


@pytest.mark.parametrize("name", list(SAID))
def test_markdown_comes_back_as_it_was(card_set, name):
    card = card_set.find(name)
    text = write_markdown(card)
    markdown_card = read_markdown(text)
    assert markdown_card == document(card)
    assert [result.test for result in markdown_card.of("people")] == [
        "Error detection", "Class accuracy", "Satisfaction (questionnaire)", "Trust (questionnaire)"
    ]  # fmt: skip
    assert markdown_card.of("people")[0].verdict == {"+": "pass", "-": "fail", "?": "inconclusive"}[SAID[name][0]]
    assert "Error detection" in printed(printable(markdown_card))
    assert text.count("## People") == 1
    assert "## People" not in write_markdown(planted_deck().find(name))


def test_json_comes_back_as_it_was_and_older_cards_stay_readable(card_set):
    card = card_set.find("grad-cam")
    text = write_json(card)
    assert as_json(read_json(text)) == as_json(card)
    trust = next(row["trust"] for row in as_json(card)["evidence"] if row["metric"] == "input-sensitivity-1")
    assert trust["people"].startswith("goes against people")
    plain = write_json(planted_deck().find("grad-cam"))
    assert '"people"' not in plain
    assert as_json(read_json(plain)) == json.loads(plain)


# Metrics that people speak against ---------------------------------------------------------------------------------------


def test_a_metric_that_goes_against_people_is_marked_and_keeps_its_weight(card_set):
    plain = planted_deck()
    marked = card_set.trust["input-sensitivity-1"]
    assert marked.marks[-1].startswith("goes against people: error detection")
    assert marked.weight == plain.trust["input-sensitivity-1"].weight
    assert card_set.trust["minimality-2"].marks == plain.trust["minimality-2"].marks
    axiom = replace(marked, axiom=True)
    assert axiom.marks == (marked.people,)


# Table A2 ----------------------------------------------------------------------------------------------------------------


def test_table_a2_has_people_s_answer(card_set):
    grid = grid_of(card_set)
    row = next(test_row for test_row in grid.tests if test_row.test == "Visual Sharpening")
    assert (row.metric, row.reason, row.higher_is_better) == ("people:sharpness", "", True)
    assert {cell.method: cell.verdict for cell in row.cells if not cell.control} == {
        name: {"+": "pass", "=": "fail", "?": "inconclusive"}[signs[2]] for name, signs in SAID.items()
    }
    controls = {cell.method: cell for cell in row.cells if cell.control}
    assert controls["random"].mean == 4.0
    assert controls["random"].verdict == ""
    assert controls["centre"].reason == "not run: people did not see its maps"
    assert ("Visual Sharpening", "grad-cam") not in grid.empty
    line = next(text for text in results_markdown(grid).splitlines() if text.startswith("| Visual Sharpening"))
    assert "● 4.20" in line
    assert "needs people" not in words(suite_page(grid))
    assert "people:sharpness" in set(grid.table()["metric"])


def test_of_several_studies_table_a2_has_the_one_with_most_people():
    small = study(
        digest="6" * 32, people=20, outcomes=tuple(replace(task_outcome, score="small") for task_outcome in study().outcomes)
    )
    for order in ((study(), small), (small, study())):
        row = next(test_row for test_row in grid_of(studied_deck(*order)).tests if test_row.test == "Visual Sharpening")
        assert "small" not in row.summary


# Recommendations ---------------------------------------------------------------------------------------------------------


def test_people_can_be_needed_liked_and_unwanted(card_set):
    need = recommend(card_set, Priorities.read(need=["people"], nice=["minimality"]))
    assert [(place.card.method, place.state) for place in need.places] == [
        ("integrated-gradients(steps=8)", "met"), ("grad-cam", "met"), ("gradient", "missed"), ("rise(masks=100)", "missed"),
    ]  # fmt: skip
    first = need.places[0]
    shares = [first.card.grades[attribute].share for attribute in ("people", "minimality")]
    assert first.score == pytest.approx((3 * shares[0] + shares[1]) / 4)
    assert first.needs[0].words == "passes 2 of 2 tests (Error detection: better than no map, +0.20 [+0.10, +0.30])"
    seen = printed(PrintedRecommendation(need))
    assert "needed: use to people; nice to have: minimality" in seen
    assert choice_json(need)["priorities"]["levels"]["people"] == "essential"
    liked, unwanted = (recommend(card_set, Priorities.read(**{how: ["people"]})) for how in ("nice", "unwanted"))
    assert [place.card.method for place in liked.places] == [place.card.method for place in reversed(unwanted.places)]


def test_where_no_study_was_joined_people_cannot_be_asked_for():
    card_set = planted_deck()
    with pytest.raises(SnellenError, match="`snellen study join STUDY --run RUN` joins one") as refusal:
        recommend(card_set, Priorities.read(need=["people"]))
    assert "\n" not in str(refusal.value)
    assert list(choice_json(recommend(card_set, Priorities.read(need=["minimality"])))["priorities"]["levels"]) == list(
        ATTRIBUTES
    )


def test_a_study_of_questionnaires_alone_says_nothing_about_use():
    card_set = studied_deck(study(outcomes=(scale("trust"),)))
    assert math.isnan(card_set.find("grad-cam").grades["people"].share)


def test_the_command_line_names_people_beside_the_attributes():
    result = CliRunner().invoke(app, ["recommend", "--need", "peopel"])
    assert "did you mean 'people'" in str(result.exception)
