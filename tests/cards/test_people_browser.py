"""People on the page of cards in a real Chromium: the wish is there, ranks as Python does, and fits phone and paper."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.cards.browser import Browser
from tests.cards.studied_card_set import seen_by_many

from snellen.cards.card_set import CardSet
from snellen.cards.page import write_card, write_cards
from snellen.cards.priorities import Priorities, profiles
from snellen.cards.recommend import recommend

pytestmark = pytest.mark.exhaustive

VISIBLE = "(one) => one.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true })"


@pytest.fixture(scope="module")
def card_set() -> CardSet:
    return seen_by_many(40)


@pytest.fixture(scope="module")
def path(card_set, tmp_path_factory) -> Path:
    return write_cards(card_set, tmp_path_factory.mktemp("people"))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened
        assert opened.errors == []


def test_the_ranking_is_pythons_with_people_at_every_level(browser, path, card_set):
    browser.size(1280)
    browser.open(path)
    queries = [Priorities(levels={"people": level}) for level in ("essential", "nice", "unwanted")]
    queries += [
        Priorities(levels={**profile.levels, "people": level})
        for profile in profiles()
        for level in ("essential", "nice", "unwanted")
    ]
    states = set()
    for query in queries:
        wishes = f"{{levels: {dict(query.levels)}, cost: null, blackBox: false}}"
        got = browser.run(f"""rank(data.methods, {wishes}).map((one) => [one.method.label, one.score, one.state,
            one.sacrifice && [one.sacrifice.name, one.sacrifice.best.label], one.decided.map((each) => each.name)])""")
        choice = recommend(card_set, query)
        for (label, score, state, sacrifice, decided), place in zip(got, choice.places, strict=True):
            assert (label, state) == (place.card.method, place.state)
            assert score == pytest.approx(place.score, abs=1e-12)
            assert sacrifice == ([place.sacrifice.attribute, place.sacrifice.method] if place.sacrifice else None)
            assert decided == [each.attribute for each in place.decided]
            states.add(state)
    assert states == {"met", "not known", "missed"}


def test_the_wish_is_in_the_form_in_the_address_and_in_the_answer(browser, path, card_set):
    browser.size(1280)
    browser.open(path, "#priorities?essential=people")
    browser.rest()
    assert browser.run("document.querySelector('input[name=people][value=essential]').checked")
    choice = recommend(card_set, Priorities(levels={"people": "essential"}))
    shown = "[...document.querySelectorAll('#ranking > ol .entry')].map((one) => one.dataset.method)"
    assert browser.run(shown) == [place.card.method for place in choice.qualified]
    assert "helps people" in browser.run("document.querySelector('#ranking').innerText")
    browser.run("document.querySelector('input[name=people][value=nice]').click()")
    browser.rest()
    assert "nice=people" in browser.run("location.hash")


@pytest.mark.parametrize(
    "place", ["", "#card-grad-cam", "#priorities?essential=people", "#comparison?compare=grad-cam,rise"]
)
def test_nothing_scrolls_sideways_on_a_phone(browser, path, place):
    browser.size(390, 844)
    browser.open(path, place)
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    browser.rest()
    assert browser.run("document.documentElement.scrollWidth") <= 390
    wide = f"""[...document.querySelectorAll('main *')].filter({VISIBLE})
        .filter((one) => !one.closest('.scroll, svg, .unseen') && one.getBoundingClientRect().right > 391)
        .map((one) => one.outerHTML.slice(0, 100))"""
    assert browser.run(wide) == []


def test_a_grade_more_does_not_disturb_the_others(browser, path):
    browser.size(1280)
    browser.open(path)
    # The ten stand in two columns of five as ever, and people below both.
    script = """[...document.querySelectorAll('#methods .tile:nth-of-type(6) .glance li')].map((one) => {
        const box = one.getBoundingClientRect(); return [Math.round(box.left), Math.round(box.top)]; })"""
    places = browser.run(script)
    assert len(places) == 11
    assert len({left for left, _ in places[:5]}) == len({left for left, _ in places[5:10]}) == 1
    assert [top for _, top in places[:5]] == [top for _, top in places[5:10]]
    assert places[10][1] > max(top for _, top in places[:10])
    assert places[10][0] == places[0][0]


def test_the_section_is_read_by_colour_shape_and_word_and_fits_on_paper(browser, card_set, tmp_path):
    browser.size(1280)
    browser.open(write_card(card_set.find("grad-cam"), card_set, tmp_path / "card.html"))
    seen = browser.run("document.querySelector('#card-people').closest('section').innerText")
    assert "● good" in " ".join(seen.split()).replace("●good", "● good")
    assert "against no map" in seen
    colour = browser.run("getComputedStyle(document.querySelector('#card-people')).color")
    parts = [int(channel) / 255 for channel in colour[4:-1].split(",")]
    linear = [channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4 for channel in parts]
    assert 1.05 / (float(np.dot(linear, [0.2126, 0.7152, 0.0722])) + 0.05) > 4.5
    assert browser.sheets() <= 5
