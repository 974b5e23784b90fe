from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.study.visitor import Fields, Read, Served, Visitor, filled, served

from snellen.study.protocol import NONE
from snellen.study.tasks import TASKS
from snellen.study.web.application import application


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path / "small", tasks=[{"task": "error-detection", "items": 3, "practice": 1}], attention=1) as site:
        yield site


def _arms(site: Served) -> Iterator[tuple[str, Visitor]]:
    """A participant of every group, each in a browser of their own, with the first arm of the group."""
    groups = site.study.protocol.groups
    while len(site.store.participations(simulated=False)) < len(groups):
        visitor = site.visitor()
        visitor.arrive(f"?lang={'de' if len(site.store.participations(simulated=False)) % 2 else 'en'}")
        group = site.store.participations(simulated=False)[-1].group
        yield groups[group][0].arm, visitor


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_every_task_can_be_taken_from_consent_to_code_in_both_languages_and_with_or_without_maps(
    task: str, tmp_path: Path
) -> None:
    with served(
        tmp_path / "s", tasks=[{"task": task, "items": 2, "practice": 1}], attention=1, arms=["a", "b", NONE]
    ) as site:
        for arm, visitor in _arms(site):
            end = visitor.take_part()
            visit = site.store.participations(simulated=False)[-1]
            pages = site.study.pages(visit.group, visit.number)
            assert visit.state == "finished"
            assert set(visit.replies) == {page.id for page in pages}
            kinds = [read.kind for read in visitor.seen if read.page]
            assert kinds[-len(pages) :] == [page.kind for page in pages]
            assert {read.language for read in visitor.seen} == {visit.language}
            person = site.store.find(visitor.client.cookies[site.app_cookie].partition(".")[0])
            assert person is not None
            assert person.code in end.words
            if arm == NONE:
                spoken = " ".join(read.words for read in visitor.seen if read.kind not in ("end", "consent")).lower()
                assert not re.search(r"\bmaps?\b|karte|bright|hell", spoken)
                assert not [name for read in visitor.seen for name in read.pictures if "static" in name["src"]]
        assert {visit.language for visit in site.store.participations(simulated=False)} == {"en", "de"}


def test_within_subjects_everybody_is_told_when_maps_change_go_or_come(tmp_path: Path) -> None:
    with served(
        tmp_path / "s", design="within", arms=["a", "b", NONE], tasks=[{"task": "sharpness", "items": 3, "practice": 0}]
    ) as site:
        sentences = set()
        for _, visitor in _arms(site):
            visitor.take_part()
            visit = site.store.participations(simulated=False)[-1]
            texts = site.study.texts[visit.language]["change"]
            changes = [read for read in visitor.seen if read.kind == "change"]
            orders = site.study.protocol.groups[visit.group]
            for read, before, after in zip(changes, orders, orders[1:], strict=False):
                name = "gone" if after.arm == NONE else "begin" if before.arm == NONE else "other"
                assert texts[name].split("**")[0].strip() in read.words
                assert bool(read.pictures) == (after.arm != NONE)
                sentences.add(name)
        assert sentences == {"gone", "begin", "other"}


def test_what_is_answered_is_what_is_kept(small: Served) -> None:
    visitor = small.visitor()
    visitor.arrive()

    def answer(read: Read) -> Fields:
        if read.kind == "scale":
            return {f"s{place}": str(1 + place % 5) for place in range(1, 9)} | {"ms": "61500"}
        if read.kind == "trial":
            return {"value": "1", "beside": "77", "ms": "4321"}
        return {"value": "4"} if read.kind == "attention" else {}

    visitor.take_part(answer)
    visit = small.store.participations(simulated=False)[0]
    for page in small.study.pages(visit.group, visit.number):
        reply = visit.replies[page.id]
        if page.kind == "trial":
            assert reply.content == {"value": 1, "beside": 77, "chosen": []}
            assert reply.seconds == 4.321
        elif page.kind == "attention":
            assert reply.content == {"value": 4}
        elif page.kind == "scale":
            assert reply.content == {"answers": [2, 3, 4, 5, 1, 2, 3, 4]}
            assert reply.seconds == 61.5
        else:
            assert reply.content == {}
            assert 0 <= reply.seconds < 30  # no script ran, so that the server measured


