"""Passes that record inside a network: gradients at inputs and layers, feature maps, attention weights.

Each function makes one pass of all rows. `booking(passes)` is a context manager that counts the passes of its body.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from snellen.classifier import attention, probes
from snellen.classifier.evaluated_norms import evaluated_norms
from snellen.classifier.layers import NetworkStructure
from snellen.classifier.network import Network
from snellen.classifier.operations import Handler, intercepting
from snellen.classifier.outputs import target_output
from snellen.errors import SnellenError
from snellen.types import Output, Passes

Booking = Callable[[Passes], AbstractContextManager[None]]


def input_gradient(
    network: Network,
    inputs: Tensor,
    targets: Tensor,
    of: Output,
    through: Handler | None,
    booking: Booking,
    times_outputs: bool = False,
) -> tuple[Tensor, Tensor]:
    """The gradient of each row's target output at its input, and the outputs (see `Classifier.gradient`)."""
    leaf = network.place(inputs.detach()).requires_grad_()
    if leaf is inputs:
        leaf = inputs.clone().requires_grad_()
    with torch.enable_grad():
        intercepted = intercepting(network.module, through) if through else evaluated_norms(network)
        with booking(Passes(forward=len(inputs))), intercepted:
            raw = network.raw(leaf)
            if times_outputs and raw.requires_grad:
                raw.register_hook(lambda gradient: gradient * raw.detach())
            output = target_output(network.as_logits(raw), targets, of, network.head)
        if not output.requires_grad:
            raise SnellenError(f"'{network.name}' gives no gradients ({probes.DETACHED})")
        with booking(Passes(backward=len(inputs))):
            (gradient,) = torch.autograd.grad(output.sum(), leaf)
    return gradient.contiguous().to(inputs.device), output.detach().to(inputs.device)


def layer_gradient(
    structure: NetworkStructure, inputs: Tensor, targets: Tensor, layer: str, of: Output, booking: Booking
) -> tuple[Tensor, Tensor]:
    """The feature map of a layer, and the gradient of each row's target output there.

    Parameters and inputs need no gradient, so the graph starts at the layer and the backward pass ends there.
    """
    with structure.recording(layer, inputs, leaf=True) as maps, torch.enable_grad():
        with booking(Passes(forward=len(inputs))), evaluated_norms(structure.network):
            output = target_output(structure.network(inputs), targets, of, structure.network.head)
        (features,) = maps
        gradient: Tensor | None = None
        if output.requires_grad:
            with booking(Passes(backward=len(inputs))):
                (gradient,) = torch.autograd.grad(output.sum(), features, allow_unused=True)
    if gradient is None:
        name = structure.network.name
        raise SnellenError(f"the outputs of '{name}' do not depend on its layer '{layer}'; name another layer with layer=")
    return features.detach().to(inputs.device), gradient.to(inputs.device)


def layer_features(structure: NetworkStructure, inputs: Tensor, layer: str, booking: Booking) -> Tensor:
    """The feature map of a layer."""
    with structure.recording(layer, inputs) as maps, torch.no_grad(), booking(Passes(forward=len(inputs))):
        structure.network(inputs)
    return maps[0].to(inputs.device)


def attention_weights(network: Network, inputs: Tensor, fold: attention.Folding, booking: Booking) -> Tensor:
    """The weights of every attention in order, with the heads folded into one."""
    recorder = attention.AttentionRecorder(fold=fold)
    with torch.no_grad(), booking(Passes(forward=len(inputs))), intercepting(network.module, recorder):
        network(inputs)
    return torch.stack(recorder.weights, dim=1).to(inputs.device)


def attention_gradients(
    network: Network, inputs: Tensor, targets: Tensor, weigh: attention.Weighing, of: Output, booking: Booking
) -> Tensor:
    """`weigh(weights, gradient)` of every attention in order; the graph starts at the first attention."""
    recorder = attention.AttentionRecorder(gradients=True)
    with torch.enable_grad():
        with booking(Passes(forward=len(inputs))), intercepting(network.module, recorder):
            output = target_output(network(inputs), targets, of, network.head)
        with booking(Passes(backward=len(inputs))):
            gradients = torch.autograd.grad(output.sum(), recorder.weights)
    weighed = [weigh(weights.detach(), gradient) for weights, gradient in zip(recorder.weights, gradients, strict=True)]
    return torch.stack(weighed, dim=1).to(inputs.device)
