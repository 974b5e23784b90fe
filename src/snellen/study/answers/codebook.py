"""The codebook of an export: the meaning of every table and column, as Markdown and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from snellen import __version__
from snellen.charts.numbers import count, short
from snellen.study.data import ANSWERS, PARTICIPANTS, RATINGS
from snellen.study.folder import Study
from snellen.study.tasks import find_task

SIMULATED = "SIMULATED. Nobody took part: a program answered, as a rehearsal. Nothing in here is evidence of anything."

ColumnKind = Literal["text", "whole number", "number", "true or false"]

WHOLE_NUMBERS = ("number", "group", "pages", "attention_shown", "attention_missed", "position", "value", "beside", "answer")
NUMBERS = ("median_seconds", "truth", "score", "seconds")
TRUE_OR_FALSE = ("simulated", "practice", "higher_is_better")

DTYPES: dict[ColumnKind, Any] = {
    "text": pd.StringDtype(),
    "whole number": pd.Int64Dtype(),
    "number": "float64",
    "true or false": pd.BooleanDtype(),
}
"""How pandas holds a column, so that an empty table has the same columns as a full one."""


@dataclass(frozen=True, eq=False)
class ExportTable:
    """One table of an export with a description of every column."""

    name: str
    about: str
    """What a row is."""
    columns: Mapping[str, str]
    """By name of the column, its meaning."""
    frame: pd.DataFrame

    @staticmethod
    def of(name: str, about: str, columns: Mapping[str, str], rows: pd.DataFrame, *, simulated: bool) -> ExportTable:
        """A table with its columns in order and of their kind; simulated rows say so in a column of every table."""
        existing = dict(columns)
        frame = rows[[column for column in columns if column in rows]].copy()
        if simulated and "simulated" not in existing:
            existing["simulated"] = PARTICIPANTS["simulated"]
            frame["simulated"] = True
        return ExportTable(
            name=name,
            about=about,
            columns=existing,
            frame=frame.astype({column: DTYPES[kind(name, column)] for column in existing}),
        )

    def files(self, prefix: str) -> tuple[str, str]:
        """The names of the two files that hold it."""
        return f"{prefix}{self.name}.csv", f"{prefix}{self.name}.parquet"


ABOUT = {
    "participants": ("One row per participant, in the order of arrival.", PARTICIPANTS),
    "answers": ("One row per trial that was answered, also those for practice.", ANSWERS),
    "ratings": ("One row per statement of a questionnaire that was answered.", RATINGS),
}


def kind(table: str, column: str) -> ColumnKind:
    """What a column of a table holds."""
    if column in WHOLE_NUMBERS or (table, column) == ("ratings", "item"):
        return "whole number"
    if column in NUMBERS:
        return "number"
    return "true or false" if column in TRUE_OR_FALSE else "text"


@dataclass(frozen=True, eq=False)
class Codebook:
    """What an export holds and what it means."""

    study: Study
    tables: tuple[ExportTable, ...]
    simulated: bool
    erased: int
    """How many participants were erased."""
    at: str
    """When the export was made, ISO 8601."""

    @property
    def prefix(self) -> str:
        """How the names of all files of this export begin."""
        return "simulated-" if self.simulated else ""

    def as_values(self) -> dict[str, Any]:
        """For programs."""
        protocol = self.study.protocol
        return {
            "title": protocol.title,
            "simulated": self.simulated,
            "warning": SIMULATED if self.simulated else "",
            "exported": self.at,
            "snellen": __version__,
            "digest": self.study.digest,
            "subject": {name: self.study.subject.get(name, "") for name in ("model", "fingerprint")},
            "erased": self.erased,
            "tables": {
                table.name: {
                    "about": table.about,
                    "files": list(table.files(self.prefix)),
                    "rows": len(table.frame),
                    "columns": [
                        {"name": name, "kind": kind(table.name, name), "meaning": meaning}
                        for name, meaning in table.columns.items()
                    ],
                }
                for table in self.tables
            },
            "groups": [[condition.name for condition in group] for group in protocol.groups],
            "tasks": {
                plan.task: {
                    "items": plan.items,
                    "practice": plan.practice,
                    "score": find_task(plan.task).traits.score,
                    "higher_is_better": find_task(plan.task).traits.higher_is_better,
                    "columns": dict(find_task(plan.task).form.columns),
                }
                for plan in protocol.tasks
            },
            "questionnaires": {
                name: {
                    "points": scale.points,
                    "reverse": list(scale.reverse),
                    "source": scale.source,
                    "licence": scale.licence,
                    "statements": {language: list(some) for language, some in scale.statements.items()},
                }
                for name, scale in self.study.scales.items()
            },
            # The folder of the run tells about the experimenter's computer, and nothing about the study.
            "protocol": {name: value for name, value in protocol.as_values().items() if name != "run"},
        }

    def as_text(self) -> str:
        """For readers, as Markdown."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        protocol, rule = self.study.protocol, self.study.protocol.exclude
        yield f"# Codebook: {' '.join(protocol.title.split())}"
        yield ""
        if self.simulated:
            yield f"> **{SIMULATED}**"
            yield ""
        yield (
            f"Exported {self.at} with Snellen {__version__}. Digest of protocol, stimuli and questionnaires: "
            f"`{self.study.digest}`. Erased, and in no table: {count(self.erased, 'participant')}."
        )
        yield ""
        yield (
            "CSV files are UTF-8 with a header; an empty field is a missing value. Parquet files hold the same. "
            "Times are UTC, ISO 8601."
        )
        for table in self.tables:
            first, second = table.files(self.prefix)
            yield ""
            yield f"## {first}, {second}"
            yield ""
            yield f"{table.about} {count(len(table.frame), 'row')}."
            yield ""
            yield from _table(
                ("column", "kind", "meaning"),
                [(f"`{name}`", kind(table.name, name), meaning) for name, meaning in table.columns.items()],
            )
        yield from self._design()
        yield ""
        yield "## Who does not count"
        yield ""
        yield (
            "By the rule that the protocol stated beforehand, in the column `excluded`: who did not finish or withdrew; "
            f"who missed more than {rule.missed} of {count(protocol.attention, 'attention check')}; who took less than "
            f"{short(rule.seconds)} s per trial, as a median. They are in the tables; leave them out of an analysis."
        )

    def _design(self) -> Iterator[str]:
        protocol = self.study.protocol
        yield from ("", "## Groups", "")
        yield from _table(
            ("group", "was shown"),
            [
                (str(place), ", then ".join(f"`{condition.name}`" for condition in group))
                for place, group in enumerate(protocol.groups)
            ],
        )
        yield from ("", "## Tasks", "")
        yield from _table(
            ("task", "items", "practice", "answer", "score", "a high score is"),
            [
                (
                    f"`{plan.task}`",
                    str(plan.items),
                    str(plan.practice),
                    "; ".join(f"`{column}`: {text}" for column, text in find_task(plan.task).form.columns.items()),
                    find_task(plan.task).traits.score,
                    "good" if find_task(plan.task).traits.higher_is_better else "bad",
                )
                for plan in protocol.tasks
            ],
        )
        for name, scale in self.study.scales.items():
            language = protocol.languages[0]
            reversed_items = f"; reversed: {', '.join(map(str, scale.reverse))}" if scale.reverse else ""
            yield from ("", f"## Questionnaire `{name}`", "")
            yield f"Answers from 1 to {scale.points}{reversed_items}. Source: {scale.source}; licence: {scale.licence}."
            yield ""
            yield from (f"{number}. {statement}" for number, statement in enumerate(scale.statements[language], 1))


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    for row in (head, ("---",) * len(head), *rows):
        yield f"| {' | '.join(' '.join(cell.replace('|', '/').split()) for cell in row)} |"
