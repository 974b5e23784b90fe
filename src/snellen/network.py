"""Network: a model as it is run, from inputs to logits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from snellen import speed
from snellen.errors import SnellenError
from snellen.graphs import Graph
from snellen.registry import Need


@dataclass(frozen=True, eq=False)
class Network:
    """A module that nobody else holds, or a function; what its outputs mean, where it runs and in which precision."""

    run: nn.Module | Callable[[Tensor], Any]
    name: str
    outputs: str
    device: torch.device
    precision: speed.Precision

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
        if isinstance(self.run, Graph):
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
        with speed.arithmetic(self.precision, self.device):
            placed = self.place(inputs)
            out = self.run(placed.clone() if placed is inputs else placed)  # a model may work in place on what it is given
        out = getattr(out, "logits", out)
        if not isinstance(out, Tensor):
            if isinstance(out, list | tuple | dict):
                kind = type(out).__name__
                raise SnellenError(
                    f"'{self.name}' returned a {kind}, not one tensor of logits; "
                    "wrap it in a function that returns the logits alone"
                )
            out = torch.as_tensor(out)
        return out.float()

    def place(self, inputs: Tensor) -> Tensor:
        """The inputs where the module is, laid out like its weights; a function gets them as they are."""
        if not isinstance(self.run, nn.Module):
            return inputs
        return inputs.to(self.device, memory_format=torch.channels_last)
