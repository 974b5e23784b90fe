"""The frame of class-activation methods: they weigh the features of one layer and upsample the sum to the image's size."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.plugins.registry import method
from snellen.plugins.traits import LAYERS, Range
from snellen.types import Images, Maps, Passes, Rng, Targets

Features = Float[Tensor, "batch features rows columns"]
Grids = Float[Tensor, "batch rows columns"]

T = TypeVar("T")


def class_activation_method(
    name: str,
    *,
    cite: str,
    gradients: bool = True,
    signed: bool = False,
    class_specific: bool = True,
    at_most: bool = False,
    caveats: Mapping[str, str] | None = None,
    presets: Mapping[str, Mapping[str, Any] | str] | None = None,
    ranges: Mapping[str, Range] | None = None,
    version: int = 1,
) -> Callable[[type[T]], type[T]]:
    """Registers a frozen dataclass with a field `layer: str | None = None` as a class-activation method.

    The class defines `coarse(features, gradient)`, which turns the layer's features and the gradient of the target's logit
    there into one grid per image. The rest is supplied, unless the class defines it itself: `prepare` (finds the layer),
    `__call__` (upsamples the grid), `passes` and `cache_key`.

    Args:
        name: as for `method`, like all arguments that are not listed here.
        gradients: False for a method that needs none: it defines `coarse(features)`.
        ranges: the values worth trying of all settings but `layer`.
    """

    def register(plugin: type[T]) -> type[T]:
        own = vars(plugin)
        if "coarse" not in own and "__call__" not in own:
            raise SnellenError(f"method '{name}' has no coarse, which a class-activation method must define")
        supplied: dict[str, Callable[..., Any]] = {"prepare": _prepare}
        supplied["__call__"] = _explain_by_gradient if gradients else _explain_by_features
        if "passes" not in own:  # a method with passes of its own has no cached part in common with others
            supplied["passes"] = _gradient_passes if gradients else _feature_passes
            supplied["cache_key"] = _gradient_key if gradients else _feature_key
        for attribute, function in supplied.items():
            if attribute not in own:
                setattr(plugin, attribute, function)
        return method(
            name,
            cite=cite,
            family="class-activation",
            signed=signed,
            class_specific=class_specific,
            needs={"gradients", "layer"} if gradients else {"layer"},
            at_most=at_most,
            caveats=caveats,
            presets=presets,
            ranges={"layer": LAYERS, **(ranges or {})},
            version=version,
        )(plugin)

    return register


def find_layer(layer: str | None, classifier: Classifier, inputs: Images) -> str:
    """The named layer, or the last one whose features have spatial positions."""
    return classifier.feature_layer(inputs) if layer is None else layer


def prepare_layer(layer: str | None, classifier: Classifier, inputs: Images) -> None:
    """Finds the layer; refuses one that does not exist or has no spatial positions."""
    classifier.rows_for(inputs)
    classifier.layer_shape(inputs, find_layer(layer, classifier, inputs))


def count_features(layer: str | None, classifier: Classifier, size: tuple[int, int]) -> int:
    """The number of features of the layer, for images of this height and width."""
    image = blank_image(classifier, size)
    return classifier.layer_shape(image, find_layer(layer, classifier, image))[0]


def blank_image(classifier: Classifier, size: tuple[int, int]) -> Float[Tensor, "1 channels height width"]:
    """Zero inputs, from which shapes of layers are found before there is an image."""
    return torch.zeros(1, classifier.channels, *size)


def upsample(
    grids: Float[Tensor, "grids rows columns"], inputs: Images, *, corners: bool = False
) -> Float[Tensor, "grids height width"]:
    """Grids at the image's size, interpolated linearly between the centres of their cells.

    Args:
        grids: one or more grids of the same image size.
        inputs: images of the size that the grids get.
        corners: puts the centres of the outermost cells on the image's corners, which shifts and stretches the map.
    """
    size = inputs.shape[2:]
    return functional.interpolate(grids[:, None], size=size, mode="bilinear", align_corners=corners).squeeze(1)


# What the decorator supplies ------------------------------------------------------------------------------------------


@runtime_checkable
class _Layered(Protocol):
    @property
    def layer(self) -> str | None: ...


@runtime_checkable
class _ByGradient(_Layered, Protocol):
    def coarse(self, features: Features, gradient: Features) -> Grids: ...


@runtime_checkable
class _ByFeatures(_Layered, Protocol):
    def coarse(self, features: Features) -> Grids: ...


def _prepare(self: _Layered, classifier: Classifier, inputs: Images) -> None:
    """Finds the layer; refuses one that does not exist or has no spatial positions."""
    prepare_layer(self.layer, classifier, inputs)


def _explain_by_gradient(self: _ByGradient, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
    features, gradient = classifier.layer_gradient(inputs, targets, find_layer(self.layer, classifier, inputs))
    return upsample(self.coarse(features, gradient), inputs)


def _explain_by_features(self: _ByFeatures, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
    features = classifier.layer_features(inputs, find_layer(self.layer, classifier, inputs))
    return upsample(self.coarse(features), inputs)


def _gradient_passes(self: _Layered, size: tuple[int, int], classifier: Classifier) -> Passes:
    """One forward, and one backward that ends at the layer."""
    return Passes(1, 1)


def _feature_passes(self: _Layered, size: tuple[int, int], classifier: Classifier) -> Passes:
    """One forward."""
    return Passes(1)


def _gradient_key(self: _Layered) -> Hashable:
    """The features and the gradient at the layer."""
    return "layer", self.layer, "logit"


def _feature_key(self: _Layered) -> Hashable:
    """The features of the layer."""
    return "features", self.layer
