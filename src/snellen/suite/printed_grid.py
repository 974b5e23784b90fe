"""The card's table for a terminal: tests down, methods across, a mark and a mean in every cell."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console, ConsoleOptions
from rich.text import Text

from snellen.charts import numbers
from snellen.charts.verdict_marks import MARKS, STYLES, legend
from snellen.report.attributes import CATEGORIES
from snellen.report.positive_controls import MEANING, SURPRISE, is_surprising
from snellen.report.summary_table import accuracy_lines, split_evenly
from snellen.suite.grid import Grid, GridCell, GridRow
from snellen.verdicts import run_certainty
from snellen.verdicts.rule import TOO_FEW

_NAMES = 30


class PrintedGrid:
    """What rich prints for a grid: `Console().print(PrintedGrid(grid))`; several tables if one is too wide."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Splits the methods evenly over the tables that the width allows."""
        yield from accuracy_lines(self._grid.run)
        names = (*self._grid.methods, *self._grid.controls, *self._grid.positive)
        widths = {name: _width(name, self._grid.rows) for name in names}
        for place, chosen in enumerate(split_evenly(names, widths.__getitem__, options.max_width - _NAMES - 1)):
            yield Text("")
            yield from self._table(chosen, widths, options.max_width, first=place == 0)
        yield Text("")
        yield from self._notes()

    def _table(self, names: Sequence[str], widths: Mapping[str, int], room: int, *, first: bool) -> Iterator[Text]:
        yield from self._headings(names, widths)
        titles = {key: title for part in CATEGORIES.values() for key, (title, _) in part.items()}
        for rows, suffix in ((self._grid.tests, ""), (self._grid.others, ", beside the card")):
            for key, title in titles.items():
                chosen = [row for row in rows if row.attribute == key and (row.cells or first)]
                if chosen:
                    yield Text(f"{title}{suffix}".upper(), style="bold dim")
                for row in chosen:
                    yield from _lines(row, names, widths, room)

    def _headings(self, names: Sequence[str], widths: Mapping[str, int]) -> Iterator[Text]:
        parts = {name: _heading(name) for name in names}
        deepest = max(map(len, parts.values()))
        for place in range(deepest):
            line = Text(" " * _NAMES)
            for name in names:
                lines = [""] * (deepest - len(parts[name])) + parts[name]
                line.append(lines[place].rjust(widths[name] + 1), style=self._style(name))
            yield line

    def _style(self, name: str) -> str:
        return "green" if name in self._grid.positive else "dim" if name in self._grid.controls else "bold"

    def _notes(self) -> list[Text]:
        lines = [legend() + Text(" means over images; ↑ higher is better, ↓ lower is better")]
        # Headings leave settings out, but a verdict holds for these settings only.
        labels = [
            *self._grid.methods,
            *self._grid.controls,
            *self._grid.positive,
            *(row.metric or "" for row in self._grid.rows),
        ]
        if chosen := [label for label in labels if "(" in label or "@" in label]:
            lines.append(Text(f"with settings other than the defaults (columns, then rows): {', '.join(chosen)}"))
        for method, reason in self._grid.left_out.items():
            lines.append(Text(f"{method}: not run: {reason}"))
        for row in self._grid.rows:
            for reason, cells in _reasons(row).items():
                where = "" if len(cells) == len(self._grid.methods) else f" on {', '.join(cell.method for cell in cells)}"
                lines.append(Text(f"○ {row.title}{where}: {reason}", style="dim"))
            lines += [Text.assemble((row.title, "green"), f": {row.positive_note}")] if row.positive_note else []
        if self._grid.positive:
            surprise = f" {SURPRISE}" if is_surprising(self._grid.run.verdicts().positive_controls) else ""
            lines.append(Text(f"{', '.join(self._grid.positive)}: {MEANING}{surprise}", style="dim"))
        doubtful = sum(bool(cell.note) for row in self._grid.rows for cell in row.cells)
        if doubtful:
            passes = "1 pass" if doubtful == 1 else f"{doubtful} passes"
            lines.append(Text(f"{passes} could be undone by failures too rare for these images to show: see column note"))
        lines.append(Text(f"{run_certainty(self._grid.run).words}.", style="bold"))
        return lines


def _reasons(row: GridRow) -> dict[str, list[GridCell]]:
    """The cells without a verdict that counts, by their reason; too few images are reported in the last line instead."""
    by_reason: dict[str, list[GridCell]] = {}
    for cell in row.cells:
        if not cell.control and cell.verdict in ("", "not counted") and cell.reason not in TOO_FEW.values():
            by_reason.setdefault(cell.reason, []).append(cell)
    return by_reason


def _lines(row: GridRow, names: Sequence[str], widths: Mapping[str, int], room: int) -> Iterator[Text]:
    """The row of one test; where nothing was run, the reason takes the place of the cells."""
    *above, last = textwrap.wrap(f"{row.title} {row.arrow}", _NAMES)
    for part in above:
        yield Text(part)
    line = Text(last.ljust(_NAMES))
    if row.reason:
        reason = textwrap.wrap(row.reason, max(20, room - _NAMES - 1))
        yield line + Text(" " + f"\n{' ' * (_NAMES + 1)}".join(reason), style="dim italic")
        return
    for name in names:
        cell = _cell_text(row, name)
        line.append(" " * (widths[name] + 1 - len(cell))).append_text(cell)
    yield line


def _cell_text(row: GridRow, name: str) -> Text:
    cell = next((cell for cell in (*row.cells, *row.positive) if cell.method == name), None)
    if cell is None:
        return Text("")
    mark = MARKS.get(cell.verdict, "" if cell.control and cell.n else "○")
    mean = "–" if math.isnan(cell.mean) else numbers.short(cell.mean)
    style = "green" if cell in row.positive else "dim" if cell.control else STYLES.get(cell.verdict, "dim")
    return Text(f"{mark}{mean}", style=style)


def _heading(name: str) -> list[str]:
    words = name.partition("(")[0].split("-")
    return [part for word in words for part in ([word] if len(word) <= 10 else [word[:8] + "-", word[8:]])]


def _width(name: str, rows: Sequence[GridRow]) -> int:
    cells = [len(_cell_text(row, name).plain) for row in rows]
    return max([*cells, *(len(part) for part in _heading(name))])
