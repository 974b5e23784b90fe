"""The summary of a run for a terminal: means of methods and controls, and what the number of images allows to conclude."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from rich.console import Console, ConsoleOptions, Group
from rich.table import Table
from rich.text import Text

from snellen.charts import numbers
from snellen.charts.verdict_marks import ARROWS
from snellen.report.positive_controls import SURPRISE, by_metric, is_surprising, note_of
from snellen.report.readable import Readable
from snellen.runs.record import MetricSpec
from snellen.verdicts import fooled, run_certainty

T = TypeVar("T")

_SHORT = {
    "average": "avg.", "complexity": "complex", "deletion": "dele-\ntion", "increase": "incr.", "insertion": "inser-\ntion",
    "pointing": "point.", "sensitivity": "sens.", "sparseness": "sparse",
}  # fmt: skip


def summary_table(run: Readable) -> Summary:
    """What rich prints for a run: `Console().print(summary_table(run))`."""
    return Summary(run)


class Summary:
    """Methods down, metrics across; several tables below each other if the terminal is too narrow for one."""

    def __init__(self, run: Readable) -> None:
        spec = run.record.spec
        self._methods = (*spec.methods, *spec.positive_controls)
        self._groups = {
            "": [place for place, method in enumerate(spec.methods) if not method.control],
            "controls": [place for place, method in enumerate(spec.methods) if method.control],
            "positive controls": list(range(len(spec.methods), len(self._methods))),
        }
        self._metrics = spec.metrics
        self._summary, self._shown = run.verdicts().summary, run.verdicts().shown
        positive = run.verdicts().positive_controls
        self._positive = [control.row for control in positive]
        self._positive_notes = {name: note_of(controls) for name, controls in by_metric(run).items()}
        self._surprise = SURPRISE if is_surprising(positive) else ""
        self._sure = run_certainty(run)
        self._differ = spec.stops_early
        self._problems = run.problems()
        self._accuracy = accuracy_lines(run)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Group]:
        """Splits the metrics evenly over the tables that the width allows."""
        cells = self._shown.set_index(["method", "metric"])
        fooling_controls = fooled(self._summary)
        columns = [self._column(metric, cells, fooling_controls) for metric in self._metrics]
        titles = [title for title, rows in self._groups.items() if rows]
        longest = max(map(len, [*(method.label for method in self._methods), *titles]), default=0)
        # Long labels are wrapped; narrower if that saves a table.
        layouts = [
            (name, split_evenly(columns, _width, options.max_width - name)) for name in (min(longest, 24), min(longest, 20))
        ]
        name, chosen_tables = min(layouts, key=lambda layout: len(layout[1]))
        parts: list[Any] = list(self._accuracy)
        for chosen in chosen_tables:
            parts += [Text(""), self._table(name, chosen)]
        yield Group(*parts, Text(""), *self._words(fooling_controls))

    def _column(self, metric: MetricSpec, cells: pd.DataFrame, fooling_controls: Mapping[str, list[str]]) -> list[Text]:
        """The heading, then one cell per method, in the order of the run."""
        wrong = fooling_controls.get(metric.label, [])
        values = [
            _value(cells.loc[(method.label, metric.label)], method.label in wrong, with_images=self._differ)
            for method in self._methods
        ]
        if any(wrong):
            values = [value if "◆" in value.plain else _padded(value) for value in values]
        is_ambiguous = sum(other.name == metric.name for other in self._metrics) > 1
        return [_heading(metric, is_ambiguous), *values]

    def _table(self, name: int, columns: Sequence[Sequence[Text]]) -> Table:
        table = Table(box=None, padding=(0, 0, 0, 1), pad_edge=False, header_style="bold", show_edge=False)
        table.add_column("", width=name, overflow="fold")
        for column in columns:
            table.add_column(column[0], justify="right", min_width=_width(column), no_wrap=True, vertical="bottom")
        for title, rows in self._groups.items():
            if title and rows:
                table.add_row(Text(title, style="dim italic"))
            for place in rows:
                style = {"": "", "controls": "dim", "positive controls": "green"}[title]
                table.add_row(
                    Text(_folded(self._methods[place].label, name), style=style),
                    *(column[place + 1] for column in columns),
                    style=style,
                )
        return table

    def _words(self, fooling_controls: Mapping[str, list[str]]) -> list[Text]:
        beneath = "; beneath each, the number of images" if self._differ else ""
        lines = [Text(f"Means over images{beneath}; ↑ higher is better, ↓ lower is better.", style="dim")]
        for metric, controls in fooling_controls.items():
            verb = "is" if len(controls) == 1 else "are"
            lines.append(
                Text.assemble((f"◆ {metric} is fooled", "yellow"), f": {', '.join(controls)} {verb} in its top two.")
            )
        for name, rows in self._summary.groupby("metric", sort=False):
            missing, total = int(rows["undefined"].sum()), int((rows["undefined"] + rows["n"]).sum())
            if missing:
                reason = str(next(iter(rows.loc[rows["undefined"] > 0, "reason"]), ""))
                why = f" ({reason})" if reason and reason != "never" else ""
                lines.append(Text(f"○ {name}: {missing} of {total} scores are undefined{why}."))
        for row in self._positive:
            if row.undefined:
                total = row.undefined + row.n
                lines.append(Text(f"○ {row.metric} on {row.method}: {row.undefined} of {total} undefined ({row.reason})."))
        lines += [Text.assemble((name, "green"), f": {note}.") for name, note in self._positive_notes.items() if note]
        lines += [Text(f"  {self._surprise}", style="dim")] if self._surprise else []
        for problem in dict.fromkeys(self._problems.values()):
            pairs = [pair for pair, sentence in self._problems.items() if sentence == problem]
            lines.append(Text(f"· {_listed(pairs)}: {problem}."))
        explained = [(row.method, row.metric) in self._problems for row in self._summary.itertuples()]
        if not self._differ and (missing := int(self._summary.loc[~np.array(explained, dtype=bool), "missing"].sum())):
            lines.append(Text(f"· {numbers.count(missing, 'score')} not computed yet: the run is unfinished."))
        lines.append(Text(f"{self._sure.words}.", style="bold"))
        return lines


def accuracy_lines(run: Readable) -> list[Text]:
    """How well the outputs agree with the labels, with a remark if there is one; empty if there are no labels."""
    agreement = run.record.agreement()
    if agreement is None:
        return []
    lines = [Text.assemble((f"{agreement.name} ", "bold"), agreement.words)]
    return [*lines, Text(agreement.remark, style="yellow" if agreement.doubtful else "dim")] if agreement.remark else lines


def _listed(pairs: Sequence[tuple[str, str]]) -> str:
    """The metrics and methods of these (method, metric) pairs, as text."""
    metrics = dict.fromkeys(metric for _, metric in pairs)
    return "; ".join(
        f"{metric} on {', '.join(method for method, measured in pairs if measured == metric)}" for metric in metrics
    )


def _folded(label: str, width: int) -> str:
    """A label that is too long for its column, broken where its settings begin."""
    return label if max(map(len, label.split())) <= width else label.replace("(", "\n  (", 1)


def _width(column: Sequence[Text]) -> int:
    return max(len(line) for cell in column for line in cell.plain.split("\n"))


def split_evenly(columns: Sequence[T], width: Callable[[T], int], room: int) -> list[Sequence[T]]:
    """The columns in order, in as few tables of at most `room` characters as possible, about as many columns in each."""
    for tables in range(1, len(columns) + 1):
        share = -(-len(columns) // tables)
        groups = [columns[start : start + share] for start in range(0, len(columns), share)]
        if tables == len(columns) or all(sum(width(column) + 1 for column in group) <= room for group in groups):
            return groups
    return []


def _heading(metric: MetricSpec, is_ambiguous: bool) -> Text:
    """The metric's name on a few short lines, and its arrow; its settings only where another column has the same name."""
    base, mark, settings = re.match(r"([^(@]*)([(@]?)(.*)", metric.label, re.DOTALL).groups()  # type: ignore[union-attr]
    words = "\n".join(_SHORT.get(word, word) for word in re.split(r"-|(?<=:)", base)).split("\n")
    words = [word if len(word) <= 8 else word[:7] + "…" for word in words]
    if mark and is_ambiguous:  # never cut short: the settings are what tells the columns apart
        words += (mark + settings).replace(", ", ",\n").replace("=", "=\n" if len(settings) > 14 else "=").split("\n")
    return Text("\n".join([*words, ARROWS[metric.higher_is_better]]), justify="right")


def _value(row: Any, marked: bool, *, with_images: bool = False) -> Text:
    if not row["n"]:
        return Text("–" if row["undefined"] else "·", style="dim")
    value = Text(numbers.short(float(row["mean"])) + ("◆" if marked else ""), style="yellow not dim" if marked else "")
    if with_images:
        value.append(f"\n{int(row['n'])}" + (" " if marked else ""), style="dim italic")
    return value


def _padded(value: Text) -> Text:
    """The value with a space where others of its column have a mark."""
    lines = value.split("\n")
    return Text("\n").join([line + Text(" ") for line in lines])
