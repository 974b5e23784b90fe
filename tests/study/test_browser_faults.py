"""Nothing is lost and nothing is doubled: killed servers, closed browsers, the back button, impatient fingers, two tabs."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Error, expect
from tests.study.browsing import Chromium, Server, Visitor, intended

from snellen.study import schedule
from snellen.study.answers.store import FILE

pytestmark = pytest.mark.browser


@pytest.fixture
def mortal(small: Server) -> Iterator[Server]:
    """A server that a test may kill; the next test finds it alive."""
    yield small
    assert small.process is not None
    if small.process.poll() is not None:
        small.start()


def kept(visitor: Visitor) -> list[str]:
    """The pages of all stored answers as they stand in the file, so that a doubled one is seen."""
    with sqlite3.connect(visitor.server.study.folder / FILE) as connection:
        rows = connection.execute(
            "SELECT page FROM events WHERE kind = 'reply' AND participant = ? ORDER BY page", [visitor.person().participant]
        ).fetchall()
    connection.close()
    return [row[0] for row in rows]


def complete(visitor: Visitor, *, answered: dict[str, dict[str, object]] | None = None) -> None:
    """Goes on to the end; every page has its own answer, once, unless another was given first."""
    visitor.page.bring_to_front()
    visitor.finish()
    expect(visitor.main).to_have_attribute("data-kind", "end")
    expected = {name: intended(visitor.server.study, shown) for name, shown in visitor.pages.items()} | (answered or {})
    assert visitor.stored() == expected
    assert kept(visitor) == sorted(expected)
    assert visitor.visit().state == "finished"


def another(answer: dict[str, int]) -> dict[str, int]:
    """An answer to the same page that is different in everything."""
    return answer | {"value": 1 - answer["value"], "beside": 50 + (answer["beside"] - 40) % 51}


def unanswered(visitor: Visitor) -> tuple[schedule.Page, dict[str, int]]:
    """Begins, and goes to the first trial."""
    visitor.arrive()
    shown = visitor.go_to("trial")
    return shown, intended(visitor.server.study, shown)


def test_answers_outlive_a_server_that_is_killed_after_them(chromium: Chromium, mortal: Server) -> None:
    with chromium.person(mortal) as visitor:
        shown, _ = unanswered(visitor)
        visitor.go()
        here = visitor.place
        mortal.kill()
        with pytest.raises(Error, match="ERR_CONNECTION_REFUSED"):
            visitor.page.reload()
        mortal.start()
        visitor.page.reload()
        expect(visitor.main).to_have_attribute("data-page", here)
        assert shown.id in visitor.stored()
        complete(visitor)


def test_a_page_is_sent_again_when_the_server_was_dead(chromium: Chromium, mortal: Server) -> None:
    with chromium.person(mortal) as visitor:
        shown, answer = unanswered(visitor)
        visitor.fill(shown, answer)
        mortal.kill()
        visitor.button().click()
        visitor.page.wait_for_url("chrome-error://**")
        assert shown.id not in visitor.stored()
        mortal.start()
        visitor.page.reload()
        visitor.past(shown.id)
        assert visitor.stored()[shown.id] == answer
        complete(visitor)


def test_the_link_leads_back_to_the_page_that_a_dead_server_did_not_take(chromium: Chromium, mortal: Server) -> None:
    with chromium.person(mortal) as visitor:
        shown, answer = unanswered(visitor)
        visitor.fill(shown, another(answer))
        # Whoever asks now is let in, but never answered: the worst moment to die.
        mortal.pause()
        visitor.button().click(no_wait_after=True)
        mortal.kill()
        mortal.start()
        visitor.page.goto("/", wait_until="load")
        expect(visitor.page.get_by_role("status")).to_have_text(visitor.t("notice.resumed"))
        stored = visitor.stored()
        if visitor.place == shown.id:
            assert shown.id not in stored
            visitor.go()
            complete(visitor)
        else:  # The browser sent it once more, by itself, to the new server.
            assert stored[shown.id] == another(answer)
            complete(visitor, answered={shown.id: another(answer)})


def test_a_closed_browser_goes_on_where_it_was(chromium: Chromium, small: Server, tmp_path: Path) -> None:
    with chromium.profile(small, tmp_path / "profile") as visitor:
        unanswered(visitor)
        visitor.go()
        here, who = visitor.place, visitor.person()
    with chromium.profile(small, tmp_path / "profile") as visitor:
        visitor.page.goto("/")
        expect(visitor.page.get_by_role("status")).to_have_text(visitor.t("notice.resumed"))
        assert (visitor.place, visitor.person()) == (here, who)
        complete(visitor)
        # Afterwards, the link leads to the end, and nobody takes part twice.
        visitor.page.goto("/")
        expect(visitor.main).to_have_attribute("data-kind", "end")
        assert visitor.page.get_by_text(who.code, exact=True).is_visible()


def test_reloading_asks_the_same_page_again_and_time_goes_on(chromium: Chromium, small: Server) -> None:
    with chromium.person(small) as visitor:
        shown, answer = unanswered(visitor)
        visitor.fill(shown, another(answer))
        before = visitor.page.evaluate("performance.now()")
        visitor.page.reload()
        assert visitor.place == shown.id
        assert shown.id not in visitor.stored()
        visitor.go()
        assert visitor.visit().replies[shown.id].seconds * 1000 >= before
        visitor.page.reload()
        complete(visitor)


def test_the_back_button_leads_to_the_current_page_with_nothing_entered(chromium: Chromium, small: Server) -> None:
    with chromium.person(small) as visitor:
        unanswered(visitor)
        visitor.go()
        here, stored = visitor.place, visitor.stored()
        assert visitor.pages[here].kind == "trial"
        for _ in range(2):
            assert visitor.page.go_back() is not None
            assert visitor.place == here
            # A browser likes to enter what it remembers of the page that was here before.
            assert not any(radio.is_checked() for radio in visitor.main.get_by_role("radio").all())
            assert visitor.main.get_by_role("spinbutton").input_value() == ""
        assert visitor.stored() == stored
        complete(visitor)


def test_an_old_page_that_is_answered_again_changes_nothing(chromium: Chromium, small: Server) -> None:
    with chromium.person(small) as visitor:
        shown, answer = unanswered(visitor)
        old = visitor.context.new_page()
        old.goto("/page")
        visitor.go()
        here = visitor.place
        second = Visitor(visitor.server, visitor.context, old)
        second.fill(shown, another(answer))
        second.send()
        assert second.place == here
        expect(old.get_by_role("status")).to_have_text(visitor.t("notice.answered"))
        expect(old.get_by_role("heading", level=1)).to_be_focused()
        assert visitor.stored()[shown.id] == answer
        complete(second)
        # The first tab still shows a page that the other has answered by now.
        visitor.button().click()
        expect(visitor.main).to_have_attribute("data-kind", "end")
        assert kept(visitor) == sorted(visitor.pages)


@pytest.mark.parametrize("scripts", [True, False])
def test_a_button_that_is_pressed_twice_sends_one_answer(chromium: Chromium, small: Server, scripts: bool) -> None:
    with chromium.person(small, java_script_enabled=scripts) as visitor:
        shown, answer = unanswered(visitor)
        visitor.fill(shown, answer)
        visitor.button().dblclick(no_wait_after=True)
        visitor.past(shown.id)
        assert visitor.stored()[shown.id] == answer
        assert visitor.page.get_by_role("status").count() == 0 or not scripts
        complete(visitor)


def test_two_tabs_at_once_store_one_answer(chromium: Chromium, small: Server) -> None:
    with chromium.person(small) as visitor:
        shown, answer = unanswered(visitor)
        other = Visitor(visitor.server, visitor.context, visitor.context.new_page())
        other.page.goto("/page")
        other.fill(shown, another(answer))
        visitor.fill(shown, answer)
        for tab in (visitor, other):
            tab.button().click(no_wait_after=True)
        for tab in (visitor, other):
            tab.past(shown.id)
        first = visitor.stored()[shown.id]
        assert first in (answer, another(answer))
        assert kept(visitor).count(shown.id) == 1
        assert visitor.place == other.place
        complete(visitor, answered={shown.id: first})
