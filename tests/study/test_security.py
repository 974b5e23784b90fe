from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send
from tests.study.planted_study import plant
from tests.study.visitor import FORM, Read, Served, filled, served

from snellen.errors import SnellenError
from snellen.study.answers.store import AnswerStore
from snellen.study.web.application import application
from snellen.study.web.security import HEADERS, LARGEST, RATES, Forwarded, Proxies, Rate, Rates, Seal, address_of
from snellen.study.web.site import Site

TASKS = [
    {"task": "error-detection", "items": 3, "practice": 1},
    {"task": "confidence", "items": 3, "practice": 1},
    {"task": "forward-selection", "items": 2, "practice": 1},
]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("guard") / "s", arms=["grad-cam", "guided-backprop"], tasks=TASKS) as server:
        yield server


# Responses -----------------------------------------------------------------------------------------------------------------


def test_every_response_carries_the_headers_and_only_files_may_be_kept(site: Served) -> None:
    visitor = site.visitor()
    read = visitor.arrive()
    picture = next(own for own in site.study.by_picture)
    paths = {
        "/": 303, "/page": 200, "/end": 303, "/withdraw": 200, "/admin": 200, "/admin/export": 303, "/health": 200,
        "/nowhere": 404, "/static/study.css": 200, "/static/nothing.css": 404, "/consent": 405, "/picture/nothing.png": 404,
        "/admin/login": 405, "/page/": 404, "/static/": 404, "/picture/": 404, "/static/../web.py": 404,
    }  # fmt: skip
    for path, status in paths.items():
        response = visitor.client.get(path, follow_redirects=False)
        assert response.status_code == status, path
        for name, value in HEADERS.items():
            assert response.headers[name] == value, path
        kept = "immutable" if path == "/static/study.css" else "no-store"
        assert kept in response.headers["cache-control"], path
        assert "server" not in response.headers
    assert visitor.client.get("/consent").headers["allow"] == "POST"
    response = visitor.client.post("/page", data=read.fields | {"csrf": "x"})
    assert response.status_code == 403
    assert response.headers["content-security-policy"].startswith("default-src 'none'")
    assert site.visitor().client.get(f"/picture/{picture}").status_code == 404


def test_pages_hold_no_script_style_or_address_of_elsewhere(site: Served) -> None:
    visitor = site.visitor()
    visitor.arrive()
    visitor.take_part()
    visitor.get("/admin")
    assert len({read.kind for read in visitor.seen}) >= 8
    for read in visitor.seen:
        for tag, own in read.elements:
            assert "style" not in own
            assert not [name for name in own if name.startswith("on")]
            for name in ("src", "href", "action"):
                assert own.get(name, "/").startswith("/"), (tag, own)
        assert "<style" not in read.text
        assert not re.search(r"<script(?![^>]*src=)", read.text)


def test_cookies_are_out_of_reach_of_scripts_and_other_sites(tmp_path: Path) -> None:
    with served(tmp_path / "s", secure=True) as site:
        response = site.visitor().client.get("/")
        cookie = response.headers["set-cookie"]
        assert cookie.startswith("__Host-snellen-")
        for word in ("HttpOnly", "Secure", "SameSite=lax", "Path=/", "Max-Age=2592000"):
            assert word in cookie
        assert "domain" not in cookie.lower()
        assert "max-age" in response.headers["strict-transport-security"]
        door = site.visitor().client.get("/admin").headers["set-cookie"]
        assert "SameSite=strict" in door
        assert "Secure" in door


@pytest.mark.parametrize(
    ("headers", "query", "language"),
    [
        ({"accept-language": "de-AT,de;q=0.9,en;q=0.3"}, "", "de"),
        ({"accept-language": "fr,en-GB;q=0.5,de;q=0.4"}, "", "en"),
        ({"accept-language": "de"}, "?lang=en", "en"),
        ({"accept-language": "de"}, "?lang=xx", "de"),
        ({"accept-language": ";;q=,*;q=zz"}, "", "en"),
        ({}, "", "en"),
    ],
)
def test_the_language_is_asked_for_or_the_browsers_or_the_first(
    site: Served, headers: dict[str, str], query: str, language: str
) -> None:
    assert Read(site.visitor(**headers).client.get(f"/{query}").text).language == language
    assert Read(site.visitor(**headers).client.get(f"/nowhere{query}").text).language == language


