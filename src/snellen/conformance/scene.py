"""Scenes: pictures, a model whose answer can be written down, and maps. Plain tensors, so that any toolkit can be asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

Explain = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""A saliency method as a plain function: model, inputs and targets to one map each."""


@dataclass(frozen=True, eq=False)
class Scene:
    """What a toolkit is given: inputs are what the network sees, and pixels too (there is no normalisation).

    `explain` is the method that made the maps, to be run again where a metric asks for it. `batch` says how many samples
    the toolkit should take at a time.
    """

    model: nn.Module
    inputs: Float[Tensor, "samples channels height width"]
    targets: Int[Tensor, " samples"]
    maps: Float[Tensor, "samples height width"]
    truth: Bool[Tensor, "samples height width"] | None = None
    explain: Explain | None = None
    batch: int = 64
    variants: Mapping[str, nn.Module] = field(default_factory=dict)
    seed: int = 0

    def __len__(self) -> int:
        return len(self.inputs)

    def batches(self) -> Iterator[slice]:
        """The samples that a toolkit takes at a time."""
        for begin in range(0, len(self), self.batch):
            yield slice(begin, begin + self.batch)

    def rows(self, order: Sequence[int]) -> Scene:
        """The same samples in another order, or only some of them."""
        picked = list(order)
        truth = None if self.truth is None else self.truth[picked]
        return replace(self, inputs=self.inputs[picked], targets=self.targets[picked], maps=self.maps[picked], truth=truth)

    def copy(self) -> Scene:
        """The same numbers in other memory."""
        truth = None if self.truth is None else self.truth.clone()
        return replace(self, inputs=self.inputs.clone(), targets=self.targets.clone(), maps=self.maps.clone(), truth=truth)

    def mapped(self, maps: Tensor) -> Scene:
        """The same samples under other maps."""
        return replace(self, maps=maps.float().expand(len(self), *self.inputs.shape[2:]).clone())


def scene(
    model: nn.Module,
    picture: Tensor | Sequence[Sequence[float]],
    maps: Tensor | Sequence[Sequence[float]] | Explain,
    *,
    truth: Tensor | Sequence[Sequence[int]] | None = None,
    target: int = 0,
    channels: int = 1,
    explain: Explain | None = None,
    variants: Mapping[str, nn.Module] | None = None,
) -> Scene:
    """One picture, written as rows of numbers, in so many equal channels; `maps` may be the method that makes the map."""
    grid = torch.as_tensor(picture, dtype=torch.float32)
    inputs = grid.view(1, 1, *grid.shape).repeat(1, channels, 1, 1)
    return scene_of(model, inputs, maps, truth=truth, target=target, explain=explain, variants=variants)


def scene_of(
    model: nn.Module,
    inputs: Tensor,
    maps: Tensor | Sequence[Sequence[float]] | Explain,
    *,
    truth: Tensor | Sequence[Sequence[int]] | None = None,
    target: int = 0,
    explain: Explain | None = None,
    variants: Mapping[str, nn.Module] | None = None,
) -> Scene:
    """A batch of inputs; one map or truth is meant for all of them."""
    model.eval()
    targets = torch.full((len(inputs),), target)
    if callable(maps) and not isinstance(maps, Tensor):
        explain = explain or maps
        found = maps(model, inputs, targets)
    else:
        found = torch.as_tensor(maps, dtype=torch.float32)
    shape = (len(inputs), *inputs.shape[2:])
    marked = None if truth is None else torch.as_tensor(truth).bool().expand(shape).clone()
    return Scene(model, inputs, targets, found.expand(shape).clone(), marked, explain, variants=dict(variants or {}))


# Models whose answer can be written down ------------------------------------------------------------------------------


class Weighted(nn.Module):
    """Two logits: the weighted sum of all pixels (weights may be one number), and 0."""

    def __init__(self, weights: Tensor | float = 1.0, bias: float = 0.0) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.as_tensor(weights, dtype=torch.float32))
        self.bias = nn.Parameter(torch.tensor(bias))

    def forward(self, inputs: Tensor) -> Tensor:
        """The sum in column 0."""
        total = (inputs * self.weights).flatten(1).sum(dim=1) + self.bias
        return torch.stack([total, torch.zeros_like(total)], dim=1)


class Chance(nn.Module):
    """Logits whose softmax gives class 0 exactly the chance that a formula of the picture says."""

    def __init__(self, formula: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.formula = formula
        self.anchor = nn.Parameter(torch.zeros(1))  # toolkits ask a model for its parameters

    def forward(self, inputs: Tensor) -> Tensor:
        """The logarithms of the two chances; a chance of 0 becomes 1e-12."""
        chance = self.formula(inputs)
        pair = torch.stack([chance, 1 - chance], dim=1)
        return pair.clamp_min(1e-12).log() + 0 * self.anchor


def total(inputs: Tensor) -> Tensor:
    """The sum of all pixels, the channels averaged: f = Σx."""
    return inputs.mean(dim=1).sum(dim=(1, 2))


def both(first: tuple[int, int], second: tuple[int, int]) -> Callable[[Tensor], Tensor]:
    """The product of two pixels: 1 when both are lit, 0 when one of them is dark."""
    return lambda inputs: inputs.mean(dim=1)[:, first[0], first[1]] * inputs.mean(dim=1)[:, second[0], second[1]]


def pixel(row: int, column: int) -> Callable[[Tensor], Tensor]:
    """One pixel alone."""
    return lambda inputs: inputs.mean(dim=1)[:, row, column]


# Methods whose maps are known -----------------------------------------------------------------------------------------


def gradient(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The gradient of the target's logit, summed over channels."""
    return _slope(model, inputs, targets).sum(dim=1)


def input_x_gradient(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Input times gradient, summed over channels: exact for a linear model."""
    return (inputs * _slope(model, inputs, targets)).sum(dim=1)


def constant(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Ones, whatever is asked."""
    return torch.ones(len(inputs), *inputs.shape[2:])


def fake_cam(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Fake-CAM (Poppi et al. 2021): ones but for a single zero in the corner."""
    maps = constant(model, inputs, targets)
    maps[:, 0, 0] = 0
    return maps


def picture(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The picture itself, whatever the model."""
    return inputs.mean(dim=1)


def fixed(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """One map, whatever is shown and whoever looks."""
    side = inputs.shape[2]
    return torch.arange(float(side * side)).view(1, side, side).repeat(len(inputs), 1, 1)


def nervous(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """A map that has nothing to do with the map of the picture next to it."""
    return (1e4 * inputs.mean(dim=1)).sin()


def _slope(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    with torch.enable_grad():
        leaf = inputs.detach().clone().requires_grad_()
        logits = model(leaf)
        chosen = logits.gather(1, targets.view(-1, 1)).sum()
        (slope,) = torch.autograd.grad(chosen, leaf)
    found: Tensor = slope
    return found


def noise(*shape: int, seed: int = 0) -> Tensor:
    """Numbers that look random and never change: uniform in [0, 1)."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def grid(values: dict[tuple[int, int], float], side: int = 4) -> Tensor:
    """A square of zeros but for these places."""
    out = torch.zeros(side, side)
    for (row, column), value in values.items():
        out[row, column] = value
    return out
