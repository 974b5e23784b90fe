"""Variants of a classifier in which some layers have random weights."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from snellen.classifier import Classifier
from snellen.types import Rng
from snellen.variants.build import make_variant
from snellen.variants.weight_layers import WeightLayer, only_scales


def randomise_layers(classifier: Classifier, layers: Sequence[WeightLayer], *, rng: Rng) -> Classifier:
    """The classifier with these layers as before training; the weights depend on the seed and the layer's name.

    Weights are normal with variance 2 / fan-in (He et al. 2015), which keeps the scale of activations; biases are 0. A
    normalisation has scale 1, shift 0, running mean 0 and running variance 1. Other parameters, such as a class token, are
    normal with their own mean and standard deviation.
    """
    return next(randomise_in_turn(classifier, [layers], rng=rng))


def randomise_in_turn(classifier: Classifier, stages: Iterable[Sequence[WeightLayer]], *, rng: Rng) -> Iterator[Classifier]:
    """As `randomise_layers` for several sets of layers; they use one copy, so each variant is valid until the next."""
    copied = RandomisedCopy(classifier, rng)
    return (copied.at(stage) for stage in stages)


class RandomisedCopy:
    """A copy of a classifier's module whose layers are randomised stage by stage; it is made when the first stage needs it.

    Args:
        classifier: the original, which is not changed.
        rng: decides the weights.
    """

    def __init__(self, classifier: Classifier, rng: Rng) -> None:
        self._classifier = classifier
        self._rng = rng
        self._module: nn.Module | None = None
        self._randomised: dict[str, WeightLayer] = {}

    def at(self, stage: Sequence[WeightLayer]) -> Classifier:
        """The classifier with just these layers randomised, valid until the next call."""
        original = self._classifier.module
        if self._module is None:
            self._module = copy.deepcopy(original)
        layers = {layer.name: layer for layer in stage}
        with torch.no_grad():
            for name in [name for name in self._randomised if name not in layers]:
                for part in self._randomised.pop(name).modules:
                    _restore(self._module.get_submodule(part), original.get_submodule(part))
            for name, layer in layers.items():
                if name not in self._randomised:
                    self._randomised[name] = layer
                    for part in layer.modules:
                        _randomise(self._module.get_submodule(part), part, self._rng)
        # The seed and the names decide all weights, so nothing is gained by reading these.
        key = f"randomised with seed {self._rng.seed}: {sorted(layers)}"
        return make_variant(self._classifier, self._module, f"{len(stage)} layers randomised", key=key)


def _restore(module: nn.Module, original: nn.Module) -> None:
    for tensors, originals in (
        (module.parameters(recurse=False), original.parameters(recurse=False)),
        (module.buffers(recurse=False), original.buffers(recurse=False)),
    ):
        for tensor, value in zip(tensors, originals, strict=True):
            tensor.copy_(value)


def _randomise(module: nn.Module, layer: str, rng: Rng) -> None:
    is_scaling = only_scales(module)
    for name, parameter in module.named_parameters(recurse=False):
        if name.endswith("bias"):
            parameter.zero_()
        elif is_scaling and name == "weight":
            parameter.fill_(module.init if isinstance(module, nn.PReLU) else 1.0)
        else:
            draw = rng.shared(f"randomised/{layer}/{name}").standard_normal(tuple(parameter.shape), dtype=np.float32)
            fresh = torch.from_numpy(draw).to(parameter)
            if "weight" in name and parameter.dim() > 1:
                parameter.copy_(fresh * (2 / parameter[0].numel()) ** 0.5)
            else:
                parameter.copy_(parameter.mean() + fresh * parameter.std(correction=0))
    if isinstance(getattr(module, "running_mean", None), Tensor):
        module.running_mean.zero_()  # type: ignore[operator]
        module.running_var.fill_(1.0)  # type: ignore[operator]
