"""Batch normalisation folded into the convolution before it: the same function up to rounding, in fewer operations."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights
from torch.nn.utils.parametrize import is_parametrized

from snellen.classifier.module_state import ModuleState
from snellen.classifier.network import Network

TOLERANCE = 1e-4
"""Largest difference of an output, as a share of the largest; rounding is far below."""


@dataclass(frozen=True, eq=False)
class FoldedNorms:
    """A network whose batch normalisations are folded, and what it was made from."""

    network: Network
    """The same network with a module in which some normalisations do nothing, and their convolutions do it all."""
    convolutions: frozenset[str]
    """The names of these convolutions: they put out what the normalisation put out before."""
    original: Network
    """What it was made from."""
    state: ModuleState
    """That of the original's module."""

    def stands_for(self, network: Network) -> bool:
        """Whether it still computes what the network computes."""
        return self.original is network and self.network.convention == network.convention and self.state.holds()


def fold_norms(network: Network, image: Tensor) -> FoldedNorms | None:
    """The network with folded normalisations; None where none can be folded.

    Args:
        network: a network that offers its layers.
        image: an input as a batch, on which outputs are compared.
    """
    if "layer" not in network.offers or network.precision != "float32":
        return None
    with torch.inference_mode(False), torch.no_grad():
        image = image.clone()
        pairs = _adjacent(network, image)
        module = copy.deepcopy(network.module)
        for convolution, norm in pairs:
            _fold(module, convolution, norm)
        network.convention.store(module)
        folded = replace(network, run=module)
        expected, outputs = network.raw(image), folded.raw(image)
    same = outputs.shape == expected.shape and bool((outputs - expected).abs().max() <= TOLERANCE * expected.abs().max())
    if not pairs or not same:
        return None
    return FoldedNorms(folded, frozenset(name for name, _ in pairs), original=network, state=ModuleState(network.module))


def _adjacent(network: Network, image: Tensor) -> list[tuple[str, str]]:
    """The names of convolutions and of the normalisations that take just what they put out, each called once in a pass."""
    outputs: dict[str, list[Any]] = {}
    inputs: dict[str, list[Any]] = {}
    handles = []

    def note(held: dict[str, list[Any]], name: str, value: Any) -> None:
        held.setdefault(name, []).append(value)

    def after(name: str) -> Callable[[nn.Module, Any, Any], None]:
        return lambda module, args, output: note(outputs, name, output)

    def before(name: str) -> Callable[[nn.Module, Any], None]:
        return lambda module, args: note(inputs, name, args[0] if args else None)

    modules = dict(network.module.named_modules())
    try:
        for name, module in modules.items():
            if isinstance(module, nn.Conv2d) and not is_parametrized(module):
                handles.append(module.register_forward_hook(after(name)))
            elif isinstance(module, nn.BatchNorm2d) and module.running_mean is not None:
                handles.append(module.register_forward_pre_hook(before(name)))
        network.raw(image)
    finally:
        for handle in handles:
            handle.remove()
    once = partial(filter, lambda item: len(item[1]) == 1)
    return [
        (convolution, norm)
        for convolution, (output,) in once(outputs.items())
        for norm, (taken,) in once(inputs.items())
        if taken is output
    ]


def _fold(module: nn.Module, convolution: str, norm: str) -> None:
    layer, normalisation = module.get_submodule(convolution), module.get_submodule(norm)
    assert isinstance(layer, nn.Conv2d)
    assert isinstance(normalisation, nn.BatchNorm2d)
    assert normalisation.running_mean is not None
    assert normalisation.running_var is not None
    layer.weight, layer.bias = fuse_conv_bn_weights(
        layer.weight,
        layer.bias,
        normalisation.running_mean,
        normalisation.running_var,
        normalisation.eps,
        normalisation.weight,
        normalisation.bias,
    )
    layer.weight.requires_grad_(False)
    layer.bias.requires_grad_(False)
    parent, _, last = norm.rpartition(".")
    setattr(module.get_submodule(parent), last, nn.Identity())