def test_problems_are_told_in_the_participants_language(site: Served) -> None:
    visitor = site.visitor(**{"accept-language": "en"})
    visitor.arrive("?lang=de")
    read_page = Read(visitor.client.get("/nowhere").text)
    assert (read_page.kind, read_page.language) == ("problem", "de")
    assert "Es ist nichts verloren" in read_page.words


# Forms ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"csrf": ""}, {"csrf": "0" * 64}, {"csrf": "ü"}, {"shown": ""}, {"shown": "1.2"}])
def test_a_form_without_its_marks_is_refused_and_nothing_is_kept(site: Served, change: dict[str, str]) -> None:
    visitor = site.visitor()
    read = visitor.arrive()
    assert visitor.send(read.fields | change).status_code == 403
    assert visitor.send({name: value for name, value in read.fields.items() if name not in change}).status_code == 403
    assert not site.store.participations(simulated=False)[-1].replies


def test_marks_are_bound_to_page_and_participant(site: Served) -> None:
    visitor, other = site.visitor(), site.visitor()
    first = visitor.arrive()
    second = Read(visitor.client.post("/page", data=first.fields).text)
    assert visitor.send(second.fields | {"csrf": first.fields["csrf"]}).status_code == 403
    assert visitor.send(second.fields | {"page": "p009"}).status_code == 403
    theirs = other.arrive()
    assert theirs.page == first.page
    assert theirs.fields["csrf"] != first.fields["csrf"]
    assert other.send(first.fields).status_code == 403
    assert not site.store.participations(simulated=False)[-1].replies


def test_consent_needs_its_cookie_and_its_mark(site: Served) -> None:
    before = len(site.store.participations(simulated=False))
    visitor = site.visitor()
    consent = visitor.get("/")
    assert site.visitor().client.post("/consent", data=consent.fields).status_code == 403
    assert visitor.client.post("/consent", data=consent.fields | {"csrf": "x"}).status_code == 403
    assert len(site.store.participations(simulated=False)) == before
    for _ in range(3):
        assert visitor.client.post("/consent", data=consent.fields).status_code == 200
    assert len(site.store.participations(simulated=False)) == before + 1


def test_what_is_no_form_too_large_or_too_much_is_refused(site: Served) -> None:
    client = site.visitor().client
    client.headers["content-type"] = FORM
    assert client.post("/page", content=b"x" * (LARGEST + 1)).status_code == 413
    assert client.post("/page", content=b"x" * LARGEST).status_code == 200  # nobody, who is led to the first page
    assert client.post("/consent", content=b"a=1&" * 100).status_code == 400
    assert client.post("/page", content=b"{}", headers={"content-type": "application/json"}).status_code == 415
    multipart = {"content-type": "multipart/form-data; boundary=x"}
    assert client.post("/consent", content=b"--x--", headers=multipart).status_code == 415


def test_nobody_reads_or_writes_as_somebody_else(site: Served) -> None:
    visitor, other = site.visitor(), site.visitor()
    visitor.arrive()
    end = visitor.take_part()
    code = re.search(r"[0-9A-F]{8}", end.words)
    assert code is not None
    other.arrive()
    for path in ("/", "/page", "/end", "/withdraw"):
        read = other.get(path)
        assert read.kind != "end"
        assert code[0] not in read.text
    for stranger in ("x", "a" * 43, "../../x", ""):
        client = site.visitor().client
        client.headers["cookie"] = f"{site.app_cookie}={stranger}"
        assert client.get("/page", follow_redirects=False).headers["location"] == "/"
        assert client.get("/end", follow_redirects=False).headers["location"] == "/"


