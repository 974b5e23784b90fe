"""How a model is called: memory layout, rows per call and precision of its weights, tried on a real image.

A memory layout only makes passes faster, and a batch only saves calls: neither may turn a working model away or change what
it puts out. So each is tried, and given up where the model raises or where its outputs or gradients differ.
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
"""Batch sizes that are tried on a model which takes no single image."""

TRYING_SECONDS = 2.0
"""After this long no further batch size is tried: most models that take no single image take none at all."""

OUTPUTS_ALIKE, GRADIENTS_ALIKE = 1e-3, 1e-2
"""How far two layouts may differ in float32, as a share of the norm; rounding alone stays far below it."""

HALF_ALIKE = 50.0
"""How many times farther they may differ in half precision."""


@dataclass(frozen=True)
class Convention:
    """The memory layout that a model is called in, and the least and the most rows of one call."""

    channels_last: bool = False
    least: int = 1
    most: int | None = None

    @property
    def any_rows(self) -> bool:
        """Whether a call may have any number of rows."""
        return self.least == 1 and self.most is None

    def lay_out(self, values: Tensor) -> Tensor:
        """Images or feature maps in this layout."""
        last = self.channels_last and values.dim() == 4
        return values.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)

    def store(self, module: nn.Module) -> Callable[[], None]:
        """Stores the kernels of a module in this layout; the function that is returned undoes it."""
        return _stored(module, lambda one: self.lay_out(one) if one.dim() == 4 else one)

    def call(self, run: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
        """What the model puts out for all rows, in as many calls as its batch size asks for."""
        return run(inputs) if self.any_rows else in_batches(run, inputs, self.least, self.most)


Call = Callable[[Tensor, Convention], Tensor]
"""One pass of a model under a convention: one row of outputs per image, or an exception."""


def find_convention(
    model: nn.Module | Callable[[Tensor], Any],
    call: Call,
    image: Tensor,
    *,
    rows: int | None = None,
    half: bool = False,
) -> Convention | None:
    """How this model is best called, from a few passes of one image; a module is stored accordingly.

    None where the model raises whatever is tried.

    `rows` is a batch size that a user stated; `half` says that passes compute in half precision.
    """
    chosen = Convention()
    answer = _answer(call, image, chosen, gradient=isinstance(model, nn.Module))
    if isinstance(model, nn.Module):
        if answer is None and any(one.dtype != torch.float32 for one in _floating(model)):
            undo = _stored(model, torch.Tensor.float)
            answer = _answer(call, image, chosen)
            if answer is None:
                undo()
        if any(parameter.dim() == 4 for parameter in model.parameters()):
            faster = Convention(channels_last=True)
            undo = faster.store(model)
            other = _answer(call, image, faster, gradient=answer is None or answer.gradient is not None)
            if other is not None and (answer is None or other.like(answer, HALF_ALIKE if half else 1.0)):
                chosen, answer = faster, other
            else:
                undo()
    if isinstance(model, ExportedModel):  # it fills and splits batches by itself
        return chosen
    if answer is not None:
        return chosen if _takes(call, image, chosen, 2) else replace(chosen, most=1)
    started = time.perf_counter()
    for count in ROWS_TRIED if rows in (None, 1) else (rows,):
        if time.perf_counter() - started > TRYING_SECONDS:
            break
        if count is not None and _takes(call, image, chosen, count):
            return replace(chosen, least=count, most=count)
    return None


@dataclass(frozen=True, eq=False)
class _Answer:
    outputs: Tensor
    gradient: Tensor | None

    def like(self, other: _Answer, times: float) -> bool:
        if not alike(self.outputs, other.outputs, times * OUTPUTS_ALIKE):
            return False
        if other.gradient is None:
            return True
        return self.gradient is not None and alike(self.gradient, other.gradient, times * GRADIENTS_ALIKE)


def alike(first: Tensor, second: Tensor, share: float = OUTPUTS_ALIKE) -> bool:
    """Whether two tensors differ by no more than this share of the second's norm."""
    return first.shape == second.shape and bool((first - second).norm() <= share * second.norm())


def _answer(call: Call, image: Tensor, convention: Convention, *, gradient: bool = True) -> _Answer | None:
    """What the model makes of one image, and the gradient where it has one; None where it raises."""
    with torch.random.fork_rng(devices=[]):
        leaf = convention.lay_out(image.detach().clone()).requires_grad_(gradient)
        try:
            with torch.set_grad_enabled(gradient):
                outputs = call(leaf.clone(), convention)  # a model may work in place on what it is given
        except Exception:  # perhaps only with gradients: a model may leave torch on the way
            return _answer(call, image, convention, gradient=False) if gradient else None
        if len(outputs) != len(image):
            return None
        if not outputs.requires_grad:
            return _Answer(outputs, None)
        uneven = torch.linspace(1, 2, outputs[0].numel()).view_as(outputs[0])  # a plain sum may cancel
        try:
            (found,) = torch.autograd.grad((outputs * uneven.to(outputs)).sum(), leaf, allow_unused=True)
        except Exception:
            return _Answer(outputs.detach(), None)
        return _Answer(outputs.detach(), found)


def _takes(call: Call, image: Tensor, convention: Convention, rows: int) -> bool:
    """Whether the model gives as many rows as it gets."""
    return _answer(call, image.repeat(rows, 1, 1, 1), convention, gradient=False) is not None


def _stored(module: nn.Module, change: Callable[[Tensor], Tensor]) -> Callable[[], None]:
    """Changes how the floating-point tensors of a module are stored; the function that is returned undoes it."""
    tensors = _floating(module)
    before = [tensor.data for tensor in tensors]
    for tensor in tensors:
        tensor.data = change(tensor.data)

    def undo() -> None:
        for tensor, was in zip(tensors, before, strict=True):
            tensor.data = was

    return undo


def _floating(module: nn.Module) -> list[Tensor]:
    return [one for one in (*module.parameters(), *module.buffers()) if one.is_floating_point()]
