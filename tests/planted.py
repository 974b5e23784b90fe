"""The planted problem of `snellen.plugins.checks`, under short names."""

from __future__ import annotations

from snellen.plugins.checks.planted import (
    AREA_SHARE,
    CORNERS,
    MEAN,
    PATCH,
    SIDE,
    STD,
    Relu,
    planted_batch,
    planted_classifier,
    planted_network,
)
from snellen.plugins.checks.planted import NetworkKind as Kind
from snellen.plugins.checks.planted import PlantedBatch as Planted
from snellen.plugins.checks.planted import PlantedCNN as Net
from snellen.plugins.checks.planted import patches as truth_of

__all__ = [
    "AREA_SHARE", "CORNERS", "MEAN", "PATCH", "SIDE", "STD", "Kind", "Net", "Planted", "Relu", "classifier", "network",
    "planted", "truth_of",
]  # fmt: skip

network = planted_network


def classifier(relu: Relu = "module", net: Kind = "cnn"):
    return planted_classifier(relu, net)


def planted(count: int = 3, *, seed: int = 0, relu: Relu = "module", net: Kind = "cnn") -> Planted:
    return planted_batch(count, seed=seed, relu=relu, kind=net)
