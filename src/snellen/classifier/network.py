"""Network: a model as it is run, from inputs to logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from snellen.classifier import engines
from snellen.classifier.calling_convention import Convention, find_convention
from snellen.classifier.graphs import Graph
from snellen.errors import SnellenError, no_exit
from snellen.plugins.registry import Need


@dataclass(eq=False)
class Network:
    """A module that nobody else holds, or a function; what its outputs mean, where, in which precision and how it is called.

    `shapes` holds the shapes of image on which the convention was tried.
    """

    run: nn.Module | Callable[[Tensor], Any]
    name: str
    outputs: str
    device: torch.device
    precision: engines.Precision
    convention: Convention = field(default_factory=Convention)
    shapes: frozenset[tuple[int, ...]] = frozenset()

    @property
    def module(self) -> nn.Module:
        """The module itself; a black box has none."""
        if isinstance(self.run, nn.Module):
            return self.run
        raise SnellenError(f"'{self.name}' is a black-box function: it has no layers and no gradients")

    @property
    def offers(self) -> frozenset[Need]:
        """Which needs of methods this network can meet at all."""
        if not isinstance(self.run, nn.Module):
            return frozenset()
        if isinstance(self.run, Graph) or not self.convention.any_rows:  # layers are looked at in batches of any size
            return frozenset({"gradients"})
        return frozenset({"gradients", "layer", "relu"})

    def __call__(self, inputs: Tensor) -> Tensor:
        """The logits of these rows, in one pass."""
        return self.as_logits(self.raw(inputs))

    def as_logits(self, raw: Tensor) -> Tensor:
        """The outputs as logits, also where they are probabilities."""
        return raw.clamp_min(1e-12).log() if self.outputs == "probabilities" else raw

    def raw(self, inputs: Tensor) -> Tensor:
        """The outputs as they are."""
        placed = self.place(inputs)
        # A model may work in place on what it is given.
        return self._called(placed.clone() if placed is inputs else placed, self.convention)

    def _called(self, placed: Tensor, convention: Convention) -> Tensor:
        with engines.arithmetic(self.precision, self.device), no_exit(f"'{self.name}'"):
            return convention.call(self._rows, placed)

    def _rows(self, placed: Tensor) -> Tensor:
        return self.read(self.run(placed), len(placed))

    def read(self, out: Any, images: int) -> Tensor:
        """One row of outputs per image, from whatever the model returned for so many images."""
        outputs = getattr(out, "logits", out)
        if not isinstance(outputs, Tensor):
            if isinstance(outputs, list | tuple | dict):
                kind = type(outputs).__name__
                raise SnellenError(
                    f"'{self.name}' returned a {kind}, not one tensor of logits; "
                    "wrap it in a function that returns the logits alone"
                )
            outputs = torch.as_tensor(outputs)
        if images == 1 and outputs.dim() < 2:  # a model that calls squeeze() drops the row of a single image
            outputs = outputs.reshape(1, -1)
        return outputs.float()

    def place(self, inputs: Tensor) -> Tensor:
        """The inputs where the module is, in the layout that it is called in; a function gets them where they are."""
        return self.convention.lay_out(inputs.to(self.device) if isinstance(self.run, nn.Module) else inputs)

    def choose_convention(self, inputs: Tensor, rows: int | None = None) -> None:
        """Finds out how the model is best called with images of this shape; tried once per shape, in no account.

        Called before hooks are set. `rows` is a batch size that a user stated.
        """
        shape = tuple(inputs.shape[1:])
        if shape in self.shapes:
            return
        with torch.inference_mode(False):  # what is stored here must serve passes with gradients too
            if isinstance(self.run, nn.Module) and self.convention.channels_last:
                Convention().store(self.run)
            self.convention = Convention()
            image, half = self.place(inputs[:1]), self.precision != "float32"
            found = find_convention(self.run, self._called, image, rows=rows, half=half)
        if found is not None:  # else it is tried again: what made the model raise may pass
            self.convention, self.shapes = found, self.shapes | {shape}

    def variant(self, module: nn.Module, name: str) -> Network:
        """The same with another module that was made from this one, called in the same way."""
        self.convention.store(module)
        return replace(self, run=module, name=name)
