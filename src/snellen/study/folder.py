"""A study as a folder: files that the experimenter edits, stimuli made from a run, and secrets of the server.

`study.yaml` is the protocol. `texts/en.yaml` holds every sentence that a participant reads, a file per language;
`questionnaires/` the scales. `stimuli.json` holds items, their truth and the names of their pictures; those lie in
`pictures/` under random names. `secret.json` holds the server's key and the hash of the
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
from snellen.study.scales import Questionnaire
from snellen.study.schedule import Page, schedule
from snellen.study.stimuli import Item, Stimuli

SCHEMA = 1

_SCRYPT = {"n": 2**14, "r": 8, "p": 1, "dklen": 32}


Hexadecimal = Annotated[str, Field(pattern="^([0-9a-f]{2})+$")]


@dataclass(frozen=True)
class Secret:
    """The content of `secret.json`."""

    key: Hexadecimal
    """With which the server signs."""
    salt: Hexadecimal
    """Of the password."""
    password: Hexadecimal
    """Its hash by scrypt."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Study:
    """A study folder that was read and checked."""

    folder: Path
    protocol: Protocol
    items: tuple[Item, ...]
    subject: dict[str, Any]
    """The run that the study was made from: its name, the model, and fingerprints of model and images."""
    scales: dict[str, Questionnaire]
    """The questionnaires, by name."""
    texts: dict[str, dict[str, Any]]
    """By language, every sentence, nested by name."""

    @staticmethod
    def read(folder: str | Path) -> Study:
        """Reads the study in a folder; raises SnellenError where something is missing or does not fit together."""
        path = Path(folder)
        if not (path / "study.yaml").exists():
            raise SnellenError(f"'{folder}' is not a study: it has no study.yaml; `snellen study new {folder}` makes one")
        protocol = Protocol.read(path / "study.yaml")
        values = _json(path / "stimuli.json")
        if not isinstance(values, dict) or values.get("schema") != SCHEMA:
            raise SnellenError(f"'{path / 'stimuli.json'}' was made by another version of Snellen; make the study again")
        stimuli = parse_as(Stimuli, values, f"'{path / 'stimuli.json'}'")
        scales = {name: Questionnaire.read(_existing(path / "questionnaires" / f"{name}.yaml")) for name in protocol.scales}
        texts = {name: _yaml(_existing(path / "texts" / f"{name}.yaml")) for name in protocol.languages}
        study = Study(
            folder=path,
            protocol=protocol,
            items=stimuli.items,
            subject=dict(stimuli.subject),
            scales=scales,
            texts=texts,
        )
        study._check()
        return study

    def _check(self) -> None:
        """Refuses a protocol that does not fit the stimuli, and missing pictures."""
        rendered = {name for item in self.items for name in item.pictures}
        for condition in self.protocol.conditions:
            if condition.name not in rendered:
                raise SnellenError(
                    f"'{self.folder}' has no pictures for '{condition.name}'{nearest(condition.name, rendered)}; "
                    "make the study again with this arm and presentation"
                )
        for plan in self.protocol.tasks:
            for practice, planned in ((False, plan.items), (True, plan.practice)):
                number = sum(item.task == plan.task and item.practice == practice for item in self.items)
                if number != planned:
                    kind = "practice items" if practice else "items"
                    raise SnellenError(
                        f"'{self.folder}' has {number} {kind} of {plan.task}, but study.yaml asks for {planned}; "
                        "change the number, or make the study again"
                    )
        if len({item.id for item in self.items}) < len(self.items):
            raise SnellenError(f"'{self.folder / 'stimuli.json'}' has two items of the same id; make the study again")
        for item in self.items:
            for problem in item.problems(self.protocol.conditions):
                raise SnellenError(f"'{self.folder}': the item '{item.id}' {problem}; make the study again")
            for picture in item.all_pictures:
                _existing(self.folder / "pictures" / picture.name)
        for name, scale in self.scales.items():
            for language in self.protocol.languages:
                if language not in scale.statements:
                    raise SnellenError(f"the questionnaire '{name}' has no statements in '{language}'; add them")

    @cached_property
    def digest(self) -> str:
        """A hash of all that participants' answers depend on: protocol, stimuli and questionnaires."""
        uncritical = ("title", "languages", "people", "abandoned", "recruiting", "return_link", "run")
        parts = [
            {name: value for name, value in self.protocol.as_values().items() if name not in uncritical},
            [item.as_values() for item in self.items],
            {name: [scale.points, scale.reverse, scale.needs_map, scale.statements] for name, scale in self.scales.items()},
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:32]

    @cached_property
    def by_picture(self) -> dict[str, Item]:
        """The item that a picture belongs to, by the picture's name."""
        return {picture.name: item for item in self.items for picture in item.all_pictures}

    def pages(self, group: int, number: int) -> tuple[Page, ...]:
        """The pages of the participant with this number in this group."""
        for_all = [name for name, scale in self.scales.items() if not scale.needs_map]
        return schedule(self.protocol, self.items, for_all, group, number)

    @cached_property
    def key(self) -> bytes:
        """The secret with which the server signs."""
        return bytes.fromhex(_secret(self.folder / "secret.json").key)

    def sign(self, *parts: str) -> str:
        """A signature that only this study's server can make."""
        return hmac.digest(self.key, "\0".join(parts).encode(), "sha256").hex()

    @cached_property
    def rehearsal(self) -> str:
        """The token that marks participants as simulated and exempts them from the limits per address."""
        return self.sign("rehearsal")

    @property
    def password_mark(self) -> str:
        """A signature that changes with the experimenter's password and does not reveal it."""
        return self.sign("password", _secret(self.folder / "secret.json").password)[:32]

    def admits(self, password: str) -> bool:
        """Whether this is the experimenter's password."""
        secret = _secret(self.folder / "secret.json")
        salt, digest = bytes.fromhex(secret.salt), bytes.fromhex(secret.password)
        return hmac.compare_digest(hashlib.scrypt(password.encode(), salt=salt, **_SCRYPT), digest)


def new_password(folder: Path) -> str:
    """Makes a new password, writes its hash into `secret.json`, and returns the password, which is stored nowhere."""
    path = folder / "secret.json"
    key = _secret(path).key if path.exists() else secrets.token_hex(32)
    password, salt = secrets.token_urlsafe(12), secrets.token_bytes(16)
    digest = hashlib.scrypt(password.encode(), salt=salt, **_SCRYPT)
    write_whole(path, json.dumps({"key": key, "salt": salt.hex(), "password": digest.hex()}).encode(), private=True)
    return password


def _existing(path: Path) -> Path:
    if not path.exists():
        raise SnellenError(f"'{path}' is missing; put it back, or make the study again")
    return path


def _json(path: Path) -> Any:
    return read_json(_existing(path), "the file", remedy="put it back, or make the study again")


def _secret(path: Path) -> Secret:
    return parse_as(Secret, _json(path), f"'{path}'")


def _yaml(path: Path) -> dict[str, Any]:
    values = parse_yaml(read_text(path, "the texts", remedy="put them back"), f"'{path}'")
    if not isinstance(values, dict):
        raise SnellenError(f"'{path}' must hold sentences by name")
    return values
