"""What a study said of the methods of a run, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from snellen.report import numbers
from snellen.report.page import MARKS
from snellen.report.terminal import STYLES, legend
from snellen.runs.people import NO_MAP, Arm, Outcome, People
from snellen.study.agreement import Agreement


class ShownJoin:
    """What rich prints: every outcome with its arms and verdicts, then which metrics go with people."""

    def __init__(self, people: People, agreement: Agreement) -> None:
        self._people, self._agreement = people, agreement

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Outcome by outcome."""
        people = self._people
        left = f", {people.left_out} left out by the study's rule" if people.left_out else ""
        who = "simulated people, who never count" if people.source == "simulated" else "people"
        yield Text.assemble((people.title, "bold"), f"  {people.people} {who}{left}; {people.begun} to {people.ended}")
        for outcome in people.outcomes:
            yield Text.assemble("\n", (outcome.title, "bold"), (f"  {outcome.score}", "dim"))
            yield Padding(_table(outcome), (0, 0, 0, 2))
        yield Text("")
        yield legend()
        yield Text("\nDo metrics predict people?", style="bold")
        for task in self._agreement.tasks:
            yield Text(" ".join(filter(None, [task.sentence, task.ceiling])))
        yield Text(self._agreement.published, style="dim")


def _table(outcome: Outcome) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for arm in outcome.arms:
        said = next(
            (one for one in outcome.standings if (one.method, one.presentation) == (arm.method, arm.presentation)), None
        )
        judged = said is not None and outcome.kind != "scale"
        mark = Text(f"{MARKS[said.verdict]} {said.verdict}", style=STYLES[said.verdict]) if said and judged else Text("")
        words = "; ".join(filter(None, [said.reason, said.advice])) if said and judged else ""
        gaps = [f"{numbers.gain(one.mean)} {numbers.interval(one.low, one.high, one.people, signs=True)} against {one.other}"
                for one in said.against] if said and judged else []  # fmt: skip
        table.add_row(mark, _name(arm), _mean(arm), Text("; ".join(filter(None, [", ".join(gaps), words]))))
    return table


def _name(arm: Arm) -> Text:
    return Text("no map" if arm.method == NO_MAP else f"{arm.method}, {arm.presentation}")


def _mean(arm: Arm) -> Text:
    return Text(f"{numbers.short(arm.mean)} {numbers.interval(arm.low, arm.high, arm.people)} {arm.people} people")
