"""Somebody who takes part in a test: reads the pages as HTML, fills in their forms, and sends them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient
from tests.study.planted_study import plant

from snellen.study.answers.store import AnswerStore
from snellen.study.folder import Study
from snellen.study.web.application import application
from snellen.study.web.security import Proxies

FORM = "application/x-www-form-urlencoded"
Fields = dict[str, Any]


@dataclass
class Read(HTMLParser):
    """What a test wants to know of a page."""

    text: str
    kind: str = ""
    page: str = ""
    language: str = ""
    fields: Fields = field(default_factory=dict)
    """The fields of the page's first form, as a browser would send them untouched."""
    offered: dict[str, list[str]] = field(default_factory=dict)
    """By field, what can be chosen."""
    pictures: list[dict[str, str]] = field(default_factory=list)
    elements: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    words: str = ""
    _forms: int = 0

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.text)
        self.words = " ".join(self.words.split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        own = {name: value or "" for name, value in attrs}
        self.elements.append((tag, own))
        if tag == "html":
            self.language = own["lang"]
        elif tag == "main":
            self.kind, self.page = own["data-kind"], own.get("data-page", "")
        elif tag == "img":
            self.pictures.append(own)
        elif tag == "form":
            self._forms += 1
        elif tag == "input" and self._forms == 1 and "name" in own:
            if own.get("type") in ("radio", "checkbox"):
                self.offered.setdefault(own["name"], []).append(own["value"])
                if "checked" in own:
                    self.fields[own["name"]] = own["value"]
            else:
                self.fields[own["name"]] = own.get("value", "")
                if own.get("type") == "number":
                    self.offered[own["name"]] = [own["min"], own["max"]]

    def handle_data(self, data: str) -> None:
        self.words += f" {data}"


@dataclass
class Visitor:
    """One browser."""

    client: TestClient
    seen: list[Read] = field(default_factory=list)

    def get(self, path: str, **more: Any) -> Read:
        response = self.client.get(path, **more)
        assert response.status_code == 200, (path, response.status_code)
        self.seen.append(Read(response.text))
        return self.seen[-1]

    def arrive(self, query: str = "") -> Read:
        """Consents, and reads the first page."""
        consent = self.get(f"/{query}")
        assert consent.kind == "consent"
        response = self.client.post("/consent", data=consent.fields)
        assert response.status_code == 200
        self.seen.append(Read(response.text))
        return self.seen[-1]

    def send(self, fields: Mapping[str, Any]) -> Any:
        """Sends a form to the page; the answer as it is, without following it."""
        return self.client.post("/page", data=fields, follow_redirects=False)

    def take_part(self, answer: Callable[[Read], Fields] | None = None) -> Read:
        """Answers every page up to the end."""
        read = self.get("/page")
        while read.kind != "end":
            response = self.send(read.fields | (answer or filled)(read))
            assert response.status_code == 303, (read.kind, response.status_code)
            read = self.get(response.headers["location"])
        return read


def filled(read: Read) -> Fields:
    """Some possible answer to a page: the second of what is offered."""
    return {name: values[min(1, len(values) - 1)] for name, values in read.offered.items()}


@contextmanager
def served(folder: Path, *, secure: bool = False, proxies: Proxies | None = None, **changes: Any) -> Iterator[Served]:
    """A planted study with its application."""
    study, password = plant(folder, **changes)
    store = AnswerStore.open(study)
    try:
        yield Served(study, password, store, application(study, store, secure=secure, proxies=proxies))
    finally:
        store.close()


@dataclass(frozen=True)
class Served:
    """A study that is being served inside the test."""

    study: Study
    password: str
    store: AnswerStore
    app: Any

    @property
    def app_cookie(self) -> str:
        """The name of the participants' cookie."""
        return f"snellen-{self.study.sign('cookie')[:8]}"

    def visitor(self, **headers: str) -> Visitor:
        """A new browser, which knows nobody."""
        return Visitor(TestClient(self.app, headers=headers))

    def experimenter(self, **headers: str) -> Visitor:
        """A browser that is logged in at the desk."""
        visitor = self.visitor(**headers)
        door = visitor.get("/admin")
        assert door.kind == "door"
        response = visitor.client.post(
            "/admin/login", data=door.fields | {"password": self.password}, follow_redirects=False
        )
        assert response.status_code == 303
        return visitor
