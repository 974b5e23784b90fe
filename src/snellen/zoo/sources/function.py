"""package.module:function: code of the user's own, a black box too."""

from __future__ import annotations

import importlib
import os
import sys
from importlib.machinery import PathFinder
from typing import Any

import torch
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.errors import SnellenError, nearest, no_exit
from snellen.zoo.sources.source import LoadedModel, ModelRequest, source


def find_object(spec: str) -> Any:
    """The object named by `package.module:name`, from the current folder or an installed package."""
    module, _, name = spec.partition(":")
    if not name:
        raise SnellenError(f"'{spec}' is not written as package.module:function")
    if module.endswith(".py"):
        raise SnellenError(f"'{spec}' names a file; write it as a module: '{module[:-3].replace('/', '.')}:{name}'")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    try:
        with no_exit(f"'{module}'"):
            target: Any = importlib.import_module(module)
    except ModuleNotFoundError as problem:
        if problem.name and (module == problem.name or module.startswith(f"{problem.name}.")):
            raise SnellenError(
                f"'{spec}': there is no module '{problem.name}', neither here nor among installed packages"
            ) from None
        raise SnellenError(f"'{spec}': importing '{module}' failed ({reason(problem)})") from problem
    except Exception as problem:
        raise SnellenError(f"'{spec}': importing '{module}' failed ({reason(problem)})") from problem
    for part in name.split("."):
        if not hasattr(target, part):
            public = [var for var in vars(target) if not var.startswith("_")] if hasattr(target, "__dict__") else []
            raise SnellenError(f"'{spec}': '{module}' has no '{part}'{nearest(part, public)}")
        target = getattr(target, part)
    return target


def code_origin(spec: str) -> str:
    """The path of the module in `package.module:name`, found without executing it; "" if not found.

    The current folder is searched last, so that a file there cannot replace an installed package.
    """
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    importlib.invalidate_caches()
    try:
        module = PathFinder.find_spec(spec.partition(":")[0].partition(".")[0])
    except (ImportError, ValueError):
        return ""
    return "" if module is None else str(module.origin or list(module.submodule_search_locations or ()))


@source(
    "function",
    spec="package.module:function",
    what="your function without arguments that returns a model or a black box",
    accepts=lambda spec: bool(spec.partition(":")[2]),
    origin=code_origin,
)
def from_function(request: ModelRequest) -> LoadedModel | Classifier:
    """What the function returns: a model, a black-box function or a whole classifier."""
    spec = request.spec
    target = find_object(spec)
    if callable(target) and not isinstance(target, nn.Module):
        try:
            with no_exit(f"'{spec}'"):
                target = target()
        except Exception as problem:
            raise SnellenError(f"'{spec}': calling it without arguments failed ({reason(problem)})") from problem
    if isinstance(target, Classifier):
        return target
    if isinstance(target, Tensor | str | dict | list | tuple) or not (
        callable(target) or isinstance(target, torch.export.ExportedProgram)
    ):
        kind = type(target).__name__
        raise SnellenError(
            f"'{spec}' returned a {kind}; it must return an nn.Module, a Classifier or a function from inputs to logits"
        )
    return LoadedModel(model=target, name=spec)


def reason(problem: Exception) -> str:
    """The kind and the first line of an error."""
    lines = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {lines[0]}" if lines else type(problem).__name__
