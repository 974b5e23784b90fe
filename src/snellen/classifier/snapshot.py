"""A private copy of a model, and its fingerprint."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import inspect
from typing import Any

import torch
from torch import Tensor, nn

from snellen.classifier.graphs import Graph
from snellen.errors import SnellenError


def snapshot(model: nn.Module, device: torch.device) -> nn.Module:
    """A copy of the model in evaluation mode, whose parameters need no gradient."""
    try:
        module = copy.deepcopy(model)
    except Exception as problem:
        raise SnellenError(
            f"'{type(model).__name__}' cannot be copied ({problem}); give a model that deepcopy accepts"
        ) from None
    return frozen(module, device)


def frozen(module: nn.Module, device: torch.device) -> nn.Module:
    """The module itself in evaluation mode, without gradients; for modules that nobody else uses."""
    module.eval()
    if any(tensor.device != device for tensors in (module.parameters(), module.buffers()) for tensor in tensors):
        module = module.to(device)
    for parameter in module.parameters():
        parameter.requires_grad_(False)
        parameter.grad = None
    return module


def fingerprint(model: Any, mean: Tensor, std: Tensor, outputs: str) -> str:
    """Sixteen hexadecimal digits that depend on weights, layers and normalisation, or on the source code of a function.

    Args:
        model: the module, graph or function.
        mean: mean of the normalisation.
        std: standard deviation of the normalisation.
        outputs: what the outputs mean (see `Head.key`).
    """
    digest = hashlib.sha256()
    digest.update(repr((mean.flatten().tolist(), std.flatten().tolist(), outputs)).encode())
    if isinstance(model, Graph):
        digest.update(model.saved)
    elif isinstance(model, nn.Module):
        digest.update(str(model).encode())
        for name, tensor in sorted(model.state_dict().items()):
            digest.update(name.encode())
            if isinstance(tensor, Tensor):
                digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    else:
        saved = getattr(model, "saved", None)
        if isinstance(saved, bytes):  # a black box that holds the bytes of its file
            digest.update(saved)
        digest.update(f"{getattr(model, '__module__', '')}.{getattr(model, '__qualname__', type(model).__name__)}".encode())
        if type(model).__module__.startswith("snellen."):
            return digest.hexdigest()[:16]  # another version of Snellen gives the same outputs
        with contextlib.suppress(OSError, TypeError):
            digest.update(inspect.getsource(model if hasattr(model, "__code__") else type(model)).encode())
    return digest.hexdigest()[:16]
