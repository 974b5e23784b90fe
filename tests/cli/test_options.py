"""Options that commands share: declared once, and each sets the field of the settings that has its name."""

from __future__ import annotations

import dataclasses

import pytest
from typer.main import get_command

from snellen.cli.main import app
from snellen.cli.options import EvaluationOptions, MetricOptions, ModelOptions, PictureOptions, to_settings
from snellen.cli.run import RunOptions
from snellen.errors import SnellenError
from snellen.runs.settings import Settings

SETTINGS = {field.name for field in dataclasses.fields(Settings)}
GROUPS = {
    ModelOptions: ("run", "suite", "reproduce", "explain"),
    EvaluationOptions: ("run", "suite", "reproduce"),
    PictureOptions: ("run", "suite", "reproduce", "explain"),
    MetricOptions: ("run", "suite"),
    RunOptions: ("run",),
}


def names(group: type) -> set[str]:
    return {field.name for field in dataclasses.fields(group)}


def parameters(command: str) -> set[str]:
    return {parameter.name for parameter in get_command(app).commands[command].params}


@pytest.mark.parametrize("group", GROUPS)
def test_the_commands_of_a_group_take_its_options(group):
    assert names(group) <= SETTINGS
    for command in GROUPS[group]:
        assert names(group) <= parameters(command)


def test_every_setting_is_an_option_of_run():
    assert parameters("run") - {"settings", "trust"} == SETTINGS


def test_only_options_that_were_given_become_settings():
    values = to_settings(ModelOptions(model="digits", mean="0.5,0.25"), EvaluationOptions(), methods="rise(masks=3),lime")
    assert values == {"model": "digits", "mean": [0.5, 0.25], "methods": ["rise(masks=3)", "lime"]}


def test_values_that_are_not_numbers_are_refused():
    with pytest.raises(SnellenError, match=r"--std must be comma-separated numbers, not '0\.5,x'"):
        to_settings(ModelOptions(std="0.5,x"))
