"""The commands of `snellen textbox`: no logic."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from snellen import options

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


@app.command()
def train(
    name: Annotated[str | None, typer.Argument(metavar="[SETTING]", help="simple-fr, complex-cr2, …")] = None,
    rule: Annotated[
        str | None, typer.Option(help="a rule of your own, \"if box2: box1 else: text == 'B'\", or a scene file (YAML)")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="all seven settings")] = False,
    called: Annotated[str | None, typer.Option("--name", help="what the reasoner is called")] = None,
    architecture: Annotated[
        str | None, typer.Option(help="small-cnn, deep-cnn, alexnet, vgg16, resnet or vit-tiny; the published one otherwise")
    ] = None,
    background: Annotated[
        str | None, typer.Option(help="black, noise, photos, colour, texture, or a folder of photographs")
    ] = None,
    robust: Annotated[bool, typer.Option("--robust", help="train against PGD attacks, from the plain network")] = False,
    side: Annotated[int | None, typer.Option(help="height and width of the scenes; 64 otherwise")] = None,
    images: Annotated[int | None, typer.Option(metavar="MOST", help="at most so many images per attempt")] = None,
    seed: options.Seed = None,
    device: options.Device = None,
    threads: options.Threads = None,
    out: Annotated[Path | None, typer.Option(help="the folder; runs/textbox/models/NAME otherwise")] = None,
) -> None:
    """Teach a network a rule from scenes made on the way, prove that it follows the rule, and keep it in a folder."""
    import torch

    from snellen.textbox.blackboard import Blackboard, outcome, words
    from snellen.textbox.teaching import asked_for, check, folders, teach
    from snellen.textbox.training import course_for
    from snellen.textbox.verification import verify

    if threads is not None:
        torch.set_num_threads(threads)
    given = {"most": images, "seed": seed, "device": device}
    asked = asked_for(
        name,
        rule=rule,
        every=every,
        called=called,
        architecture=architecture,
        background=background,
        robust=robust,
        side=side,
    )
    courses = [course_for(one, **{key: value for key, value in given.items() if value is not None}) for one in asked]
    for reasoning, course in zip(asked, courses, strict=True):
        check(reasoning, course)
    console, board, refused = Console(), Blackboard(), False
    for reasoning, course, folder in zip(asked, courses, folders(asked, out), strict=True):
        reasoner = teach(reasoning, folder, course, board)
        proof = verify(reasoner)
        console.print(outcome(reasoner, proof))
        for sentence in words(reasoner, proof):
            console.print(sentence, highlight=False, markup=False, soft_wrap=True)
        refused |= not proof.holds
    if refused:
        raise typer.Exit(1)
