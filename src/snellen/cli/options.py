"""Options that several commands share. An option is declared once, in the group of the commands that take it.

A command takes a group as a parameter: `def suite(model: ModelOptions, ...)`. The decorator `expand` shows typer the
options of the group instead, and fills the group from the command line. The name of an option in a group is the name
of the field of `snellen.runs.settings.Settings` that it sets; `heading` is what stands above the group in `--help`.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, get_args, get_type_hints

import typer

from snellen.cli import completion
from snellen.errors import SnellenError

Methods = Annotated[
    str | None,
    typer.Option(
        help="comma-separated names, settings in brackets: rise(masks=500); your own code: mine.py:f",
        autocompletion=completion.names("methods"),
    ),
]
Metrics = Annotated[
    str | None,
    typer.Option(
        help="comma-separated names, in the same form; your own code: mine.py:m", autocompletion=completion.names("metrics")
    ),
]
Seed = Annotated[int | None, typer.Option(help="changes every random draw")]
Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps")]
Workers = Annotated[int | None, typer.Option(help="processes to use")]
Threads = Annotated[int | None, typer.Option(help="torch threads per process")]
Json = Annotated[bool, typer.Option("--json", help="print one JSON document instead, for programs")]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust", help="execute what a run folder names that was not made here: its model, methods, recipe, variants"
    ),
]


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The classifier: of `run`, `suite`, `reproduce` and `explain`."""

    heading: ClassVar = "The model"

    model: Annotated[
        str | None,
        typer.Option(
            help="zoo name, timm:NAME, hf:FOLDER, onnx:FILE, package.module:function, a file; see: snellen list models"
        ),
    ] = None
    weights: Annotated[str | None, typer.Option(help="a local weight file for timm: or torchvision: models")] = None
    mean: Annotated[str | None, typer.Option(help="normalisation: mean per channel in [0, 1], e.g. 0.485,0.456,0.406")] = (
        None
    )
    std: Annotated[str | None, typer.Option(help="normalisation: standard deviation per channel")] = None
    size: Annotated[int | None, typer.Option(help="side of the square that the model takes")] = None
    channels: Annotated[int | None, typer.Option(help="channels that the model takes, where these are neither 3 nor 1")] = (
        None
    )
    outputs: Annotated[str | None, typer.Option(help="what the model returns: logits or probabilities")] = None
    heads: Annotated[
        str | None,
        typer.Option(
            help="what the outputs mean: exclusive-classes, independent-labels, single-logit, or number; settings in "
            "brackets: independent-labels(thresholds=[0.3, 0.5]), number(unit=years, low=0, high=100)"
        ),
    ] = None
    classes: Annotated[str | None, typer.Option(help="text file with one class name per line")] = None


@dataclass(frozen=True, kw_only=True)
class PictureOptions:
    """How picture files become pixels: of all commands with `--images`."""

    heading: ClassVar = "How picture files become pixels"

    window: Annotated[
        str | None, typer.Option(help="DICOM: centre,width of the values to show; the window of each file otherwise")
    ] = None
    range: Annotated[
        str | None,
        typer.Option(help="the stored values that become black and white in files with more than 8 bits: 0,4095"),
    ] = None
    frame: Annotated[int | None, typer.Option(help="which frame of files with several, counted from 1")] = None
    show_channels: Annotated[
        str | None,
        typer.Option(help="what pages show of pictures with many channels: one, or three as red, green, blue: 4,3,2"),
    ] = None


@dataclass(frozen=True, kw_only=True)
class EvaluationOptions:
    """The images, the run folder and the computer: of `run`, `suite` and `reproduce`."""

    heading: ClassVar = "Images, run folder and computer"

    images: Annotated[
        str | None,
        typer.Option(
            help="a folder of images or of a Hugging Face data set, .tar shards, a .parquet manifest, the URL of any of "
            "them, zoo:photographs, zoo:digits or zoo:digits-many"
        ),
    ] = None
    root: Annotated[
        str | None,
        typer.Option(help="the folder, or its URL, that the rows of a manifest are below; else that of the manifest"),
    ] = None
    check: Annotated[
        str | None,
        typer.Option(help="load all or only the first pictures before the run; decided from their number otherwise"),
    ] = None
    labels: Annotated[
        str | None, typer.Option(help="CSV with the columns file,label and perhaps group, such as a patient")
    ] = None
    checkpoints: Annotated[
        str | None, typer.Option(help="a folder of state dicts saved while the model was trained, or zoo:digits")
    ] = None
    out: Annotated[str | None, typer.Option(help="the run folder; an existing one is continued")] = None
    seed: Seed = None
    device: Device = None
    batch: Annotated[int | None, typer.Option(help="images per pass; computed from a memory budget otherwise")] = None
    shard: Annotated[int | None, typer.Option(help="samples per unit of work")] = None
    workers: Workers = None
    threads: Threads = None


