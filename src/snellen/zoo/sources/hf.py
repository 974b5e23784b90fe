"""hf:FOLDER-OR-NAME: image classifiers of transformers, prepared as their processor says."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from PIL import Image

from snellen.errors import SnellenError, first_line
from snellen.images.geometry import Geometry
from snellen.zoo.sources.source import LoadedModel, ModelRequest, import_library, source

PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")

_HEADS = {"multi_label_classification": "independent-labels", "regression": "number"}

_INTERPOLATIONS: Mapping[int, Literal["nearest", "lanczos", "bilinear", "bicubic"]] = {
    0: "nearest",
    1: "lanczos",
    2: "bilinear",
    3: "bicubic",
}

ALIKE = 0.01
"""Largest mean difference, in pixels in [0, 1], between the processor's picture and ours; rounding of edges is below."""

WRAP = "return a Classifier from a function of your own (package.module:function)"


@source(
    "hf",
    spec="hf:FOLDER-OR-NAME",
    what="a transformers image classifier; size, crop, normalisation and labels come from its folder",
    needs="snellen[hf]",
    executes_code=False,
    libraries=("transformers",),
)
def hugging_face(request: ModelRequest) -> LoadedModel:
    """An image classifier from a local folder, the cache of transformers or the Hub; weights from safetensors only."""
    spec, name = request.spec, str(Path(request.name).expanduser())
    if Path(name).is_dir():
        _check_folder(Path(name), spec)
    elif request.name.startswith((".", "/", "~")) or name.count("/") > 1:
        raise SnellenError(f"'{spec}': there is no folder '{request.name}'")
    transformers = import_library("transformers", spec, extra="hf")
    # No code of the folder is executed, and no attention kernel is downloaded because a configuration names it.
    safe = {"trust_remote_code": False, "local_files_only": Path(name).is_dir()}
    with _quiet(transformers), _reasons(spec):
        config = transformers.AutoConfig.from_pretrained(name, **safe)
        if getattr(config, "quantization_config", None) is not None:
            raise SnellenError(f"'{spec}' has quantised weights; give the model that it was made from")
        processor = transformers.AutoImageProcessor.from_pretrained(name, backend="pil", **safe)
        model, loading = transformers.AutoModelForImageClassification.from_pretrained(
            name, config=config, use_safetensors=True, attn_implementation="eager", output_loading_info=True, **safe
        )
    missing = sorted(map(str, [*loading["missing_keys"], *loading["mismatched_keys"]]))
    if missing:
        raise SnellenError(
            f"'{spec}' has no fitting weights for {missing[0]}; give a model that was trained as a classifier"
        )
    channels = int(getattr(config, "num_channels", None) or 3)
    prepared = read_processor(processor, spec, channels)
    heads, head_notes = _heads(config, request)
    return LoadedModel(
        model=model.float(),
        name=spec,
        mean=prepared.mean,
        std=prepared.std,
        geometry=prepared.geometry,
        classes=_classes(config),
        channels=channels,
        heads=heads,
        facts={"processor": prepared.values},
        notes=(*prepared.notes, *head_notes),
    )


def _check_folder(folder: Path, spec: str) -> None:
    """Refuses a folder in which a file is missing, before anything is imported."""
    if not (folder / "config.json").is_file():
        raise SnellenError(f"'{spec}' has no config.json; give a folder that save_pretrained wrote")
    if not any((folder / name).is_file() for name in PROCESSOR_FILES):
        raise SnellenError(
            f"'{spec}' has no {PROCESSOR_FILES[0]}, which says how images are prepared; "
            "save the model's image processor to the folder with save_pretrained"
        )
    if not any(folder.glob("*.safetensors")):
        raise SnellenError(
            f"'{spec}' has no *.safetensors; pickled weights are code and are not opened: "
            "save the model again with a current transformers"
        )


@dataclass(frozen=True)
class Preparation:
    """What a processor does to an image, in Snellen's terms."""

    geometry: Geometry
    """How it crops and resizes."""
    mean: tuple[float, ...]
    """Mean of the normalisation, in pixels."""
    std: tuple[float, ...]
    """Standard deviation of the normalisation, in pixels."""
    values: dict[str, Any]
    """The processor's own settings, as JSON."""
    notes: tuple[str, ...]
    """What the user should know about it."""


def read_processor(processor: Any, spec: str, channels: int = 3) -> Preparation:
    """The geometry and normalisation of an image processor.

    They are compared with what the processor itself makes of a picture, and a processor that does something else is refused.
    """
    values = json.loads(json.dumps(processor.to_dict(), default=str))
    geometry, square = _geometry(values, spec)
    # The processor's input is 255 times the pixels: (255 factor pixels - offset - mean) / std.
    factor = 255 * float(values.get("rescale_factor") or 1 / 255) if values.get("do_rescale", True) else 255.0
    offset = 1.0 if values.get("rescale_offset") and values.get("do_rescale", True) else 0.0
    normalised = values.get("do_normalize", True)
    mean, std = (
        _numbers(values[key]) if normalised else (plain,) for key, plain in (("image_mean", 0.0), ("image_std", 1.0))
    )
    prepared = Preparation(
        geometry=geometry,
        mean=tuple((number + offset) / factor for number in mean),
        std=tuple(number / factor for number in std),
        values={key: value for key, value in values.items() if value is not None},
        notes=(f"'{spec}' keeps the proportions of its images; here they are cropped to a square",) if square else (),
    )
    if channels == 3:
        _compare(processor, prepared, spec, square=square)
    return prepared


