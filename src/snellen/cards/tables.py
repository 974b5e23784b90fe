"""The saliency card's two tables over all methods: A1, their methodology, and A2, their results in every test."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from snellen.cards.card_set import CardSet
from snellen.cards.literature import literature
from snellen.cards.prose import HEADINGS
from snellen.cards.schema import METHODOLOGY, Card
from snellen.charts import numbers
from snellen.charts.verdict_marks import MARKS
from snellen.files.atomic import write_whole
from snellen.plugins.registry import METHODS, METRICS, Attribute
from snellen.runs.requirements import missing_input
from snellen.suite.card_tests import TESTS, metrics_by_test
from snellen.suite.grid import Grid, GridCell, GridRow

_TITLES = {attribute: heading for heading, attribute in HEADINGS.items()}


def write_tables(card_set: CardSet, folder: Path) -> list[Path]:
    """Writes both tables as Markdown and as CSV."""
    grid = grid_of(card_set)
    texts = {
        "table-a1-methodology.md": methodology_markdown(card_set.methods),
        "table-a1-methodology.csv": methodology_table(card_set.methods).to_csv(index=False),
        "table-a2-tests.md": results_markdown(grid),
        "table-a2-tests.csv": results_table(grid).to_csv(index=False),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        write_whole(folder / name, text.encode())
    return [folder / name for name in texts]


# A1 ----------------------------------------------------------------------------------------------------------------------


def methodology_table(cards: Sequence[Card]) -> pd.DataFrame:
    """One row per method and attribute of methodology: prose, and the measurement with its numbers."""
    lines: list[dict[str, Any]] = []
    for card in cards:
        for attribute in METHODOLOGY:
            finding = card.findings.get(attribute)
            prose = " ".join(card.prose.sections[attribute].split())
            line: dict[str, Any] = {"method": card.method, "attribute": attribute, "prose": prose}
            if finding:
                line |= {"word": finding.word, "measured": finding.sentence, "share": finding.share}
                line |= {
                    name: value for name, value in finding.numbers.items() if isinstance(value, bool | int | float | str)
                }
            lines.append(line)
    first = ["method", "attribute", "word", "share", "measured", "prose"]
    table = pd.DataFrame(lines)
    return table.reindex(columns=[*first, *(column for column in table.columns if column not in first)])


def methodology_markdown(cards: Sequence[Card]) -> str:
    """A row per method, a column per attribute: the measurement, then the first sentence of the prose."""
    rows = [[_code(card.method), *(brief(card, attribute) for attribute in METHODOLOGY)] for card in cards]
    where = next((f"{card.source.model}, {card.source.data}" for card in cards if card.source), "no run")
    return "\n".join(
        [
            "# Table A1: what each method is and takes",
            "",
            f"Measured on: {_escaped(where)}. First what was measured, where something was; then our prose in short.",
            "",
            *_table(["Method", *(_TITLES[attribute] for attribute in METHODOLOGY)], rows),
            "",
        ]
    )


def brief(card: Card, attribute: Attribute) -> str:
    """One cell: the measurement in a word and a sentence, and the first sentence of the prose."""
    finding = card.findings.get(attribute)
    measured = f"**{finding.word}**: {_escaped(finding.sentence)} " if finding and attribute != "semantic-directness" else ""
    return measured + _escaped(_first_sentence(card.prose.sections[attribute]))


def _first_sentence(text: str) -> str:
    flat = " ".join(text.split())
    return re.split(r"(?<=[.!?]) (?=[A-Z`])", flat, maxsplit=1)[0]


# A2 ----------------------------------------------------------------------------------------------------------------------


def grid_of(card_set: CardSet) -> Grid:
    """All 33 tests of the card, with a reason for every test that the run does not have."""
    record = card_set.run.record
    request: Mapping[str, Any] = record.request or {}
    rows = record.samples.rows
    available = {
        "truths": bool(rows) and all(sample.truth not in (None, "none") for sample in rows),
        "labels": bool(rows) and all(sample.label is not None for sample in rows),
        "recipe": bool(record.variants) or bool(request.get("recipe") and request.get("training")),
        "checkpoints": request.get("checkpoints") is not None,
    }
    unmet = {
        name: missing_input(METRICS.build(name), **available) or f"not asked for: add {name} to --metrics"
        for name in metrics_by_test().values()
    }
    return Grid.of(card_set.run, unmet=unmet, left_out={})


def results_table(grid: Grid) -> pd.DataFrame:
    """One row per test and method of the run, then one per verdict of the literature."""
    written = [
        {
            "attribute": evidence.attribute,
            "test": evidence.test,
            "method": name,
            "control": False,
            "verdict": evidence.verdict,
            "reason": evidence.reason,
            "source": evidence.source.name,
            "data": evidence.source.data,
        }
        for name, evidence in literature()
    ]
    measured = grid.table()
    measured = measured[~measured["method"].isin(grid.positive)]  # cards describe methods
    return pd.concat([measured.assign(source="run"), pd.DataFrame(written)], ignore_index=True)


def results_markdown(grid: Grid) -> str:
    """A row per test, a column per method: a mark and a mean, and where there is no verdict, the number of a footnote."""
    notes: dict[str, int] = {}
    names = [*grid.methods, *grid.controls]
    head = ["Test", *map(_code, names)]
    record = grid.run.record
    absent = sorted(
        {name for name in METHODS if not METHODS[name].traits.control}  # type: ignore[attr-defined]
        - {method.name for method in record.spec.methods}
    )
    lines = [
        "# Table A2: how each method did in every test",
        "",
        f"{_escaped(record.classifier.name)}, {numbers.count(len(grid.run.samples()), 'image')}: "
        f"{_escaped(record.samples.source)}. Means over images; ↑ higher is better, ↓ lower is better. "
        f"{', '.join(f'{mark} {name}' for name, mark in MARKS.items())}; controls get no verdict. "
        "Settings behind a test are those of its metric that are not the defaults; `scaled=true` scores a map times its "
        "best factor, so that its unit does not matter. A number in brackets leads to the reason below.",
        "",
        *_table(head, [[_title(row), *_cells(row, names, notes)] for row in grid.tests]),
        "",
    ]
    if grid.others:
        beside = [[_title(row), *_cells(row, names, notes)] for row in grid.others]
        lines += ["## Metrics beside the card's tests", "", *_table(head, beside), ""]
    lines += [*(f"{number}. {_escaped(reason)}" for reason, number in notes.items()), ""]
    if absent:
        lines += [f"Methods that this run does not have: {', '.join(map(_code, absent))}.", ""]
    return "\n".join([*lines, "## In the literature", "", *_literature_table(), ""])


def _literature_table() -> list[str]:
    names = list(dict.fromkeys(name for name, _ in literature()))
    cells: dict[tuple[str, str], str] = {
        (name, evidence.test): f"{MARKS[evidence.verdict]} {evidence.verdict}" for name, evidence in literature()
    }
    rows = [[test, *(cells.get((name, test), "not tested") for name in names)] for tests in TESTS.values() for test in tests]
    return _table(["Test", *map(_code, names)], rows)


def _title(row: GridRow) -> str:
    return f"{_escaped(row.title)} {row.arrow}".strip()


def _cells(row: GridRow, names: Sequence[str], notes: dict[str, int]) -> list[str]:
    cells = {cell.method: cell for cell in row.cells}
    return [_cell(cells.get(name), row, notes) for name in names]


def _cell(cell: GridCell | None, row: GridRow, notes: dict[str, int]) -> str:
    mean = "" if cell is None or math.isnan(cell.mean) else numbers.short(cell.mean)
    if cell and ((cell.control and cell.n) or cell.verdict in ("pass", "fail", "inconclusive")):
        return f"{MARKS.get(cell.verdict, '')} {mean}".strip()
    reason = cell.reason if cell else row.reason
    mark = MARKS["not counted"] if cell and cell.verdict else "not run"
    return " ".join(filter(None, [mark, mean, f"({notes.setdefault(reason, len(notes) + 1)})"]))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *rows)]


def _escaped(text: str) -> str:
    """Text without characters that would end a cell or begin a tag."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")
