"""The verdicts of a run as lines for a terminal, and the command to try next."""

from __future__ import annotations

from rich.table import Table
from rich.text import Text

from snellen.charts.verdict_marks import MARKS, STYLES
from snellen.methods.controls import CONTROLS
from snellen.report.readable import Readable
from snellen.verdicts import MINIMUM_IMAGES, run_certainty

NAMED = 6
"""With at most this many metrics, verdicts list them by name."""


def verdict_lines(run: Readable) -> Table | Text:
    """Each method with its metrics by verdict; a sentence where nothing can be judged.

    With more than `NAMED` metrics, they are counted instead of named.
    """
    judgements = run.verdicts().judgements
    if not run_certainty(run).enough or all(judgement.verdict == "not counted" for judgement in judgements):
        return Text("No verdicts: the report says why, test by test.", style="dim")
    named = len(run.record.spec.metrics) <= NAMED
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, show_header=False)
    for method in dict.fromkeys(judgement.method for judgement in judgements):
        words = Text()
        for verdict in MARKS:
            metrics = [
                judgement.metric for judgement in judgements if (judgement.method, judgement.verdict) == (method, verdict)
            ]
            if metrics:
                text = f"{verdict}: {', '.join(metrics)}" if named else f"{len(metrics)} {verdict}"
                words.append(f"{MARKS[verdict]} {text}  ", style=STYLES[verdict])
        table.add_row(Text(method, style="bold"), words)
    return table


def next_command(run: Readable) -> str:
    """What to try next, as a command or as advice."""
    record = run.record
    if record.finished is None:
        return f"snellen resume {run.folder}"
    if not any(method.control for method in record.spec.methods):
        return f"the same command with {','.join(CONTROLS)} among --methods: verdicts are against controls"
    if not run_certainty(run).enough:
        return f"the same command with more images: verdicts need at least {MINIMUM_IMAGES}"
    if any(method.maps is not None for method in record.spec.methods):
        return "open the report; cards describe methods, so they need a run without --maps"
    return f"snellen cards --run {run.folder} --out cards/"
