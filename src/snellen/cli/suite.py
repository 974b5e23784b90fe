"""The command `suite`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snellen.cli import completion, options, terminal
from snellen.cli.options import EvaluationOptions, MetricOptions, ModelOptions, PictureOptions

app = typer.Typer()


@app.command()
@options.expand
def suite(
    *,
    full: Annotated[
        bool, typer.Option("--full", help="all 33 tests, with trained variants of the classifier, and all other metrics")
    ] = False,
    methods: options.Methods = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            help="only these metrics, comma-separated names; your own code: mine.py:m",
            autocompletion=completion.names("metrics"),
        ),
    ] = None,
    model: ModelOptions,
    evaluation: EvaluationOptions,
    picture: PictureOptions,
    metric: MetricOptions,
    trust: options.Trust = False,
) -> None:
    """Run the tests of the saliency card on a classifier and print its Table A2; without --model on a small default one."""
    from snellen.report import write_report
    from snellen.runs.progress import Live
    from snellen.suite import run_suite, subject
    from snellen.suite.page import write_suite
    from snellen.suite.printed_grid import PrintedGrid

    values = options.to_settings(model, evaluation, picture, metric, methods=methods, metrics=metrics)
    grid = run_suite(subject(values, full=full), full=full, observer=Live(), trust=trust)
    terminal.show(PrintedGrid(grid))
    folder = Path(grid.run.folder)
    print(f"report: {write_report(grid.run, folder / 'report.html')}")
    print(f"suite: {write_suite(grid, folder / 'suite.html')}, {grid.write_csv(folder / 'suite.csv')}")
