"""lightning:package.module:Class@FILE: a Lightning checkpoint and the class that it belongs to."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import torch
from torch import nn

from snellen.errors import SnellenError, first_line, no_exit
from snellen.plugins.named_code import code_origin, find_object, reason
from snellen.zoo.sources.source import LoadedModel, ModelRequest, source
from snellen.zoo.sources.weights import fill_weights

FORM = "lightning:package.module:Class@file.ckpt"


def _parts(spec: str) -> tuple[str, Path]:
    name, _, path = spec.removeprefix("lightning:").partition("@")
    if not path or ":" not in name:
        raise SnellenError(f"'{spec}' is not written as {FORM}")
    return name, Path(path).expanduser()


def _origin(spec: str) -> str:
    name, path = _parts(spec)
    return f"{code_origin(name)} {path.resolve()}"


@source(
    "lightning",
    spec=FORM,
    what="a Lightning checkpoint: your class, made with the stored hyper-parameters and weights",
    needs="nothing",
    origin=_origin,
    libraries=("lightning", "pytorch-lightning"),
)
def lightning(request: ModelRequest) -> LoadedModel:
    """The module of a checkpoint. Only tensors and plain values are read from it; the class is the user's code."""
    spec = request.spec
    name, path = _parts(spec)
    if not path.is_file():
        raise SnellenError(f"'{spec}': there is no checkpoint '{path}'")
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as problem:
        raise SnellenError(
            f"'{path}' cannot be read as a checkpoint of tensors and plain values ({first_line(problem)}); "
            "load it in a function of your own (package.module:function)"
        ) from problem
    if not isinstance(stored, dict) or not isinstance(stored.get("state_dict"), dict):
        raise SnellenError(f"'{path}' is no Lightning checkpoint: it holds no state_dict")
    make = find_object(name)
    if not (isinstance(make, type) and issubclass(make, nn.Module)):
        raise SnellenError(f"'{spec}': {name} is not a class of modules")
    try:
        with no_exit(f"'{name}'"):
            model = make(**_accepted(make, dict(stored.get("hyper_parameters") or {})))
    except Exception as problem:
        raise SnellenError(
            f"'{spec}': making {name} with the stored hyper-parameters failed ({reason(problem)}); "
            "call save_hyperparameters() in its __init__, or load it in a function of your own"
        ) from problem
    fill_weights(model, stored["state_dict"], spec, path)
    return LoadedModel(model=model, name=f"{name}@{path.name}")


def _accepted(make: type, values: dict[str, Any]) -> dict[str, Any]:
    """The stored values that the class takes, as Lightning does."""
    parameters = inspect.signature(make).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        return values
    return {key: value for key, value in values.items() if key in parameters}
