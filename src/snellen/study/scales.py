"""Questionnaires: one YAML file each, with statements per language, reverse scoring, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from snellen.errors import SnellenError
from snellen.runs.settings import Settings


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
        values = Settings.read(path)
        try:
            texts = values["languages"]
            found = Scale(
                path.stem,
                int(values["points"]),
                tuple(int(one) for one in values.get("reverse") or ()),
                bool(values["needs_map"]),
                str(values["source"]),
                str(values["licence"]),
                {language: str(one["title"]) for language, one in texts.items()},
                {language: str(one["introduction"]) for language, one in texts.items()},
                {language: tuple(map(str, one["answers"])) for language, one in texts.items()},
                {language: tuple(map(str, one["statements"])) for language, one in texts.items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as problem:
            raise SnellenError(f"'{path}' is no questionnaire: {problem} is missing or wrong; see docs/studies.md") from None
        for language in found.statements:
            if len(found.answers[language]) != found.points or len(found.statements[language]) != found.items:
                raise SnellenError(f"'{path}' needs {found.points} answers and equally many statements in '{language}'")
        if not found.items or any(not 1 <= one <= found.items for one in found.reverse):
            raise SnellenError(f"'{path}' reverses a statement that it does not have")
        return found


def shipped() -> dict[str, Path]:
    """The questionnaires that come with Snellen, by name."""
    folder = resources.files("snellen.study").joinpath("questionnaires")
    return {Path(str(one)).stem: Path(str(one)) for one in folder.iterdir() if str(one).endswith(".yaml")}
