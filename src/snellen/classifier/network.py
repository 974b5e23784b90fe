"""Network: runs a model, from inputs to logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from snellen.classifier import arithmetic
from snellen.classifier.calling_convention import Convention, find_convention
from snellen.classifier.graphs import Graph
from snellen.classifier.heads import Head
from snellen.errors import SnellenError, no_exit
from snellen.plugins.registry import Need


@dataclass(eq=False)
class Network:
    """A module or function, and how it is run."""

    run: nn.Module | Callable[[Tensor], Any]
    """A module that nobody else uses, or a function."""
    name: str
    """What the model is called in messages."""
    head: Head
    """What the outputs mean."""
    device: torch.device
    """Where it runs."""
    precision: arithmetic.Precision
    """The floating-point type of its passes."""
    convention: Convention = field(default_factory=Convention)
    """How it is called, and where its result holds the logits."""
    shapes: frozenset[tuple[int, ...]] = frozenset()
    """Image shapes for which the convention was tried."""

    @property
    def module(self) -> nn.Module:
        """The module; a black box has none."""
        if isinstance(self.run, nn.Module):
            return self.run
        raise SnellenError(f"'{self.name}' is a black-box function: it has no layers and no gradients")

    @property
    def offers(self) -> frozenset[Need]:
        """Which needs of methods the network meets."""
        if not isinstance(self.run, nn.Module):
            return frozenset()
        if isinstance(self.run, Graph) or not self.convention.any_rows:  # layers are examined in batches of other sizes
            return frozenset({"gradients"})
        return frozenset({"gradients", "layer", "relu"})

    def __call__(self, inputs: Tensor) -> Tensor:
        """The logits of these rows, in one pass."""
        return self.as_logits(self.raw(inputs))

    def as_logits(self, raw: Tensor) -> Tensor:
        """One logit per target, from the model's outputs."""
        return self.head.logits(raw)

    def raw(self, inputs: Tensor) -> Tensor:
        """The model's own outputs: logits or probabilities."""
        placed = self.place(inputs)
        # A model may change its input in place.
        return self._call(placed.clone() if placed is inputs else placed, self.convention)

    def _call(self, placed: Tensor, convention: Convention) -> Tensor:
        with arithmetic.in_precision(self.precision, self.device), no_exit(f"'{self.name}'"):
            return convention.call(self._rows, placed)

    def _rows(self, placed: Tensor) -> Tensor:
        return self.read(self.run(placed), len(placed))

    def read(self, out: Any, images: int) -> Tensor:
        """One row of outputs per image, from what the model returned for `images` images."""
        outputs = getattr(out, "logits", out)
        if not isinstance(outputs, Tensor):
            if isinstance(outputs, list | tuple | dict):
                kind = type(outputs).__name__
                raise SnellenError(
                    f"'{self.name}' returned a {kind}, not one tensor of logits; "
                    "wrap it in a function that returns the logits alone"
                )
            outputs = torch.as_tensor(outputs)
        if images == 1 and outputs.dim() < 2:  # a model that calls squeeze() drops the batch axis
            outputs = outputs.reshape(1, -1)
        return outputs.float()

    def place(self, inputs: Tensor) -> Tensor:
        """The inputs on the module's device and in its memory layout; a function gets them on their own device."""
        # What is on its way to a graphics card need not be waited for: the passes that read it queue behind it.
        to_card = self.device.type == "cuda" and not inputs.is_cuda
        placed = inputs.to(self.device, non_blocking=to_card) if isinstance(self.run, nn.Module) else inputs
        return self.convention.lay_out(placed)

    def choose_convention(self, inputs: Tensor, rows: int | None = None) -> None:
        """Finds the best convention for images of this shape, once per shape, in passes that no ledger counts.

        Must be called before hooks are set. `rows` is a batch size that the user stated.
        """
        shape = tuple(inputs.shape[1:])
        if shape in self.shapes:
            return
        with torch.inference_mode(False):  # tensors stored here are also used in passes with gradients
            if isinstance(self.run, nn.Module) and self.convention.channels_last:
                Convention().store(self.run)
            self.convention = Convention()
            image, half = self.place(inputs[:1]), self.precision != "float32"
            convention = find_convention(self.run, self._call, image, rows=rows, half=half)
        if convention is not None:  # else it is tried again next time
            self.convention, self.shapes = convention, self.shapes | {shape}

    def variant(self, module: nn.Module, name: str) -> Network:
        """The same settings with another module that was made from this one."""
        self.convention.store(module)
        return replace(self, run=module, name=name)
