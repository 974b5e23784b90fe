"""Published and measured side by side for a terminal."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator

from rich.console import Console, ConsoleOptions
from rich.text import Text

from snellen.charts import numbers
from snellen.papers.comparison import Comparison
from snellen.papers.published_table import Arm
from snellen.plugins.citations import CITATIONS

_NAME = 12
_CELL = 7
_MARKS = {"holds": ("●", "green"), "does not hold": ("■", "red"), "cannot be told": ("◆", "yellow")}


class Shown:
    """What rich prints for a comparison: `Console().print(Shown(comparison))`."""

    def __init__(self, comparison: Comparison) -> None:
        self._it = comparison

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Tables, findings, and what is known to differ."""
        it, protocol = self._it, self._it.protocol
        yield Text(f"{protocol.title}  ({CITATIONS[protocol.cite].split('.')[0]})", style="bold")
        yield Text(
            f"measured on {it.classifier}, {it.source}; left of each pair the published number, right the measured one"
        )
        per_table = max(1, (options.max_width - _NAME) // (2 * _CELL + 3))
        names = list(protocol.columns)
        for arm in protocol.arms:
            for start in range(0, len(names), per_table):
                yield Text("")
                yield from self._table(arm, names[start : start + per_table])
        yield Text("")
        yield from self._findings(options.max_width)
        yield Text("")
        yield Text("Known to differ", style="bold")
        for line in protocol.differs:
            yield _wrapped("· ", line, options.max_width)
        for method, reason in it.skipped.items():
            yield _wrapped("○ ", f"{method} was not run: {reason}", options.max_width)
        yield Text(f"{it.certainty[0].upper()}{it.certainty[1:]}.", style="bold")

    def _table(self, arm: Arm, names: list[str]) -> Iterator[Text]:
        columns = self._it.protocol.columns
        if arm.title:
            yield Text(arm.title.upper(), style="bold dim")
        heading = Text(" " * _NAME)
        for name in names:
            heading.append(f"   {columns[name].short.center(2 * _CELL)}", style="bold")
        yield heading
        for method in self._it.protocol.methods:
            line = Text(method.ljust(_NAME))
            for name in names:
                key = (arm.published, method, name)
                line.append("   " + _number(self._it.published.cells.get(key)).rjust(_CELL - 1), style="dim")
                line.append(" " + _number(self._it.measured.cells.get(key)).rjust(_CELL))
            yield line

    def _findings(self, width: int) -> Iterator[Text]:
        yield Text("What the paper found, in its own numbers and here", style="bold")
        for answer in self._it.answers():
            mark, style = _MARKS[answer.measured]
            words = f"{answer.claim}: {answer.measured} here{f' ({answer.why})' if answer.why else ''}; "
            words += f"published: {answer.published}"
            words += f". {answer.note[0].upper()}{answer.note[1:]}." if answer.note else "."
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
