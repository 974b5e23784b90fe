from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest
from starlette.testclient import TestClient
from tests.study.visitor import FORM, Fields, Read, Served, Visitor, filled, served

from snellen.study.answers.overview import DropoutPage, QualityFlag, overview
from snellen.study.answers.store import AnswerStore
from snellen.study.folder import Study, new_password
from snellen.study.participation import Participation, Reply
from snellen.study.web.application import application
from snellen.study.web.session import HOURS, Sessions

TASKS = [{"task": "error-detection", "items": 3, "practice": 0}]


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "s", tasks=TASKS, attention=1, recruiting=["PID"], people=9) as server:
        yield server


def _careful(read: Read) -> Fields:
    """An answer that no rule excludes."""
    if read.kind == "attention":
        match = re.search(r"number (\d) here", read.words)
        assert match is not None
        return {"value": match[1]}
    if read.kind == "scale":
        return {f"s{place}": str(1 + place % 5) for place in range(1, 9)}
    return filled(read) | {"ms": "5000"}


def _form(desk: Read, action: str, **more: str) -> Fields:
    """The form of the desk that is sent to an address."""
    part = desk.text.split(f'action="{action}"')[1].split("</form>")[0]
    match = re.search(r'name="csrf" value="([\w-]+)"', part)
    assert match is not None
    return {"csrf": match[1], **more}


# Coming in -----------------------------------------------------------------------------------------------------------------


def test_without_the_password_the_desk_shows_its_door_and_nothing_else(site: Served) -> None:
    site.visitor().arrive()
    name = site.store.participations(simulated=False)[0].participant
    visitor = site.visitor()
    assert visitor.get("/admin").kind == "door"
    for path in ("/admin/export", "/admin/export?data=simulated", f"/admin/erase?participant={name}"):
        response = visitor.client.get(path, follow_redirects=False)
        assert (response.status_code, response.headers["location"]) == (303, "/admin")
    for path in ("/admin/state", "/admin/logout", "/admin/erase"):
        response = visitor.client.post(path, data={"order": "close", "participant": name, "csrf": ""})
        assert response.status_code == 403
    assert site.store.state == "open"
    assert len(site.store.participations(simulated=False)) == 1


@pytest.mark.parametrize("password", ["", "wrong", "ü" * 500])
def test_a_wrong_password_is_told_and_does_not_open(site: Served, password: str) -> None:
    visitor = site.visitor(**{"accept-language": "de"})
    door = visitor.get("/admin")
    response = visitor.client.post("/admin/login", data=door.fields | {"password": password})
    assert response.status_code == 403
    assert "Das ist nicht das Passwort" in response.text
    assert visitor.get("/admin").kind == "door"
    assert visitor.client.post("/admin/login", data={"password": site.password}).status_code == 403


def test_a_login_ends_by_logging_out_also_for_who_copied_its_cookie(site: Served) -> None:
    visitor = site.experimenter()
    desk = visitor.get("/admin")
    assert desk.kind == "desk"
    copied = site.visitor()
    copied.client.cookies = dict(visitor.client.cookies)  # type: ignore[assignment]
    assert copied.get("/admin").kind == "desk"
    visitor.client.post("/admin/logout", data=_form(desk, "/admin/logout"))
    assert visitor.get("/admin").kind == "door"
    assert copied.get("/admin").kind == "door"


def test_a_login_that_was_ended_stays_ended_after_a_restart_and_for_other_servers(site: Served) -> None:
    visitor, other = site.experimenter(), site.experimenter()
    running = TestClient(application(site.study, site.store), cookies=dict(visitor.client.cookies))
    assert 'data-kind="desk"' in running.get("/admin").text
    visitor.client.post("/admin/logout", data=_form(visitor.get("/admin"), "/admin/logout"))
    again = Study.read(site.study.folder)
    with closing(AnswerStore.open(again)) as store:
        restarted = application(again, store)
        for app in (running.app, restarted):
            copied = TestClient(app, cookies=dict(running.cookies))
            assert 'data-kind="door"' in copied.get("/admin").text
        still = TestClient(restarted, cookies=dict(other.client.cookies))
        assert 'data-kind="desk"' in still.get("/admin").text  # who is logged in elsewhere stays so


