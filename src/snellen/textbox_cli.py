"""The commands of `snellen textbox`: no logic."""

from __future__ import annotations

import typer

app = typer.Typer(
    help="Scenes on which a classifier's reasoning is known, so that a map can be right or wrong.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def textbox() -> None:
    """Scenes on which a classifier's reasoning is known, so that a map can be right or wrong."""
