"""The commands of `snellen textbox`: no logic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

app = typer.Typer(
    help="Scenes on which a classifier's reasoning is known, so that a map can be right or wrong.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def textbox() -> None:
    """Scenes on which a classifier's reasoning is known, so that a map can be right or wrong."""


@app.command()
def show(
    setting: Annotated[str | None, typer.Option(help="one of the seven, such as complex-cr2; all of them otherwise")] = None,
    rule: Annotated[str | None, typer.Option(help="a rule in one line, or a YAML file with scenes of your own")] = None,
    model: Annotated[str | None, typer.Option(help="the folder of a trained model, whose answers are shown too")] = None,
    background: Annotated[str | None, typer.Option(help="black, noise, photos, colour, texture, or a folder")] = None,
    images: Annotated[int, typer.Option(help="how many scenes of each bucket to draw, where one setting is shown")] = 4,
    out: Annotated[Path | None, typer.Option(help="the PNG to write; textbox-SETTING.png otherwise")] = None,
) -> None:
    """Draw scenes of every bucket with what a map should focus on and avoid framed, and print that as a table."""
    from snellen.textbox.sheets import setting_sheet, settings_sheet, write_sheet
    from snellen.textbox.show import default_path, settings_table, show_settings, subject, table
    from snellen.textbox.show import show as shown

    if setting is None and rule is None and model is None:
        every = show_settings(background=background)
        Console().print(settings_table({one.reasoning.name: one.reasoning.rule for one in every}))
        print(f"picture: {write_sheet(settings_sheet(every), out or default_path(None))}")
        return
    found = shown(*subject(setting, rule, model, background), images=images)
    Console().print(table(found))
    print(f"picture: {write_sheet(setting_sheet(found), out or default_path(found))}")
