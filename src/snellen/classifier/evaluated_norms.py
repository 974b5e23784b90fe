"""Batch normalisation in evaluation mode with a short backward pass: the same bits in less time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from snellen.classifier.network import Network

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)

LEAST = 1 << 18
"""Values of a batch from which on it is worth the call of a Python function per layer."""


@contextmanager
def evaluated_norms(network: Network) -> Iterator[None]:
    """While the body runs, gradients flow through batch normalisations of the network by two products per value.

    On a processor torch's own backward pass also sums over the batch what only training needs, which takes more than twice
    as long. Layers with code of their own, small batches, and other devices and precisions stay as they are.
    """
    changed: list[nn.Module] = []
    try:
        if network.device.type == "cpu" and network.precision == "float32" and isinstance(network.run, nn.Module):
            for module in network.run.modules():
                if type(module) in NORMS and _is_fixed(module):
                    module.__dict__["forward"] = partial(_normalise, module)
                    changed.append(module)
        yield
    finally:
        for module in changed:
            module.__dict__.pop("forward", None)


def _is_fixed(module: Any) -> bool:
    tensors = (module.running_mean, module.running_var, module.weight, module.bias)
    return (
        not module.training
        and "forward" not in module.__dict__
        and all(each is not None and each.dtype == torch.float32 and not each.requires_grad for each in tensors)
    )


def _normalise(module: Any, inputs: Tensor) -> Tensor:
    if inputs.numel() < LEAST or inputs.dtype != torch.float32 or not inputs.requires_grad:
        return type(module).forward(module, inputs)  # type: ignore[no-any-return]
    return _EvaluatedNorm.apply(inputs, module)  # type: ignore[no-any-return,no-untyped-call]


class _EvaluatedNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, module: Any) -> Tensor:
        inverse = 1 / torch.sqrt(module.running_var.double() + module.eps)
        ctx.factors = inverse.float(), module.weight
        mean, var = module.running_mean, module.running_var
        return functional.batch_norm(inputs, mean, var, module.weight, module.bias, False, 0.0, module.eps)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (gradient,) = gradients
        inverse, weight = (factor.view(-1, *[1] * (gradient.dim() - 2)) for factor in ctx.factors)
        scaled = gradient * inverse  # one after the other, as torch does, so that the bits are the same
        return (scaled * weight if torch.is_grad_enabled() else scaled.mul_(weight)), None
