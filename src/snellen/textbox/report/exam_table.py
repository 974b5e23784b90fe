"""The results of an exam for a terminal: the share of each method's maps on what the rule looks at."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from rich.console import Console, ConsoleOptions, Group
from rich.table import Table
from rich.text import Text

from snellen.textbox.exam import summaries
from snellen.textbox.exam.exam_results import ExamResults
from snellen.textbox.exam.oracle import ORACLE
from snellen.textbox.exam.scoring import ScoreReading

_KINDS = {True: "simple", False: "complex"}


def method_table(results: ExamResults, reading: ScoreReading = "paper") -> pd.DataFrame:
    """One row per method: average and worst bucket of PAFL, simple and complex, successes and wrong focus.

    The oracle comes first and the controls last; methods are ordered by their average in complex settings, or in simple
    ones where there is no other. `success` and `failing` are shares of the buckets that have both something to focus on and
    something to avoid.
    """
    frame = results.frame(reading)
    scores = summaries.simple_and_complex(frame).set_index(["simple", "method"])
    table = pd.DataFrame(index=pd.Index(results.methods, name="method"))
    for simple, kind in _KINDS.items():
        for column, name in (("average", kind), ("minimum", f"{kind}_worst")):
            values = scores.loc[simple][column] if simple in scores.index.get_level_values(0) else pd.Series(dtype=float)
            table[name] = values.reindex(table.index)
    table["success"] = _pooled(summaries.success(frame)).reindex(table.index)
    table["failing"] = _pooled(summaries.failure(frame)).reindex(table.index)
    table["control"] = table.index.isin(results.controls)
    table["first"] = table.index == ORACLE
    key = "complex" if bool(table["complex"].notna().any()) else "simple"
    ordered = table.sort_values(["first", "control", key], ascending=[False, True, False], kind="stable")
    return ordered.drop(columns="first").reset_index()


def _pooled(shares: pd.DataFrame) -> pd.Series:
    """The share over the buckets of all settings."""
    counts = (shares["share"].fillna(0.0) * shares["buckets"]).groupby(shares["method"]).sum()
    buckets = shares.groupby("method")["buckets"].sum()
    return counts / buckets.where(buckets > 0)


class ExamTable:
    """What rich prints for an exam: `Console().print(ExamTable(results))`."""

    def __init__(self, results: ExamResults, reading: ScoreReading = "paper") -> None:
        self._results, self._reading = results, reading
        self._methods = method_table(results, reading)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Group]:
        """The table, and words below it."""
        yield Group(Text(""), self._table(), Text(""), *self._words())

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 0, 0, 1), pad_edge=False, header_style="bold", show_edge=False)
        table.add_column("", overflow="fold", max_width=34)
        for name in ("simple\nmean", "\nworst", "complex\nmean", "\nworst", "\nsuccess", "wrong\nfocus"):
            table.add_column(Text(name, justify="right"), justify="right", no_wrap=True, vertical="bottom")
        controls = False
        for row in self._methods.to_dict("records"):
            if row["control"] and not controls:
                table.add_row(Text("controls", style="dim italic"))
                controls = True
            style = "dim" if row["control"] else "bold" if row["method"] == ORACLE else ""
            cells = [_value(row[name]) for name in ("simple", "simple_worst", "complex", "complex_worst")]
            shares = [_share(row[name]) for name in ("success", "failing")]
            table.add_row(Text(row["method"]), *cells, *shares, style=style)
        return table

    def _words(self) -> list[Text]:
        results = self._results
        scenes = sum(map(len, results.scenes.values()))
        reading = "as the paper defines it" if self._reading == "paper" else "as the published code computes it"
        lines = [
            Text(
                f"Share of the map on what the rule looks at (PAFL, {reading}): mean of the buckets, and the worst one; "
                f"{scenes:,} scenes of {', '.join(results.settings)}. The oracle is a perfect map. Success: buckets above "
                ".5; wrong focus: buckets in which more lies on what the rule does not look at.",
                style="dim",
            )
        ]
        for words, published in (
            ("with the settings of Kim et al. 2022", True),
            ("with other settings than their defaults", False),
        ):
            chosen = [label for label in results.changed if label.endswith("@kim2022") == published]
            if chosen:
                lines.append(Text(f"· {words}: {', '.join(chosen)}"))
        for (method, reason), settings in results.reasons.items():
            where = "" if len(settings) == len(results.settings) else f" on {', '.join(settings)}"
            lines.append(Text(f"○ {method}: not run{where}: {reason}", style="dim"))
        for name, reason in results.refused.items():
            lines.append(Text(f"○ {name}: refused as ground truth: {reason}", style="yellow"))
        return lines


def _value(value: float) -> str:
    return "–" if pd.isna(value) else f"{value:.2f}"


def _share(value: float) -> str:
    return "–" if pd.isna(value) else f"{value:.0%}"
