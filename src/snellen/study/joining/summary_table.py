"""A joined study for a terminal: the verdicts on methods, and which metrics agree with people."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from snellen.charts import numbers
from snellen.charts.verdict_marks import MARKS, STYLES, legend
from snellen.runs.people import NO_MAP, ArmMean, MethodStanding, StudyResult, TaskOutcome, arm_name
from snellen.study.joining.agreement import Agreement


class JoinSummary:
    """What rich prints: every outcome with its arms and verdicts, then which metrics agree with people."""

    def __init__(self, people: StudyResult, agreement: Agreement) -> None:
        self._people, self._agreement = people, agreement

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Outcome by outcome."""
        people = self._people
        left = f", {people.left_out} left out by the study's rule" if people.left_out else ""
        who = "simulated participants, who never count" if people.source == "simulated" else "people"
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


def _table(outcome: TaskOutcome) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    standings = {(item.method, item.presentation): item for item in outcome.standings if outcome.kind != "scale"}
    for arm in outcome.arms:
        mean = f"{numbers.short(arm.mean)} {numbers.interval(arm.low, arm.high, arm.people)} {arm.people} people"
        standing = standings.get((arm.method, arm.presentation))
        mark = (
            Text(f"{MARKS[standing.verdict]} {standing.verdict}", style=STYLES[standing.verdict]) if standing else Text("")
        )
        table.add_row(mark, _name(arm), Text(mean), Text(_explanation(standing) if standing else ""))
    return table


def _explanation(standing: MethodStanding) -> str:
    gaps = [
        f"{numbers.signed(gap.mean)} {numbers.interval(gap.low, gap.high, gap.people, signs=True)} "
        f"against {arm_name(gap.other)}"
        for gap in standing.against
    ]
    return "; ".join(filter(None, [", ".join(gaps), standing.reason, standing.advice]))


def _name(arm: ArmMean) -> Text:
    return Text(arm_name(arm.method) if arm.method == NO_MAP else f"{arm.method}, {arm.presentation}")
