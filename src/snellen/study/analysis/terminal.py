"""What a study found, for a terminal: the same sentences as the page, and a line of numbers per arm."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from snellen.charts import numbers
from snellen.charts.verdict_marks import MARKS, STYLES
from snellen.study.analysis import words
from snellen.study.analysis.page import SIMULATED
from snellen.study.analysis.record import Analysis, Reading

_VERDICTS = {"differ": "pass", "no difference found": "inconclusive", "not tested": "not counted"}


class ShownAnalysis:
    """What rich prints: `Console().print(ShownAnalysis(analysis))`."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """The headline, then outcome by outcome."""
        one = self._analysis
        if one.simulated:
            yield Text(f"{SIMULATED}.", style="bold red")
        yield Text.assemble((one.title, "bold"), f"  {words.headline(one)}")
        told = dict(words.findings(one))
        for reading in one.readings:
            kind = _VERDICTS[reading.found]
            style = "bold" if kind == "pass" else STYLES[kind]
            yield Text("")
            yield Text.assemble(
                (f"{MARKS[kind]} ", style), (reading.facts.title, "bold"), (f"  {reading.facts.meaning}", "dim")
            )
            yield Padding(_arms(reading), (0, 0, 0, 2))
            yield Padding(Text(_begun(told[reading.facts.title])), (0, 0, 0, 2))
        if one.simulated:
            yield Text(f"\n{SIMULATED}.", style="bold red")
        yield Text(f"\n{words.which_p(one)}" if one.family else "", style="dim")


def _arms(reading: Reading) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for some in reading.distributions:
        interval = numbers.interval(some.low, some.high, some.n) if some.n else ""
        mean = numbers.short(some.mean) if some.n else "nobody"
        table.add_row(words.name_of(some.arm), Text(mean, justify="right"), Text(interval, style="dim"), f"n {some.n}")
    return table


def _begun(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
