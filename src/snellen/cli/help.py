"""How `--help` is laid out: commands and options under headings, their words whole at every width."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

from typer.core import TyperCommand, TyperGroup

from snellen.errors import SnellenError

_URL_AS_PATH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(.*)")

WIDEST = 26
"""Most characters of a name that has its explanation beside it; that of a longer name begins on the next line."""

OWN_WORDS = {
    "--help": "print this help and exit",
    "--install-completion": "let this shell complete commands and options by the tab key, from the next terminal on",
    "--show-completion": "print the script that lets this shell complete commands and options",
}
"""By option that the library adds, what it does, in the style of all other options."""

Rows = list[tuple[str, str]]


class HelpedCommand(TyperCommand):
    """A command whose help lists options under the headings of their groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes arguments and options."""
        _write(formatter, _parameters(self, ctx))

    def invoke(self, ctx: Any) -> Any:
        """Runs the command, unless a path is a URL, which the type of paths has shortened to `s3:/bucket`."""
        for parameter in self.params:
            value = ctx.params.get(parameter.name)
            if isinstance(value, Path) and (match := _URL_AS_PATH.match(str(value))):
                url = f"{match[1]}://{match[2]}"
                raise SnellenError(
                    f"{max(parameter.opts, key=len)} is a path on this computer, not a URL such as '{url}'; give a path"
                )
        return super().invoke(ctx)


class HelpedGroup(TyperGroup):
    """A group of commands whose help lists the commands under headings, each with the whole of its first sentence."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the commands, then the options of the group itself."""
        sections: dict[str, Rows] = {}
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                heading = getattr(command, "rich_help_panel", None) or "Commands"
                sections.setdefault(heading, []).append((name, _first_paragraph(command.help or "")))
        _write(formatter, sections)
        _write(formatter, _parameters(self, ctx))


def _parameters(command: Any, ctx: Any) -> dict[str, Rows]:
    """By heading, the arguments and options of a command; options of no group come first."""
    sections: dict[str, Rows] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        if row := parameter.get_help_record(ctx):
            own = getattr(parameter, "rich_help_panel", None)
            heading = own or ("Arguments" if parameter.param_type_name == "argument" else "Options")
            # An option that may be repeated takes one value each time, and a range stands behind the explanation.
            name = re.sub(r"<(?:list\[)?(\w+)[^>]*>", r"<\1>", row[0])
            sections.setdefault(heading, []).append((name, OWN_WORDS.get(name, row[1])))
    return {heading: rows for heading, rows in sections.items() if rows}


def _write(formatter: Any, sections: dict[str, Rows]) -> None:
    names = [name for rows in sections.values() for name, _ in rows]
    column = max(len(name) for name in names if len(name) <= WIDEST) + 2
    for heading, rows in sections.items():
        with formatter.section(heading):
            indent = " " * formatter.current_indent
            for name, words in rows:
                # Names such as independent-labels are copied by readers, so lines break at spaces alone.
                width = formatter.width - len(indent) - column
                whole = re.sub(r"\[(?:default|required|x?\d*[<>x])[^]]*\]$", lambda part: part[0].replace(" ", "\0"), words)
                lines = textwrap.wrap(whole, width, break_on_hyphens=False, break_long_words=False)
                if len(name) > WIDEST:
                    lines.insert(0, "")
                for number, line in enumerate(lines or [""]):
                    text = f"{indent}{'' if number else name:<{column}}{line}"
                    formatter.write(text.replace("\0", " ").rstrip() + "\n")


def _first_paragraph(text: str) -> str:
    return " ".join(text.partition("\n\n")[0].split())
