"""Every address of a study's server, asked in every way: nothing fails inside, and nothing is told that must not be."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_from_bytes, urlencode

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.study.planted_study import plant
from tests.study.visitor import FORM, Read, Served, filled

from snellen.study.answers.store import AnswerStore
from snellen.study.folder import Study
from snellen.study.web.application import application
from snellen.study.web.security import HEADERS

SOME = settings(max_examples=settings.default.max_examples // 2)
FEW = settings(max_examples=settings.default.max_examples // 4)
"""Every example is several requests; `make test-exhaustive` tries many more of them."""

TRUTH = 61.803
TASKS = [
    {"task": "error-detection", "items": 2, "practice": 1},
    {"task": "confidence", "items": 2, "practice": 0},
    {"task": "forward-selection", "items": 1, "practice": 0},
    {"task": "sharpness", "items": 1, "practice": 0},
]
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"]
NAMES = ["page", "csrf", "shown", "ms", "value", "beside", "chosen", "s1", "s8", "lang", "order", "participant", "password"]


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    text: str


@dataclass(frozen=True, eq=False)
class Scene:
    """A served study with somebody who has finished, whose answers nobody else may learn."""

    served: Served
    loop: asyncio.Runner
    secrets: frozenset[str]

    def ask(self, method: str, path: bytes, query: bytes, headers: list[tuple[bytes, bytes]], body: list[bytes]) -> Answer:
        """One request, byte for byte as it is."""
        return self.loop.run(self._ask(method, path, query, headers, body))

    async def _ask(
        self, method: str, path: bytes, query: bytes, headers: list[tuple[bytes, bytes]], body: list[bytes]
    ) -> Answer:
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": path.decode("utf-8", "replace"), "raw_path": path, "query_string": query, "root_path": "",
            "headers": headers, "client": ("192.0.2.7", 4000), "server": ("study", 80),
        }  # fmt: skip
        parts = [{"type": "http.request", "body": part, "more_body": True} for part in body]
        parts.append({"type": "http.request", "body": b"", "more_body": False})
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return parts.pop(0) if parts else {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)

        await self.served.app(scope, receive, send)
        text = b"".join(message.get("body", b"") for message in sent[1:]).decode("utf-8", "replace")
        return Answer(sent[0]["status"], {k.decode(): v.decode() for k, v in sent[0]["headers"]}, text)

    def check(self, answer: Answer) -> None:
        """What holds of every answer to whoever is not the experimenter."""
        assert answer.status < 500
        assert HEADERS.items() <= answer.headers.items()
        if answer.headers.get("content-type", "").startswith("text/html"):
            text = answer.text.lower()
            assert not [secret for secret in self.secrets if secret in text]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    study, password = plant(
        tmp_path_factory.mktemp("fuzz") / "s", arms=["grad-cam", "lime"], tasks=TASKS, recruiting=["PID"]
    )
    made = json.loads((study.folder / "stimuli.json").read_text())
    for item in made["items"]:
        item["truth"] = TRUTH if item["task"] == "confidence" else item["truth"]
    (study.folder / "stimuli.json").write_text(json.dumps(made))
    study = Study.read(study.folder)
    store = AnswerStore.open(study)
    served = Served(study, password, store, application(study, store))
    finished = served.visitor()
    finished.arrive("?PID=bystander-id")
    finished.take_part()
    visit = store.participations(simulated=False)[0]
    person = store.find(finished.client.cookies[served.app_cookie].partition(".")[0])
    assert person is not None
    secrets = {name for condition in study.protocol.conditions for name in (condition.arm, condition.name)}
    secrets |= {sample for item in study.items for sample in (item.id, *item.samples, *item.further)}
    secrets |= {visit.participant, person.code.lower(), "bystander-id", str(TRUTH), study.key.hex(), "traceback", "simulat"}
    with asyncio.Runner() as loop:
        yield Scene(served, loop, frozenset(secrets))
    store.close()


def _paths(scene: Scene) -> list[str]:
    return [route.path for route in scene.served.app.routes]


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    """A request of any kind; `path` is the number of a route, or an address of nowhere."""
    words = st.one_of(
        st.text(max_size=12), st.sampled_from(["p000", "p001", "0", "1", "70", "101", "-1", "en", "xx", "close"])
    )
    fields = draw(st.lists(st.tuples(st.one_of(st.sampled_from(NAMES), st.text(max_size=6)), words), max_size=8))
    surrogates = [(name.encode("utf-8", "replace"), value.encode("utf-8", "replace")) for name, value in fields]
    body = draw(st.one_of(st.just(urlencode(surrogates).encode()), st.binary(max_size=60)))
    names = st.sampled_from(
        ["cookie", "accept-language", "content-type", "x-forwarded-for", "x-snellen-rehearsal", "host", "origin"]
    )
    values = st.one_of(st.just(FORM.encode()), st.binary(max_size=40).map(lambda header: re.sub(rb"[\0\r\n]", b"", header)))
    headers = draw(st.lists(st.tuples(names.map(str.encode), values), max_size=4))
    if draw(st.booleans()):
        headers.append((b"content-type", FORM.encode()))
    noise = st.binary(max_size=30).map(quote_from_bytes).map(str.encode)
    return {
        "method": draw(st.sampled_from(METHODS)),
        "route": draw(st.one_of(st.integers(0, 30), st.text(max_size=20))),
        "name": draw(st.binary(max_size=16)),
        "query": draw(st.one_of(noise, st.just(urlencode(surrogates).encode()))),
        "headers": headers,
        "body": [body[:20], body[20:]],
    }  # fmt: skip


def _ask(scene: Scene, request: dict[str, Any], cookies: bytes = b"") -> Answer:
    routes = _paths(scene)
    path = routes[request["route"] % len(routes)] if isinstance(request["route"], int) else f"/{request['route']}"
    raw = re.sub(r"\{\w+\}", lambda _: quote_from_bytes(request["name"]), path).encode("utf-8", "replace")
    headers = [*request["headers"], *([(b"cookie", cookies)] if cookies else [])]
    return scene.ask(request["method"], raw, request["query"], headers, request["body"])


@SOME
@given(some=st.lists(requests(), min_size=1, max_size=4))
def test_a_stranger_gets_no_failure_and_no_secret(scene: Scene, some: list[dict[str, Any]]) -> None:
    before = len(scene.served.store.participations(simulated=False))
    for request in some:
        scene.check(_ask(scene, request))
    assert len(scene.served.store.participations(simulated=False)) == before
    assert scene.served.store.state == "open"


@SOME
@given(some=st.lists(requests(), min_size=1, max_size=4))
def test_a_participant_who_sends_anything_gets_no_failure_and_changes_nothing(
    scene: Scene, participant: bytes, some: list[dict[str, Any]]
) -> None:
    before = scene.served.store.participations(simulated=False)
    for request in some:
        scene.check(_ask(scene, request, participant))
    assert scene.served.store.participations(simulated=False) == before


@pytest.fixture(scope="module")
def participant(scene: Scene) -> bytes:
    visitor = scene.served.visitor()
    visitor.arrive()
    return f"{scene.served.app_cookie}={visitor.client.cookies[scene.served.app_cookie]}".encode()


@SOME
@given(some=st.lists(requests(), min_size=1, max_size=3))
def test_the_experimenter_who_sends_anything_gets_no_failure_and_erases_nobody(
    scene: Scene, desk: bytes, some: list[dict[str, Any]]
) -> None:
    before = len(scene.served.store.participations(simulated=False))
    for request in some:
        assert _ask(scene, request, desk).status < 500
    assert len(scene.served.store.participations(simulated=False)) == before
    assert scene.served.store.state == "open"


@pytest.fixture(scope="module")
def desk(scene: Scene) -> bytes:
    cookies = scene.served.experimenter().client.cookies
    return "; ".join(f"{name}={value}" for name, value in cookies.items()).encode()


# Somebody who takes part, with forms that are sometimes spoilt -------------------------------------------------------------

SPOILT = st.one_of(
    st.tuples(st.just("drop"), st.sampled_from(NAMES[:9]), st.just("")),
    st.tuples(st.just("put"), st.sampled_from(NAMES[:9]), st.one_of(st.text(max_size=8), st.integers(-5, 120).map(str))),
    st.tuples(st.just("again"), st.just(""), st.just("")),
    st.tuples(
        st.just("look"), st.sampled_from(["/", "/page", "/end", "/withdraw", "/admin", "/page?notice=x"]), st.just("")
    ),
)


@pytest.mark.slow
@FEW
@given(steps=st.lists(st.one_of(st.none(), SPOILT), min_size=4, max_size=24))
def test_spoilt_forms_never_lose_or_double_an_answer_and_never_lead_astray(
    scene: Scene, steps: list[tuple[str, str, str] | None]
) -> None:
    store, visitor = scene.served.store, scene.served.visitor()
    read = visitor.arrive()
    person = store.find(visitor.client.cookies[scene.served.app_cookie].partition(".")[0])
    assert person is not None
    pages = scene.served.study.pages(person.group, person.number)
    sent: list[dict[str, Any]] = []
    for step in steps:
        if read.kind == "end":
            break
        before = store.replies(person)
        fields = read.fields | filled(read)
        act, name, value = step or ("", "", "")
        if act == "look":
            scene.check(_heard(visitor.client.get(name)))
            continue
        assume(act != "again" or sent)
        if act == "again":
            fields = sent[-1]
        elif act == "drop":
            fields.pop(name, None)
        elif act == "put":
            fields[name] = value
        response = visitor.client.post("/page", data=fields, follow_redirects=False)
        scene.check(_heard(response))
        assert response.status_code in (303, 403, 422)
        after = store.replies(person)
        assert {page: after[page] for page in before} == before
        kept = set(after) - set(before)
        assert kept == ({pages[len(before)].id} if response.headers.get("location") in ("/page", "/end") else set())
        assert (act == "again") <= (not kept)
        if kept:
            sent.append(fields)
        there = visitor.client.get("/page")
        scene.check(_heard(there)) if b'data-kind="end"' not in there.content else None
        read = Read(there.text)
        assert read.kind == "end" or read.page == pages[len(after)].id


def _heard(response: Any) -> Answer:
    return Answer(response.status_code, dict(response.headers), response.text)
