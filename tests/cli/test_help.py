"""`--help` of every command: nothing is cut off, at 80 columns and without a terminal."""

from __future__ import annotations

import inspect
import itertools
import re
from collections.abc import Iterator

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from snellen.cli.main import SECTIONS, app
from snellen.cli.options import EvaluationOptions, MetricOptions, ModelOptions, PictureOptions
from snellen.cli.run import RunOptions


def paths(command=None, path=()) -> Iterator[tuple[str, ...]]:
    """The words that lead to every command and group of commands."""
    command = command or get_command(app)
    yield path
    for name, inside in getattr(command, "commands", {}).items():
        yield from paths(inside, (*path, name))


def find(path):
    command = get_command(app)
    for name in path:
        command = command.commands[name]
    return command


def printed(*words: str, columns: str | None = "80") -> str:
    done = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": columns, "TERMINAL_WIDTH": None})
    assert done.exit_code == 0, done.output
    return done.output


def joined(text: str) -> str:
    return " ".join(text.split())


def helps(path) -> list[str]:
    """The explanations that the help of a command must hold."""
    command = find(path)
    texts = [parameter.help for parameter in command.params if not parameter.hidden and parameter.help]
    texts += [inspect.cleandoc(inside.help).partition("\n\n")[0] for inside in getattr(command, "commands", {}).values()]
    return [joined(text) for text in texts if "completion" not in text]


@pytest.mark.parametrize("path", list(paths()), ids=" ".join)
@pytest.mark.parametrize("columns", ["80", None], ids=["terminal", "piped"])
def test_no_words_are_cut_off(path, columns):
    text = printed(*path, columns=columns)
    assert not re.search(r"…|(?<!//)\.\.\.$", text.partition("\n\n")[2], re.MULTILINE)  # the usage says NAME...
    assert max(map(len, text.splitlines())) <= 80
    whole = joined(text)
    for words in helps(path):
        assert words in whole


def test_a_name_is_never_broken_at_its_hyphens():
    assert "independent-labels(thresholds=[0.3," in printed("run")
    assert not re.search(r"\w-\n", printed("run", columns="60"))


def test_options_stand_under_the_heading_of_their_group():
    text = printed("run")
    for group in (ModelOptions, EvaluationOptions, PictureOptions, MetricOptions, RunOptions):
        section = text.partition(f"{group.heading}:\n")[2].partition("\n\n")[0]
        names = [f"--{name.replace('_', '-')}" for name in inspect.signature(group).parameters]
        assert re.findall(r"^  (--[a-z-]+)", section, re.MULTILINE) == names


def test_commands_stand_under_headings():
    text = printed()
    for heading, modules in SECTIONS.items():
        section = text.partition(f"{heading}:\n")[2].partition("\n\n")[0]
        commands = itertools.chain.from_iterable(module.app.registered_commands for module in modules)
        names = [command.name or command.callback.__name__ for command in commands]
        assert re.findall(r"^  (\w+)", section, re.MULTILINE) == names


def test_a_command_that_is_mistyped_is_answered_with_the_nearest():
    done = CliRunner().invoke(app, ["recomend"])
    assert done.exit_code == 2
    assert "Did you mean 'recommend'?" in done.output
