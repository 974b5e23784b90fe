"""The commands about cards: `card`, `cards`, `compare` and `recommend`; no logic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(rich_markup_mode=None)

Runs = Annotated[
    list[Path] | None,
    typer.Option("--run", metavar="RUN", help="a run folder; several of one model and the same images are joined"),
]


@app.command()
def compare(
    methods: Annotated[list[str], typer.Argument(help="two or more methods of the run, by name")],
    run: Runs = None,
) -> None:
    """Put the cards of some methods side by side, attribute by attribute."""
    from snellen.cards.compare import Comparison
    from snellen.cards.deck import deck_of_runs

    Console().print(Comparison.of(deck_of_runs(run or []), methods))
