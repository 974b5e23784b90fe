"""Loading a Classifier by the text that names its model."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import torch
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.classifier.arithmetic import Precision
from snellen.classifier.graphs import ExportedModel, ScriptedModel
from snellen.errors import SnellenError, nearest
from snellen.images.geometry import Geometry
from snellen.plugins.named_code import code_origin, find_object, reason
from snellen.zoo.sources.digits import DIGITS
from snellen.zoo.sources.digits_many import DIGITS_MANY
from snellen.zoo.sources.efficientnet_lite0 import EMBEDDED
from snellen.zoo.sources.source import ModelRequest, ModelSource, all_sources, built_in_sources, find_source

__all__ = [
    "DIGITS",
    "DIGITS_MANY",
    "EMBEDDED",
    "MODELS",
    "code_origin",
    "executes_code",
    "find_object",
    "load_classifier",
    "model_origin",
]

MODELS = built_in_sources()
"""The ways to name a model that Snellen brings; `all_sources` has those of plug-ins too."""


def load_classifier(
    spec: str,
    *,
    weights: str | Path | None = None,
    mean: float | Sequence[float] | None = None,
    std: float | Sequence[float] | None = None,
    size: int | tuple[int, int] | None = None,
    crop: float | None = None,
    channels: int | None = None,
    classes: str | Path | Sequence[str] | None = None,
    outputs: str | None = None,
    heads: str | None = None,
    device: str | torch.device = "cpu",
    rows: int | None = None,
    precision: str = "float32",
) -> Classifier:
    """The classifier that a text names, written as `snellen list models` prints.

    Settings that are None come from the library of the model, or else are: mean 0, std 1, no resizing, and no crop if only a
    size is given.

    Args:
        spec: names the model.
        weights: a local file, or "pretrained".
        mean: mean of the normalisation.
        std: standard deviation of the normalisation.
        size: side, or (height, width), to which images are resized.
        crop: share of the short side that remains before resizing.
        channels: that the model takes, where these are neither 3 nor, by its first convolution, 1.
        classes: class names, or a text file with one name per line.
        outputs: "logits" or "probabilities".
        heads: what the outputs mean, such as "independent-labels".
        device: where the model runs.
        rows: images per pass.
        precision: float32, bfloat16 or float16.
    """
    names = _class_names(classes)
    source, name = _find(spec)
    loaded = source.load(ModelRequest(spec=spec, name=name, weights=weights, classes=names, heads=heads))
    if isinstance(loaded, Classifier):
        settings = {
            "mean": mean,
            "std": std,
            "size": size,
            "crop": crop,
            "channels": channels,
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
        return _with_facts(loaded, source, spec, {})
    if weights is not None and not loaded.took_weights:
        raise SnellenError(f"'{spec}' brings its own weights; leave out weights={str(weights)!r}")
    if precision not in get_args(Precision):
        raise SnellenError(f"precision is one of {', '.join(get_args(Precision))}, not {precision!r}")
    if rows is not None and rows < 1:
        raise SnellenError(f"rows is how many images go through the model at once, at least 1, not {rows}")
    try:
        torch.zeros(1, device=device).item()  # a device that computes nothing, such as meta, has no value to give
    except Exception as problem:
        raise SnellenError(f"the device '{device}' cannot be used here ({reason(problem)})") from None
    if channels is not None and loaded.channels not in (None, channels):
        raise SnellenError(f"'{spec}' takes {loaded.channels} channels; leave out channels={channels}")
    channels = channels or loaded.channels or _channels(loaded.model)
    for option, numbers in (("mean", mean), ("std", std)):
        if isinstance(numbers, Sequence) and len(numbers) not in (1, channels):
            raise SnellenError(f"{option} has {len(numbers)} values, but '{spec}' takes {channels} channels")
    classifier = Classifier(
        loaded.model,
        mean=loaded.mean if mean is None else mean,
        std=loaded.std if std is None else std,
        classes=loaded.classes if names is None else names,
        name=loaded.name,
        outputs=outputs,
        heads=loaded.heads if heads is None else heads,
        geometry=_geometry(loaded.geometry, size, crop),
        channels=channels,
        device=device,
        rows=loaded.rows if rows is None else rows,
        precision=precision,  # type: ignore[arg-type]
    )
    classifier.notes = loaded.notes
    return _with_facts(classifier, source, spec, loaded.facts)


def executes_code(spec: str) -> bool:
    """Whether loading this model executes code that is not part of a library: a function's module, or a model file."""
    match = find_source(spec)
    return match is None or match[0].executes_code


def model_origin(spec: str) -> str:
    """The path of the code that loading this model executes, found without executing it; "" if not found."""
    match = find_source(spec)
    return "" if match is None or match[0].origin is None else match[0].origin(spec)


def _with_facts(classifier: Classifier, source: ModelSource, spec: str, facts: Mapping[str, Any]) -> Classifier:
    """The classifier with what is known about its model (see `ModelRecord`)."""
    versions = {}
    for package in source.libraries:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    classifier.model_facts = {"spec": spec, "source": source.name, **facts, "versions": versions}
    return classifier


def _find(spec: str) -> tuple[ModelSource, str]:
    match = find_source(spec)
    if match is None:
        forms = ", ".join(source.spec for source in all_sources())
        similar = nearest(spec, [EMBEDDED, DIGITS, DIGITS_MANY]) or ";"
        raise SnellenError(f"unknown model '{spec}'{similar} a model is written as one of: {forms}")
    return match


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
        default = replace(default, size=(size, size) if isinstance(size, int) else (size[0], size[1]), short_side=None)
    return default if crop is None else replace(default, crop=crop, short_side=None)


def _channels(model: nn.Module | Callable[[Tensor], Any]) -> int:
    """1 if the first convolution takes one channel; otherwise 3."""
    if isinstance(model, nn.Module) and not isinstance(model, ExportedModel | ScriptedModel):
        for module in model.modules():
            if isinstance(module, nn.Conv2d):
                return 1 if module.in_channels == 1 else 3
    return 3
