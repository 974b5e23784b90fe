"""The command `reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from snellen.cli import options, terminal
from snellen.cli.options import EvaluationOptions, ModelOptions, PictureOptions

app = typer.Typer()


@app.command("reproduce")
@options.expand
def reproduce_table(
    *,
    table: Annotated[str, typer.Argument(metavar="TABLE", help="zhang2024-table1 to zhang2024-table4, or cose2023-table1")],
    methods: Annotated[
        str | None,
        typer.Option(help="comma-separated names of the table's methods, or all; slow ones are left out otherwise"),
    ] = None,
    variations: Annotated[int, typer.Option(help="how many of the paper's variations of each change to run (table 4)")] = 1,
    model: ModelOptions,
    evaluation: EvaluationOptions,
    picture: PictureOptions,
) -> None:
    """Run the protocol of a published table; print published and measured numbers, and whether the paper's findings hold."""
    from snellen.papers import reproduce
    from snellen.papers.comparison_table import ComparisonTable
    from snellen.runs.progress import Live

    values = options.to_settings(model, evaluation, picture)
    names = methods.split(",") if methods else None
    comparison = reproduce(table, values, methods=names, variations=variations, observer=Live())
    terminal.show(ComparisonTable(comparison))
    print(f"table: {comparison.write_csv(Path(values.get('out', f'runs/{table}')) / 'reproduce.csv')}")
