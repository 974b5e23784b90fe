"""Fixtures: inputs, a model with a simple formula, and maps, as plain tensors that any toolkit accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

PlainMethod = Callable[[nn.Module, Tensor, Tensor], Tensor]
"""A saliency method as a function of model, inputs and targets that returns one map per input."""


@dataclass(frozen=True, eq=False)
class Fixture:
    """The arguments of a metric: model, inputs, targets and maps. There is no normalisation: inputs are pixels."""

    model: nn.Module
    inputs: Float[Tensor, "samples channels height width"]
    targets: Int[Tensor, " samples"]
    """The explained output of each sample."""
    maps: Float[Tensor, "samples height width"]
    truth: Bool[Tensor, "samples height width"] | None = None
    """Where the evidence is, for metrics that need it."""
    explain: PlainMethod | None = None
    """The method that made the maps, for metrics that run it again."""
    batch: int = 64
    """Number of samples that a toolkit processes at a time."""
    variants: Mapping[str, nn.Module] = field(default_factory=dict)
    """Other models by name, for metrics that compare with them."""
    seed: int = 0
    """Of the random draws of Snellen."""
    independent: bool = False
    """Whether each output is a label with a sigmoid of its own; otherwise classes are exclusive."""

    def __len__(self) -> int:
        return len(self.inputs)

    def probabilities(self, logits: Float[Tensor, "rows outputs"]) -> Float[Tensor, "rows outputs"]:
        """What the outputs mean: a sigmoid per label, or a softmax over classes."""
        return logits.sigmoid() if self.independent else logits.softmax(dim=-1)

    def batches(self) -> Iterator[slice]:
        """The rows of each batch."""
        for begin in range(0, len(self), self.batch):
            yield slice(begin, begin + self.batch)

    def rows(self, order: Sequence[int]) -> Fixture:
        """The same samples in another order, or only some of them."""
        picked = list(order)
        truth = None if self.truth is None else self.truth[picked]
        return replace(self, inputs=self.inputs[picked], targets=self.targets[picked], maps=self.maps[picked], truth=truth)

    def copy(self) -> Fixture:
        """A deep copy of the tensors."""
        truth = None if self.truth is None else self.truth.clone()
        return replace(self, inputs=self.inputs.clone(), targets=self.targets.clone(), maps=self.maps.clone(), truth=truth)

    def with_maps(self, maps: Tensor) -> Fixture:
        """The same samples with other maps."""
        return replace(self, maps=maps.float().expand(len(self), *self.inputs.shape[2:]).clone())


def fixture(
    model: nn.Module,
    picture: Tensor | Sequence[Sequence[float]],
    maps: Tensor | Sequence[Sequence[float]] | PlainMethod,
    *,
    truth: Tensor | Sequence[Sequence[int]] | None = None,
    target: int = 0,
    channels: int = 1,
    explain: PlainMethod | None = None,
    variants: Mapping[str, nn.Module] | None = None,
) -> Fixture:
    """A fixture of one image, given as rows of numbers and repeated in each channel; `maps` may be a method."""
    grid = torch.as_tensor(picture, dtype=torch.float32)
    inputs = grid.view(1, 1, *grid.shape).repeat(1, channels, 1, 1)
    return fixture_batch(model, inputs, maps, truth=truth, target=target, explain=explain, variants=variants)


def fixture_batch(
    model: nn.Module,
    inputs: Tensor,
    maps: Tensor | Sequence[Sequence[float]] | PlainMethod,
    *,
    truth: Tensor | Sequence[Sequence[int]] | None = None,
    target: int = 0,
    explain: PlainMethod | None = None,
    variants: Mapping[str, nn.Module] | None = None,
) -> Fixture:
    """A fixture of several inputs; a single map or truth applies to all of them."""
    model.eval()
    targets = torch.full((len(inputs),), target)
    if callable(maps) and not isinstance(maps, Tensor):
        explain = explain or maps
        computed = maps(model, inputs, targets)
    else:
        computed = torch.as_tensor(maps, dtype=torch.float32)
    shape = (len(inputs), *inputs.shape[2:])
    marked = None if truth is None else torch.as_tensor(truth).bool().expand(shape).clone()
    return Fixture(
        model=model,
        inputs=inputs,
        targets=targets,
        maps=computed.expand(shape).clone(),
        truth=marked,
        explain=explain,
        variants=dict(variants or {}),
    )


# Models with a simple formula -----------------------------------------------------------------------------------------


class LinearModel(nn.Module):
    """Two logits: the weighted sum of all pixels (weights may be one number), and 0."""

    def __init__(self, weights: Tensor | float = 1.0, bias: float = 0.0) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.as_tensor(weights, dtype=torch.float32))
        self.bias = nn.Parameter(torch.tensor(bias))

    def forward(self, inputs: Tensor) -> Tensor:
        """The sum in column 0."""
        total = (inputs * self.weights).flatten(1).sum(dim=1) + self.bias
        return torch.stack([total, torch.zeros_like(total)], dim=1)


class ProbabilityModel(nn.Module):
    """A model whose softmax probability of class 0 is a given formula of the image."""

    def __init__(self, formula: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.formula = formula
        self.anchor = nn.Parameter(torch.zeros(1))  # toolkits read the parameters of a model

    def forward(self, inputs: Tensor) -> Tensor:
        """The logarithms of both probabilities; 0 becomes 1e-12."""
        probability = self.formula(inputs)
        pair = torch.stack([probability, 1 - probability], dim=1)
        return pair.clamp_min(1e-12).log() + 0 * self.anchor


class LabelsModel(nn.Module):
    """Three independent labels: one that is always present, one whose probability is a given formula, one always absent.

    A softmax over the three would give the second label a probability near 0, whatever the image.
    """

    def __init__(self, formula: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.formula = formula
        self.anchor = nn.Parameter(torch.zeros(1))  # toolkits read the parameters of a model

    def forward(self, inputs: Tensor) -> Tensor:
        """The logits 9, log p - log(1 - p) and -9; a probability of 0 becomes 1e-12."""
        probability = self.formula(inputs)
        logit = probability.clamp_min(1e-12).log() - (1 - probability).clamp_min(1e-12).log()
        sure = torch.full_like(logit, 9.0)
        return torch.stack([sure, logit, -sure], dim=1) + 0 * self.anchor


def label_fixture(
    formula: Callable[[Tensor], Tensor] | nn.Module,
    picture: Tensor | Sequence[Sequence[float]],
    maps: Tensor | Sequence[Sequence[float]] | PlainMethod,
    *,
    target: int = 1,
) -> Fixture:
    """A fixture of one image and one of several independent labels; a formula is that of `LabelsModel`."""
    model = formula if isinstance(formula, nn.Module) else LabelsModel(formula)
    return replace(fixture(model, picture, maps, target=target), independent=True)


def total(inputs: Tensor) -> Tensor:
    """The sum of all pixels, the channels averaged: f = Σx."""
    return inputs.mean(dim=1).sum(dim=(1, 2))


def both(first: tuple[int, int], second: tuple[int, int]) -> Callable[[Tensor], Tensor]:
    """The product of two pixels: 1 if both are 1, 0 if either is 0."""
    return lambda inputs: inputs.mean(dim=1)[:, first[0], first[1]] * inputs.mean(dim=1)[:, second[0], second[1]]


def pixel(row: int, column: int) -> Callable[[Tensor], Tensor]:
    """A single pixel."""
    return lambda inputs: inputs.mean(dim=1)[:, row, column]


# Methods with simple maps ---------------------------------------------------------------------------------------------


def gradient(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The gradient of the target's logit, summed over channels."""
    return _input_gradient(model, inputs, targets).sum(dim=1)


