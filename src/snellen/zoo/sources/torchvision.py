"""torchvision:NAME: the classification models of torchvision."""

from __future__ import annotations

from snellen.errors import SnellenError, first_line, nearest
from snellen.images.geometry import Geometry
from snellen.zoo.sources.source import LoadedModel, ModelRequest, import_library, source
from snellen.zoo.sources.weights import PRETRAINED, class_count, fill_weights, full_name, read_weights


@source(
    "torchvision",
    spec="torchvision:NAME",
    what="a torchvision model; untrained unless weights are given (a local file, or 'pretrained')",
    needs="snellen[torchvision]",
    executes_code=False,
    libraries=("torchvision",),
)
def torchvision_model(request: ModelRequest) -> LoadedModel:
    """A torchvision classification model with the normalisation and size of its default weights."""
    spec, name, weights = request.spec, request.name, request.weights
    models = import_library("torchvision", spec).models
    names = models.list_models(module=models)
    if name not in names:
        raise SnellenError(f"torchvision has no classification model '{name}'{nearest(name, names)}")
    default = models.get_model_weights(name).DEFAULT
    stored = read_weights(weights, spec)
    last = next((key for key in reversed(stored or {}) if key.endswith(".weight")), "")
    count = class_count(request.classes, stored, last)
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
        name=full_name(spec, weights),
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
