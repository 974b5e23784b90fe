"""Questionnaires: one YAML file each, with statements per language, reverse scoring, source and licence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from snellen.errors import SnellenError
from snellen.files.documents import parse_as
from snellen.runs.settings import Settings

Words = Annotated[str, BeforeValidator(lambda value: str(value) if type(value) in (int, float) else value)]
"""Text, also where YAML takes it for a number, as in `answers: [1, 2, 3]`."""


@dataclass(frozen=True)
class _Language:
    """A questionnaire in one language, as its file holds it."""

    title: Words
    introduction: Words
    answers: tuple[Words, ...]
    statements: tuple[Words, ...]


@dataclass(frozen=True)
class _ScaleFile:
    """A questionnaire as its file holds it."""

    points: Annotated[int, Field(ge=2, le=100)]
    needs_map: bool
    source: Words
    licence: Words
    languages: Annotated[Mapping[str, _Language], Field(min_length=1)]
    reverse: tuple[int, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Questionnaire:
    """A questionnaire of statements to agree with, from 1 (disagree strongly) to `points` (agree strongly)."""

    name: str
    points: int
    """How many answers there are to choose from."""
    reverse: tuple[int, ...]
    """Statements (numbered from 1) with which disagreeing is the favourable answer."""
    needs_map: bool
    """Whether it is about explanations, so that it is left out for participants without maps."""
    source: str
    """Where it was published."""
    licence: str
    titles: Mapping[str, str]
    """By language, like all texts below."""
    introductions: Mapping[str, str]
    answers: Mapping[str, tuple[str, ...]]
    """The names of the answers, from disagreeing to agreeing."""
    statements: Mapping[str, tuple[str, ...]]

    @property
    def items(self) -> int:
        """How many statements there are."""
        return len(next(iter(self.statements.values())))

    def score(self, item: int, answer: int) -> int:
        """The score of an answer to a statement (numbered from 1): the answer, reversed for statements in `reverse`."""
        return self.points + 1 - answer if item in self.reverse else answer

    @staticmethod
    def read(path: Path) -> Questionnaire:
        """A scale from its file; raises SnellenError where something is missing or does not fit."""
        written = parse_as(_ScaleFile, Settings.read(path), f"the questionnaire '{path}'")
        texts = written.languages
        scale = Questionnaire(
            name=path.stem,
            points=written.points,
            reverse=written.reverse or (),
            needs_map=written.needs_map,
            source=written.source,
            licence=written.licence,
            titles={language: text.title for language, text in texts.items()},
            introductions={language: text.introduction for language, text in texts.items()},
            answers={language: text.answers for language, text in texts.items()},
            statements={language: text.statements for language, text in texts.items()},
        )
        for language in scale.statements:
            if len(scale.answers[language]) != scale.points or len(scale.statements[language]) != scale.items:
                raise SnellenError(f"'{path}' needs {scale.points} answers and equally many statements in '{language}'")
        if not scale.items or any(not 1 <= statement <= scale.items for statement in scale.reverse):
            raise SnellenError(f"'{path}' reverses a statement that it does not have")
        return scale


def shipped() -> dict[str, Path]:
    """The questionnaires that come with Snellen, by name."""
    folder = resources.files("snellen.study").joinpath("questionnaires")
    return {Path(str(path)).stem: Path(str(path)) for path in folder.iterdir() if str(path).endswith(".yaml")}
