"""A study as a folder: what the experimenter edits, what was made from a run, and the secrets of the server.

`study.yaml` is the protocol. `texts/en.yaml` holds every sentence that a participant reads, a file per language;
`questionnaires/` the scales. `stimuli.json` holds items, their truth and the names of their pictures; those lie in
`pictures/` under names that betray nothing. `secret.json` holds the server's key and the hash of the
experimenter's password. `answers.sqlite` holds what participants answered, unless another database is named.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from snellen.errors import SnellenError, nearest
from snellen.files.atomic import write_whole
from snellen.files.documents import parse_as, parse_yaml, read_json, read_text
from snellen.study.protocol import Protocol
from snellen.study.scales import Scale
from snellen.study.schedule import Page, schedule
from snellen.study.stimuli import Item, Stimuli

SCHEMA = 1

_SCRYPT = {"n": 2**14, "r": 8, "p": 1, "dklen": 32}


Hexadecimal = Annotated[str, Field(pattern="^([0-9a-f]{2})+$")]


@dataclass(frozen=True)
class Secret:
    """What `secret.json` holds."""

    key: Hexadecimal
    salt: Hexadecimal
    password: Hexadecimal


@dataclass(frozen=True, eq=False)
class Study:
    """A study folder that was read and found to be in order."""

    folder: Path
    protocol: Protocol
    items: tuple[Item, ...]
    subject: dict[str, Any]
    """The run that the study was made from: its name, the model, and fingerprints of model and images."""
    scales: dict[str, Scale]
    texts: dict[str, dict[str, Any]]
    """By language, every sentence, nested by place."""

    @staticmethod
    def read(folder: str | Path) -> Study:
        """The study in a folder; what is missing or does not fit together is refused before anything is served."""
        place = Path(folder)
        if not (place / "study.yaml").exists():
            raise SnellenError(f"'{folder}' is not a study: it has no study.yaml; `snellen study new {folder}` makes one")
        protocol = Protocol.read(place / "study.yaml")
        values = _json(place / "stimuli.json")
        if not isinstance(values, dict) or values.get("schema") != SCHEMA:
            raise SnellenError(f"'{place / 'stimuli.json'}' was made by another version of Snellen; make the study again")
        made = parse_as(Stimuli, values, f"'{place / 'stimuli.json'}'")
        scales = {name: Scale.read(_there(place / "questionnaires" / f"{name}.yaml")) for name in protocol.scales}
        texts = {name: _yaml(_there(place / "texts" / f"{name}.yaml")) for name in protocol.languages}
        found = Study(place, protocol, made.items, dict(made.subject), scales, texts)
        found._check()
        return found

    def _check(self) -> None:
        """Refuses a protocol that asks for more than was made, and pictures that are gone."""
        known = {name for one in self.items for name in one.pictures}
        for condition in self.protocol.conditions:
            if condition.name not in known:
                raise SnellenError(
                    f"'{self.folder}' has no pictures for '{condition.name}'{nearest(condition.name, known)}; "
                    "make the study again with this arm and presentation"
                )
        for plan in self.protocol.tasks:
            for practice, wanted in ((False, plan.items), (True, plan.practice)):
                there = sum(one.task == plan.task and one.practice == practice for one in self.items)
                if there != wanted:
                    kind = "practice items" if practice else "items"
                    raise SnellenError(
                        f"'{self.folder}' has {there} {kind} of {plan.task}, but study.yaml asks for {wanted}; "
                        "change the number, or make the study again"
                    )
        if len({one.id for one in self.items}) < len(self.items):
            raise SnellenError(f"'{self.folder / 'stimuli.json'}' has two items of the same id; make the study again")
        for item in self.items:
            for problem in item.problems(self.protocol.conditions):
                raise SnellenError(f"'{self.folder}': the item '{item.id}' {problem}; make the study again")
            for picture in (*(one for some in item.pictures.values() for one in some), *item.choices):
                _there(self.folder / "pictures" / picture.name)
        for name, scale in self.scales.items():
            for language in self.protocol.languages:
                if language not in scale.statements:
                    raise SnellenError(f"the questionnaire '{name}' has no statements in '{language}'; add them")

    @cached_property
    def digest(self) -> str:
        """Changes with everything that makes answers comparable: protocol, stimuli and questionnaires."""
        passing = ("title", "languages", "people", "abandoned", "recruiting", "return_link", "run")
        parts = [
            {name: value for name, value in self.protocol.as_values().items() if name not in passing},
            [item.as_values() for item in self.items],
            {name: [scale.points, scale.reverse, scale.needs_map, scale.statements] for name, scale in self.scales.items()},
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]

    @cached_property
    def by_picture(self) -> dict[str, Item]:
        """The item that a picture belongs to, by the picture's name."""
        return {
            picture.name: item
            for item in self.items
            for picture in (*(one for some in item.pictures.values() for one in some), *item.choices)
        }

    def pages(self, group: int, number: int) -> tuple[Page, ...]:
        """The pages of the participant with this number in this group."""
        mapless = [name for name, scale in self.scales.items() if not scale.needs_map]
        return schedule(self.protocol, self.items, mapless, group, number)

    @cached_property
    def key(self) -> bytes:
        """The secret with which the server signs."""
        return bytes.fromhex(_secret(self.folder / "secret.json").key)

    def sign(self, *parts: str) -> str:
        """A signature that only this study's server can make."""
        return hmac.digest(self.key, "\0".join(parts).encode(), "sha256").hex()

    @cached_property
    def rehearsal(self) -> str:
        """What marks a participant as simulated, and lets so many of them come from one address."""
        return self.sign("rehearsal")

    @property
    def password_mark(self) -> str:
        """Changes with the experimenter's password, and tells nothing of it."""
        return self.sign("password", _secret(self.folder / "secret.json").password)[:32]

    def admits(self, password: str) -> bool:
        """Whether this is the experimenter's password."""
        known = _secret(self.folder / "secret.json")
        salt, digest = bytes.fromhex(known.salt), bytes.fromhex(known.password)
        return hmac.compare_digest(hashlib.scrypt(password.encode(), salt=salt, **_SCRYPT), digest)


def new_password(folder: Path) -> str:
    """Writes a new password's hash into the study's secrets, keeping its key, and returns the password: it is told once."""
    path = folder / "secret.json"
    key = _secret(path).key if path.exists() else secrets.token_hex(32)
    password, salt = secrets.token_urlsafe(12), secrets.token_bytes(16)
    digest = hashlib.scrypt(password.encode(), salt=salt, **_SCRYPT)
    write_whole(path, json.dumps({"key": key, "salt": salt.hex(), "password": digest.hex()}).encode(), private=True)
    return password


def _there(path: Path) -> Path:
    if not path.exists():
        raise SnellenError(f"'{path}' is missing; put it back, or make the study again")
    return path


def _json(path: Path) -> Any:
    return read_json(_there(path), "the file", remedy="put it back, or make the study again")


def _secret(path: Path) -> Secret:
    return parse_as(Secret, _json(path), f"'{path}'")


def _yaml(path: Path) -> dict[str, Any]:
    values = parse_yaml(read_text(path, "the texts", remedy="put them back"), f"'{path}'")
    if not isinstance(values, dict):
        raise SnellenError(f"'{path}' must hold sentences by name")
    return values
