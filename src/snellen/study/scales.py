"""Questionnaires: one YAML file each, with statements per language, reverse scoring, and where they come from."""

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
class _Written:
    """The file of a questionnaire."""

    points: Annotated[int, Field(ge=2, le=100)]
    needs_map: bool
    source: Words
    licence: Words
    languages: Annotated[Mapping[str, _Language], Field(min_length=1)]
    reverse: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Scale:
    """A questionnaire of statements to agree with, from 1 (disagree strongly) to `points` (agree strongly)."""

    name: str
    points: int
    reverse: tuple[int, ...]
    """Statements, from 1, of which disagreeing is the good answer."""
    needs_map: bool
    """Whether it is about explanations, so that it cannot be asked of those who saw none."""
    source: str
    licence: str
    titles: Mapping[str, str]
    """By language."""
    introductions: Mapping[str, str]
    answers: Mapping[str, tuple[str, ...]]
    """By language, a name for every answer, from disagreeing to agreeing."""
    statements: Mapping[str, tuple[str, ...]]

    @property
    def items(self) -> int:
        """How many statements there are."""
        return len(next(iter(self.statements.values())))

    def score(self, item: int, answer: int) -> int:
        """An answer to a statement (from 1), turned round where that is called for."""
        return self.points + 1 - answer if item in self.reverse else answer

    @staticmethod
    def read(path: Path) -> Scale:
        """A scale from its file; what is missing or does not fit is refused by name."""
        written = parse_as(_Written, Settings.read(path), f"the questionnaire '{path}'")
        texts = written.languages
        found = Scale(
            path.stem,
            written.points,
            written.reverse or (),
            written.needs_map,
            written.source,
            written.licence,
            {language: text.title for language, text in texts.items()},
            {language: text.introduction for language, text in texts.items()},
            {language: text.answers for language, text in texts.items()},
            {language: text.statements for language, text in texts.items()},
        )
        for language in found.statements:
            if len(found.answers[language]) != found.points or len(found.statements[language]) != found.items:
                raise SnellenError(f"'{path}' needs {found.points} answers and equally many statements in '{language}'")
        if not found.items or any(not 1 <= one <= found.items for one in found.reverse):
            raise SnellenError(f"'{path}' reverses a statement that it does not have")
        return found


def shipped() -> dict[str, Path]:
    """The questionnaires that come with Snellen, by name."""
    folder = resources.files("snellen.study").joinpath("questionnaires")
    return {Path(str(path)).stem: Path(str(path)) for path in folder.iterdir() if str(path).endswith(".yaml")}