def test_the_store_forgets_a_login_that_would_have_ended_by_itself(site: Served) -> None:
    clock = [datetime(2026, 1, 1, tzinfo=UTC)]
    store = replace(site.store, now=lambda: clock[0])
    for login in ("a", "a", "b"):
        store.log_out(login, timedelta(hours=HOURS))
    assert [store.logged_out(login) for login in "abc"] == [True, True, False]
    clock[0] += timedelta(hours=HOURS + 1)
    store.log_out("c", timedelta(hours=HOURS))
    assert [store.logged_out(login) for login in "abc"] == [False, False, True]


def test_a_login_ends_with_its_password_and_with_time(site: Served) -> None:
    visitor = site.experimenter()
    clock = [1000.0]
    sessions = Sessions(site.study, site.store, lambda: clock[0])
    session = sessions.begin()
    assert sessions.login(session)
    name, at, mark = session.split(".")
    for other in ("", "x", "1.2.3", f"x{name}.{at}.{mark}", f"{name}.A{at}.{mark}", f"{session}.x", "ü.ü.ü", None):
        assert sessions.login(other) is None
    clock[0] += HOURS * 3600 - 1
    assert sessions.login(session) == name
    clock[0] += 2
    assert sessions.login(session) is None
    new_password(site.study.folder)
    assert visitor.get("/admin").kind == "door"
    assert site.study.admits(site.password) is False


# Looking -------------------------------------------------------------------------------------------------------------------


