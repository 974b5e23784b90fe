"""The results of a study for a terminal: the sentences of the page, and a line of numbers per arm."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from snellen.charts import numbers
from snellen.charts.verdict_marks import MARKS, STYLES
from snellen.study.analysis import sentences
from snellen.study.analysis.analyse import Analysis, OutcomeAnalysis
from snellen.study.analysis.page import SIMULATED

_VERDICTS = {"differ": "pass", "no difference found": "inconclusive", "not tested": "not counted"}


class AnalysisSummary:
    """What rich prints: `Console().print(AnalysisSummary(analysis))`."""

    def __init__(self, analysis: Analysis) -> None:
        self._analysis = analysis

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """The headline, then outcome by outcome."""
        analysis = self._analysis
        if analysis.setup.simulated:
            yield Text(f"{SIMULATED}.", style="bold red")
        yield Text.assemble((analysis.setup.title, "bold"), f"  {sentences.headline(analysis)}")
        for outcome in analysis.outcomes:
            kind = _VERDICTS[outcome.conclusion]
            style = "bold" if kind == "pass" else STYLES[kind]
            conclusion = sentences.conclusion(analysis, outcome)
            yield Text("")
            yield Text.assemble(
                (f"{MARKS[kind]} ", style), (outcome.facts.title, "bold"), (f"  {outcome.facts.meaning}", "dim")
            )
            yield Padding(_arm_table(outcome), (0, 0, 0, 2))
            yield Padding(Text(conclusion[:1].upper() + conclusion[1:]), (0, 0, 0, 2))
        if analysis.setup.simulated:
            yield Text(f"\n{SIMULATED}.", style="bold red")
        yield Text(f"\n{sentences.which_p(analysis)}" if analysis.tested_outcomes else "", style="dim")


def _arm_table(outcome: OutcomeAnalysis) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for arm in outcome.distributions:
        interval = numbers.interval(arm.low, arm.high, arm.n) if arm.n else ""
        mean = numbers.short(arm.mean) if arm.n else "nobody"
        table.add_row(sentences.arm_name(arm.arm), Text(mean, justify="right"), Text(interval, style="dim"), f"n {arm.n}")
    return table
