"""Loading a Classifier by the text that names its model."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.classifier.engines import Precision
from snellen.classifier.graphs import ExportedModel, ScriptedModel, read_graph
from snellen.errors import SnellenError, nearest, no_exit
from snellen.images.geometry import Geometry
from snellen.zoo import digit_networks, libraries
from snellen.zoo import efficientnet_lite0 as lite0
from snellen.zoo.digits import CLASSES
from snellen.zoo.libraries import LoadedModel

FILES = (".pt", ".pt2", ".pth", ".ts", ".jit")
"""Endings of model files."""

EMBEDDED = "efficientnet-lite0"
DIGITS = "digits"


@dataclass(frozen=True)
class ModelForm:
    """A way to name a model."""

    spec: str
    what: str
    needs: str
    """The extra that must be installed."""


MODELS = (
    ModelForm(EMBEDDED, "the embedded ImageNet classifier, 1000 classes, 4.7 million weights", "snellen[demo]"),
    ModelForm(DIGITS, "a small classifier of handwritten digits in 32×32 scenes, 25 thousand weights", "nothing"),
    ModelForm(
        "timm:NAME", "a timm model; untrained unless weights are given (a local file, or 'pretrained')", "snellen[timm]"
    ),
    ModelForm(
        "torchvision:NAME", "a torchvision model; untrained unless weights are given, as above", "snellen[torchvision]"
    ),
    ModelForm("package.module:function", "your function without arguments that returns a model or a black box", "nothing"),
    ModelForm("path/model.pt", "a TorchScript file: gradients, but no layers", "nothing"),
    ModelForm("path/model.pt2", "a torch.export file: gradients, but no layers", "nothing"),
)
"""All ways to name a model, as `snellen list models` prints them."""


def load_classifier(
    spec: str,
    *,
    weights: str | Path | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    size: int | tuple[int, int] | None = None,
    crop: float | None = None,
    classes: str | Path | Sequence[str] | None = None,
    outputs: str | None = None,
    heads: str | None = None,
    device: str | torch.device = "cpu",
    rows: int | None = None,
    precision: str = "float32",
) -> Classifier:
    """The classifier that a text names, in one of the forms of `MODELS`.

    Settings that are None come from the library of the model, or else are: mean 0, std 1, no resizing, and no crop if only a
    size is given.

    Args:
        spec: names the model.
        weights: a local file, or "pretrained".
        mean: mean of the normalisation.
        std: standard deviation of the normalisation.
        size: side, or (height, width), to which images are resized.
        crop: share of the short side that remains before resizing.
        classes: class names, or a text file with one name per line.
        outputs: "logits" or "probabilities".
        heads: what the outputs mean, such as "independent-labels".
        device: where the model runs.
        rows: images per pass.
        precision: float32, bfloat16 or float16.
    """
    names = _class_names(classes)
    loaded = _load(spec, weights, names)
    if isinstance(loaded, Classifier):
        settings = {
            "mean": mean,
            "std": std,
            "size": size,
            "crop": crop,
            "classes": classes,
            "weights": weights,
            "rows": rows,
            "heads": heads,
        }
        for option, value in settings.items():
            if value is not None:
                raise SnellenError(
                    f"'{spec}' gives a Classifier with settings of its own; leave out {option} or set it there"
                )
        return loaded
    if weights is not None and not loaded.took_weights:
        raise SnellenError(f"'{spec}' brings its own weights; leave out weights={str(weights)!r}")
    if precision not in get_args(Precision):
        raise SnellenError(f"precision is one of {', '.join(get_args(Precision))}, not {precision!r}")
    if rows is not None and rows < 1:
        raise SnellenError(f"rows is how many images go through the model at once, at least 1, not {rows}")
    try:
        torch.zeros(1, device=device).item()  # a device that computes nothing, such as meta, has no value to give
    except Exception as problem:
        raise SnellenError(f"the device '{device}' cannot be used here ({_reason(problem)})") from None
    channels = loaded.channels or _channels(loaded.model)
    for option, numbers in (("mean", mean), ("std", std)):
        if isinstance(numbers, Sequence) and len(numbers) not in (1, channels):
            raise SnellenError(f"{option} has {len(numbers)} values, but '{spec}' takes {channels} channels")
    return Classifier(
        loaded.model,
        mean=loaded.mean if mean is None else mean,
        std=loaded.std if std is None else std,
        classes=loaded.classes if names is None else names,
        name=loaded.name,
        outputs=outputs,
        heads=heads,
        geometry=_geometry(loaded.geometry, size, crop),
        channels=channels,
        device=device,
        rows=loaded.rows if rows is None else rows,
        precision=precision,  # type: ignore[arg-type]
    )


def executes_code(spec: str) -> bool:
    """Whether loading this model executes code that is not part of a library: a function's module, or a model file."""
    return spec not in (EMBEDDED, DIGITS) and spec.partition(":")[0] not in ("timm", "torchvision")


