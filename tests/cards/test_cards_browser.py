"""The page of cards in a real Chromium: keyboard only, phone width, paper, and the same ranking as Python's."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.cards.browser import Browser
from tests.cards.recorded_card_set import deck_of

from snellen.cards.card_set import CardSet
from snellen.cards.card_view import title
from snellen.cards.page import write_card, write_cards
from snellen.cards.priorities import Priorities, profiles
from snellen.cards.recommend import recommend
from snellen.cards.schema import ATTRIBUTES

pytestmark = pytest.mark.exhaustive

PLACES = ["", "#card-grad-cam", "#priorities?nice=minimality&essential=input-sensitivity"]
VISIBLE = "(one) => one.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true })"


@pytest.fixture(scope="module")
def card_set() -> CardSet:
    return deck_of(40)


@pytest.fixture(scope="module")
def path(card_set, tmp_path_factory) -> Path:
    return write_cards(card_set, tmp_path_factory.mktemp("cards"))


@pytest.fixture(scope="module")
def few(tmp_path_factory) -> Path:
    return write_cards(deck_of(7), tmp_path_factory.mktemp("few"))


@pytest.fixture(scope="module")
def window() -> Iterator[Browser]:
    with Browser() as opened:
        yield opened


@pytest.fixture
def browser(window, path) -> Iterator[Browser]:
    window.errors.clear()
    window.requests.clear()
    window.size(1280)
    window.open(path)
    yield window
    window("Emulation.setEmulatedMedia", media="")
    window("Emulation.setScriptExecutionDisabled", value=False)
    window.rest(0.05)
    assert window.errors == []
    assert [address for address in window.requests if not address.startswith(("file:", "data:", "about:"))] == []


def tab_to(browser: Browser, selector: str, most: int = 400) -> None:
    for _ in range(most):
        if browser.run(f"document.activeElement.matches({selector!r})"):
            return
        browser.press("Tab")
    raise AssertionError(f"Tab never reaches {selector}")


def test_priorities_a_card_and_the_way_back_by_keyboard_alone(browser, card_set):
    tab_to(browser, "input[name=determinism]")
    assert browser.run("document.activeElement.value") == "unimportant"
    browser.press("ArrowLeft")
    browser.press("ArrowLeft")
    assert browser.run("document.activeElement.value + document.activeElement.checked") == "essentialtrue"
    browser.rest()
    choice = recommend(card_set, Priorities(levels={"determinism": "essential"}))
    shown = "[...document.querySelectorAll('#ranking > ol .entry')].map((one) => one.dataset.method)"
    assert browser.run(shown) == [place.card.method for place in choice.qualified]
    news = browser.run("document.querySelector('#news').textContent")
    assert f"{len(choice.qualified)} of 8 methods meet your needs" in news
    tab_to(browser, "#ranking .entry a")
    first = browser.run("document.activeElement.textContent")
    browser.press("Enter")
    browser.rest()
    assert browser.run("document.activeElement.textContent") == first
    assert browser.run("document.activeElement.className") == "card-title"
    assert browser.run(f"[...document.querySelectorAll('article.card')].filter({VISIBLE}).length") == 1
    assert browser.run("document.querySelector('#gallery').checkVisibility()") is False
    browser.press("Tab", shift=True)
    assert browser.run("document.activeElement.textContent") == "← All methods"
    browser.press("Enter")
    browser.rest()
    assert browser.run("document.activeElement.textContent") == first
    assert browser.run("document.activeElement.closest('#methods') !== null")
    assert browser.run("document.querySelector('input[name=determinism][value=essential]').checked")


def test_tab_walks_in_reading_order_and_shows_where_it_is(browser):
    script = """(() => {
        const one = document.activeElement, before = window.last;
        window.last = one;
        const box = one.matches(".levels input") ? one.nextElementSibling : one;
        return { body: one === document.body, forward: !before || !!(before.compareDocumentPosition(one) & 4),
                 outline: parseFloat(getComputedStyle(box).outlineWidth), style: getComputedStyle(box).outlineStyle,
                 words: one.outerHTML.slice(0, 120) };
    })()"""
    seen = []
    for _ in range(400):
        browser.press("Tab")
        now = browser.run(script)
        if now["body"]:
            break
        seen.append(now)
    assert len(seen) > 60
    for stop in seen:
        assert stop["forward"], stop
        assert stop["outline"] >= 2, stop
        assert stop["style"] != "none", stop


@pytest.mark.parametrize("place", [*PLACES, "#comparison?compare=grad-cam,rise,gradient,occlusion"])
def test_nothing_scrolls_sideways_on_a_phone(browser, path, place):
    browser.size(390, 844)
    browser.open(path, place)
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    browser.run("document.querySelectorAll('button.fold').forEach((one) => one.click())")
    browser.rest()
    assert browser.run("document.documentElement.scrollWidth") <= 390
    wide = f"""[...document.querySelectorAll('main *')].filter({VISIBLE})
        .filter((one) => !one.closest('.scroll, svg, .unseen') && one.getBoundingClientRect().right > 391)
        .map((one) => one.outerHTML.slice(0, 100))"""
    assert browser.run(wide) == []


def test_two_that_were_chosen_fit_a_phone_without_scrolling(browser, path):
    browser.size(390, 844)
    browser.open(path, "#comparison?compare=grad-cam,rise")
    browser.rest()
    cells = f"[...document.querySelectorAll('table.side td')].filter({VISIBLE})"
    right = f"Math.max(...{cells}.map((one) => one.getBoundingClientRect().right))"
    assert 300 < browser.run(right) <= 390


def test_the_ranking_is_pythons_for_the_nine_profiles_and_for_conditions(browser, card_set):
    queries = [Priorities(levels=profile.levels, profile=profile) for profile in profiles()]
    queries += [Priorities(levels={}, avoid_cost=0.05), Priorities(levels={}, black_box=True)]
    queries += [Priorities(levels=profile.levels, avoid_cost=0.5, black_box=True) for profile in profiles()]
    queries += [Priorities(levels=dict.fromkeys(ATTRIBUTES, level)) for level in ("essential", "nice", "unwanted")]
    states, unasked = set(), set()
    for query in queries:
        cost = "null" if query.avoid_cost is None else query.avoid_cost
        wishes = f"{{levels: {dict(query.levels)}, cost: {cost}, blackBox: {str(query.black_box).lower()}}}"
        got = browser.run(f"""(() => {{
            const found = rank(data.methods, {wishes});
            return {{
                places: found.map((one) => [one.method.label, Number.isNaN(one.score) ? null : one.score, one.state,
                    one.sacrifice && [one.sacrifice.name, one.sacrifice.best.label], one.decided.map((each) => each.name)]),
                level: alike(contenders(found)).map((one) => one.method.label),
                unasked: contenders(found).slice(0, 1).flatMap((one) =>
                    weakSensitivities(one, {wishes}).map(([, words]) => words)),
                nearest: nearest(found).map((one) => one.method.label),
                shares: [...stability(contenders(found), {wishes})].map(([each, share]) => [each.method.label, share]),
            }};
        }})()""")
        choice = recommend(card_set, query)
        for mine, place in zip(got["places"], choice.places, strict=True):
            label, score, state, sacrifice, decided = mine
            assert (label, state) == (place.card.method, place.state)
            assert score is None if np.isnan(place.score) else score == pytest.approx(place.score, abs=1e-12)
            assert sacrifice == ([place.sacrifice.attribute, place.sacrifice.method] if place.sacrifice else None)
            assert decided == [each.attribute for each in place.decided]
            states.add(state)
        assert got["level"] == [each.card.method for each in choice.level]
        cautions = [words for words in choice.cautions if words.startswith("you did not ask for ")]
        first = next(iter(choice.contenders), None)
        assert got["unasked"] == [
            words.replace(f"but {first.card.method} ", f"but {title(first.card)} ") for words in cautions
        ]
        unasked |= set(got["unasked"])
        if not choice.qualified:
            assert got["nearest"] == [each.card.method for each in choice.nearest]
        if query.weighed:
            for label, share in got["shares"]:
                first = next(each.first for each in choice.contenders if each.card.method == label)
                assert share == pytest.approx(first, abs=0.05)
    assert states == {"met", "missed", "not known"}
    assert unasked


def test_before_anything_is_chosen_the_answer_says_how_to_begin_and_one_press_clears_all(browser, path):
    hint = "document.querySelector('#unasked').checkVisibility()"
    assert browser.run("document.querySelector('#news').textContent") == "Nothing is chosen yet."
    assert browser.run(hint)
    clear = "document.querySelector('[data-profile=\"\"]')"
    assert browser.run(f"{clear}.getAttribute('aria-pressed')") == "true"
    browser.open(path, "#priorities?nice=label-sensitivity,minimality")
    browser.rest()
    assert "Nothing is essential, so no method is left out." in browser.run("document.querySelector('#news').textContent")
    browser.open(path, "#priorities?seconds=0.5")
    browser.rest()
    assert browser.run(hint) is False
    assert browser.run(f"{clear}.getAttribute('aria-pressed')") == "false"
    tab_to(browser, '[data-profile=""]')
    browser.press("Enter")
    browser.rest()
    assert browser.run(hint)
    assert browser.run("document.querySelector('#cost').value") == ""
    assert browser.run("document.querySelector('#news').textContent") == "Nothing is chosen yet."


def test_a_profile_is_one_press_and_an_address_brings_it_back(browser, path, card_set):
    tab_to(browser, "[data-profile=consultant]")
    browser.press("Enter")
    browser.rest()
    assert browser.run("document.activeElement.getAttribute('aria-pressed')") == "true"
    choice = recommend(card_set, Priorities.read(profile="consultant"))
    shown = [place.card.method for place in (choice.qualified or choice.nearest)]
    listed = "[...document.querySelectorAll('#ranking > .entries .entry')].map((one) => one.dataset.method)"
    assert browser.run(listed) == shown
    address = browser.run("location.hash")
    assert "essential=hyperparameter-dependence,computational-efficiency,semantic-directness,input-sensitivity" in address
    browser.open(path, address)
    assert browser.run("document.querySelector('[data-profile=consultant]').getAttribute('aria-pressed')") == "true"
    assert browser.run(listed) == shown


@pytest.mark.parametrize(
    "address", ["#priorities?essential=minimality%", "#nowhere?compare=grad-cam,nothing&seconds=-1", "#%E0%A4%A"]
)
def test_an_address_that_was_cut_short_does_no_harm(browser, path, address):
    browser.open(path, address)
    browser.rest()
    assert browser.run("document.querySelector('#methods').checkVisibility()")
    assert browser.run("document.querySelector('#cost').value") == ""


def test_when_nothing_will_do_the_page_says_so_and_names_the_nearest(browser, path, card_set):
    every = ",".join(ATTRIBUTES)
    browser.open(path, f"#priorities?essential={every}&seconds=0.000001")
    browser.rest()
    assert "No method" in browser.run("document.querySelector('#news').textContent")
    assert "These come closest" in browser.run("document.querySelector('#ranking').textContent")
    choice = recommend(card_set, Priorities(levels=dict.fromkeys(ATTRIBUTES, "essential"), avoid_cost=1e-6))
    listed = "[...document.querySelectorAll('#ranking > .entries .entry')].map((one) => one.dataset.method)"
    assert browser.run(listed) == [place.card.method for place in choice.nearest]


def test_two_to_four_methods_stand_side_by_side(browser):
    columns = (
        f"[...document.querySelectorAll('table.side thead th[data-column]')].filter({VISIBLE}).map((one) => one.textContent)"
    )
    assert len(browser.run(columns)) == 8
    tab_to(browser, ".picks [data-pick=card-grad-cam]")
    browser.press(" ")
    assert len(browser.run(columns)) == 8
    tab_to(browser, ".picks [data-pick=card-rise]")
    browser.press(" ")
    assert browser.run(columns) == ["Grad-CAM", "RISE"]
    assert "differ" in browser.run("document.querySelector('#picked').textContent")
    assert browser.run("document.querySelector('#methods [data-pick=card-rise]').checked")
    browser.run(
        "['card-gradient', 'card-occlusion'].forEach((id) => document.querySelector(`.picks [data-pick=${id}]`).click())"
    )
    assert len(browser.run(columns)) == 4
    assert browser.run("document.querySelector('.picks [data-pick=card-guided-backprop]').disabled")
    assert "compare=grad-cam,rise,gradient,occlusion" in browser.run("location.hash")
    browser.run("document.querySelector('#clear').click()")
    assert len(browser.run(columns)) == 8


def on_paper(browser: Browser) -> str:
    """What can be read on paper; controls and what lies outside of the sheet are an error."""
    browser("Emulation.setEmulatedMedia", media="print")
    browser.size(703)  # A4 between its margins; a scroll bar makes it a little narrower still
    assert browser.run(f"[...document.querySelectorAll('form, button, input, nav, .back')].filter({VISIBLE}).length") == 0
    cut = f"""[...document.querySelectorAll('main *')].filter({VISIBLE}).filter((one) => !one.closest('svg, .unseen'))
        .filter((one) => one.getBoundingClientRect().right > 704 || one.scrollWidth > one.clientWidth + 1 && one.clientWidth)
        .map((one) => one.outerHTML.slice(0, 120))"""
    assert browser.run(cut) == []
    seen = browser.run("document.querySelector('main').innerText")
    browser("Emulation.setEmulatedMedia", media="")
    return str(seen)


CARDS = f"[...document.querySelectorAll('article.card')].filter({VISIBLE}).map((one) => one.id)"


@pytest.mark.parametrize("name", ["grad-cam", "integrated-gradients", "random"])
def test_a_card_takes_at_most_four_sheets_of_paper(browser, card_set, tmp_path, name):
    browser.open(write_card(card_set.find(name), card_set, tmp_path / "card.html"))
    assert browser.sheets() <= (1 if name == "random" else 4)
    seen = on_paper(browser)
    expected = {"Determinism", "METHODOLOGY", "Origin"} | {
        row.test for row in card_set.find(name).evidence if name != "random"
    }
    assert [text for text in expected if text not in seen] == []
    assert name == "random" or re.search(r"\d \[[^]]+\]", seen), "no number with its interval"
    assert "numbers" not in seen.split("Origin")[0].splitlines()


def test_paper_shows_the_open_card_and_what_was_unfolded_on_it(browser):
    browser.run("location.hash = '#card-rise'")
    browser.rest()
    assert browser.sheets() <= 4
    folded = on_paper(browser)
    assert "difference, + is better" not in folded
    browser.run("document.querySelector('#card-rise .test details').open = true")
    assert on_paper(browser).count("difference, + is better") == 1
    assert browser.run(CARDS) == ["card-rise"]


def test_paper_of_the_gallery_holds_what_was_chosen_and_no_card(browser, path):
    assert browser.sheets() <= 5
    seen = on_paper(browser)
    assert browser.run(CARDS) == []
    assert "All methods" in seen
    assert "What matters to you?" not in seen
    assert "Side by side" not in seen
    browser.open(path, "#priorities?essential=input-sensitivity&seconds=2&compare=grad-cam,rise")
    browser.rest()
    assert browser.sheets() <= 6
    seen = on_paper(browser)
    assert "essential: it shows what the model's output depends on" in seen
    assert "a map may take at most 2 s" in seen
    assert browser.run("document.querySelector('#news').textContent") in seen
    assert "Side by side" in seen


def test_without_a_script_every_card_can_be_read(browser, path):
    browser("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(path)
    assert browser.run(f"[...document.querySelectorAll('article.card')].filter({VISIBLE}).length") == 12
    assert 12 <= browser.sheets() <= 12 * 4 + 5, "each card begins on a sheet of its own"
    assert browser.run("document.querySelector('#wishes').checkVisibility()") is False
    assert browser.run(f"[...document.querySelectorAll('.live')].filter({VISIBLE}).length") == 0


@pytest.mark.parametrize("place", PLACES)
def test_everything_has_a_name_and_headings_are_in_order(browser, path, place):
    browser.open(path, place)
    browser.rest()
    nodes = browser("Accessibility.getFullAXTree")["nodes"]
    roles = {"button", "link", "checkbox", "radio", "spinbutton", "image", "heading", "region", "DisclosureTriangle"}
    named = [node for node in nodes if not node["ignored"] and node["role"]["value"] in roles]
    assert len(named) > 40
    assert [node for node in named if not node.get("name", {}).get("value", "").strip()] == []
    levels = browser.run(
        f"[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].filter({VISIBLE}).map((one) => Number(one.tagName[1]))"
    )
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))


@pytest.mark.parametrize("place", PLACES)
def test_all_words_stand_out_from_what_is_behind_them(browser, path, place):
    browser.open(path, place)
    browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true })")
    browser.rest()
    script = f"""(() => {{
        const light = (text) => {{
            const linear = (one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4;
            const parts = text.match(/[\\d.]+/g).slice(0, 3).map((one) => linear(one / 255));
            return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
        }};
        const behind = (one) => {{
            for (; one; one = one.parentElement) {{
                const colour = getComputedStyle(one).backgroundColor;
                if (colour !== "rgba(0, 0, 0, 0)") return colour;
            }}
            return "rgb(255, 255, 255)";
        }};
        const bad = [];
        for (const one of document.querySelectorAll("main *")) {{
            const written = [...one.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
            if (!written || !({VISIBLE})(one)) continue;
            const own = one.closest("svg") ? getComputedStyle(one).fill : getComputedStyle(one).color;
            const [front, back] = [light(own), light(behind(one))];
            const ratio = (Math.max(front, back) + 0.05) / (Math.min(front, back) + 0.05);
            if (ratio < 4.5) bad.push([ratio.toFixed(2), own, one.outerHTML.slice(0, 100)]);
        }}
        return bad;
    }})()"""
    assert browser.run(script) == []


def test_seven_images_still_answer(browser, few):
    browser.open(few, "#priorities?essential=input-sensitivity")
    browser.rest()
    assert "No method is shown to meet your needs" in browser.run("document.querySelector('#news').textContent")
    assert "With at least 30 images" in browser.run("document.querySelector('#ranking').textContent")
    browser.open(few, "#card-grad-cam")
    seen = browser.run("document.querySelector('#card-grad-cam').innerText")
    assert "too few for a verdict" in seen
    assert "too few yet" in seen
