"""The page of cards as text: whole, readable without a script, honest about few images, and legible."""

from __future__ import annotations

import json
import re
from importlib import resources

import numpy as np
import pytest
from tests.cards.planted_loaded_run import planted_run
from tests.report.outline import Outline, words
from tests.report.recorded import METHODS, Recorded, method
from typer.testing import CliRunner

from snellen.cards.card_set import CardSet, card
from snellen.cards.finding_tables import facts_of, settings_of
from snellen.cards.page import SHORT_WISHES, WISHES, card_page, page, write_cards
from snellen.cards.priorities import LEVELS, profiles
from snellen.cards.schema import ATTRIBUTES, PRIORITIES, Finding
from snellen.charts.colours import page_css
from snellen.cli.main import app
from snellen.errors import SnellenError

ENOUGH = [f"{at}.jpg" for at in range(40)]


def deck_of(run: Recorded) -> CardSet:
    cost = Finding(
        attribute="computational-efficiency",
        word="quick",
        sentence="12.5 ms a map.",
        share=0.9,
        numbers={"seconds": 0.0125, "forward": 1, "backward": 1},
    )
    return CardSet.of(run, {"grad-cam": {"computational-efficiency": cost}})


@pytest.fixture(scope="module")
def card_set() -> CardSet:
    return deck_of(Recorded(ids=ENOUGH))


@pytest.fixture(scope="module")
def text(card_set) -> str:
    return page(card_set)


@pytest.fixture(scope="module")
def few() -> str:
    return page(deck_of(Recorded(metrics=Recorded().metrics[:4])))


def data_of(text: str) -> dict:
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_the_page_is_well_formed_and_needs_no_other_file(text):
    outline = Outline(text)
    assert outline.wrong == []
    assert outline.open == []
    assert len(outline.ids) == len(set(outline.ids))
    places = {link[1:] for link in outline.links if link.startswith("#")}
    assert places <= set(outline.ids)
    # A link to a paper's code is followed by a person; nothing else may leave the file.
    fetched = [
        (tag, attributes)
        for tag, attributes in outline.tags
        if tag != "a" and {"src", "href", "srcset", "action"} & set(attributes)
    ]
    assert fetched == []
    assert not re.search(r"@import|<link|<iframe|url\((?!data:)", text)


def test_every_method_and_control_has_its_card_and_its_tile(text, card_set):
    outline, seen = Outline(text), words(text)
    for measured_card in card_set.cards:
        assert seen.count(measured_card.prose.title) >= 2
    cards = {f"#{attributes['id']}" for tag, attributes in outline.tags if tag == "article"}
    assert len(cards) == len(METHODS)
    assert {link for link in outline.links if link.startswith("#card-")} == cards


def test_labels_that_differ_in_signs_alone_have_cards_of_their_own():
    methods = [method("grad-cam"), method("grad-cam++"), method("random", control=True)]
    run = Recorded(ids=ENOUGH, methods=methods, metrics=Recorded().metrics[:1])
    outline = Outline(page(CardSet.of(run)))
    assert [attributes["id"] for tag, attributes in outline.tags if tag == "article"] == [
        "card-grad-cam",
        "card-grad-cam-2",
        "card-random",
    ]
    assert len(outline.ids) == len(set(outline.ids))


def test_headings_never_skip_and_every_control_and_graphic_has_a_name(text):
    outline = Outline(text)
    assert outline.headings.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(outline.headings, outline.headings[1:], strict=False))
    graphics = [attributes for _, attributes in outline.tags if attributes.get("role") == "img"]
    assert len(graphics) > 80
    assert all(attributes["aria-label"] for attributes in graphics)
    assert all(attributes["scope"] for tag, attributes in outline.tags if tag == "th")
    radios = [attributes for tag, attributes in outline.tags if tag == "input" and attributes["type"] == "radio"]
    assert [attributes["value"] for attributes in radios] == list(LEVELS) * 10
    assert len(re.findall(r"<label><input type=\"radio\"", text)) == 40
    assert text.count("<legend>") == 10
    labelled = set(re.findall(r'<label for="([^"]+)"', text))
    loose = [attributes for tag, attributes in outline.tags if tag == "input" and attributes["type"] == "number"]
    assert {attributes["id"] for attributes in loose} == labelled


def test_the_ten_wishes_are_in_plain_words(text):
    assert list(WISHES) == list(SHORT_WISHES) == list(PRIORITIES)
    jargon = r"gradient|hyperparameter|agnostic|determinis|saliency|logit|sensitivity|metric|layer"
    for wish in (*WISHES.values(), *SHORT_WISHES.values()):
        assert not re.search(jargon, wish, re.IGNORECASE)
        assert len(wish.split()) <= 10


