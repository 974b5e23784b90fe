"""digits: a small classifier of handwritten digits."""

from __future__ import annotations

from snellen.zoo import digit_networks
from snellen.zoo.digits import CLASSES
from snellen.zoo.sources.source import LoadedModel, ModelRequest, source

DIGITS = "digits"


@source(
    DIGITS,
    spec=DIGITS,
    what="a small classifier of handwritten digits in 32×32 scenes, 25 thousand weights",
    accepts=DIGITS.__eq__,
    executes_code=False,
)
def digits(request: ModelRequest) -> LoadedModel:
    """The digit network with its trained weights."""
    return LoadedModel(
        model=digit_networks.digit_network(),
        name=DIGITS,
        mean=digit_networks.MEAN,
        std=digit_networks.STD,
        geometry=digit_networks.GEOMETRY,
        classes=CLASSES,
        channels=3,
    )
