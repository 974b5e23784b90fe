"""Models from timm and torchvision, which are optional and imported only when needed."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from snellen.errors import SnellenError, first_line, nearest
from snellen.images.geometry import Geometry
from snellen.zoo.efficientnet_lite0 import class_names

PRETRAINED = "pretrained"

UNCROPPED = Geometry(size=None, crop=1.0)
"""Images as they are; if only a size is given, the whole short side is used."""


@dataclass(frozen=True, kw_only=True)
class LoadedModel:
    """A model with the settings of its classifier; the defaults are for a model that comes without settings."""

    model: nn.Module | Callable[[Tensor], Any]
    name: str
    mean: float | Sequence[float] = 0.0
    std: float | Sequence[float] = 1.0
    geometry: Geometry = UNCROPPED
    classes: tuple[str, ...] | None = None
    channels: int | None = None
    rows: int | None = None
    took_weights: bool = False
    """Whether weights that the user gave were loaded into it."""


def timm_model(spec: str, name: str, weights: str | Path | None, classes: Sequence[str] | None) -> LoadedModel:
    """A timm model with the normalisation and size of its configuration.

    Args:
        spec: the full text that names the model, for messages.
        name: timm's name.
        weights: a local file, or "pretrained"; untrained if None.
        classes: names of the classes, whose number the model's head must have.
    """
    timm = _library("timm", spec)
    architecture = name.partition(".")[0]
    if not timm.is_model(architecture):
        raise SnellenError(f"timm has no model '{name}'{nearest(name, timm.list_models())}")
    stored = read_weights(weights, spec)
    head = (timm.get_pretrained_cfg(name) or timm.get_pretrained_cfg(architecture)).classifier
    count = _class_count(classes, stored, f"{head[0] if isinstance(head, tuple | list) else head}.weight")
    try:
        model = timm.create_model(name, pretrained=weights == PRETRAINED, **({"num_classes": count} if count else {}))
    except Exception as problem:
        raise SnellenError(f"'{spec}' cannot be made ({first_line(problem)})") from problem
    config = model.pretrained_cfg
    fill_weights(model, stored, spec, weights)
    return LoadedModel(
        model=model,
        name=_full_name(spec, weights),
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        geometry=Geometry(
            tuple(config["input_size"][1:]),
            crop=float(config.get("crop_pct") or 0.875),
            interpolation="bilinear" if config.get("interpolation") == "bilinear" else "bicubic",
        ),
        classes=class_names() if model.num_classes == 1000 else None,
        channels=int(config["input_size"][0]),
        took_weights=True,
    )


def torchvision_model(spec: str, name: str, weights: str | Path | None, classes: Sequence[str] | None) -> LoadedModel:
    """A torchvision classification model with the normalisation and size of its default weights; see `timm_model`."""
    models = _library("torchvision", spec).models
    names = models.list_models(module=models)
    if name not in names:
        raise SnellenError(f"torchvision has no classification model '{name}'{nearest(name, names)}")
    default = models.get_model_weights(name).DEFAULT
    stored = read_weights(weights, spec)
    last = next((key for key in reversed(stored or {}) if key.endswith(".weight")), "")
    count = _class_count(classes, stored, last)
    try:
        model = models.get_model(
            name, weights=default if weights == PRETRAINED else None, **({"num_classes": count} if count else {})
        )
    except Exception as problem:
        raise SnellenError(f"'{spec}' cannot be made ({first_line(problem)})") from problem
    fill_weights(model, stored, spec, weights)
    steps = default.transforms()
    side = steps.crop_size[0]
    categories = tuple(default.meta["categories"])
    return LoadedModel(
        model=model,
        name=_full_name(spec, weights),
        mean=tuple(steps.mean),
        std=tuple(steps.std),
        geometry=Geometry(
            (side, side),
            crop=min(1.0, side / steps.resize_size[0]),
            interpolation="bicubic" if steps.interpolation.value == "bicubic" else "bilinear",
        ),
        classes=categories if count in (None, len(categories)) else None,
        channels=3,
        took_weights=True,
    )


def _library(name: str, spec: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as problem:
        if problem.name not in ("timm", "torchvision"):
            raise SnellenError(f"'{spec}': importing {name} failed ({first_line(problem)})") from problem
        raise SnellenError(f"'{spec}' needs the extra: pip install 'snellen[{name}]'") from None
    except Exception as problem:
        # A torchvision that was built for another torch raises a RuntimeError, also when timm imports it.
        if "torchvision" in str(problem):
            raise SnellenError(
                f"'{spec}': the installed torchvision does not match torch {torch.__version__} ({first_line(problem)}); "
                "install both again in one command and from one index: pip install --force-reinstall torch torchvision"
            ) from problem
        raise SnellenError(f"'{spec}': importing {name} failed ({first_line(problem)})") from problem


def read_weights(weights: str | Path | None, spec: str) -> dict[str, Tensor] | None:
    """The tensors of a local weight file; None for no weights or "pretrained"."""
    if weights is None or weights == PRETRAINED:
        return None
    path = Path(weights)
    if not path.is_file():
        raise SnellenError(f"'{spec}': there is no weight file '{path}' (give a local file, or 'pretrained')")
    try:
        if path.suffix == ".safetensors":
            stored: Any = importlib.import_module("safetensors.torch").load_file(path)
        else:
            stored = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as problem:
        raise SnellenError(f"'{path}' cannot be read as a file of weights ({first_line(problem)})") from problem
    for key in ("state_dict_ema", "state_dict", "model_ema", "model"):
        if isinstance(stored, Mapping) and isinstance(stored.get(key), Mapping):
            stored = stored[key]
    if not isinstance(stored, Mapping) or not all(isinstance(value, Tensor) for value in stored.values()):
        raise SnellenError(f"'{path}' holds no state dict; save model.state_dict()")
    return {str(key).removeprefix("module."): value for key, value in stored.items()}


def _class_count(classes: Sequence[str] | None, stored: Mapping[str, Tensor] | None, head: str) -> int | None:
    """The number of outputs that the model must have; None for its default."""
    if stored is not None and head in stored:
        return int(stored[head].shape[0])
    return len(classes) if classes is not None and stored is None else None


def fill_weights(model: nn.Module, stored: Mapping[str, Tensor] | None, spec: str, weights: str | Path | None) -> None:
    """Loads stored tensors into a model; a SnellenError says which tensor does not fit."""
    if stored is None:
        return
    try:
        model.load_state_dict(stored)
    except RuntimeError as problem:
        lines = [line.strip() for line in str(problem).splitlines()]
        reason = lines[1] if len(lines) > 1 else lines[0]
        raise SnellenError(f"the weights in '{weights}' do not fit '{spec}' ({reason.rstrip('. ')})") from None


def _full_name(spec: str, weights: str | Path | None) -> str:
    return f"{spec} (untrained)" if weights is None else spec
