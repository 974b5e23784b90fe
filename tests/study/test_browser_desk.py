"""The experimenter's page in a browser: coming in, watching, pausing, exporting, erasing."""

from __future__ import annotations

import csv
import io
import zipfile

import pytest
from playwright.sync_api import expect
from tests.study.browsing import Chromium, Server, Visitor
from tests.study.page_checks import leaks, looked_at, strangers

from snellen.study.answers.overview import group_names
from snellen.study.tasks import TASKS

pytestmark = pytest.mark.browser


def enter(visitor: Visitor) -> None:
    """Logs in."""
    visitor.page.goto("/admin")
    visitor.page.get_by_label(visitor.t("desk.password")).fill(visitor.server.password)
    visitor.page.get_by_role("button", name=visitor.t("desk.login")).click()
    expect(visitor.main).to_have_attribute("data-kind", "desk")


def counts(visitor: Visitor) -> dict[str, int]:
    """The last line of the table of groups."""
    table = visitor.page.get_by_role("table").first
    names = [header.inner_text() for header in table.get_by_role("columnheader").all()][2:]
    cells = table.get_by_role("row", name=visitor.t("desk.total")).get_by_role("cell").all()
    return dict(zip(names, (int(cell.inner_text()) for cell in cells), strict=True))


def test_only_the_password_opens_the_desk(chromium: Chromium, small: Server) -> None:
    with chromium.person(small) as visitor:
        visitor.page.goto("/admin")
        password = visitor.page.get_by_label(visitor.t("desk.password"))
        expect(password).to_be_focused()
        looked_at(visitor, "r000-door")
        password.fill("a guess")
        visitor.press("Enter")
        expect(visitor.main).to_contain_text(visitor.t("desk.wrong_password"))
        visitor.complaints.clear()
        expect(password).to_be_focused()
        expect(password).to_have_value("")
        assert visitor.t("desk.wrong_password") in str(
            password.evaluate("one => one.ariaDescribedByElements[0].textContent")
        )
        assert not leaks(small.study, visitor.page.content())
        looked_at(visitor, "r001-door-refused")
        visitor.page.goto("/admin/export")
        expect(visitor.main).to_have_attribute("data-kind", "door")
        enter(visitor)
        cookies = visitor.context.cookies()
        assert all(cookie["httpOnly"] and cookie["sameSite"] == "Strict" for cookie in cookies)
        visitor.page.get_by_role("button", name=visitor.t("desk.logout")).click()
        expect(visitor.main).to_have_attribute("data-kind", "door")
        visitor.page.goto("/admin")
        expect(visitor.main).to_have_attribute("data-kind", "door")


def test_the_desk_counts_along_while_people_take_part(chromium: Chromium, small: Server) -> None:
    with chromium.person(small) as experimenter, chromium.person(small) as first, chromium.person(small) as second:
        first.arrive()
        experimenter.page.clock.install()
        enter(experimenter)
        before = counts(experimenter)
        second.arrive()
        second.finish()
        first.go()
        experimenter.page.clock.fast_forward(10_500)
        begun, finished = experimenter.t("desk.begun"), experimenter.t("desk.where.finished")
        table = experimenter.page.get_by_role("table").first
        total = table.get_by_role("row", name=experimenter.t("desk.total"))
        expect(total.get_by_role("cell").first).to_have_text(str(before[begun] + 1))
        after = counts(experimenter)
        assert after[finished] == before[finished] + 1
        assert sum(after.values()) - after[begun] - after[experimenter.t("desk.excluded")] == after[begun]
        for name in group_names(small.study.protocol):
            assert table.get_by_role("cell", name=name, exact=True).is_visible()
        done = len(first.pages)
        row = experimenter.page.get_by_role("row", name=first.person().participant).filter(has_text=f"1/{done}")
        expect(row).to_be_visible()
        assert not experimenter.complaints


