"""timm:NAME: the models of timm."""

from __future__ import annotations

from snellen.errors import SnellenError, first_line, nearest
from snellen.images.geometry import Geometry
from snellen.zoo.efficientnet_lite0 import class_names
from snellen.zoo.sources.source import LoadedModel, ModelRequest, import_library, source
from snellen.zoo.sources.weights import PRETRAINED, class_count, fill_weights, full_name, read_weights


@source(
    "timm",
    spec="timm:NAME",
    what="a timm model; untrained unless weights are given (a local file, or 'pretrained')",
    needs="snellen[timm]",
    executes_code=False,
    libraries=("timm",),
)
def timm_model(request: ModelRequest) -> LoadedModel:
    """A timm model with the normalisation and size of its configuration."""
    spec, name, weights = request.spec, request.name, request.weights
    timm = import_library("timm", spec)
    architecture = name.partition(".")[0]
    if not timm.is_model(architecture):
        raise SnellenError(f"timm has no model '{name}'{nearest(name, timm.list_models())}")
    stored = read_weights(weights, spec)
    head = (timm.get_pretrained_cfg(name) or timm.get_pretrained_cfg(architecture)).classifier
    count = class_count(request.classes, stored, f"{head[0] if isinstance(head, tuple | list) else head}.weight")
    try:
        model = timm.create_model(name, pretrained=weights == PRETRAINED, **({"num_classes": count} if count else {}))
    except Exception as problem:
        raise SnellenError(f"'{spec}' cannot be made ({first_line(problem)})") from problem
    config = model.pretrained_cfg
    fill_weights(model, stored, spec, weights)
    return LoadedModel(
        model=model,
        name=full_name(spec, weights),
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        geometry=Geometry(
            tuple(config["input_size"][1:]),
            crop=float(config.get("crop_pct") or 0.875),
            interpolation="bilinear" if config.get("interpolation") == "bilinear" else "bicubic",
            stretch=config.get("crop_mode") == "squash",
        ),
        classes=class_names() if model.num_classes == 1000 else None,
        channels=int(config["input_size"][0]),
        took_weights=True,
    )