def code_origin(spec: str) -> str:
    """The path of a model file or of the module in `package.module:name`, found without executing it; "" if not found.

    The current folder is searched last, so that a file there cannot replace an installed package.
    """
    if spec.endswith(FILES):
        return str(Path(spec).resolve())
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    importlib.invalidate_caches()
    try:
        module = PathFinder.find_spec(spec.partition(":")[0].partition(".")[0])
    except (ImportError, ValueError):
        return ""
    return "" if module is None else str(module.origin or list(module.submodule_search_locations or ()))


def _load(spec: str, weights: str | Path | None, classes: Sequence[str] | None) -> LoadedModel | Classifier:
    if spec == EMBEDDED:
        return LoadedModel(
            model=lite0.efficientnet_lite0(),
            name=EMBEDDED,
            mean=lite0.MEAN,
            std=lite0.STD,
            geometry=lite0.GEOMETRY,
            classes=lite0.class_names(),
            channels=3,
        )
    if spec == DIGITS:
        return LoadedModel(
            model=digit_networks.digit_network(),
            name=DIGITS,
            mean=digit_networks.MEAN,
            std=digit_networks.STD,
            geometry=digit_networks.GEOMETRY,
            classes=CLASSES,
            channels=3,
        )
    library, _, name = spec.partition(":")
    if library == "timm" and name:
        return libraries.timm_model(spec, name, weights, classes)
    if library == "torchvision" and name:
        return libraries.torchvision_model(spec, name, weights, classes)
    if spec.endswith(FILES):
        return _from_file(spec)
    if name:
        return _from_function(spec)
    forms = ", ".join(form.spec for form in MODELS)
    raise SnellenError(
        f"unknown model '{spec}'{nearest(spec, [EMBEDDED, DIGITS]) or ';'} a model is written as one of: {forms}"
    )


def _from_file(spec: str) -> LoadedModel:
    model = read_graph(spec)
    name = Path(spec).name
    if isinstance(model, ScriptedModel):
        return LoadedModel(model=model, name=name)
    _, channels, *size = model.shape if len(model.shape) == 4 else (None, None, None, None)
    rows, columns = size
    fixed = (rows, columns) if rows is not None and columns is not None else None
    return LoadedModel(model=model, name=name, geometry=Geometry(fixed, crop=1.0), channels=channels, rows=model.most)


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
        raise SnellenError(f"'{spec}': importing '{module}' failed ({_reason(problem)})") from problem
    except Exception as problem:
        raise SnellenError(f"'{spec}': importing '{module}' failed ({_reason(problem)})") from problem
    for part in name.split("."):
        if not hasattr(target, part):
            public = [var for var in vars(target) if not var.startswith("_")] if hasattr(target, "__dict__") else []
            raise SnellenError(f"'{spec}': '{module}' has no '{part}'{nearest(part, public)}")
        target = getattr(target, part)
    return target


def _from_function(spec: str) -> LoadedModel | Classifier:
    target = find_object(spec)
    if callable(target) and not isinstance(target, nn.Module):
        try:
            with no_exit(f"'{spec}'"):
                target = target()
        except Exception as problem:
            raise SnellenError(f"'{spec}': calling it without arguments failed ({_reason(problem)})") from problem
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


def _reason(problem: Exception) -> str:
    lines = str(problem).strip().splitlines()
    return f"{type(problem).__name__}: {lines[0]}" if lines else type(problem).__name__


def _class_names(classes: str | Path | Sequence[str] | None) -> tuple[str, ...] | None:
    if classes is None:
        return None
    if not isinstance(classes, str | Path):
        return tuple(classes)
    try:
        lines = Path(classes).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not a text file"
        raise SnellenError(f"the class names in '{classes}' cannot be read ({reason}); give one name per line") from None
    return tuple(line.strip() for line in lines if line.strip())


def _geometry(default: Geometry, size: int | tuple[int, int] | None, crop: float | None) -> Geometry:
    if crop is not None and size is None and default.size is None:
        raise SnellenError(f"crop={crop} needs a size to resize to; give both")
    if size is not None:
        default = replace(default, size=(size, size) if isinstance(size, int) else (size[0], size[1]))
    return default if crop is None else replace(default, crop=crop)


def _channels(model: nn.Module | Callable[[Tensor], Any]) -> int:
    """1 if the first convolution takes one channel; otherwise 3."""
    if isinstance(model, nn.Module) and not isinstance(model, ExportedModel | ScriptedModel):
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                return 1 if module.in_channels == 1 else 3
    return 3