def test_pictures_are_for_those_whom_they_are_shown_to(site: Served) -> None:
    visitor = site.visitor()
    visitor.arrive()
    visit = site.store.participations(simulated=False)[-1]
    own = site.study.protocol.groups[visit.group][0].name
    other = next(condition.name for condition in site.study.protocol.conditions if condition.name != own)
    item = site.study.items[0]
    assert (
        visitor.client.get(f"/picture/{item.pictures[own][0].name}").headers["cache-control"].startswith("private, max-age")
    )
    assert visitor.client.get(f"/picture/{item.pictures[other][0].name}").status_code == 404
    assert site.experimenter().client.get(f"/picture/{item.pictures[other][0].name}").status_code == 200
    assert site.experimenter().client.get("/picture/secret.json").status_code == 404
    for path in ("/picture/..%2Fsecret.json", "/picture/%2e%2e/secret.json", "/static/..%2fdesk.html"):
        assert visitor.client.get(path).status_code == 404


# What must not be told -----------------------------------------------------------------------------------------------------


def test_no_page_betrays_arm_method_truth_or_images(site: Served) -> None:
    for _ in range(2):
        visitor = site.visitor(**{"x-snellen-rehearsal": site.study.rehearsal})
        read = visitor.arrive()
        visit = site.store.participations(simulated=True)[-1]
        pages = {page.id: page for page in site.study.pages(visit.group, visit.number)}
        secrets = {name for condition in site.study.protocol.conditions for name in (condition.arm, condition.name)}
        secrets |= {sample for item in site.study.items for sample in (item.id, *item.samples, *item.further)}
        secrets |= {"simulat", "rehears", "grad", "truth", "practice-", visit.participant}
        while read.kind != "end":
            betrayed = {secret for secret in secrets if secret in read.text.lower()}
            assert betrayed == set(), read.page
            page = pages[read.page]
            if page.kind == "trial" and page.task == "confidence" and page.item:
                # Truths of the planted items are numbers that nothing else on the page is.
                shown = re.sub(r'(src|href|value|data-ahead)="[^"]*"', "", read.text)
                assert not re.search(
                    rf"\b{int(page.item.truth)}(\.0)?\b", shown.replace(f"Page {int(page.id[1:]) + 1} ", "")
                )  # type: ignore[arg-type]
            read = Read(visitor.client.post("/page", data=read.fields | filled(read)).text)


# Rates ---------------------------------------------------------------------------------------------------------------------


def test_a_rate_lets_a_burst_through_and_then_so_many_a_second() -> None:
    clock = [0.0]
    rates = Rates({"send": Rate(3, 2.0)}, lambda: clock[0])
    assert [rates.wait("send", "a") for _ in range(4)] == [0, 0, 0, 1]
    assert rates.wait("send", "b") == 0
    clock[0] = 0.5
    assert [rates.wait("send", "a") for _ in range(2)] == [0, 1]
    clock[0] = 100.0
    assert [rates.wait("send", "a") for _ in range(4)] == [0, 0, 0, 1]


def test_guessing_passwords_is_slowed_down(site: Served) -> None:
    visitor = site.visitor()
    visitor.client = type(visitor.client)(site.app, client=("192.0.2.1", 5000))
    statuses = [visitor.client.post("/admin/login", data={"csrf": "x"}).status_code for _ in range(12)]
    assert statuses == [403] * RATES["login"].burst + [429] * 2
    response = visitor.client.post("/admin/login", data={}, headers={"x-forwarded-for": "192.0.2.9"})
    assert response.status_code == 429
    assert int(response.headers["retry-after"]) in range(1, 11)
    assert Read(response.text).kind == "problem"
    assert visitor.client.get("/").status_code == 200
    rehearsed = {"x-snellen-rehearsal": site.study.rehearsal}
    assert visitor.client.post("/admin/login", data={}, headers=rehearsed).status_code == 429


