"""Rules of relevance propagation: how the relevance of a linear layer's outputs is distributed among its inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

_TINY = 1e-30


@dataclass(frozen=True, eq=False)
class Layer:
    """A linear layer and what went into it; `bounds` are the least and largest inputs that it could have had.

    `again(values)` computes exactly what the model computes here; `run(values, weight, bias)` does so with other weights.
    """

    again: Callable[[Tensor], Tensor]
    """The layer on other values."""
    run: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    """The operation on other values, weights and bias."""
    weight: Tensor
    """The weights."""
    bias: Tensor | None
    """The bias; None for none."""
    values: Tensor
    """What went into the layer."""
    bounds: tuple[Tensor, Tensor] | None = None

    def forward(
        self, values: Tensor, weight: Tensor, bias: Tensor | None = None
    ) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        """The output for these values and weights, and the function that propagates numbers at outputs back to inputs."""
        return output_and_transpose(lambda leaf: self.run(leaf, weight, bias), values)


@runtime_checkable
class Rule(Protocol):
    """Distributes the relevance of a linear layer's outputs among its inputs."""

    def __call__(self, layer: Layer, relevance: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Epsilon:
    """In proportion to signed contributions; `epsilon` enlarges the denominator and damps weak sums.

    `relative` measures epsilon in units of the root mean square of the layer's outputs, sample by sample.
    """

    epsilon: float = 0.0
    relative: bool = False

    def __call__(self, layer: Layer, relevance: Tensor) -> Tensor:
        """Equation 58 of Bach et al. 2015; without epsilon, equation 56."""
        # To the last bit what the model put out: where sums nearly cancel, another order of summing gives another result.
        total, back = output_and_transpose(layer.again, layer.values)
        size = torch.full_like(total, self.epsilon)
        if self.relative:
            size = size * total.flatten(1).square().mean(dim=1).sqrt().view(-1, *[1] * (total.dim() - 1))
        return layer.values * back(per_unit(relevance, total + torch.where(total < 0, -size, size)))


@dataclass(frozen=True)
class AlphaBeta:
    """`alpha` shares among what excites, less `beta` shares among what inhibits; `biased` counts biases as contributions."""

    alpha: float = 1.0
    beta: float = 0.0
    biased: bool = True

    def __call__(self, layer: Layer, relevance: Tensor) -> Tensor:
        """Equation 60 of Bach et al. 2015, for inputs of either sign."""
        shares = self.alpha * self._shares(layer, relevance, 1)
        return shares - self.beta * self._shares(layer, relevance, -1) if self.beta else shares

    def _shares(self, layer: Layer, relevance: Tensor, sign: int) -> Tensor:
        high, low = of_sign(layer.values, 1), of_sign(layer.values, -1)
        bias = of_sign(layer.bias, sign) if self.biased and layer.bias is not None else None
        total, back = layer.forward(high, of_sign(layer.weight, sign), bias)
        if not bool(low.any()):  # as behind every rectifier: half the work
            return high * back(per_unit(relevance, total))
        other, other_back = layer.forward(low, of_sign(layer.weight, -sign))
        ratio = per_unit(relevance, total + other)
        return high * back(ratio) + low * other_back(ratio)


@dataclass(frozen=True)
class Flat:
    """The same share for every input that an output can see, whatever its value and weight."""

    def __call__(self, layer: Layer, relevance: Tensor) -> Tensor:
        """All weights and inputs set to one (Lapuschkin et al. 2019)."""
        total, back = layer.forward(torch.ones_like(layer.values), torch.ones_like(layer.weight))
        return back(per_unit(relevance, total))


@dataclass(frozen=True)
class Box:
    """In proportion to the distance from the corner, of the box of possible inputs, with the lowest output."""

    def __call__(self, layer: Layer, relevance: Tensor) -> Tensor:
        """The z^B rule of Montavon et al. 2017."""
        assert layer.bounds is not None, "the box rule is for first layers"
        low, high = layer.bounds
        parts = [
            (1.0, layer.values, layer.weight),
            (-1.0, low.expand_as(layer.values), of_sign(layer.weight, 1)),
            (-1.0, high.expand_as(layer.values), of_sign(layer.weight, -1)),
        ]
        terms = [(sign, values, *layer.forward(values, weight)) for sign, values, weight in parts]
        ratio = per_unit(relevance, sum((sign * total for sign, _, total, _ in terms), torch.zeros_like(relevance)))
        return sum((sign * values * back(ratio) for sign, values, _, back in terms), torch.zeros_like(layer.values))


def of_sign(values: Tensor, sign: int) -> Tensor:
    """The numbers that have this sign, with zero in place of the others."""
    return values.clamp_min(0) if sign > 0 else values.clamp_max(0)


def per_unit(relevance: Tensor, total: Tensor) -> Tensor:
    """Relevance per unit; where the output is zero, none is passed on."""
    return torch.where(total.abs() > _TINY, relevance / total, 0.0)


def output_and_transpose(run: Callable[[Tensor], Tensor], values: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The output of a linear function, and its transpose: a function that propagates numbers at outputs back to inputs."""
    with torch.enable_grad():
        leaf = values.detach().requires_grad_()
        out = run(leaf)

    def back(upstream: Tensor) -> Tensor:
        (gradient,) = torch.autograd.grad(out, leaf, upstream)
        return gradient

    return out.detach(), back
