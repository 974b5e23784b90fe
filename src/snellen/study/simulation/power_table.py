"""A power analysis for a terminal: the size that each outcome needs, and the power of some sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console, ConsoleOptions, Group
from rich.table import Table
from rich.text import Text

from snellen.charts import numbers
from snellen.study.simulation.power import (
    MAXIMUM_SIZE,
    MINIMUM_SIZE,
    PUBLISHED,
    PUBLISHED_ARMS,
    DetectionRate,
    PowerAnalysis,
    RequiredSize,
    published_size,
)


class PowerTable:
    """What rich prints: `Console().print(PowerTable(analysis))`."""

    def __init__(self, analysis: PowerAnalysis) -> None:
        self._analysis = analysis

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Group]:
        """A row per outcome, and in words what the numbers rest on."""
        outcomes, unit = self._analysis.outcomes, self._unit()
        sizes = sorted({size for outcome in outcomes for size in outcome.power})
        table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
        table.add_column("outcome", no_wrap=True)
        table.add_column("assumed (d)", overflow="fold")
        for heading in (f"needed\n{unit}", "to recruit\nin all", *(f"power with\n{size} {unit}" for size in sizes)):
            table.add_column(heading, justify="right", no_wrap=True)
        for outcome in outcomes:
            table.add_row(*self._row(outcome, sizes))
        yield Group(Text(""), table, Text(""), *(Text(sentence, style="dim") for sentence in self._notes(sizes)))

    def _unit(self) -> str:
        if self._analysis.within:
            return "in all"
        return "per arm and presentation" if self._analysis.several_presentations else "per arm"

    def _row(self, outcome: RequiredSize, sizes: Sequence[int]) -> list[str]:
        assumed = ", ".join(f"{arm} {numbers.signed(d)}" for arm, d in outcome.assumed.items()) or "none"
        if not outcome.assumed:
            needed, recruit = "–", "–"
        elif outcome.size is None:
            needed, recruit = f"> {MAXIMUM_SIZE}", "–"
        else:
            interval = f"{outcome.size} [{outcome.low}, {outcome.high}]"
            needed = interval if outcome.size > MINIMUM_SIZE else f"≤ {MINIMUM_SIZE}"
            recruit = str(self._analysis.recruited(outcome.size))
        return [outcome.outcome, assumed, needed, recruit, *(_percentage(outcome.power[size]) for size in sizes)]

    def _notes(self, sizes: Sequence[int]) -> list[str]:
        analysis = self._analysis
        test = (
            "repeated-measures ANOVA, corrected by Greenhouse and Geisser," if analysis.within else "Welch's one-way ANOVA"
        )
        count = analysis.outcomes_of_study
        correction = f", after Holm’s correction over {count} outcomes" if count > 1 else ""
        counted = f"{100 * analysis.counted_share:.0f} %"
        notes = [
            f"For a power of {100 * analysis.goal:g} % at alpha {analysis.alpha:g} by {test} on participants' means"
            f"{correction}.",
            f"By {analysis.studies} simulated studies of each size; brackets and ± hold the 95 % interval that this leaves.",
            f"Of the people who begin, {counted} count: the others leave, miss attention checks or hurry.",
        ]
        if published_size(within=analysis.within) in sizes:
            notes.append(f"{PUBLISHED} people in {PUBLISHED_ARMS} arms took part in the study of Kares et al. (2025).")
        return notes


def _percentage(rate: DetectionRate) -> str:
    low, high = rate.interval
    return f"{100 * rate.share:.0f} ± {50 * (high - low):.0f} %"