@pytest.mark.slow
def test_simulated_participants_may_come_from_one_address_as_fast_as_they_like(tmp_path: Path) -> None:
    with served(tmp_path / "s") as site:
        several = RATES["arrive"].burst + 5
        rehearsed = {"x-snellen-rehearsal": site.study.rehearsal}
        client = site.visitor().client
        assert {client.post("/consent", data={"a": "b"}, headers=rehearsed).status_code for _ in range(several)} == {403}
        statuses = [client.post("/consent", data={"a": "b"}).status_code for _ in range(several + 60)]
        assert statuses.count(429) > 0
        assert statuses.index(429) >= RATES["arrive"].burst


@pytest.mark.parametrize(
    ("client", "lines", "proxies", "expected"),
    [
        ("192.0.2.1", ["198.51.100.7"], None, "192.0.2.1"),
        ("192.0.2.1", ["203.0.113.5, 198.51.100.7"], "192.0.2.1", "198.51.100.7"),
        # What a visitor sends as a line of its own comes before the line of the proxy.
        ("192.0.2.1", ["203.0.113.5", "198.51.100.7"], "192.0.2.1", "198.51.100.7"),
        ("192.0.2.1", ["203.0.113.5", "198.51.100.7, 192.0.2.9"], "192.0.2.0/24", "198.51.100.7"),
        ("::ffff:192.0.2.1", ["198.51.100.7"], "192.0.2.1", "198.51.100.7"),
        ("::ffff:192.0.2.1", ["198.51.100.7"], "192.0.2.0/28", "198.51.100.7"),
        ("192.0.2.2", ["198.51.100.7"], "192.0.2.1", "192.0.2.2"),
        ("192.0.2.1", [""], "192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", [], None, "2001:db8:1:2::/64"),
        ("::1", ["2001:db8:1:2:3:4:5:6"], "127.0.0.1,::1", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", [], None, "192.0.2.1"),
        ("testclient", [], "127.0.0.1", "testclient"),
    ],
)
def test_who_is_asking_is_taken_from_the_last_line_of_a_proxy_that_is_trusted(
    client: str, lines: list[str], proxies: str | None, expected: str
) -> None:
    addresses: list[str] = []

    async def inside(scope: Scope, receive: Receive, send: Send) -> None:
        addresses.append(address_of(Request(scope)))

    scope = {"type": "http", "client": (client, 1), "headers": [(b"x-forwarded-for", line.encode()) for line in lines]}
    asyncio.run(Forwarded(inside, Proxies.of(proxies) if proxies else Proxies())(scope, None, None))  # type: ignore[arg-type]
    assert addresses == [expected]


@pytest.mark.parametrize("names", ["*", "", "proxy.example", "10.0.0.1/8"])
def test_proxies_that_are_no_addresses_are_refused_in_a_sentence(names: str) -> None:
    with pytest.raises(SnellenError, match="--proxies must be addresses or networks"):
        Proxies.of(names)


def test_a_stranger_who_speaks_for_others_is_told_of_once_and_not_by_address(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with served(tmp_path / "s", proxies=Proxies.of("192.0.2.1")) as site:
        for _ in range(3):
            site.visitor(**{"x-forwarded-for": "198.51.100.7"}).client.get("/health")
    (warning,) = [record.getMessage() for record in caplog.records if record.name == "snellen.study"]
    assert "--behind-proxy --proxies ADDRESS" in warning
    assert "198.51.100.7" not in warning


def test_guessing_passwords_behind_a_proxy_slows_down_only_who_does(tmp_path: Path) -> None:
    with served(tmp_path / "s", proxies=Proxies.of("192.0.2.1")) as site:
        client = type(site.visitor().client)(site.app, client=("192.0.2.1", 5000))

        def guess(forged: str, real: str) -> int:
            lines = [("x-forwarded-for", forged), ("x-forwarded-for", real)]
            return int(client.post("/admin/login", data={"csrf": "x"}, headers=lines).status_code)

        statuses = [guess(f"203.0.113.{place}", "198.51.100.7") for place in range(RATES["login"].burst + 2)]
        assert statuses == [403] * RATES["login"].burst + [429] * 2
        assert guess("198.51.100.7", "198.51.100.8") == 403


def test_behind_a_proxy_one_visitor_may_have_so_many_requests_answered_at_once(tmp_path: Path) -> None:
    study, _ = plant(tmp_path / "s")
    with closing(AnswerStore.open(study)) as store:
        app = application(study, store, proxies=Proxies.of("192.0.2.1"), per_address=2)

        async def health(address: str) -> int:
            statuses = []
            where = {"path": "/health", "raw_path": b"/health", "query_string": b"", "root_path": "", "scheme": "http"}
            headers = [(b"host", b"x"), (b"x-forwarded-for", address.encode())]
            scope = {"type": "http", "method": "GET", "client": ("192.0.2.1", 1), "headers": headers, **where}

            async def receive() -> Message:
                return {"type": "http.request"}

            async def send(message: Message) -> None:
                statuses.append(message.get("status"))

            await app(scope, receive, send)
            return int(statuses[0] or 0)

        async def all_at_once() -> list[int]:
            return await asyncio.gather(*map(health, ["198.51.100.7"] * 3 + ["198.51.100.8"]))

        assert asyncio.run(all_at_once()) == [200, 200, 429, 200]


def test_a_token_that_a_visitor_chose_is_no_participants(site: Served) -> None:
    chosen = "a" * 43
    client = site.visitor().client
    client.cookies.set(site.app_cookie, chosen)
    consent = client.get("/")
    issued = consent.cookies[site.app_cookie]
    assert not issued.startswith(chosen)
    before = len(site.store.participations(simulated=False))
    for cookie in (chosen, f"{chosen}.{issued.partition('.')[2]}", chosen + "."):
        client.cookies.clear()
        client.cookies.set(site.app_cookie, cookie)
        for mark in (Read(consent.text).fields["csrf"], Seal(site.study).form(chosen, "consent")):
            answer = client.post("/consent", data=Read(consent.text).fields | {"csrf": mark})
            assert answer.status_code == 403
    assert site.store.find(chosen) is None
    assert len(site.store.participations(simulated=False)) == before


def test_who_began_with_an_earlier_version_goes_on_with_the_page_that_is_open(site: Served) -> None:
    token = "b" * 43
    site.store.admit(token=token, language="en", simulated=False, recruited={})
    visitor = site.visitor()
    visitor.client.cookies.set(site.app_cookie, token)  # without a mark
    read = visitor.get("/page")
    at = str(int(read.fields["shown"].partition(".")[0]))
    old = {
        "csrf": site.study.sign("form", token, read.page),
        "shown": f"{at}.{site.study.sign('shown', token, read.page, at)[:32]}",
    }
    assert visitor.send(read.fields | old | {"csrf": "0" * 64}).status_code == 403
    assert visitor.send(read.fields | old).headers["location"] == "/page"
    assert list(site.store.participations(simulated=False)[-1].replies) == [read.page]


def test_the_time_a_page_was_shown_cannot_be_made_up(site: Served) -> None:
    clock = [1000.0]
    seal = Seal(site.study, lambda: clock[0])
    shown = seal.shown("token", "p001")
    clock[0] = 1007.5
    assert seal.since(shown, "token", "p001") == 7.5
    assert seal.since(shown, "token", "p002") is None
    assert seal.since(shown, "other", "p001") is None
    assert seal.since(shown.replace("1000000", "1000001"), "token", "p001") is None
    assert seal.since(None, "token", "p001") is None


def test_a_link_back_that_is_no_web_address_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SnellenError, match="must begin with https"), served(tmp_path / "s", return_link="javascript:x"):
        pass


def test_something_wrong_inside_is_a_kind_page_with_all_headers(site: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    visitor = site.visitor()
    visitor.arrive()
    monkeypatch.setattr(Site, "render", _only_messages(Site.render))
    response = visitor.client.get("/page")
    assert response.status_code == 500
    assert Read(response.text).kind == "problem"
    assert "planted" not in response.text
    assert response.headers["content-security-policy"] == HEADERS["content-security-policy"]


def _only_messages(render: object) -> object:
    def chosen(site: Site, template: str, *rest: object) -> object:
        if template != "message.html":
            raise RuntimeError("planted")
        return render(site, template, *rest)  # type: ignore[operator]

    return chosen
