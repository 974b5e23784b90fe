"""Planted models in difficult states, such as in training or about to raise; and whether a method leaves them so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack

from snellen.plugins.checks.check import require


class PlantedError(RuntimeError):
    """What the model raises on purpose."""


def breakable(net: nn.Module) -> nn.Module:
    """The same network; once `broken` is set it raises after its last layer, when every hook has been passed."""

    class Breakable(type(net)):  # type: ignore[misc]
        broken = False

        def forward(self, inputs: Tensor) -> Tensor:
            outputs: Tensor = super().forward(inputs)
            if self.broken:
                raise PlantedError("the planted failure")
            return outputs

    net.__class__ = Breakable
    return net


def in_training(net: nn.Module) -> nn.Module:
    """A user's model in the middle of training, with a hook and gradients of its own."""
    net.train()
    net.register_buffer("steps_taken", torch.tensor(7))
    net.get_submodule("head").register_forward_hook(lambda module, args, output: None)
    for parameter in net.parameters():
        parameter.grad = torch.full_like(parameter, 0.5)
    return net


def model_state(module: nn.Module) -> Mapping[str, Any]:
    """All that a method must leave as it is, by kind: tensors, gradients, modes and hooks, each by name."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    return {
        "tensors": {name: tensor.clone() for name, tensor in module.state_dict().items()},
        "gradients": {
            name: None if parameter.grad is None else parameter.grad.clone() for name, parameter in module.named_parameters()
        },
        "requires_grad": {name: parameter.requires_grad for name, parameter in module.named_parameters()},
        "training": {name: part.training for name, part in module.named_modules()},
        "hooks": {name: [list(getattr(part, kind)) for kind in hooks] for name, part in module.named_modules()},
    }


def require_unchanged(modules: Sequence[nn.Module], states: Sequence[Mapping[str, Any]]) -> None:
    """Fails the running check where a module is not in the state that `model_state` gave for it before."""
    for module, before in zip(modules, states, strict=True):
        for part, after in model_state(module).items():
            require(_equal(after, before[part]), f"it changes the {part} of the model")
    require(_get_current_function_mode_stack() == [], "it leaves a torch function mode behind")
    require(torch.is_grad_enabled(), "it leaves gradients switched off")
    require(not torch.is_inference_mode_enabled(), "it leaves inference mode switched on")


def _equal(after: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    if after.keys() != before.keys():
        return False
    pairs = [(after[name], before[name]) for name in after]
    return all(torch.equal(a, b) if isinstance(a, Tensor) and isinstance(b, Tensor) else a == b for a, b in pairs)
