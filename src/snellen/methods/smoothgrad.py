"""SmoothGrad, SmoothGrad-Squared and VarGrad: statistics of any method's map under noise on the input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.methods.gradient import Gradient
from snellen.methods.wrapping import prepare_inner, take_over
from snellen.plugins.registry import method, traits
from snellen.plugins.traits import Range, TraitEvidence
from snellen.types import Images, Maps, Method, Passes, Rng, Targets


@runtime_checkable
class Smoothing(Protocol):
    """A method that wraps another and adds noise."""

    @property
    def of(self) -> Method: ...

    @property
    def samples(self) -> int: ...

    @property
    def spread(self) -> float: ...


SIGNED, FOLDED = Gradient(fold="sum"), Gradient()
_NOISE: dict[str, Range] = {"samples": (5, 10, 50), "spread": (0.05, 0.1, 0.3)}


def _wrap(wrapper: Smoothing, *, signed: bool) -> None:
    """Checks the settings, and takes over the needs and traits of the wrapped method."""
    if wrapper.samples < 1:
        raise ValueError(f"samples must be at least 1, not {wrapper.samples}")
    if wrapper.spread < 0:
        raise ValueError(f"spread must not be negative, not {wrapper.spread}")
    take_over(wrapper, signed=signed, deterministic=False, control=traits(wrapper.of).control)


def _passes(self: Smoothing, size: tuple[int, int], classifier: Classifier) -> Passes:
    """The wrapped method once per sample."""
    return self.samples * self.of.passes(size, classifier)


@method(
    "smoothgrad",
    cite="smilkov2017",
    family="gradient",
    deterministic=False,
    implementation_invariant=TraitEvidence(0.01, images=18, networks=5),
    needs={"gradients"},
    # All three papers averaged squares under this name.
    presets={name: f"smoothgrad-squared@{name}" for name in ("cose2023", "boggust2023", "kim2022")},
    ranges={"of": ("gradient(fold=sum)", "input-x-gradient", "grad-cam"), **_NOISE},
)
@dataclass(frozen=True)
class SmoothGrad:
    """The mean of a method's map over noisy copies of the image.

    The wrapped map is averaged as that method gives it: `of=gradient` averages magnitudes, `of=gradient(fold=sum)` keeps
    signs. The noise is Gaussian with `spread` times each input's range as its standard deviation.
    """

    of: Method = FOLDED
    samples: int = 25
    """Number of noisy copies."""
    spread: float = 0.15

    def __post_init__(self) -> None:
        _wrap(self, signed=traits(self.of).signed)

    prepare = prepare_inner
    passes = _passes

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        total = _sums(_noisy(self, classifier, inputs, targets, rng))[0]
        return (total / self.samples).to(inputs.dtype)


@method(
    "smoothgrad-squared",
    cite="hooker2019",
    family="gradient",
    deterministic=False,
    implementation_invariant=TraitEvidence(0.01, images=18, networks=5),
    needs={"gradients"},
    presets={
        "cose2023": {"of": "gradient(fold=norm, of=probability)", "samples": 50},
        "boggust2023": {"of": "gradient(fold=norm)"},
        "kim2022": {"samples": 64, "spread": 0.1},
    },
    ranges={"of": ("gradient(fold=sum)", "input-x-gradient", "grad-cam"), **_NOISE},
)
@dataclass(frozen=True)
class SmoothGradSquared:
    """The mean square of a method's map over noisy copies of the image: large where the map is strong in either sign."""

    of: Method = FOLDED
    samples: int = 25
    """Number of noisy copies."""
    spread: float = 0.15
    """Standard deviation of the noise, as a share of each input's range."""

    def __post_init__(self) -> None:
        _wrap(self, signed=False)

    prepare = prepare_inner
    passes = _passes

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        squares = _sums(_noisy(self, classifier, inputs, targets, rng))[1]
        return (squares / self.samples).to(inputs.dtype)


@method(
    "vargrad",
    cite="adebayo2018local",
    family="gradient",
    deterministic=False,
    implementation_invariant=TraitEvidence(0.01, images=18, networks=5),
    needs={"gradients"},
    ranges={"of": ("gradient", "input-x-gradient", "grad-cam"), **_NOISE},
)
@dataclass(frozen=True)
class VarGrad:
    """The variance of a method's map over noisy copies of the image: large where the map is unsteady."""

    of: Method = SIGNED
    samples: int = 25
    """Number of noisy copies."""
    spread: float = 0.15
    """Standard deviation of the noise, as a share of each input's range."""

    def __post_init__(self) -> None:
        _wrap(self, signed=False)

    prepare = prepare_inner
    passes = _passes

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        total, squares = _sums(_noisy(self, classifier, inputs, targets, rng))
        return (squares / self.samples - (total / self.samples) ** 2).clamp_min(0).to(inputs.dtype)


def _noisy(
    wrapper: Smoothing, classifier: Classifier, inputs: Images, targets: Targets, rng: Rng
) -> Iterator[Float[Tensor, "batch copies height width"]]:
    """The wrapped method's maps of noisy copies, as many copies at a time as fill one pass."""
    sigma = wrapper.spread * (inputs.amax(dim=(1, 2, 3)) - inputs.amin(dim=(1, 2, 3)))
    count = classifier.copies(inputs)
    for first in range(0, wrapper.samples, count):
        copies = range(first, min(first + count, wrapper.samples))
        inner = rng.child("smoothgrad").repeat(copies)
        noise = inner.normal("noise", tuple(inputs.shape[1:])).to(inputs)
        noise *= sigma.repeat_interleave(len(copies)).view(-1, 1, 1, 1)
        noise += inputs.repeat_interleave(len(copies), dim=0)
        maps = wrapper.of(classifier, noise, targets.repeat_interleave(len(copies)), rng=inner)
        yield maps.view(len(inputs), len(copies), *maps.shape[1:])


def _sums(maps: Iterator[Tensor]) -> tuple[Tensor, Tensor]:
    """Sum and sum of squares over all copies, in double precision because a variance is a small difference of them."""
    total = squares = torch.zeros((), dtype=torch.float64)
    for part in maps:
        wide = part.double()
        total = total + wide.sum(dim=1)
        squares = squares + wide.square().sum(dim=1)
    return total, squares
