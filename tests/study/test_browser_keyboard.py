"""A whole participation, and the experimenter's login, with nothing but a keyboard."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, expect
from tests.study.browsing import Chromium, Server, Visitor, intended

from snellen.study import schedule
from snellen.study.tasks import TASKS, Decision, Percent, Rating, Selection, find_task

pytestmark = pytest.mark.browser

_RING = """one => [one, one.closest("label")].some(own => own && getComputedStyle(own).outlineStyle !== "none"
                   && parseFloat(getComputedStyle(own).outlineWidth) >= 2)"""


def reach(visitor: Visitor, control: Locator) -> None:
    """Tabs to a control, which must be seen to have the focus."""
    visitor.tab_to(control)
    assert control.evaluate(_RING), f"one cannot see that {control} has the focus"


def slide(visitor: Visitor, ends: tuple[int, int], value: int) -> None:
    """Sets a slider from the end that is nearer."""
    reach(visitor, visitor.main.get_by_role("slider"))
    low, high = ends
    near = value - low <= high - value
    visitor.press("Home" if near else "End")
    visitor.press("ArrowRight" if near else "ArrowLeft", value - low if near else high - value)


def choose(visitor: Visitor, options: Locator, place: int) -> None:
    """Chooses one of several: Space takes the first, arrows go on from there."""
    reach(visitor, options.first)
    visitor.press("Space")
    visitor.press("ArrowDown", place)


def key_in(visitor: Visitor, shown: schedule.Page, answer: dict[str, Any]) -> None:
    """Answers a page."""
    main = visitor.main
    if shown.kind == "scale":
        scale = visitor.server.study.scales[shown.scale]
        for statement, rating in zip(scale.statements["en"], answer["answers"], strict=True):
            choose(visitor, main.get_by_role("radiogroup", name=statement).get_by_role("radio"), rating - 1)
    elif shown.kind == "attention":
        choose(visitor, main.get_by_role("radio"), answer["value"] - 1)
    elif shown.item is not None and shown.kind == "trial":
        form = find_task(shown.item.task).form
        if isinstance(form, Selection):
            for place in answer["chosen"]:
                reach(visitor, main.get_by_role("checkbox").nth(place))
                visitor.press("Space")
        elif isinstance(form, Rating):
            choose(visitor, main.get_by_role("radio"), answer["value"] - 1)
        elif shown.item.task == "confidence":
            slide(visitor, (0, 100), answer["value"])
        elif isinstance(form, Percent):
            reach(visitor, main.get_by_role("spinbutton"))
            visitor.page.keyboard.type(str(answer["value"]))
        else:
            assert isinstance(form, Decision)
            choose(visitor, main.get_by_role("radio"), answer["value"])
            slide(visitor, (form.low, form.high), answer["beside"])


def test_a_whole_participation_needs_nothing_but_a_keyboard(chromium: Chromium, whole: Server) -> None:
    with chromium.person(whole) as visitor:
        visitor.page.goto("/")
        reach(visitor, visitor.main.get_by_role("button", name=visitor.t("consent.agree")))
        visitor.press("Enter")
        expect(visitor.main).to_have_attribute("data-kind", "instructions")
        keyed, kinds = {}, set()
        while page := visitor.place:
            shown = visitor.pages[page]
            expect(visitor.page.get_by_role("heading", level=1)).to_be_focused()
            keyed[page] = intended(whole.study, shown)
            key_in(visitor, shown, keyed[page])
            reach(visitor, visitor.button())
            visitor.press("Enter" if len(keyed) % 2 else "Space")
            visitor.past(page)
            kinds.add((shown.kind, shown.task or shown.scale, shown.practice))
        assert visitor.kind == "end"
        assert visitor.page.get_by_text(visitor.person().code, exact=True).is_visible()

        assert {task for kind, task, practice in kinds if kind == "trial" and not practice} == set(TASKS)
        assert {kind for kind, *_ in kinds} == {"instructions", "task", "trial", "feedback", "attention", "scale"}
        assert {task for kind, task, _ in kinds if kind == "scale"} == {"satisfaction", "trust"}
        visit = visitor.visit()
        assert visit.state == "finished"
        assert {page: dict(reply.content) for page, reply in visit.replies.items()} == keyed
        assert all(reply.seconds > 0 for reply in visit.replies.values())
        assert not visitor.complaints


def test_enter_in_a_field_sends_the_page(chromium: Chromium, small: Server) -> None:
    with chromium.person(small) as visitor:
        visitor.arrive()
        shown = visitor.go_to("trial")
        answer = intended(small.study, shown)
        choose(visitor, visitor.main.get_by_role("radio"), answer["value"])
        reach(visitor, visitor.main.get_by_role("spinbutton"))
        visitor.page.keyboard.type(str(answer["beside"]))
        visitor.press("Enter")
        visitor.past(shown.id)
        assert visitor.stored()[shown.id] == answer


def test_the_way_out_and_back_is_reached_by_keyboard(chromium: Chromium, small: Server) -> None:
    with chromium.person(small) as visitor:
        visitor.arrive()
        here = visitor.place
        reach(visitor, visitor.page.get_by_role("link", name=visitor.t("common.leave")))
        visitor.press("Enter")
        expect(visitor.main).to_have_attribute("data-kind", "withdraw")
        reach(visitor, visitor.page.get_by_role("link", name=visitor.t("withdraw.stay")))
        visitor.press("Enter")
        expect(visitor.main).to_have_attribute("data-page", here)
        visitor.page.get_by_role("link", name=visitor.t("common.leave")).press("Enter")
        reach(visitor, visitor.page.get_by_role("button", name=visitor.t("withdraw.confirm")))
        visitor.press("Enter")
        expect(visitor.main).to_have_attribute("data-kind", "withdrawn")
        assert visitor.visit().state == "withdrawn"
