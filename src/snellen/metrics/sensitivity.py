"""Max- and avg-sensitivity: how far a map moves when the picture hardly does.

Both ask `case.explain` for the same perturbed pictures, so the second one asked pays nothing. A constant map is perfectly
still and useless: neither number means anything without the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.metrics.kept import Kept
from snellen.registry import metric
from snellen.types import Case, Passes, Rng

_ZERO = "the map is zero everywhere, so no change can be relative to it"


def _check(samples: int, radius: float) -> None:
    if samples < 1:
        raise ValueError(f"samples must be at least 1, not {samples}")
    if radius < 0:
        raise ValueError(f"radius must not be negative, not {radius}")


@metric(
    "max-sensitivity",
    cite="yeh2019",
    attribute="input-sensitivity",
    higher_is_better=False,
    bounds=(0.0, float("inf")),
    needs={"explain"},
    undefined=_ZERO,
)
@dataclass(frozen=True)
class MaxSensitivity:
    """The largest change of the map under small noise on the inputs, relative to the map's own size: 0 is unmoved.

    Yeh et al. 2019: max over `samples` of ‖Φ(x + δ) - Φ(x)‖ / ‖Φ(x)‖ (Frobenius), δ uniform in ±`radius` per input value,
    same target. The paper's text has no denominator (`relative=False`); its code has. Changes of norm 1 and 2 of a map of
    norm 4 give 0.5. A method that draws at random draws anew each time, so its own noise counts too.
    """

    samples: int = 10
    radius: float = 0.2
    relative: bool = True

    def __post_init__(self) -> None:
        _check(self.samples, self.radius)

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        return _changes(case, self.samples, self.radius, self.relative, rng).amax(dim=1)

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """A map per sample."""
        return explain * self.samples

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The perturbed maps."""
        return {("sensitivity", self.samples, self.radius): explain * self.samples}


@metric(
    "avg-sensitivity",
    cite="yeh2019",
    attribute="input-sensitivity",
    higher_is_better=False,
    bounds=(0.0, float("inf")),
    needs={"explain"},
    undefined=_ZERO,
)
@dataclass(frozen=True)
class AvgSensitivity:
    """The mean change of the map under small noise on the inputs, relative to the map's own size: 0 is unmoved.

    As max-sensitivity (Yeh et al. 2019), with the mean over `samples` in place of the largest. Changes of norm 1 and 2 of
    a map of norm 4 give 0.375.
    """

    samples: int = 10
    radius: float = 0.2
    relative: bool = True

    def __post_init__(self) -> None:
        _check(self.samples, self.radius)

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        return _changes(case, self.samples, self.radius, self.relative, rng).mean(dim=1)

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """A map per sample."""
        return explain * self.samples

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The perturbed maps."""
        return {("sensitivity", self.samples, self.radius): explain * self.samples}


def perturbed(
    inputs: Float[Tensor, "batch channels height width"], samples: int, radius: float, *, rng: Rng
) -> Float[Tensor, "rows channels height width"]:
    """Each input `samples` times in a row, each time with other uniform noise in ±`radius`."""
    noise = rng.repeat(range(samples)).uniform("perturbation", tuple(inputs.shape[1:])).to(inputs)
    return (
        noise.sub_(0.5)
        .mul_(2 * radius)
        .view(len(inputs), samples, *inputs.shape[1:])
        .add_(inputs.unsqueeze(1))
        .flatten(0, 1)
    )


_KEPT: Kept[Tensor] = Kept()


def _changes(case: Case, samples: int, radius: float, relative: bool, rng: Rng) -> Float[Tensor, "batch samples"]:
    """How far the map of each perturbed picture is from the case's own map."""

    def compute() -> Tensor:
        moved = perturbed(case.inputs, samples, radius, rng=rng.child("sensitivity"))
        # The method's own draws must not be the noise again, hence another name for them.
        again = case.explain(moved, rng=rng.child("sensitivity/explain").repeat(range(samples)))
        gaps = again.view(len(case), samples, -1) - case.maps.flatten(1).unsqueeze(1)
        norms: Tensor = torch.linalg.vector_norm(gaps, dim=2, dtype=torch.float64)
        return norms

    changes = _KEPT(case, (samples, radius, rng), compute)
    if relative:
        size = torch.linalg.vector_norm(case.maps, dim=(1, 2), dtype=torch.float64).unsqueeze(1)
        changes = (changes / size).masked_fill(size == 0, torch.nan)
    return changes.to(case.maps.dtype)