def test_closing_the_browser_or_killing_the_server_changes_nothing(small: Served) -> None:
    visitor = small.visitor()
    first = visitor.arrive()
    second = visitor.client.post("/page", data=first.fields)
    there = Read(second.text)
    again = Visitor(type(visitor.client)(application(small.study, small.store), cookies=dict(visitor.client.cookies)))
    assert again.get("/page").page == there.page
    back = again.get("/")
    assert back.page == there.page
    assert small.study.texts[back.language]["notice"]["resumed"] in back.words
    assert len(small.store.participations(simulated=False)) == 1


def test_a_page_sent_twice_is_answered_once_and_the_first_answer_counts(small: Served) -> None:
    visitor = small.visitor()
    read = visitor.arrive("?lang=en")
    while read.kind != "trial":
        read = Read(visitor.client.post("/page", data=read.fields).text)
    fields = read.fields | {"value": "1", "beside": "60"}
    assert visitor.send(fields).headers["location"] == "/page"
    for later in (fields, fields | {"value": "0", "beside": "100"}, fields | {"value": "", "beside": "x"}):
        response = visitor.send(later)
        assert response.status_code == 303
        onward = visitor.get(response.headers["location"])
        assert onward.page > read.page
        assert "The first answer counts" in onward.words
    replies = small.store.participations(simulated=False)[0].replies
    assert replies[read.page].content == {"value": 1, "beside": 60, "chosen": []}
    assert len(replies) == len([reply for reply in replies if reply <= read.page])


def test_two_tabs_show_the_same_page_and_the_slower_one_is_told(small: Served) -> None:
    visitor = small.visitor()
    visitor.arrive()
    left, right = visitor.get("/page"), visitor.get("/page")
    assert left.page == right.page
    assert visitor.send(left.fields).headers["location"] == "/page"
    assert visitor.send(right.fields).headers["location"] == "/page?notice=answered"
    assert len(small.store.participations(simulated=False)[0].replies) == 1


def test_after_the_end_every_way_back_leads_to_the_code(small: Served) -> None:
    visitor = small.visitor()
    first = visitor.arrive()
    end = visitor.take_part()
    assert visitor.send(first.fields).headers["location"] == "/end"
    for path in ("/", "/page", "/end", "/withdraw"):
        assert visitor.get(path).words == end.words
    assert len(small.store.participations(simulated=False)) == 1
    # On a shared computer, the next person begins anew.
    assert visitor.get("/?next").kind == "consent"
    assert visitor.arrive().page == "p000"
    assert len(small.store.participations(simulated=False)) == 2
    assert visitor.get("/?next").page == "p000"


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({}, {"value", "beside"}),
        ({"value": "0"}, {"beside"}),
        ({"beside": "70"}, {"value"}),
        ({"value": "2", "beside": "70"}, {"value"}),
        ({"value": "1", "beside": "49"}, {"beside"}),
        ({"value": "1", "beside": "7e1"}, {"beside"}),
        ({"value": "-1", "beside": "101"}, {"value", "beside"}),
    ],
)
def test_an_answer_that_cannot_be_comes_back_with_the_sentence_beside_it_and_nothing_is_lost(
    small: Served, fields: Fields, refused: set[str]
) -> None:
    visitor = small.visitor()
    read = visitor.arrive("?lang=de")
    while read.kind != "trial":
        read = Read(visitor.client.post("/page", data=read.fields).text)
    response = visitor.send(read.fields | {"ms": "1500"} | fields)
    assert response.status_code == 422
    back = Read(response.text)
    assert back.page == read.page
    wrong = {own["id"].removesuffix("-wrong") for tag, own in back.elements if own.get("id", "").endswith("-wrong")}
    assert wrong == refused
    focused = [own for _, own in back.elements if "autofocus" in own]
    assert [own.get("name") for own in focused] == ["value" if "value" in refused else "beside"]
    assert back.fields["ms"] == "1500"
    assert back.fields["shown"] == read.fields["shown"]
    for name, value in fields.items():
        if name not in refused:
            assert back.fields[name] == value
    assert read.page not in small.store.participations(simulated=False)[0].replies
    assert visitor.send(back.fields | {"value": "1", "beside": "80"}).status_code == 303


