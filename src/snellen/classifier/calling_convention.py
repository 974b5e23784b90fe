"""Convention: the memory layout and the number of rows in which a model is called, tried on a real image.

They only make passes faster, so they must neither break a working model nor change its outputs. Each is tried, and not used
if the model raises or its outputs or gradients differ.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from snellen.classifier.graphs import ExportedModel, in_batches

ROWS_TRIED = (2, 4, 8, 16, 32, 64)
"""Batch sizes that are tried if the model does not take a single image."""

TRYING_SECONDS = 2.0
"""Time limit for trying batch sizes."""

OUTPUTS_ALIKE, GRADIENTS_ALIKE = 1e-3, 1e-2
"""Largest difference between two layouts in float32, as a share of the norm; rounding is far below."""

HALF_ALIKE = 50.0
"""Factor for the allowed difference in half precision."""


@dataclass(frozen=True)
class Convention:
    """How a model is called."""

    channels_last: bool = False
    """Memory layout of images and kernels."""
    least: int = 1
    """Smallest number of rows per call."""
    most: int | None = None
    """Largest number of rows per call; None if there is no limit."""

    @property
    def any_rows(self) -> bool:
        """Whether a call may have any number of rows."""
        return self.least == 1 and self.most is None

    def lay_out(self, values: Tensor) -> Tensor:
        """Images or feature maps in the memory layout."""
        last = self.channels_last and values.dim() == 4
        return values.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)

    def store(self, module: nn.Module) -> Callable[[], None]:
        """Stores the kernels of a module in the memory layout; returns a function that undoes this."""
        return _store_tensors(module, lambda tensor: self.lay_out(tensor) if tensor.dim() == 4 else tensor)

    def call(self, run: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
        """The outputs for all rows, in as many calls as needed."""
        return run(inputs) if self.any_rows else in_batches(run, inputs, self.least, self.most)


Call = Callable[[Tensor, Convention], Tensor]
"""A pass of a model under a convention: returns a row of outputs per image, or raises."""


def find_convention(
    model: nn.Module | Callable[[Tensor], Any],
    call: Call,
    image: Tensor,
    *,
    rows: int | None = None,
    half: bool = False,
) -> Convention | None:
    """The best convention for a model, from a few passes of one image; None if the model always raises.

    The kernels of a module are stored in the layout of the convention.

    Args:
        model: the module or function.
        call: makes a pass of the model.
        image: one image as a batch.
        rows: a batch size that the user stated.
        half: passes compute in half precision.
    """
    chosen = Convention()
    trial = _try_call(call, image, chosen, gradient=isinstance(model, nn.Module))
    if isinstance(model, nn.Module):
        if trial is None and any(tensor.dtype != torch.float32 for tensor in _floating(model)):
            undo = _store_tensors(model, torch.Tensor.float)
            trial = _try_call(call, image, chosen)
            if trial is None:
                undo()
        if any(parameter.dim() == 4 for parameter in model.parameters()):
            faster = Convention(channels_last=True)
            undo = faster.store(model)
            other = _try_call(call, image, faster, gradient=trial is None or trial.gradient is not None)
            if other is not None and (trial is None or other.like(trial, HALF_ALIKE if half else 1.0)):
                chosen, trial = faster, other
            else:
                undo()
    if isinstance(model, ExportedModel):  # it splits and pads batches itself
        return chosen
    if trial is not None:
        return chosen if _takes(call, image, chosen, 2) else replace(chosen, most=1)
    started = time.perf_counter()
    for count in ROWS_TRIED if rows in (None, 1) else (rows,):
        if time.perf_counter() - started > TRYING_SECONDS:
            break
        if count is not None and _takes(call, image, chosen, count):
            return replace(chosen, least=count, most=count)
    return None


@dataclass(frozen=True, eq=False)
class _Trial:
    outputs: Tensor
    gradient: Tensor | None

    def like(self, other: _Trial, times: float) -> bool:
        if not alike(self.outputs, other.outputs, times * OUTPUTS_ALIKE):
            return False
        if other.gradient is None:
            return True
        return self.gradient is not None and alike(self.gradient, other.gradient, times * GRADIENTS_ALIKE)


def alike(first: Tensor, second: Tensor, share: float = OUTPUTS_ALIKE) -> bool:
    """Whether two tensors differ by at most this share of the second's norm."""
    return first.shape == second.shape and bool((first - second).norm() <= share * second.norm())


def _try_call(call: Call, image: Tensor, convention: Convention, *, gradient: bool = True) -> _Trial | None:
    """The outputs for the images, and their gradient if they have one; None if the model raises."""
    with torch.random.fork_rng(devices=[]):
        leaf = convention.lay_out(image.detach().clone()).requires_grad_(gradient)
        try:
            with torch.set_grad_enabled(gradient):
                outputs = call(leaf.clone(), convention)  # a model may change its input in place
        except Exception:  # perhaps only with gradients, such as a model that uses numpy
            return _try_call(call, image, convention, gradient=False) if gradient else None
        if len(outputs) != len(image):
            return None
        if not outputs.requires_grad:
            return _Trial(outputs, None)
        uneven = torch.linspace(1, 2, outputs[0].numel()).view_as(outputs[0])  # a plain sum may cancel
        try:
            (input_gradient,) = torch.autograd.grad((outputs * uneven.to(outputs)).sum(), leaf, allow_unused=True)
        except Exception:
            return _Trial(outputs.detach(), None)
        return _Trial(outputs.detach(), input_gradient)


def _takes(call: Call, image: Tensor, convention: Convention, rows: int) -> bool:
    """Whether the model takes this many rows and returns as many."""
    return _try_call(call, image.repeat(rows, 1, 1, 1), convention, gradient=False) is not None


def _store_tensors(module: nn.Module, change: Callable[[Tensor], Tensor]) -> Callable[[], None]:
    """Changes how the floating-point tensors of a module are stored; returns a function that undoes this."""
    tensors = _floating(module)
    before = [tensor.data for tensor in tensors]
    for tensor in tensors:
        tensor.data = change(tensor.data)

    def undo() -> None:
        for tensor, original in zip(tensors, before, strict=True):
            tensor.data = original

    return undo


def _floating(module: nn.Module) -> list[Tensor]:
    return [tensor for tensor in (*module.parameters(), *module.buffers()) if tensor.is_floating_point()]
