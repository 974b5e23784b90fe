"""Published and measured numbers side by side, and the claims of the paper, for a terminal."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator

from rich.console import Console, ConsoleOptions
from rich.text import Text

from snellen.charts import numbers
from snellen.papers.claims import ClaimVerdict
from snellen.papers.comparison import TableComparison
from snellen.papers.published_table import TableBlock
from snellen.plugins.citations import CITATIONS

_NAME_WIDTH = 12
_CELL_WIDTH = 7
VERDICT_MARKS: dict[ClaimVerdict, tuple[str, str]] = {
    "holds": ("●", "green"),
    "does not hold": ("■", "red"),
    "cannot be decided": ("◆", "yellow"),
}
"""By verdict: the mark, and its colour in a terminal."""


class ComparisonTable:
    """What rich prints for a comparison: `Console().print(ComparisonTable(comparison))`."""

    def __init__(self, comparison: TableComparison) -> None:
        self._comparison = comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Tables, claims, and what is known to differ."""
        comparison, table = self._comparison, self._comparison.table
        yield Text(f"{table.title}  ({CITATIONS[table.cite].split('.')[0]})", style="bold")
        yield Text(
            f"measured on {comparison.classifier}, {comparison.source}; left of each pair the published number, right the "
            "measured one"
        )
        per_table = max(1, (options.max_width - _NAME_WIDTH) // (2 * _CELL_WIDTH + 3))
        names = list(table.columns)
        for block in table.blocks:
            for start in range(0, len(names), per_table):
                yield Text("")
                yield from self._block(block, names[start : start + per_table])
        yield Text("")
        yield from self._claims(options.max_width)
        yield Text("")
        yield Text("Known to differ", style="bold")
        for sentence in table.differs:
            yield _wrapped("· ", sentence, options.max_width)
        for method, reason in comparison.skipped.items():
            yield _wrapped("○ ", f"{method} was not run: {reason}", options.max_width)
        yield Text(f"{comparison.certainty[0].upper()}{comparison.certainty[1:]}.", style="bold")

    def _block(self, block: TableBlock, names: list[str]) -> Iterator[Text]:
        table = self._comparison.table
        if block.title:
            yield Text(block.title.upper(), style="bold dim")
        heading = Text(" " * _NAME_WIDTH)
        for name in names:
            heading.append(f"   {table.columns[name].short.center(2 * _CELL_WIDTH)}", style="bold")
        yield heading
        for method in table.methods:
            line = Text(method.ljust(_NAME_WIDTH))
            for name in names:
                key = (block.published, method, name)
                line.append("   " + _number(self._comparison.published.cells.get(key)).rjust(_CELL_WIDTH - 1), style="dim")
                line.append(" " + _number(self._comparison.measured.cells.get(key)).rjust(_CELL_WIDTH))
            yield line

    def _claims(self, width: int) -> Iterator[Text]:
        yield Text("What the paper claims, in its own numbers and here", style="bold")
        for comparison in self._comparison.claims():
            measured, note = comparison.measured, comparison.claim.note
            missing = f" ({measured.numbers})" if measured.holds is None else ""
            words = f"{measured.sentence}: {measured.verdict} here{missing}; published: {comparison.published.verdict}."
            words += f" {note[0].upper()}{note[1:]}." if note else ""
            mark, style = VERDICT_MARKS[measured.verdict]
            line = _wrapped(f"{mark} ", words, width)
            line.stylize(style, 0, 1)
            yield line


def _number(value: float | None) -> str:
    """A number that fits its cell; a table of per cents needs no powers of ten.

    >>> _number(44.4), _number(0.0), _number(0.00094), _number(None)
    ('44.4', '0', '≈ 0', '–')
    """
    if value is None:
        return "–"
    if 0 < abs(value) < 0.001:
        return "≈ 0"
    return "undef." if math.isnan(value) else numbers.short(value)


def _wrapped(mark: str, words: str, width: int) -> Text:
    return Text("\n".join(textwrap.wrap(words, max(30, width), initial_indent=mark, subsequent_indent="  ")))
