"""ModelSource: a way to name a model, such as `timm:NAME`, and the function that loads it."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.errors import SnellenError, first_line
from snellen.images.geometry import Geometry
from snellen.plugins.registry import load_plugins

UNCROPPED = Geometry(size=None, crop=1.0)
"""Images as they are; if only a size is given, the whole short side is used."""


@dataclass(frozen=True, kw_only=True)
class ModelRequest:
    """A model that a user names."""

    spec: str
    """The whole text, for messages."""
    name: str
    """The text without the prefix of its source."""
    weights: str | Path | None = None
    """A local file of weights, or "pretrained"."""
    classes: Sequence[str] | None = None
    """Names of the classes; a model that is untrained gets as many outputs."""
    heads: str | None = None
    """What the outputs mean, where the user states it."""


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model with the settings of its classifier; the defaults are for a model that comes without settings."""

    model: nn.Module | Callable[[Tensor], Any]
    """The module, or a black-box function from inputs to outputs."""
    name: str
    """What it is called in records and messages."""
    mean: float | Sequence[float] = 0.0
    """Mean of the normalisation, one number or one per channel."""
    std: float | Sequence[float] = 1.0
    """Standard deviation of the normalisation, one number or one per channel."""
    geometry: Geometry = UNCROPPED
    """How images are cropped and resized."""
    classes: tuple[str, ...] | None = None
    """Names of the classes."""
    channels: int | None = None
    """How many channels it takes; None where only its first convolution says."""
    rows: int | None = None
    """Most images per pass; None for any number."""
    heads: str | None = None
    """What the outputs mean, where the source states it, such as "independent-labels"."""
    took_weights: bool = False
    """Whether weights that the user gave were loaded into it."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What else is known about the model, as JSON, for the run record."""
    notes: tuple[str, ...] = ()
    """What the user should know about it."""


def graph_geometry(size: Sequence[int | None]) -> Geometry:
    """Images resized to the (height, width) that a graph takes, without a crop; as they are where it takes any size."""
    rows, columns = size
    return Geometry((rows, columns) if rows is not None and columns is not None else None, crop=1.0)


Loader = Callable[[ModelRequest], LoadedModel | Classifier]


@dataclass(frozen=True, kw_only=True)
class ModelSource:
    """A way to name a model."""

    name: str
    """Its prefix, or its name where models are written without a prefix."""
    spec: str
    """How a model of this source is written."""
    what: str
    """What its models are, for `snellen list models`."""
    needs: str
    """The extra that must be installed."""
    load: Loader
    """Loads a model."""
    accepts: Callable[[str], bool] | None
    """Whether a text without a known prefix names a model of this source; None for a source with a prefix."""
    executes_code: bool
    """Whether loading a model executes code that is not part of a library."""
    origin: Callable[[str], str] | None
    """The path of that code, found without executing it."""
    libraries: tuple[str, ...]
    """The packages whose versions are recorded."""


_SOURCES: dict[str, ModelSource] = {}


def source(
    name: str,
    *,
    spec: str,
    what: str,
    needs: str = "nothing",
    accepts: Callable[[str], bool] | None = None,
    executes_code: bool = True,
    origin: Callable[[str], str] | None = None,
    libraries: tuple[str, ...] = (),
) -> Callable[[Loader], Loader]:
    """Registers a function that loads models as a source; a module with it is a plug-in (see `CONTRIBUTING.md`).

    Args:
        name: the prefix before the colon, unless `accepts` is given.
        spec: how a model is written, for `snellen list models`.
        what: what it is.
        needs: the extra that must be installed.
        accepts: whether a text names a model of this source, for a source without a prefix.
        executes_code: whether loading executes code that is not part of a library; such a model in a run folder of somebody
            else is loaded only if the user trusts the folder.
        origin: the path of that code for a spec, found without executing it; "" if it is not found.
        libraries: packages whose versions are recorded with the model.
    """

    def register(load: Loader) -> Loader:
        if not re.fullmatch(r"[a-z0-9]+(?:-[a-z0-9]+)*", name):
            raise SnellenError(f"source '{name}': a name is lower-case words joined by hyphens")
        other = _SOURCES.get(name)
        if other is not None and (other.load.__module__, other.load.__qualname__) != (load.__module__, load.__qualname__):
            raise SnellenError(f"source '{name}' is registered twice; choose another name")
        _SOURCES[name] = ModelSource(
            name=name,
            spec=spec,
            what=what,
            needs=needs,
            load=load,
            accepts=accepts,
            executes_code=executes_code,
            origin=origin,
            libraries=libraries,
        )
        return load

    return register


def built_in_sources() -> tuple[ModelSource, ...]:
    """The sources that are registered so far, without loading plug-ins."""
    return tuple(_SOURCES.values())


def all_sources() -> tuple[ModelSource, ...]:
    """The sources of Snellen and of plug-ins."""
    load_plugins()
    return tuple(_SOURCES.values())


def find_source(spec: str) -> tuple[ModelSource, str] | None:
    """The source of a model, and the model's name without the prefix of the source; None if no source takes it."""
    prefix, _, name = spec.partition(":")
    for sources in (built_in_sources, all_sources):  # plug-ins are only loaded where they are needed
        for candidate in sources():
            if candidate.accepts is None and candidate.name == prefix and name:
                return candidate, name
    return next(((source, spec) for source in all_sources() if source.accepts is not None and source.accepts(spec)), None)


def import_library(name: str, spec: str, *, extra: str | None = None) -> Any:
    """An optional package; a SnellenError names the extra where it is not installed.

    Args:
        name: the package.
        spec: the model that needs it, for messages.
        extra: the extra of Snellen that installs it, if it has another name.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name not in (name, "torchvision"):
            raise SnellenError(f"'{spec}': importing {name} failed ({first_line(problem)})") from problem
        raise SnellenError(f"'{spec}' needs the extra: pip install 'snellen[{extra or name}]'") from None
    except Exception as problem:
        # A torchvision that was built for another torch raises a RuntimeError, also when timm imports it.
        if "torchvision" in str(problem):
            raise SnellenError(
                f"'{spec}': the installed torchvision does not match torch {torch.__version__} ({first_line(problem)}); "
                "install both again in one command and from one index: pip install --force-reinstall torch torchvision"
            ) from problem
        raise SnellenError(f"'{spec}': importing {name} failed ({first_line(problem)})") from problem
