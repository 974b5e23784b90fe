"""digits-many: a small classifier of scenes with several handwritten digits."""

from __future__ import annotations

from snellen.zoo import digit_networks
from snellen.zoo.digits import CLASSES
from snellen.zoo.sources.source import LoadedModel, ModelRequest, source

DIGITS_MANY = "digits-many"


@source(
    DIGITS_MANY,
    spec=DIGITS_MANY,
    what="a small classifier of zero to three handwritten digits in 48×48 scenes: ten independent labels",
    accepts=DIGITS_MANY.__eq__,
    executes_code=False,
)
def digits_many(request: ModelRequest) -> LoadedModel:
    """The network with its trained weights: a logit per digit."""
    return LoadedModel(
        model=digit_networks.many_digits_network(),
        name=DIGITS_MANY,
        mean=digit_networks.MEAN,
        std=digit_networks.STD,
        geometry=digit_networks.MANY_GEOMETRY,
        classes=CLASSES,
        channels=3,
        heads="independent-labels",
    )
