"""Every kind of page, in both languages and at the widths of desks and phones: how it looks and what it says."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from tests.study.browsing import Chromium, Server, Visitor, intended, screenshots
from tests.study.page_checks import DESK, NARROW, PHONE, announced, leaks, looked_at, settled, strangers

from snellen.study.schedule import Page

pytestmark = pytest.mark.browser

_ONLY_TO_BE_SEEN = pytest.mark.skipif(screenshots() is None, reason="the pages are those of other tests")


def refused(visitor: Visitor, shown: Page) -> None:
    """Sends a page without an answer: it comes back, says what is missing, and the focus is there."""
    visitor.button().click()
    expect(visitor.page).to_have_title(re.compile(f"^{visitor.t('refused.title')}"))
    assert visitor.place == shown.id
    # A page that is refused is no error of the application.
    visitor.complaints[:] = [complaint for complaint in visitor.complaints if "422" not in complaint]
    role, announcement = announced(visitor.page)
    sentence = visitor.t("refused.line" if shown.kind == "scale" else "refused.missing")
    assert role in ("radio", "spinbutton")
    assert sentence in announcement
    assert visitor.main.get_by_text(sentence).first.is_visible()


def walk(visitor: Visitor, language: str, *, thorough: bool) -> None:
    """Takes part, and looks at every kind of page on the way."""
    study, seen = visitor.server.study, set()
    widths = (DESK, PHONE, NARROW) if thorough else (DESK, PHONE)
    while visitor.place:
        shown = visitor.pages[visitor.place]
        what = shown.kind, shown.task or shown.scale, shown.practice, shown.condition.name if shown.kind != "scale" else ""
        if what in seen:
            visitor.go()
            continue
        seen.add(what)
        settled(visitor)
        html = visitor.page.content()
        assert not leaks(study, html)
        assert visitor.page.locator("html").get_attribute("lang") == language
        assert not strangers(visitor, language)
        name = "-".join(
            filter(None, (shown.id, shown.kind, shown.task or shown.scale, "practice" if shown.practice else ""))
        )
        looked_at(visitor, name, widths)
        is_question = shown.kind in ("attention", "scale") or (shown.kind == "trial" and shown.task != "forward-selection")
        if thorough and is_question and not shown.practice:
            refused(visitor, shown)
            assert not strangers(visitor, language)
            looked_at(visitor, f"{name}-refused", (DESK, PHONE))
        if shown.kind in ("trial", "scale"):
            visitor.fill(shown, intended(study, shown))
            looked_at(visitor, f"{name}-filled", (PHONE,))
        visitor.go()
    settled(visitor)
    assert visitor.kind == "end"
    assert not leaks(study, visitor.page.content())
    assert not strangers(visitor, language)
    looked_at(visitor, "p999-end", widths)
    assert visitor.stored() == {name: intended(study, shown) for name, shown in visitor.pages.items()}
    assert visitor.visit().language == language


def harmless(visitor: Visitor) -> None:
    """Nothing was fetched from elsewhere, no address betrays anything, and cookies are for this server alone."""
    assert visitor.requested_urls
    assert all(url.startswith(f"{visitor.server.link}/") for url in visitor.requested_urls), set(visitor.requested_urls)
    assert not leaks(visitor.server.study, "\n".join(visitor.requested_urls))
    cookies = visitor.context.cookies()
    assert cookies
    assert all(cookie["httpOnly"] and cookie["sameSite"] in ("Lax", "Strict") for cookie in cookies)
    assert visitor.page.evaluate("document.cookie") == ""
    assert not visitor.complaints


@pytest.mark.parametrize("language", ["en", "de"])
def test_every_page_of_every_task_is_in_order(chromium: Chromium, whole: Server, language: str) -> None:
    with chromium.person(whole, locale={"en": "en-GB", "de": "de-AT"}[language]) as visitor:
        visitor.page.goto("/")
        assert visitor.page.locator("html").get_attribute("lang") == language
        other = {"en": "Deutsch", "de": "English"}[language]
        assert strangers(visitor, language) == [other]
        looked_at(visitor, "p000-consent")
        visitor.arrive()
        walk(visitor, language, thorough=language == "de")
        harmless(visitor)


@pytest.mark.parametrize("language", ["de", pytest.param("en", marks=_ONLY_TO_BE_SEEN)])
def test_pages_on_which_maps_change_are_in_order(chromium: Chromium, changing: Server, language: str) -> None:
    with chromium.person(changing) as visitor:
        visitor.page.goto(f"/?lang={language}&PROLIFIC_PID=p1&other=forgotten")
        visitor.page.get_by_text(visitor.t("consent.recruited")).wait_for()
        visitor.main.get_by_role("button").click()
        expect(visitor.main).to_have_attribute("data-kind", "instructions")
        walk(visitor, language, thorough=language == "de")
        back = visitor.page.get_by_role("link", name=visitor.t("end.return"))
        assert back.get_attribute("href") == f"https://example.org/done?code={visitor.person().code}"
        harmless(visitor)


def test_the_language_can_be_changed_before_agreeing(chromium: Chromium, whole: Server) -> None:
    with chromium.person(whole, locale="fr-FR") as visitor:
        visitor.page.goto("/")
        assert visitor.page.locator("html").get_attribute("lang") == "en"
        visitor.page.get_by_role("navigation").get_by_role("link", name="Deutsch").click()
        expect(visitor.page.locator("html")).to_have_attribute("lang", "de")
        visitor.main.get_by_role("button").click()
        expect(visitor.main).to_have_attribute("data-kind", "instructions")
        assert visitor.page.locator("html").get_attribute("lang") == "de"
        assert visitor.person().language == "de"


@pytest.mark.parametrize("language", ["en", "de"])
def test_pages_beside_the_way_are_in_order(chromium: Chromium, small: Server, language: str) -> None:
    with chromium.person(small, locale=language) as visitor:
        visitor.arrive()
        visitor.page.get_by_role("link", name=visitor.t("common.leave")).click()
        expect(visitor.main).to_have_attribute("data-kind", "withdraw")
        settled(visitor)
        assert not strangers(visitor, language)
        looked_at(visitor, "q000-withdraw")
        visitor.page.get_by_role("link", name=visitor.t("withdraw.stay")).click()
        expect(visitor.main).to_have_attribute("data-kind", "instructions")
        visitor.go()
        visitor.page.goto("/")
        expect(visitor.page.get_by_role("status")).to_have_text(visitor.t("notice.resumed"))
        visitor.page.wait_for_load_state("load")
        looked_at(visitor, "q001-resumed")
        visitor.page.goto("/nowhere")
        visitor.complaints.clear()
        settled(visitor)
        assert visitor.page.get_by_role("heading", name=visitor.t("problem.missing")).is_visible()
        assert not strangers(visitor, language)
        looked_at(visitor, "q002-problem")
        visitor.page.get_by_role("link", name=visitor.t("common.back")).click()
        expect(visitor.main).to_have_attribute("data-kind", "task")
        visitor.page.get_by_role("link", name=visitor.t("common.leave")).click()
        visitor.page.get_by_role("button", name=visitor.t("withdraw.confirm")).click()
        expect(visitor.main).to_have_attribute("data-kind", "withdrawn")
        settled(visitor)
        assert not strangers(visitor, language)
        looked_at(visitor, "q003-withdrawn")
        assert visitor.visit().state == "withdrawn"
