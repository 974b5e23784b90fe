"""SmoothGrad, SmoothGrad-Squared and VarGrad: statistics of any method's map under noise on the input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.methods.gradient import Gradient
from snellen.methods.wrapping import prepare_inner, take_over
from snellen.plugins.registry import method, traits
from snellen.plugins.traits import Range, TraitEvidence
from snellen.types import Images, Maps, Method, Passes, Rng, Targets

SIGNED, FOLDED = Gradient(fold="sum"), Gradient()
_NOISE: dict[str, Range] = {"samples": (5, 10, 50), "spread": (0.05, 0.1, 0.3)}


@dataclass(frozen=True)
class _Smoothed(Protocol):
    """The settings of all three methods, and the maps that they take statistics of."""

    of: Method = FOLDED
    """The method whose maps are taken."""
    samples: int = 25
    """Number of noisy copies."""
    spread: float = 0.15
    """Standard deviation of the noise, as a share of each input's range."""

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")
        if self.spread < 0:
            raise ValueError(f"spread must not be negative, not {self.spread}")
        take_over(self, signed=self._signed, deterministic=False, control=traits(self.of).control)

    @property
    def _signed(self) -> bool:
        """Whether maps may hold negative values."""
        return False

    def prepare(self, classifier: Classifier, inputs: Images) -> None:
        """Prepares the wrapped method, which may refuse the classifier."""
        prepare_inner(self, classifier, inputs)

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        """The wrapped method once per sample."""
        return self.samples * self.of.passes(size, classifier)

    def _noisy(
        self, classifier: Classifier, inputs: Images, targets: Targets, rng: Rng
    ) -> Iterator[Float[Tensor, "batch copies height width"]]:
        """The wrapped method's maps of noisy copies, as many copies at a time as fill one pass."""
        sigma = self.spread * (inputs.amax(dim=(1, 2, 3)) - inputs.amin(dim=(1, 2, 3)))
        count = classifier.copies(inputs)
        for first in range(0, self.samples, count):
            copies = range(first, min(first + count, self.samples))
            inner = rng.child("smoothgrad").repeat(copies)
            noise = inner.normal("noise", tuple(inputs.shape[1:])).to(inputs)
            noise *= sigma.repeat_interleave(len(copies)).view(-1, 1, 1, 1)
            noise += inputs.repeat_interleave(len(copies), dim=0)
            maps = self.of(classifier, noise, targets.repeat_interleave(len(copies)), rng=inner)
            yield maps.view(len(inputs), len(copies), *maps.shape[1:])


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
class SmoothGrad(_Smoothed):
    """The mean of a method's map over noisy copies of the image.

    The wrapped map is averaged as that method gives it: `of=gradient` averages magnitudes, `of=gradient(fold=sum)` keeps
    signs. The noise is Gaussian with `spread` times each input's range as its standard deviation.
    """

    @property
    def _signed(self) -> bool:
        """As the wrapped method states."""
        return bool(traits(self.of).signed)

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        total = _sums(self._noisy(classifier, inputs, targets, rng))[0]
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
class SmoothGradSquared(_Smoothed):
    """The mean square of a method's map over noisy copies of the image: large where the map is strong in either sign."""

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        squares = _sums(self._noisy(classifier, inputs, targets, rng))[1]
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
class VarGrad(_Smoothed):
    """The variance of a method's map over noisy copies of the image: large where the map is unsteady."""

    of: Method = SIGNED

    def __call__(self, classifier: Classifier, inputs: Images, targets: Targets, *, rng: Rng) -> Maps:
        total, squares = _sums(self._noisy(classifier, inputs, targets, rng))
        return (squares / self.samples - (total / self.samples) ** 2).clamp_min(0).to(inputs.dtype)


def _sums(maps: Iterator[Tensor]) -> tuple[Tensor, Tensor]:
    """Sum and sum of squares over all copies, in double precision because a variance is a small difference of them."""
    total = squares = torch.zeros((), dtype=torch.float64)
    for part in maps:
        wide = part.double()
        total = total + wide.sum(dim=1)
        squares = squares + wide.square().sum(dim=1)
    return total, squares