def test_a_questionnaire_with_gaps_comes_back_with_what_was_answered(small: Served) -> None:
    visitor = small.visitor()
    read = visitor.arrive()
    while read.kind != "scale":
        read = Read(visitor.client.post("/page", data=read.fields | filled(read)).text)
    response = visitor.send(read.fields | {"s1": "5", "s3": "6", "s8": "2"})
    back = Read(response.text)
    assert response.status_code == 422
    assert (back.fields["s1"], back.fields["s8"]) == ("5", "2")
    assert [own["name"] for _, own in back.elements if "autofocus" in own] == ["s2"]
    assert sum("aria-invalid" in own for _, own in back.elements) == 6


def test_whoever_withdraws_is_asked_first_and_is_then_done(small: Served) -> None:
    visitor = small.visitor()
    visitor.arrive("?lang=en")
    question = visitor.get("/withdraw")
    assert small.store.participations(simulated=False)[0].state == "started"
    response = visitor.client.post("/withdraw", data=question.fields)
    visit = small.store.participations(simulated=False)[0]
    assert visit.state == "withdrawn"
    read_page = Read(response.text)
    assert read_page.kind == "withdrawn"
    assert visit.participant in read_page.words
    assert visitor.get("/page").kind == "withdrawn"


@pytest.mark.parametrize("state", ["paused", "closed"])
def test_when_the_study_is_not_open_nobody_new_comes_in_but_who_is_inside_finishes(small: Served, state: str) -> None:
    inside, waiting = small.visitor(), small.visitor()
    inside.arrive()
    consent = waiting.get("/")
    small.store.set_state(state)  # type: ignore[arg-type]
    assert small.visitor().client.get("/").status_code == 403
    response = waiting.client.post("/consent", data=consent.fields)
    assert response.status_code == 403
    assert Read(response.text).kind == "closed"
    inside.take_part()
    assert [participation.state for participation in small.store.participations(simulated=False)] == ["finished"]


def test_a_full_study_says_so(tmp_path: Path) -> None:
    with served(tmp_path / "s", people=1) as site:
        site.visitor().arrive()
        other = site.visitor()
        response = other.client.post("/consent", data=other.get("/?lang=en").fields)
        assert response.status_code == 403
        assert "All places are taken" in response.text


def test_only_recruiting_ids_that_the_protocol_names_are_kept_also_through_a_change_of_language(tmp_path: Path) -> None:
    with served(
        tmp_path / "s", recruiting=["PROLIFIC_PID"], return_link="https://example.org/done?cc={code}", attention=0
    ) as site:
        visitor = site.visitor()
        read = visitor.get("/?PROLIFIC_PID=ab%00c<1&name=Ada&lang=en")
        links = [own["href"] for tag, own in read.elements if tag == "a" and "hreflang" in own]
        assert links == ["/?PROLIFIC_PID=abc%3C1&lang=de"]
        assert "Ada" not in read.text
        visitor.arrive(links[0].removeprefix("/"))
        assert list(site.store.recruited(simulated=False).values()) == [{"PROLIFIC_PID": "abc<1"}]
        end = visitor.take_part()
        code = re.search(r"cc=([0-9A-F]{8})", end.text)
        assert code is not None
        assert code[1] in end.words


def test_points_of_bets_are_told_at_the_end_and_not_before(tmp_path: Path) -> None:
    with served(tmp_path / "s", tasks=[{"task": "betting", "items": 4, "practice": 1}]) as site:
        visitor = site.visitor()
        visitor.arrive("?lang=en")
        end = visitor.take_part(lambda read: {"value": "1", "beside": "7"} if read.kind == "trial" else filled(read))
        # Of the four items that count, the model is wrong on the first and the third.
        assert "Points from all your bets: 0" in end.words
        kinds = {read.kind for read in visitor.seen if re.search(r"Points (won|lost): 7", read.words)}
        assert kinds == {"feedback"}


def test_what_follows_is_loaded_ahead_and_can_be(small: Served) -> None:
    visitor = small.visitor()
    read = visitor.arrive()
    while read.kind != "end":
        ahead = next((own.get("data-ahead", "") for tag, own in read.elements if tag == "main"), "").split()
        for name in [*(f"/picture/{name}" for name in ahead), *(picture["src"] for picture in read.pictures)]:
            assert visitor.client.get(name).status_code == 200
        for picture in read.pictures:
            assert int(picture["width"]) > 0
            assert int(picture["height"]) > 0
            assert "alt" in picture
        read = Read(visitor.client.post("/page", data=read.fields | filled(read)).text)
