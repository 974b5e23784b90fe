"""The layers of a classifier that have weights, in the order of a pass."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from snellen.classifier import Classifier, probes
from snellen.classifier.cache import CachePerObject
from snellen.variants.build import noise_images

_CACHE = CachePerObject()


@dataclass(frozen=True)
class WeightLayer:
    """A layer with weights, together with the normalisations that follow it."""

    name: str
    """Name of the layer in the model."""
    modules: tuple[str, ...]
    """Names of the layer's module and of those normalisations."""


def weight_layers(classifier: Classifier, size: tuple[int, int]) -> tuple[WeightLayer, ...]:
    """All layers with weights in the order of a pass, the one nearest to the output last; none for a black box.

    Args:
        classifier: the classifier.
        size: height and width of an image that it takes.
    """
    if "layer" not in classifier.offers:
        return ()
    return _CACHE.get_or_compute(classifier, size, lambda: _find_weight_layers(classifier, size))


def _find_weight_layers(classifier: Classifier, size: tuple[int, int]) -> tuple[WeightLayer, ...]:
    image = noise_images(classifier, size)[:1]
    groups: list[list[str]] = []
    leading: list[str] = []
    for name in probes.call_order(classifier.module, lambda: classifier.uncounted_logits(image)):
        layer = classifier.module.get_submodule(name)
        if not only_scales(layer):
            groups.append([name, *leading])
            leading = []
        elif list(layer.parameters(recurse=False)) or getattr(layer, "running_mean", None) is not None:
            (groups[-1] if groups else leading).append(name)
    return tuple(WeightLayer(group[0] or "the model's own", tuple(group)) for group in groups)


def only_scales(layer: nn.Module) -> bool:
    """Whether a layer has no weights except those of a normalisation."""
    return isinstance(layer, nn.LayerNorm) or all(weight.dim() < 2 for weight in layer.parameters(recurse=False))


def weight_matrices(module: nn.Module) -> list[nn.Parameter]:
    """All weights with a fan-in: no biases, no scales of a normalisation."""
    scales = {id(weight) for layer in module.modules() if only_scales(layer) for weight in layer.parameters(recurse=False)}
    return [
        weight
        for name, weight in module.named_parameters()
        if weight.dim() > 1 and "weight" in name.rpartition(".")[2] and id(weight) not in scales
    ]
