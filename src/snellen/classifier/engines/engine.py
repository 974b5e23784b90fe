"""Engine: how forward-only passes are computed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from snellen.classifier.module_state import ModuleState
from snellen.classifier.network import Network

EngineName = Literal["eager", "compiled", "onnxruntime"]
"""`eager` is the module itself; the others are prepared from it."""

ENGINES: tuple[EngineName, ...] = get_args(EngineName)


class Engine(ABC):
    """The forward-only pass of a network, prepared for images of one shape.

    Args:
        network: the network, whose outputs it gives.
        shape: of an image.
        rows: images per pass; None where a pass takes any number.
    """

    name: ClassVar[EngineName]

    def __init__(self, network: Network, shape: tuple[int, ...], rows: int | None) -> None:
        self.network, self.shape, self.rows = network, shape, rows
        self._state = ModuleState(network.module)

    def fits(self, inputs: Tensor) -> bool:
        """Whether these rows have the right shape and, where the number of rows is fixed, fill more than half of a pass.

        Nothing fits while a module has hooks, or after its tensors were written to: the engine would not see that.
        """
        is_alike = tuple(inputs.shape[1:]) == self.shape and inputs.dtype == torch.float32
        is_filled = self.rows is None or len(inputs) <= self.rows < 2 * len(inputs)
        return is_alike and is_filled and self._state.holds()

    def raw(self, inputs: Tensor) -> Tensor:
        """The network's own outputs for rows that fit; a short pass is filled up with copies of its first row."""
        missing = 0 if self.rows is None else self.rows - len(inputs)
        filled = torch.cat([inputs, inputs[:1].expand(missing, *self.shape)]) if missing else inputs
        return self.network.read(self.run(filled), len(filled))[: len(inputs)]

    def logits(self, inputs: Tensor) -> Tensor:
        """One logit per target, of rows that fit."""
        return self.network.as_logits(self.raw(inputs)).to(inputs.device)

    @abstractmethod
    def run(self, inputs: Tensor) -> Any:
        """What the module returns for a pass."""
