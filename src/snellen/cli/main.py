"""The command `snellen`: all command groups in one application."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from snellen.cli import cards, papers, plugins, run, study, suite, textbox
from snellen.cli.failures import check_words, reporting_failures
from snellen.cli.help import HelpedCommand, HelpedGroup
from snellen.cli.signals import stopping_on_signals
from snellen.errors import ForeignExitError, SnellenError, no_exit


class Commands(HelpedGroup):
    """The commands. Typer ends them by its own exception, so a `SystemExit` comes from a model or plug-in."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the named command."""
        try:
            with no_exit("a model or plug-in"):
                return super().invoke(ctx)
        except ForeignExitError as problem:
            raise SnellenError(str(problem)) from problem


app = typer.Typer(
    cls=Commands,
    help="The eye test for saliency maps: which explanation method can you trust on your classifier and your images?",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
SECTIONS = {"Run and measure": (run, suite, papers), "Choose a method": (cards,), "Methods and metrics": (plugins,)}
"""By heading of `snellen --help`, the modules whose commands stand under it."""

for heading, modules in SECTIONS.items():
    for module in modules:
        for command in module.app.registered_commands:
            command.rich_help_panel = heading
            app.registered_commands.append(command)
for name, module in {"textbox": textbox, "study": study}.items():
    app.add_typer(module.app, name=name, cls=HelpedGroup, rich_help_panel="Groups of commands")
for group in (app, textbox.app, study.app):
    for command in group.registered_commands:
        command.cls = HelpedCommand


def _print_version(requested: bool) -> bool:
    if requested:
        from snellen import __version__

        print(f"snellen {__version__}")
        raise typer.Exit
    return requested


@app.callback(help=app.info.help)
def snellen(
    version: Annotated[
        bool, typer.Option("--version", help="print the version and exit", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """The eye test for saliency maps."""


def main() -> None:
    """Runs the command that the command line names."""
    with stopping_on_signals() as received, reporting_failures(received):
        check_words(sys.argv[1:])
        app(prog_name="snellen")  # also for `python -m snellen`, so that completion is installed for the command
