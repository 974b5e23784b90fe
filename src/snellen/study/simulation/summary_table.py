"""A rehearsal for a terminal: who came how far in which arm, how long requests took, and whether the books agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rich.console import Console, ConsoleOptions, Group
from rich.table import Table
from rich.text import Text

from snellen.charts import numbers
from snellen.study.simulation.simulate import AnswerCheck, Simulation

KINDS = {
    "step": "answer until next page",
    "answer": "sending an answer",
    "page": "loading a page",
    "arrive": "first page",
    "consent": "consent",
    "picture": "picture",
    "file": "style or script",
}
_STATES = ("finished", "left", "refused", "started")


@dataclass(frozen=True)
class SimulationSummary:
    """What rich prints for a rehearsal."""

    rehearsal: Simulation
    tally: AnswerCheck | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Group]:
        """Two tables, and in words what was confirmed and stored."""
        yield Group(Text(""), self._arms(), Text(""), self._times(), Text(""), *map(Text, self._words()))

    def _arms(self) -> Table:
        arms = self.rehearsal.arms
        shown = [state for state in _STATES if any(counts[state] for counts in arms.values())]
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
        table.add_column("simulated participants")
        for state in shown:
            table.add_column(state, justify="right")
        for arm in sorted(arms):
            table.add_row(arm or "(gone before any map)", *(str(arms[arm][state]) for state in shown))
        return table

    def _times(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
        table.add_column("milliseconds")
        for heading in ("requests", "half below", "95 % below", "longest"):
            table.add_column(heading, justify="right")
        for kind, name in KINDS.items():
            if times := self.rehearsal.times.get(kind):
                middle, most, longest = (1000 * float(one) for one in np.quantile(times, [0.5, 0.95, 1]))
                table.add_row(name, str(len(times)), *(f"{one:.0f}" for one in (middle, most, longest)))
        return table

    def _words(self) -> list[str]:
        ledgers = self.rehearsal.ledgers
        found = [f"{numbers.count(len(ledgers), 'simulated participant')} in {numbers.duration(self.rehearsal.seconds)}."]
        if broken := sum(ledger.broken for ledger in ledgers):
            found.append(f"{numbers.count(broken, 'request')} got no answer and were sent again.")
        if wrong := [words for ledger in ledgers for words in ledger.wrong]:
            found.append(f"The server did {len(wrong)} times what it must not do, as in: {wrong[0]}.")
        if self.tally is not None:
            one = self.tally
            found.append(
                f"Answers: {one.confirmed} confirmed, {one.stored} stored, {one.lost} lost, {one.changed} changed, "
                f"{one.doubled} doubled."
            )
        return found
