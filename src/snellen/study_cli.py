"""The commands of `snellen study`: no logic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="Studies with people: whether a map helps anyone, and whether the metrics know.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Folder = Annotated[Path, typer.Argument(metavar="STUDY", help="the study's folder")]


@app.callback()
def study() -> None:
    """Studies with people: whether a map helps anyone, and whether the metrics know."""