def test_a_paused_study_keeps_newcomers_out_and_lets_others_finish(chromium: Chromium, small: Server) -> None:
    with chromium.person(small) as experimenter, chromium.person(small) as inside, chromium.person(small) as newcomer:
        inside.arrive()
        newcomer.page.goto("/")
        enter(experimenter)
        press = experimenter.main.get_by_role("button", name=experimenter.t("desk.orders.pause"), exact=True)
        press.click()
        again = experimenter.main.get_by_role("button", name=experimenter.t("desk.orders.resume"), exact=True)
        expect(again).to_be_visible()
        # Whoever has the consent page open already is told as kindly as whoever comes now.
        newcomer.main.get_by_role("button").click()
        expect(newcomer.main).to_have_attribute("data-kind", "closed")
        newcomer.page.goto("/")
        expect(newcomer.page.get_by_role("heading", name=newcomer.t("closed.paused"))).to_be_focused()
        newcomer.complaints.clear()
        looked_at(newcomer, "q004-paused")
        inside.finish()
        assert inside.kind == "end"
        again.click()
        expect(press).to_be_visible()
        newcomer.arrive()
        assert newcomer.visit().state == "started"


def test_answers_are_exported_and_a_participant_is_erased(chromium: Chromium, small: Server) -> None:
    with chromium.person(small) as experimenter, chromium.person(small) as visitor:
        visitor.arrive()
        visitor.finish()
        name, stored = visitor.person().participant, visitor.stored()
        enter(experimenter)
        keyed = [answer["value"] for place, answer in sorted(stored.items()) if visitor.pages[place].kind == "trial"]
        assert exported(experimenter, name) == keyed
        experimenter.page.get_by_role("link", name=f"{experimenter.t('desk.erase')} {name}").click()
        expect(experimenter.main).to_have_attribute("data-kind", "erase")
        looked_at(experimenter, "r003-erase")
        experimenter.page.get_by_role("link", name=experimenter.t("desk.erase_cancel")).click()
        expect(experimenter.main).to_have_attribute("data-kind", "desk")
        field = experimenter.page.get_by_label(experimenter.t("desk.erase_name"))
        field.fill(name)
        field.press("Enter")
        experimenter.page.get_by_role("button", name=experimenter.t("desk.erase_confirm", participant=name)).click()
        expect(experimenter.page.get_by_role("status")).to_have_text(experimenter.t("desk.erased", participant=name))
        assert small.store.find(visitor.token) is None
        assert name not in {participation.participant for participation in small.store.participations(simulated=False)}
        assert not exported(experimenter, name)
        visitor.page.goto("/end")
        expect(visitor.main).to_have_attribute("data-kind", "consent")
        assert not experimenter.complaints


def exported(experimenter: Visitor, participant: str) -> list[int]:
    """The values that a participant answered, from the file that the experimenter gets."""
    with experimenter.page.expect_download() as caught:
        experimenter.page.get_by_role("link", name=experimenter.t("desk.export_real")).click()
    assert caught.value.suggested_filename.startswith("answers-")
    with zipfile.ZipFile(caught.value.path()) as zipped:
        assert zipped.testzip() is None
        assert {"answers.csv", "answers.parquet", "participants.csv", "ratings.csv", "codebook.md"} <= set(zipped.namelist())
        rows = list(csv.DictReader(io.StringIO(zipped.read("answers.csv").decode())))
    own = [row for row in rows if row["participant"] == participant]
    return [int(answer["value"]) for answer in sorted(own, key=lambda answer: int(answer["position"]))]


@pytest.mark.parametrize("language", ["en", "de"])
def test_the_desk_is_in_order(chromium: Chromium, small: Server, language: str) -> None:
    with chromium.person(small) as visitor:
        visitor.arrive()
        visitor.finish()
    with chromium.person(small, locale=language) as experimenter:
        enter(experimenter)
        experimenter.page.wait_for_load_state("load")
        assert experimenter.page.locator("html").get_attribute("lang") == language
        looked_at(experimenter, "r002-desk")
        names = {*TASKS, *small.study.protocol.languages}
        assert not [
            stranger
            for stranger in strangers(experimenter, language)
            if stranger not in names and small.link not in stranger
        ]