def test_the_script_ranks_by_the_cards_grades_and_the_nine_profiles(text, card_set):
    data = data_of(text)
    assert [entry["label"] for entry in data["methods"]] == [card.method for card in card_set.methods]
    for shown, own in zip(data["methods"], card_set.methods, strict=True):
        for attribute in ATTRIBUTES:
            share = own.grades[attribute].share
            assert shown["grades"][attribute] == (None if np.isnan(share) else share)
    assert {entry["label"]: entry["seconds"] for entry in data["methods"]}["grad-cam"] == 0.0125
    assert {entry["label"]: entry["inside"] for entry in data["methods"]}["rise"] == []
    assert list(data["profiles"]) == [profile.name for profile in profiles()]
    assert data["profiles"]["radiologist"]["perceptual-correspondence"] == "essential"
    assert data["profiles"]["inspection-developer"]["minimality"] == "unwanted"


def test_verdicts_carry_a_shape_a_word_and_their_numbers(text):
    seen = words(text)
    for shape, word in (("●", "pass"), ("■", "fail"), ("◆", "inconclusive")):
        assert f"{shape} {word}" in seen
    assert "better than every control" in seen
    assert "difference, + is better" in seen
    assert re.search(r"random \+0\.\d+ \[\+0\.\d+, \+0\.\d+\] ±0\.\d+ 40", seen)
    assert "margin 0.2 standard deviations" in seen
    assert not re.search(r"\bnan\b", seen, re.IGNORECASE)


def test_seven_images_say_so_kindly_and_show_what_was_measured(few):
    seen = words(few)
    assert "7 images are a good beginning, and too few for a verdict." in seen
    assert "○ too few yet" in seen
    assert not re.search(r'<li class="test">\s*<span class="v (pass|fail|inconclusive)', few)
    assert re.search(r'<li class="test">\s*<span class="v not-counted', few)
    assert "12.5 ms a map" in seen
    assert few.count("<svg") > 40
    assert data_of(few)["enough"] is False


def test_names_from_outside_are_text_and_never_markup():
    some = Recorded()
    run = Recorded(ids=['"><script>alert(1)</script>.jpg', *ENOUGH[1:]], methods=some.methods[5:9], metrics=some.metrics[:2])
    text = page(deck_of(run))
    assert "<script>alert" not in text
    assert text.count("<script") == 3


def test_a_card_alone_has_one_first_heading_and_what_papers_say(card_set):
    text = card_page(card_set.find("grad-cam"), card_set)
    outline = Outline(text)
    assert outline.headings[0] == 1
    assert outline.headings.count(1) == 1
    assert (outline.wrong, outline.open) == ([], [])
    seen = words(text)
    assert "Grad-CAM" in seen
    assert "literature: inconclusive" in seen
    assert "map of rise" not in text


def test_a_card_without_a_run_says_that_nothing_was_measured():
    seen = words(card_page(card("rise", "rise")))
    assert "Measured on nothing yet" in seen
    assert "Nothing was measured yet, so nothing can disagree." in seen
    assert "RISE" in seen


def test_a_method_that_disagrees_with_a_paper_says_so():
    run = Recorded(
        ids=ENOUGH, metrics=[Recorded().metrics[9].changed(label="localisation-utility", test="Localization Utility")]
    )
    rng = np.random.default_rng(0)
    for name, (_, control) in METHODS.items():
        run.values[(name, "localisation-utility")] = rng.normal(0.2 if control else 0.8, 0.05, 40)
    seen = words(card_page(CardSet.of(run).find("grad-cam"), CardSet.of(run)))
    assert "literature: fail , the opposite of here" in seen
    assert "On 1 test this run says the opposite of a paper." in seen


def test_twelve_methods_stay_below_four_megabytes(tmp_path):
    rng = np.random.default_rng(0)
    photos = {sample: rng.integers(0, 256, (256, 256, 3), dtype=np.uint8) for sample in ENOUGH[:3]}
    run = Recorded(ids=ENOUGH, zoom=4, photos=photos)
    path = write_cards(deck_of(run), tmp_path / "cards")
    assert path == tmp_path / "cards" / "index.html"
    assert path.stat().st_size < 4_000_000
    assert [entry.name for entry in path.parent.iterdir()] == ["index.html"]


# Colours -----------------------------------------------------------------------------------------------------------------


def colours() -> dict[str, str]:
    return dict(re.findall(r"--([a-z-]+):(#[0-9a-f]{6})", page_css()))


