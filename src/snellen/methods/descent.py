"""Adam and momentum, computed elementwise, so that the images of a batch can be optimised independently."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class Adam:
    """Adam (Kingma & Ba 2015) with its usual decay rates; `step` gives the values after one more gradient."""

    rate: float
    """Length of a step while the gradient stays the same."""
    mean: Tensor | None = None
    """Running mean of the gradient; None before the first step."""
    square: Tensor | None = None
    """Running mean of the squared gradient; None before the first step."""
    steps: int = field(default=0, init=False)
    """Number of steps so far."""

    def step(self, values: Tensor, gradient: Tensor) -> Tensor:
        """The new values; the arguments are not modified."""
        self.steps += 1
        first = torch.zeros_like(values) if self.mean is None else self.mean
        second = torch.zeros_like(values) if self.square is None else self.square
        self.mean = 0.9 * first + 0.1 * gradient
        self.square = 0.999 * second + 0.001 * gradient.square()
        size = (self.square / (1 - 0.999**self.steps)).sqrt() + 1e-8
        return values - self.rate * (self.mean / (1 - 0.9**self.steps)) / size


@dataclass
class Momentum:
    """Gradient descent with momentum: each step adds the share `keep` of the previous step."""

    rate: float
    """Length of a step per unit of gradient."""
    keep: float = 0.9
    velocity: Tensor | None = None
    """The previous step before it is scaled by `rate`; None before the first step."""

    def step(self, values: Tensor, gradient: Tensor) -> Tensor:
        """The new values; the arguments are not modified."""
        self.velocity = gradient if self.velocity is None else self.keep * self.velocity + gradient
        return values - self.rate * self.velocity
