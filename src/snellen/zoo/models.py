"""From what a user writes to a Classifier."""

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
from snellen.zoo.found import Found

FILES = (".pt", ".pt2", ".pth", ".ts", ".jit")
"""How files of models end."""

EMBEDDED = "efficientnet-lite0"
DIGITS = "digits"


@dataclass(frozen=True)
class Form:
    """One way to name a model."""

    spec: str
    what: str
    needs: str


MODELS = (
    Form(EMBEDDED, "the embedded ImageNet classifier, 1000 classes, 4.7 million weights", "snellen[demo]"),
    Form(DIGITS, "a small classifier of handwritten digits in 32×32 scenes, 25 thousand weights", "nothing"),
    Form("timm:NAME", "a timm model; untrained unless weights are given (a local file, or 'pretrained')", "snellen[timm]"),
    Form("torchvision:NAME", "a torchvision model; untrained unless weights are given, as above", "snellen[torchvision]"),
    Form("package.module:function", "your function without arguments that returns a model or a black box", "nothing"),
    Form("path/model.pt", "a TorchScript file: gradients, but no layers", "nothing"),
    Form("path/model.pt2", "a torch.export file: gradients, but no layers", "nothing"),
)
"""What `snellen list models` prints."""


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
    device: str | torch.device = "cpu",
    rows: int | None = None,
    precision: str = "float32",
) -> Classifier:
    """The classifier that this text names, in one of the forms of `MODELS`.

    What a library knows of its model (normalisation, size, crop, class names) is used unless it is given here. A model that
    nobody describes sees pixels as they are: mean 0, std 1, no resizing, and no crop where only a size is given. `classes`
    is a list of names or a text file with one name per line.
    """
    names = _class_names(classes)
    found = _find(spec, weights, names)
    if isinstance(found, Classifier):
        given = {"mean": mean, "std": std, "size": size, "crop": crop, "classes": classes, "weights": weights, "rows": rows}
        for option, value in given.items():
            if value is not None:
                raise SnellenError(
                    f"'{spec}' gives a Classifier with settings of its own; leave out {option} or set it there"
                )
        return found
    if weights is not None and not found.took_weights:
        raise SnellenError(f"'{spec}' brings its own weights; leave out weights={str(weights)!r}")
    if precision not in get_args(Precision):
        raise SnellenError(f"precision is one of {', '.join(get_args(Precision))}, not {precision!r}")
    if rows is not None and rows < 1:
        raise SnellenError(f"rows is how many images go through the model at once, at least 1, not {rows}")
    try:
        torch.zeros(1, device=device).item()  # a device that computes nothing, such as meta, has no value to give
    except Exception as problem:
        raise SnellenError(f"the device '{device}' cannot be used here ({_reason(problem)})") from None
    channels = found.channels or _channels(found.model)
    for option, given_values in (("mean", mean), ("std", std)):
        if isinstance(given_values, Sequence) and len(given_values) not in (1, channels):
            raise SnellenError(f"{option} has {len(given_values)} values, but '{spec}' takes {channels} channels")
    return Classifier(
        found.model,
        mean=found.mean if mean is None else mean,
        std=found.std if std is None else std,
        classes=found.classes if names is None else names,
        name=found.name,
        outputs=outputs,
        geometry=_geometry(found.geometry, size, crop),
        channels=channels,
        device=device,
        rows=found.rows if rows is None else rows,
        precision=precision,  # type: ignore[arg-type]
    )


def executes_code(spec: str) -> bool:
    """Whether loading this model executes code from elsewhere: a function's module, or a file with a graph."""
    return spec not in (EMBEDDED, DIGITS) and spec.partition(":")[0] not in ("timm", "torchvision")


def code_origin(spec: str) -> str:
    """Where the code of a model file or of `package.module:name` lies, found without executing any of it; empty if nowhere.

    The current folder is looked at last: names that a stranger chose must not come before installed packages.
    """
    if spec.endswith(FILES):
        return str(Path(spec).resolve())
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    importlib.invalidate_caches()
    try:
        found = PathFinder.find_spec(spec.partition(":")[0].partition(".")[0])
    except (ImportError, ValueError):
        return ""
    return "" if found is None else str(found.origin or list(found.submodule_search_locations or ()))


def _find(spec: str, weights: str | Path | None, classes: Sequence[str] | None) -> Found | Classifier:
    if spec == EMBEDDED:
        return Found(
            lite0.efficientnet_lite0(), EMBEDDED, lite0.MEAN, lite0.STD, lite0.GEOMETRY, lite0.class_names(), channels=3
        )
    if spec == DIGITS:
        return Found(
            digit_networks.digit_network(), DIGITS, digit_networks.MEAN, digit_networks.STD, digit_networks.GEOMETRY,
            CLASSES, channels=3,
        )  # fmt: skip
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


def _from_file(spec: str) -> Found:
    model = read_graph(spec)
    name = Path(spec).name
    if isinstance(model, ScriptedModel):
        return Found(model, name)
    _, channels, *size = model.shape if len(model.shape) == 4 else (None, None, None, None)
    rows, columns = size
    fixed = (rows, columns) if rows is not None and columns is not None else None
    return Found(model, name, geometry=Geometry(fixed, crop=1.0), channels=channels, rows=model.most)


def find_object(spec: str) -> Any:
    """What stands under `package.module:name`, here or among installed packages."""
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
            held: Any = importlib.import_module(module)
    except ModuleNotFoundError as problem:
        if problem.name and (module == problem.name or module.startswith(f"{problem.name}.")):
            raise SnellenError(
                f"'{spec}': there is no module '{problem.name}', neither here nor among installed packages"
            ) from None
        raise SnellenError(f"'{spec}': importing '{module}' failed ({_reason(problem)})") from problem
    except Exception as problem:
        raise SnellenError(f"'{spec}': importing '{module}' failed ({_reason(problem)})") from problem
    for part in name.split("."):
        if not hasattr(held, part):
            public = [var for var in vars(held) if not var.startswith("_")] if hasattr(held, "__dict__") else []
            raise SnellenError(f"'{spec}': '{module}' has no '{part}'{nearest(part, public)}")
        held = getattr(held, part)
    return held


def _from_function(spec: str) -> Found | Classifier:
    held = find_object(spec)
    if callable(held) and not isinstance(held, nn.Module):
        try:
            with no_exit(f"'{spec}'"):
                held = held()
        except Exception as problem:
            raise SnellenError(f"'{spec}': calling it without arguments failed ({_reason(problem)})") from problem
    if isinstance(held, Classifier):
        return held
    if isinstance(held, Tensor | str | dict | list | tuple) or not (
        callable(held) or isinstance(held, torch.export.ExportedProgram)
    ):
        kind = type(held).__name__
        raise SnellenError(
            f"'{spec}' returned a {kind}; it must return an nn.Module, a Classifier or a function from inputs to logits"
        )
    return Found(held, spec)


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


def _geometry(known: Geometry, size: int | tuple[int, int] | None, crop: float | None) -> Geometry:
    if crop is not None and size is None and known.size is None:
        raise SnellenError(f"crop={crop} needs a size to resize to; give both")
    if size is not None:
        known = replace(known, size=(size, size) if isinstance(size, int) else (size[0], size[1]))
    return known if crop is None else replace(known, crop=crop)


def _channels(model: nn.Module | Callable[[Tensor], Any]) -> int:
    """What the first convolution takes, if that is 1 or 3; otherwise 3."""
    if isinstance(model, nn.Module) and not isinstance(model, ExportedModel | ScriptedModel):
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                return 1 if module.in_channels == 1 else 3
    return 3
