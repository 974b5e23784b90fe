"""Adam and momentum, number by number: rows of a batch never mix, so images can be optimised side by side."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Adam:
    """Kingma & Ba 2015 with its usual decay rates; `step` gives the values after one more gradient."""

    rate: float
    mean: Tensor | None = None
    square: Tensor | None = None
    steps: int = field(default=0, init=False)

    def step(self, values: Tensor, gradient: Tensor) -> Tensor:
        """Where the values move; what is given stays as it is."""
        self.steps += 1
        first = torch.zeros_like(values) if self.mean is None else self.mean
        second = torch.zeros_like(values) if self.square is None else self.square
        self.mean = 0.9 * first + 0.1 * gradient
        self.square = 0.999 * second + 0.001 * gradient.square()
        size = (self.square / (1 - 0.999**self.steps)).sqrt() + 1e-8
        return values - self.rate * (self.mean / (1 - 0.9**self.steps)) / size


@dataclass
class Momentum:
    """Gradient descent that keeps a share of its last step."""

    rate: float
    keep: float = 0.9
    pace: Tensor | None = None

    def step(self, values: Tensor, gradient: Tensor) -> Tensor:
        """Where the values move; what is given stays as it is."""
        self.pace = gradient if self.pace is None else self.keep * self.pace + gradient
        return values - self.rate * self.pace