def contrast(first: str, other: str) -> float:
    """WCAG 2's ratio of two colours."""
    lights = []
    for colour in (first, other):
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def test_contrast_knows_black_on_white():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_every_colour_of_words_stands_out_on_paper_and_panel():
    palette = colours()
    inks = [name for name in palette if name not in ("paper", "panel", "line")]
    assert len(inks) == 10
    for name in inks:
        for ground in ("paper", "panel"):
            assert contrast(palette[name], palette[ground]) >= 4.5, (name, ground)


def test_the_style_uses_no_colour_for_words_beside_the_checked_ones():
    style = resources.files("snellen").joinpath("cards/cards.css").read_text(encoding="utf-8")
    for value in re.findall(r"(?<![-a-z])color:([^;}]+)", style):
        assert re.fullmatch(r"var\(--[a-z-]+\)", value.strip()), value
    grounds = set(re.findall(r"background:(#[0-9a-f]{3,6})", style))
    for ground in grounds:
        full = ground if len(ground) == 7 else "#" + "".join(2 * each for each in ground[1:])
        assert contrast(colours()["ink"], full) >= 4.5
    # Edges of controls need 3 : 1 (WCAG 1.4.11).
    for edge in set(re.findall(r"border:1px solid (#[0-9a-f]{6})", style)):
        assert contrast(edge, colours()["paper"]) >= 3


# What was measured of methodology ----------------------------------------------------------------------------------------


def test_numbers_of_methodology_have_names_and_units_for_people():
    spent = {
        "seconds": 0.0183,
        "forward": 100,
        "backward": 0,
        "memory_mib": 9.26,
        "order": -2,
        "machine": {"processor": "a processor", "cores": 2, "threads": 1, "gpu": None},
    }
    facts = dict(facts_of(Finding(attribute="computational-efficiency", word="1e-2", sentence="", share=1.0, numbers=spent)))
    assert facts["time of one map"] == "18.3 ms"
    assert facts["memory beyond the model's"] == "9.26 MiB"
    assert facts["order of magnitude"] == "10⁻² s"
    assert facts["machine"] == "a processor, 1 thread"
    assert (
        dict(facts_of(Finding(attribute="determinism", word="varies", sentence="", share=0.5, numbers={"changed": 0.25})))[
            "repeated maps that changed"
        ]
        == "25%"
    )
    assert facts_of(
        Finding(attribute="model-agnosticism", word="black box", sentence="", share=1.0, numbers={"needs": []})
    ) == [("needs", "only outputs")]


def test_settings_that_were_tried_are_a_table_of_values_likeness_and_places():
    tried = {
        "own": "100",
        "values": {
            "500": {"correlation": 0.123, "places": {"deletion": [10, 9]}},
            "900": {"correlation": float("nan"), "places": {"deletion": [10, 10]}},
        },
        "not_tried": {"4000": "it would take an hour"},
    }
    finding = Finding(
        attribute="hyperparameter-dependence",
        word="strongly",
        sentence="",
        share=0.1,
        numbers={"settings": {"masks": tried}, "metrics": ["deletion"]},
    )
    table = settings_of(finding)
    assert table["metrics"] == ["deletion"]
    rows = [(row["value"], row["likeness"], row["places"]) for row in table["groups"][0]["rows"]]
    assert rows == [
        ("500", "0.12", ["10 → 9"]),
        ("900", "cannot be compared", ["10, stays"]),
        ("4000", "not tried: it would take an hour", [""]),
    ]
    assert (
        settings_of(
            Finding(
                attribute="hyperparameter-dependence", word="no settings", sentence="", share=1.0, numbers={"settings": {}}
            )
        )
        is None
    )


# The command -------------------------------------------------------------------------------------------------------------


def test_the_command_says_where_the_page_and_the_tables_are(tmp_path):
    run = planted_run(tmp_path / "run", ["gradient", "grad-cam", "random", "centre"], ["sparseness", "deletion"])
    result = CliRunner().invoke(app, ["cards", "--run", str(run.folder), "--out", str(tmp_path / "cards"), "--no-measure"])
    assert result.exit_code == 0, result.output
    assert f"cards: {tmp_path / 'cards' / 'index.html'} (2 methods, 2 controls)" in result.output
    assert "table-a1-methodology.md" in result.output
    assert not (run.folder / "methodology").exists()
    text = (tmp_path / "cards" / "index.html").read_text(encoding="utf-8")
    assert "too few for a verdict" in text
    assert "map of grad-cam over the photograph" in text


def test_a_run_without_controls_is_refused_in_one_sentence_before_anything_is_measured(tmp_path):
    run = planted_run(tmp_path / "run", ["gradient"], ["sparseness"])
    result = CliRunner().invoke(app, ["cards", "--run", str(run.folder)])
    assert isinstance(result.exception, SnellenError)
    assert "has no controls" in str(result.exception)
    assert not (run.folder / "methodology").exists()