def _geometry(values: Mapping[str, Any], spec: str) -> tuple[Geometry, bool]:
    """The geometry of a processor, and whether the processor itself would give images of several shapes."""
    size: Mapping[str, int] = values.get("size") or {}
    centre: Mapping[str, int] | None = values.get("crop_size") if values.get("do_center_crop") else None
    interpolation = _INTERPOLATIONS.get(int(values.get("resample") or 0))
    kind = values.get("image_processor_type", "its processor")
    if not values.get("do_resize", True) and centre is None:
        return Geometry(None, crop=1.0), False
    if interpolation is None or not values.get("do_resize", True) or not ({"height", "shortest_edge"} & set(size)):
        raise SnellenError(f"'{spec}': {kind} resizes in a way that is not supported ({dict(size)}); {WRAP}")
    edge = size.get("shortest_edge")
    if edge and values.get("crop_pct"):  # ConvNeXt crops small images only
        stretch = edge >= 384
        side = None if stretch else int(edge / values["crop_pct"])
        share = edge / side if side else 1.0
        return Geometry((edge, edge), share, interpolation, stretch=stretch, short_side=side), False
    height, width = (edge, edge) if edge else (size["height"], size["width"])
    rows, columns = (centre["height"], centre["width"]) if centre else (height, width)
    if rows > height or columns > width:
        raise SnellenError(f"'{spec}': {kind} pads images of {height}×{width} to {rows}×{columns}; {WRAP}")
    share = min(rows / height, columns / width)
    geometry = Geometry((rows, columns), share, interpolation, stretch=not edge, short_side=edge)
    return geometry, bool(edge and not centre)


def _compare(processor: Any, prepared: Preparation, spec: str, *, square: bool) -> None:
    """Refuses a processor whose picture of a smooth image differs from ours."""
    rows, columns = prepared.geometry.size or (32, 32)
    side = max(rows, columns)
    tall, wide = (2 * side, 2 * side) if square else (round(1.5 * side), 2 * side)
    down, across = np.mgrid[0 : 1 : tall * 1j, 0 : 1 : wide * 1j]
    levels = np.stack([down, across, (down + 1 - across) / 2], axis=-1)
    image = Image.fromarray((255 * levels).round().astype(np.uint8))
    theirs = np.asarray(processor(image, return_tensors="np")["pixel_values"][0])
    ours = prepared.geometry.picture(image).numpy()
    mean, std = (np.reshape(numbers, (-1, 1, 1)) for numbers in (prepared.mean, prepared.std))
    if theirs.shape != ours.shape or float(np.abs(theirs * std + mean - ours).mean()) > ALIKE:
        kind = prepared.values.get("image_processor_type", "the processor")
        raise SnellenError(
            f"'{spec}': {kind} prepares images in a way that size, crop, mean and std do not describe; {WRAP}"
        )


def _numbers(value: Any) -> tuple[float, ...]:
    return tuple(map(float, value)) if isinstance(value, list) else (float(value),)


def _heads(config: Any, request: ModelRequest) -> tuple[str | None, tuple[str, ...]]:
    """What the outputs mean according to the configuration, and what the user should know about it."""
    problem, outputs = getattr(config, "problem_type", None), int(config.num_labels)
    if request.heads is not None:
        return None, ()
    if problem == "regression" and outputs > 1:
        raise SnellenError(
            f"'{request.spec}' gives {outputs} numbers (problem_type regression), but a number is one output; "
            "return a Classifier of one of them from a function of your own (package.module:function), or state heads"
        )
    if outputs == 1 and problem != "multi_label_classification":
        # transformers trains a single output as a regression, unless problem_type says otherwise.
        note = f"'{request.spec}' has one output, read as a number; if it is a yes or no, state heads=single-logit"
        return "number", () if problem == "regression" else (note,)
    return _HEADS.get(problem or ""), ()


def _classes(config: Any) -> tuple[str, ...] | None:
    """The names of the classes; None where they are only numbered."""
    labels = {int(key): str(label) for key, label in (getattr(config, "id2label", None) or {}).items()}
    if set(labels) != set(range(len(labels))) or all(label == f"LABEL_{key}" for key, label in labels.items()):
        return None
    return tuple(labels[key] for key in range(len(labels)))


@contextlib.contextmanager
def _reasons(spec: str) -> Iterator[None]:
    """Errors of transformers as one sentence."""
    try:
        yield
    except SnellenError:
        raise
    except Exception as problem:
        text = str(problem)
        if "trust_remote_code" in text:
            raise SnellenError(f"'{spec}' brings code of its own, which is not executed; {WRAP}") from None
        cause = f"{text} {problem.__cause__}"
        if "torchvision" in cause and not isinstance(problem, OSError):
            raise SnellenError(
                f"'{spec}': the installed torchvision does not match torch ({first_line(problem.__cause__ or problem)}); "
                "install both again in one command and from one index: pip install --force-reinstall torch torchvision"
            ) from problem
        raise SnellenError(f"'{spec}' cannot be loaded by transformers ({first_line(problem)})") from problem


@contextlib.contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Hides progress bars and advice of transformers."""
    logging = transformers.utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
