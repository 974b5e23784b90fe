"""hf:FOLDER-OR-NAME: image classifiers of transformers, prepared as their processor says."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from snellen.errors import SnellenError, first_line
from snellen.zoo.sources.preparation import WRAP, ReversedChannels, read_processor
from snellen.zoo.sources.source import LoadedModel, ModelRequest, import_library, source

PROCESSOR_FILES = ("preprocessor_config.json", "processor_config.json")

_HEADS = {"multi_label_classification": "independent-labels", "regression": "number"}


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
        if type(config) not in transformers.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING:
            raise SnellenError(f"'{spec}' is a model of the type {config.model_type}, which is no image classifier")
        model, loading = transformers.AutoModelForImageClassification.from_pretrained(
            name,
            config=config,
            use_safetensors=True,
            attn_implementation="eager",
            ignore_mismatched_sizes=True,  # they are refused below, by name
            output_loading_info=True,
            **safe,
        )
    missing = sorted([*loading["missing_keys"], *(name for name, *_ in loading["mismatched_keys"])])
    if missing:
        raise SnellenError(
            f"'{spec}' has no fitting weights for {missing[0]}; give a model that was trained as a classifier"
        )
    channels = int(getattr(config, "num_channels", None) or 3)
    prepared = read_processor(processor, spec, channels)
    heads, head_notes = _heads(config, request)
    return LoadedModel(
        model=ReversedChannels(model.float()) if prepared.reversed_channels else model.float(),
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
    if not any((folder / name).is_file() for name in PROCESSOR_FILES) and not _is_of_timm(folder):
        raise SnellenError(
            f"'{spec}' has no {PROCESSOR_FILES[0]}, which says how images are prepared; "
            "save the model's image processor to the folder with save_pretrained"
        )
    if not any(folder.glob("*.safetensors")):
        raise SnellenError(
            f"'{spec}' has no *.safetensors; pickled weights are code and are not opened: "
            "save the model again with a current transformers"
        )


def _is_of_timm(folder: Path) -> bool:
    """Whether the configuration is that of a model of timm, which says how images are prepared itself."""
    try:
        return "pretrained_cfg" in json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # which transformers reports
        return False


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
        if "couldn't connect" in text:
            raise SnellenError(
                f"'{spec}' is no folder here and not in the cache of transformers, and the Hub cannot be reached; "
                "give a folder that save_pretrained wrote"
            ) from problem
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
