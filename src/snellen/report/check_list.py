"""`snellen check`: what the contract suite found about a method or metric, as a list for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from snellen.plugins.checks import CheckReport, Outcome
from snellen.plugins.checks.check_report import Result

MARKS: dict[Result, tuple[str, str]] = {
    "not applicable": ("– n/a", "dim"),
    "exempt": ("○ exempt", "yellow"),
    "pass": ("✓ pass", "green"),
    "fail": ("✗ fail", "bold red"),
}
"""By result, how it is marked and its style; failures are listed last, where the eye is after a long list."""


def check_list(report: CheckReport) -> Group:
    """All rules in the order of `MARKS`, a row per rule, with the reason why it failed or does not apply."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for result, (mark, style) in MARKS.items():
        for rule, summary, reason in _rows([outcome for outcome in report.outcomes if outcome.result == result]):
            words = f"[bold]{escape(rule)}[/]: {escape(reason if result == 'not applicable' else summary)}"
            if result in ("exempt", "fail"):
                hint = f"; {PAIR}" if (result, rule) == ("fail", "direction") else ""
                words += f"\n[{style}]{escape(reason + hint)}[/]"
            table.add_row(f"[{style}]{mark}[/]", words)
    return Group(Text(_heading(report), style="bold"), table, Text(counts(report), style="bold"))


PAIR = "if these two are not good and bad for this metric, name others with --good and --bad"


def _heading(report: CheckReport) -> str:
    if report.is_plain:
        return f"{report.plugin}, a {report.kind} that states nothing about itself"
    return f"the {report.kind} {report.plugin}"


def counts(report: CheckReport) -> str:
    """How many rules passed, failed and did not apply, in words."""
    numbers = {result: sum(outcome.result == result for outcome in report.outcomes) for result in MARKS}
    words = [f"{number} {result}" for result, number in numbers.items() if number]
    return f"{report.plugin}: {', '.join(reversed(words))}"


def _rows(outcomes: Sequence[Outcome]) -> list[tuple[str, str, str]]:
    """Rule with its networks, what it demands, and the reason; a rule with the same reason on several networks once."""
    networks: dict[tuple[str, str, str], list[str]] = {}
    for outcome in outcomes:
        networks.setdefault((outcome.rule, outcome.summary, outcome.reason), []).append(outcome.network)
    return [
        (f"{rule} ({', '.join(names)})" if any(names) else rule, summary, reason)
        for (rule, summary, reason), names in networks.items()
    ]