def _row(read: Read, name: str) -> list[str]:
    match = re.search(rf"<tr[^>]*><th[^>]*>(?:<code>)?{name}.*?</tr>", read.text, re.DOTALL)
    assert match is not None, name
    return [re.sub(r"<[^>]+>", "", cell).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", match[0], re.DOTALL)]


def test_the_desk_counts_who_is_where_and_shows_simulated_people_apart(site: Served) -> None:
    people = [site.visitor() for _ in range(3)]
    for person in people:
        person.arrive("?lang=en")
    people[0].take_part(_careful)
    people[1].client.post("/withdraw", data=people[1].get("/withdraw").fields)
    for _ in range(2):
        site.visitor(**{"x-snellen-rehearsal": site.study.rehearsal}).arrive()
    desk = site.experimenter().get("/admin?lang=en")
    assert _row(desk, "all")[1:] == ["3", "1", "1", "1", "0"]
    assert "1 of 9 planned participants have finished." in desk.words
    assert "Withdrew: 1. Erased: 0." in desk.words
    assert "instructions 1 100 %" in desk.words
    finished = next(visit for visit in site.store.participations(simulated=False) if visit.state == "finished")
    assert _row(desk, finished.participant)[2] == "finished"
    assert "median" in desk.words
    real, simulated = desk.text.split('<section class="unreal">')
    assert "Simulated participants" in simulated
    for visit in site.store.participations(simulated=True):
        assert visit.participant in simulated
        assert visit.participant not in real
    for visit in site.store.participations(simulated=False):
        assert visit.participant not in simulated


def test_an_empty_desk_says_so_in_both_languages(site: Served) -> None:
    assert "Noch hat niemand angefangen." in site.experimenter().get("/admin?lang=de").words
    assert "Nobody has begun yet." in site.experimenter().get("/admin?lang=en").words


def _visit(
    study: Study, name: str, *, last: int, at: datetime, attentive: bool = True, straight: bool = False
) -> Participation:
    replies = {}
    for page in study.pages(0, 0)[:last]:
        content: Fields = {}
        if page.kind == "trial":
            content = {"value": 1, "beside": 70}
        elif page.kind == "attention":
            content = {"value": page.requested if attentive else page.requested % 5 + 1}
        elif page.kind == "scale":
            content = {"answers": [3] * 8 if straight else [1, 2, 3, 4, 5, 4, 3, 2]}
        replies[page.id] = Reply(content, 0.5 if straight else 4.0, at.isoformat())
    state = "finished" if last == len(study.pages(0, 0)) else "started"
    return Participation(name, 0, 0, "en", False, state, at.isoformat(), "", replies)  # type: ignore[arg-type]


def test_what_looks_odd_is_flagged_and_who_is_silent_has_dropped_out(site: Served) -> None:
    study, now = site.study, datetime(2026, 5, 1, 12, tzinfo=UTC)
    all_pages = len(study.pages(0, 0))
    long_ago = now - timedelta(minutes=study.protocol.abandoned + 1)
    participations = [
        _visit(study, "careful", last=all_pages, at=long_ago),
        _visit(study, "careless", last=all_pages, at=now, attentive=False),
        _visit(study, "hasty", last=all_pages, at=now, straight=True),
        _visit(study, "silent", last=3, at=long_ago),
        _visit(study, "here", last=3, at=now),
    ]
    ids = {"careful": "1", "careless": "2", "hasty": "2", "silent": "3", "here": "4"}
    recruited = {name: {"PID": value, "STUDY_ID": "same"} for name, value in ids.items()}
    counts = overview(study, participations, recruited, simulated=False, erased=2, pages=study.pages, now=now)
    count = counts.groups[0]
    assert (count.begun, count.finished, count.active, count.dropped, count.excluded) == (5, 3, 1, 1, 2)
    assert counts.total.begun == 5
    assert counts.erased == 2
    assert counts.dropout_pages == (DropoutPage("trial", "error-detection", 1, 1.0),)
    assert set(map(_told, counts.flags)) == {
        ("careless", "attention", "1 of 1"),
        ("hasty", "fast", "0.5"),
        ("careless", "twice", "hasty"),
        ("hasty", "twice", "careless"),
        ("hasty", "straight", "satisfaction"),
        ("hasty", "straight", "trust"),
    }
    pace = counts.answer_times[0]
    assert (pace.task, pace.answers, pace.low, pace.median, pace.high) == ("error-detection", 11, 2.25, 4.0, 4.0)


def _told(flag: QualityFlag) -> tuple[str, str, str]:
    joined = " of ".join(map(str, flag.words.values()))
    return flag.participant, flag.kind, joined


# Changing ------------------------------------------------------------------------------------------------------------------


def test_the_study_is_paused_closed_and_opened_from_the_desk(site: Served) -> None:
    visitor = site.experimenter()
    for order, state in (("pause", "paused"), ("close", "closed"), ("resume", "open")):
        desk = visitor.get("/admin")
        response = visitor.client.post("/admin/state", data=_form(desk, "/admin/state", order=order), follow_redirects=False)
        assert response.status_code == 303
        assert site.store.state == state
    assert visitor.client.post("/admin/state", data=_form(desk, "/admin/state", order="burn")).status_code == 400
    assert visitor.client.post("/admin/state", data={"order": "close"}).status_code == 403
    assert site.store.state == "open"


def _unzipped(visitor: Visitor, path: str) -> tuple[str, dict[str, bytes]]:
    response = visitor.client.get(path)
    assert response.headers["content-type"] == "application/zip"
    with zipfile.ZipFile(io.BytesIO(response.content)) as zipped:
        return response.headers["content-disposition"], {name: zipped.read(name) for name in zipped.namelist()}


def test_real_and_simulated_answers_are_exported_apart(site: Served) -> None:
    person, actor = site.visitor(), site.visitor(**{"x-snellen-rehearsal": site.study.rehearsal})
    for visitor in (person, actor):
        visitor.arrive("?lang=en")
        visitor.take_part(_careful)
    experimenter = site.experimenter()
    named, real = _unzipped(experimenter, "/admin/export")
    marked, simulated = _unzipped(experimenter, "/admin/export?data=simulated")
    assert "simulated" not in named
    assert 'filename="simulated-' in marked
    assert all(name.startswith("simulated-") for name in simulated)
    assert {"participants.csv", "answers.csv", "answers.parquet", "codebook.md"} <= set(real)
    people = pd.read_csv(io.BytesIO(real["participants.csv"]))
    assert people["participant"].tolist() == [site.store.participations(simulated=False)[0].participant]
    others = pd.read_csv(io.BytesIO(simulated["simulated-participants.csv"]))
    assert others["participant"].tolist() == [site.store.participations(simulated=True)[0].participant]


def test_a_participant_is_erased_after_a_question_and_is_a_stranger_then(site: Served) -> None:
    person = site.visitor()
    person.arrive()
    name = site.store.participations(simulated=False)[0].participant
    visitor = site.experimenter()
    response = visitor.get(f"/admin/erase?participant={name}")
    assert response.kind == "erase"
    assert len(site.store.participations(simulated=False)) == 1
    read_page = Read(visitor.client.post("/admin/erase", data=response.fields).text)
    assert f"{name} has been erased" in read_page.words
    assert site.store.participations(simulated=False) == []
    assert person.client.get("/page", follow_redirects=False).headers["location"] == "/"
    again = Read(visitor.client.post("/admin/erase", data=response.fields).text)
    assert f"There is no participant “{name}”" in again.words
    assert "There is no participant “&lt;b&gt;”" in visitor.client.get("/admin/erase?participant=<b>&lang=en").text
    assert visitor.client.post("/admin/erase", content=b"participant=x", headers={"content-type": FORM}).status_code == 403