def input_x_gradient(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Input times gradient, summed over channels: exact for a linear model."""
    return (inputs * _input_gradient(model, inputs, targets)).sum(dim=1)


def constant(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Ones, for every model, input and target."""
    return torch.ones(len(inputs), *inputs.shape[2:])


def fake_cam(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Fake-CAM (Poppi et al. 2021): ones but for a single zero in the corner."""
    maps = constant(model, inputs, targets)
    maps[:, 0, 0] = 0
    return maps


def picture(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The image itself, for every model."""
    return inputs.mean(dim=1)


def fixed(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """The same map for every model, input and target."""
    side = inputs.shape[2]
    return torch.arange(float(side * side)).view(1, side, side).repeat(len(inputs), 1, 1)


def nervous(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """A map that changes completely with the smallest change of the image."""
    return (1e4 * inputs.mean(dim=1)).sin()


def _input_gradient(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    with torch.enable_grad():
        leaf = inputs.detach().clone().requires_grad_()
        logits = model(leaf)
        chosen = logits.gather(1, targets.view(-1, 1)).sum()
        (inputs_gradient,) = torch.autograd.grad(chosen, leaf)
    result: Tensor = inputs_gradient
    return result


def noise(*shape: int, seed: int = 0) -> Tensor:
    """Reproducible uniform numbers in [0, 1)."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def grid(values: dict[tuple[int, int], float], side: int = 4) -> Tensor:
    """A square of zeros with these values at (row, column)."""
    out = torch.zeros(side, side)
    for (row, column), value in values.items():
        out[row, column] = value
    return out
