"""Targets beyond the outputs of a model: a contrast of two classes, a number going down, a function of the outputs."""

from __future__ import annotations

import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.errors import SnellenError, first_line

Columns = Float[Tensor, "rows columns"]


class FurtherTarget(ABC):
    """A target that is computed from the logits of a model: a frozen dataclass."""

    reads_probability: ClassVar[bool] = True
    """Whether the target has a probability."""
    decides: ClassVar[bool] = True
    """Whether its sign is a decision."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The target as text; it also distinguishes targets in a run's keys."""

    @abstractmethod
    def logit(self, logits: Columns) -> Float[Tensor, " rows"]:
        """The value that a method explains, from the logits of the model."""

    @abstractmethod
    def probability(self, logits: Columns, probabilities: Columns) -> Float[Tensor, " rows"]:
        """The value that a metric reads as a probability."""


@dataclass(frozen=True)
class Contrast(FurtherTarget):
    """Why `first` and not `second`: the difference of their logits.

    Its probability is that of `first` if only these two are possible: sigmoid(difference). For exclusive classes this is
    p(first) / (p(first) + p(second)).
    """

    first: int
    """Index of the class that is explained."""
    second: int
    """Index of the class that it is compared with."""

    def __post_init__(self) -> None:
        if self.first == self.second:
            raise SnellenError(f"a contrast needs two different classes, not {self.first} and {self.second}")

    @property
    def text(self) -> str:
        return f"contrast({self.first}, {self.second})"

    def logit(self, logits: Columns) -> Float[Tensor, " rows"]:
        return logits[:, self.first] - logits[:, self.second]

    def probability(self, logits: Columns, probabilities: Columns) -> Float[Tensor, " rows"]:
        return self.logit(logits).sigmoid()


@dataclass(frozen=True)
class Down(FurtherTarget):
    """What makes a number small: the number with its sign changed."""

    decides = False

    text = "down"

    def logit(self, logits: Columns) -> Float[Tensor, " rows"]:
        return -logits[:, 0]

    def probability(self, logits: Columns, probabilities: Columns) -> Float[Tensor, " rows"]:
        return 1 - probabilities[:, 0]


@dataclass(frozen=True)
class OutputFunction(FurtherTarget):
    """A user's function from the logits of a batch to one number per row; it has no probability."""

    reads_probability = False
    decides = False

    function: Callable[[Tensor], Tensor]
    """From logits, rows×columns, to one number per row."""
    name: str
    """How the user named it."""

    @property
    def text(self) -> str:
        source = ""
        with suppress(OSError, TypeError):
            source = inspect.getsource(self.function)
        return f"{self.name} {hashlib.sha256(source.encode()).hexdigest()[:8]}"

    def is_linear(self, columns: int) -> bool:
        """Whether the function of a sum is the sum, but for a constant, for some random logits of so many columns."""
        first, second = torch.randn(2, 16, columns, generator=torch.Generator().manual_seed(0)).unbind()
        apart = self.logit(first) + self.logit(second)
        together = self.logit(first + second) + self.logit(torch.zeros_like(first))
        return torch.allclose(together, apart, rtol=1e-4, atol=1e-4)

    def logit(self, logits: Columns) -> Float[Tensor, " rows"]:
        try:
            values = self.function(logits)
        except SnellenError:
            raise
        except Exception as problem:
            raise SnellenError(
                f"the target '{self.name}' failed on logits of {len(logits)}×{logits.shape[1]} "
                f"({type(problem).__name__}: {first_line(problem)})"
            ) from problem
        if not isinstance(values, Tensor) or values.shape != logits.shape[:1]:
            shape = "×".join(map(str, values.shape)) if isinstance(values, Tensor) else type(values).__name__
            raise SnellenError(f"the target '{self.name}' must return one number per row ({len(logits)}), not {shape}")
        if logits.requires_grad and torch.is_grad_enabled() and not values.requires_grad:
            raise SnellenError(f"the target '{self.name}' is no differentiable function of the logits")
        return values

    def probability(self, logits: Columns, probabilities: Columns) -> Float[Tensor, " rows"]:
        return torch.full_like(logits[:, 0], torch.nan)
