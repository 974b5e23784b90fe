"""Slow lines and browsers without scripts: pictures are there before they are needed, and nothing jumps."""

from __future__ import annotations

import pytest
from playwright.sync_api import Route, expect
from tests.study.browsing import Chromium, Server, Visitor, intended

pytestmark = pytest.mark.browser

_SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => { for (const one of list.getEntries()) window.shifted += one.value; })
  .observe({ type: "layout-shift", buffered: true });
"""
_FETCHED = """() => [...document.images].map((one) => {
  const [entry] = performance.getEntriesByName(one.src);
  return { name: one.src, complete: one.complete && one.naturalWidth > 0, bytes: entry ? entry.transferSize : -1 };
})"""
_AHEAD = """() => {
  const names = (document.querySelector("main").dataset.ahead || "").split(" ").filter(Boolean);
  const fetched = (name) => performance.getEntriesByName(`${location.origin}/picture/${name}`);
  return names.every((name) => fetched(name).some((one) => one.responseEnd > 0));
}"""


def slow(visitor: Visitor, kilobits: int, milliseconds: int) -> None:
    """A line like this from now on."""
    session = visitor.context.new_cdp_session(visitor.page)
    session.send("Network.enable")
    rate = kilobits * 1000 / 8
    session.send(
        "Network.emulateNetworkConditions",
        {"offline": False, "latency": milliseconds, "downloadThroughput": rate, "uploadThroughput": rate},
    )


def test_pictures_of_the_next_page_are_there_when_it_opens(chromium: Chromium, changing: Server) -> None:
    with chromium.person(changing, locale="de") as visitor:
        visitor.page.add_init_script(_SHIFTS)
        slow(visitor, 400, 300)
        visitor.arrive()
        shown = visitor.go_to("task")
        visitor.page.wait_for_load_state("load")
        poll(visitor)
        for _ in range(2):
            visitor.go()
            visitor.page.wait_for_load_state("domcontentloaded")
            pictures = visitor.page.evaluate(_FETCHED)
            own = [picture for picture in pictures if "/picture/" in picture["name"]]
            assert own
            assert all(picture["complete"] for picture in own), "a picture had to be waited for"
            assert all(picture["bytes"] == 0 for picture in own), "a picture was fetched again"
            visitor.page.wait_for_load_state("load")
            assert visitor.page.evaluate("window.shifted") < 0.01, shown
            poll(visitor)


def poll(visitor: Visitor) -> None:
    """Reads the page until the pictures of the next ones have arrived."""
    for _ in range(600):
        if visitor.page.evaluate(_AHEAD):
            return
        visitor.page.wait_for_timeout(50)
    raise AssertionError("the pictures of the next pages do not arrive")


def test_a_place_is_kept_for_pictures_that_are_late(chromium: Chromium, whole: Server) -> None:
    with chromium.person(whole, viewport={"width": 390, "height": 800}) as visitor:
        visitor.arrive()
        visitor.go_to("trial", "class-accuracy", practice=True)
        visitor.page.add_init_script(_SHIFTS)
        late: list[Route] = []
        visitor.page.route("**/picture/**", lambda route: late.append(route))
        visitor.page.reload(wait_until="commit")
        expect(visitor.page.get_by_role("slider")).to_be_visible()
        boxes = "() => [...document.querySelectorAll('img,h1,button')].map((one) => one.getBoundingClientRect().toJSON())"
        early = visitor.page.evaluate(boxes)
        shown = [picture for picture in visitor.page.evaluate(_FETCHED) if "/picture/" in picture["name"]]
        assert len(shown) == 3
        assert not any(picture["complete"] for picture in shown)
        for request in late:
            request.continue_()
        visitor.page.unroute("**/picture/**")
        visitor.page.wait_for_load_state("load")
        assert all(picture["complete"] for picture in visitor.page.evaluate(_FETCHED))
        assert visitor.page.evaluate(boxes) == early
        assert visitor.page.evaluate("window.shifted") < 0.01


def test_a_whole_participation_without_scripts(chromium: Chromium, whole: Server) -> None:
    with chromium.person(whole, java_script_enabled=False) as visitor:
        visitor.arrive()
        shown = visitor.go_to("trial", "error-detection", practice=False)
        visitor.button().click()
        expect(visitor.main.get_by_text(visitor.t("refused.missing"))).to_be_visible()
        assert shown.id not in visitor.stored()
        assert visitor.page.get_by_role("slider").count() == 0
        visitor.finish()
        assert visitor.kind == "end"
        assert visitor.page.get_by_text(visitor.person().code, exact=True).is_visible()
        visit = visitor.visit()
        assert visitor.stored() == {name: intended(whole.study, page) for name, page in visitor.pages.items()}
        assert visit.state == "finished"
        # Without a script, the server measures.
        assert all(reply.seconds > 0 for reply in visit.replies.values())
