"""A simulation for a terminal: states by arm, times of requests, and whether all answers were stored."""

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
    """What rich prints for a simulation."""

    simulation: Simulation
    check: AnswerCheck | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Group]:
        """Two tables, and in words what was confirmed and stored."""
        yield Group(Text(""), self._arms(), Text(""), self._times(), Text(""), *map(Text, self._sentences()))

    def _arms(self) -> Table:
        arms = self.simulation.arms
        states = [state for state in _STATES if any(counts[state] for counts in arms.values())]
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
        table.add_column("simulated participants")
        for state in states:
            table.add_column(state, justify="right")
        for arm in sorted(arms):
            table.add_row(arm or "(left before the first trial)", *(str(arms[arm][state]) for state in states))
        return table

    def _times(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
        table.add_column("milliseconds")
        for heading in ("requests", "half below", "95 % below", "longest"):
            table.add_column(heading, justify="right")
        for kind, name in KINDS.items():
            if times := self.simulation.times.get(kind):
                quantiles = 1000 * np.quantile(times, [0.5, 0.95, 1])
                table.add_row(name, str(len(times)), *(f"{quantile:.0f}" for quantile in quantiles))
        return table

    def _sentences(self) -> list[str]:
        logs, check = self.simulation.logs, self.check
        sentences = [f"{numbers.count(len(logs), 'simulated participant')} in {numbers.duration(self.simulation.seconds)}."]
        if unanswered := sum(log.unanswered for log in logs):
            sentences.append(f"{numbers.count(unanswered, 'request')} got no answer and were sent again.")
        if errors := [error for log in logs for error in log.errors]:
            sentences.append(f"The server made {numbers.count(len(errors), 'error')}, such as: {errors[0]}.")
        if check is not None:
            sentences.append(
                f"Answers: {check.confirmed} confirmed, {check.stored} stored, {check.lost} lost, {check.changed} changed, "
                f"{check.doubled} doubled."
            )
        return sentences