@dataclass(frozen=True, kw_only=True)
class MetricOptions:
    """What is explained, and what metrics compare the maps with: of `run` and `suite`."""

    heading: ClassVar = "What is explained, and what metrics compare with"

    target: Annotated[
        str | None,
        typer.Option(
            help="predicted, label, every-label, least-likely, a class, contrast(a, b), down, or package.module:function"
        ),
    ] = None
    masks: Annotated[str | None, typer.Option(help="folder with a mask per image, for metrics that need the truth")] = None
    boxes: Annotated[str | None, typer.Option(help="CSV with the columns file,x0,y0,x1,y1")] = None
    maps: Annotated[
        list[str] | None,
        typer.Option(
            help="maps made elsewhere, to be scored like a method's: theirs=folder/, by picture id; may be repeated"
        ),
    ] = None
    map_range: Annotated[str | None, typer.Option(help="the numbers that black and white of PNG maps mean: -1,1")] = None
    recipe: Annotated[
        str | None, typer.Option(help="package.module:function that trains a model, or zoo:digits, for tests that retrain")
    ] = None
    training: Annotated[
        str | None, typer.Option(help="a folder of labelled images for the recipe, or zoo:digits-training")
    ] = None
    training_labels: Annotated[str | None, typer.Option(help="CSV with the columns file,label for --training")] = None


def expand(command: Callable[..., None]) -> Callable[..., None]:
    """Replaces each parameter of a command that is an option group by the options of the group."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name in groups:
            parameters += _under_heading(groups[parameter.name])
        else:
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def expanded(**values: Any) -> None:
        filled = {
            name: group(**{field.name: values.pop(field.name) for field in dataclasses.fields(group)})
            for name, group in groups.items()
        }
        command(**values, **filled)

    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return expanded


def _under_heading(group: Any) -> list[inspect.Parameter]:
    """The options of a group, which `--help` lists under its heading."""
    parameters = []
    for parameter in inspect.signature(group, eval_str=True).parameters.values():
        kind, option = get_args(parameter.annotation)
        option = copy.copy(option)  # several groups and commands may share it
        option.rich_help_panel = group.heading
        parameters.append(parameter.replace(annotation=Annotated[kind, option]))
    return parameters


def to_settings(*groups: Any, **options: Any) -> dict[str, Any]:
    """Values for `Settings.of`: every option of the groups, and of `options`, that the user gave.

    Lists are written with commas on the command line, and are split here.
    """
    from snellen.plugins.notation import split_names

    everything = {name: value for group in groups for name, value in vars(group).items()} | options
    values = {name: value for name, value in everything.items() if value is not None}
    for name in {"methods", "metrics"} & values.keys():
        values[name] = split_names(values[name])
    if "maps" in values:
        values["maps"] = _named_paths(values["maps"])
    numbers = {"mean": float, "std": float, "window": float, "range": float, "map_range": float, "show_channels": int}
    for name, kind in numbers.items():
        if name not in values:
            continue
        try:
            values[name] = [kind(part) for part in values[name].split(",")]
        except ValueError:
            option, kinds = name.replace("_", "-"), "numbers" if kind is float else "whole numbers"
            raise SnellenError(f"--{option} must be comma-separated {kinds}, not '{values[name]}'") from None
    for name, parts in {"window": "centre,width", "range": "lowest,highest"}.items():
        if name in values and len(values[name]) != 2:
            raise SnellenError(f"--{name} is two numbers, {parts}, not {len(values[name])}")
    return values


def refuse_json_file(names: Sequence[str], *, json: bool) -> None:
    """Refuses a file behind `--json` where names are expected."""
    for name in names:
        if json and name.lower().endswith(".json"):
            raise SnellenError(f"--json prints to the terminal and takes no file; write: snellen ... --json > '{name}'")


def _named_paths(texts: list[str]) -> dict[str, str]:
    """By name, the paths in texts such as `theirs=folder/`."""
    paths: dict[str, str] = {}
    for text in texts:
        name, equals, path = text.partition("=")
        if not equals or not name or not path:
            raise SnellenError(f"--maps must be a name and a path, such as --maps theirs=folder/, not '{text}'")
        if name in paths:
            raise SnellenError(f"--maps names '{name}' twice ('{paths[name]}' and '{path}'); give each set its own name")
        paths[name] = path
    return paths
