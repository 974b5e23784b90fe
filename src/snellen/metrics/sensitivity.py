"""Max-sensitivity, avg-sensitivity and robustness: how much a map changes when the image changes a little.

All use the same maps of perturbed images, which are computed once. A constant map has the best score and is useless, so
these numbers mean nothing without others.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.metrics.case_cache import cached_per_case
from snellen.plugins.registry import metric
from snellen.types import Case, Passes, Rng, SharedPasses

_ZERO = "the map is zero everywhere, so no change can be relative to it"
_READING = (
    "Divided by the norm of the map, as in the published code, so that maps in other units can be compared; the paper's "
    "text has no denominator: `relative=false`."
)
_FOOLED = {
    "zhang2024": "a published table gives a constant map 0.96 in place of 0, because another method explained the noise"
}
_PRESETS: dict[str, dict[str, object]] = {"yeh2019": {"relative": False}, "kokhlikyan2020": {"radius": 0.02}}


@dataclass(frozen=True)
class _PerturbedMaps(SharedPasses, Protocol):
    """The settings of all three metrics; they score the same perturbed maps."""

    samples: int = 10
    """Number of noisy copies of each image."""
    radius: float = 0.2
    """Largest noise on an input value, in normalised inputs."""
    relative: bool = True
    """Whether changes are shares of the map's own size."""

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")
        if self.radius < 0:
            raise ValueError(f"radius must not be negative, not {self.radius}")

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The perturbed maps."""
        return {("sensitivity", self.samples, self.radius): explain * self.samples}


@metric(
    "max-sensitivity",
    cite="yeh2019",
    attribute="input-sensitivity",
    higher_is_better=False,
    bounds=(0.0, float("inf")),
    needs={"explain"},
    undefined=_ZERO,
    test="Sensitivity",
    formula="max_δ ‖Φ(x + δ) − Φ(x)‖ / ‖Φ(x)‖, |δ| ≤ r",
    reading=_READING,
    caveats=_FOOLED,
    presets=_PRESETS,
)
@dataclass(frozen=True)
class MaxSensitivity(_PerturbedMaps):
    """The largest change of the map under small noise on the inputs, relative to the map's own size: 0 is no change.

    Yeh et al. 2019: max over `samples` of ‖Φ(x + δ) - Φ(x)‖ / ‖Φ(x)‖ (Frobenius), δ uniform in ±`radius` per input
    value, same target. The paper's text has no denominator (`relative=False`); its code has. Changes of norm 1 and 2 of
    a map of norm 4 give 0.5. A random method draws new numbers each time, so its own noise counts too.
    """

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        return _changes(case, self.samples, self.radius, rng).of(case.maps, self.relative).amax(dim=1)


@metric(
    "avg-sensitivity",
    cite="yeh2019",
    attribute="input-sensitivity",
    higher_is_better=False,
    bounds=(0.0, float("inf")),
    needs={"explain"},
    undefined=_ZERO,
    formula="E_δ ‖Φ(x + δ) − Φ(x)‖ / ‖Φ(x)‖, |δ| ≤ r",
    reading=_READING,
    caveats=_FOOLED,
    presets=_PRESETS,
)
@dataclass(frozen=True)
class AvgSensitivity(_PerturbedMaps):
    """The mean change of the map under small noise on the inputs, relative to the map's own size: 0 is no change.

    As max-sensitivity (Yeh et al. 2019), with the mean over `samples` in place of the largest. Changes of norm 1 and 2
    of a map of norm 4 give 0.375.
    """

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        return _changes(case, self.samples, self.radius, rng).of(case.maps, self.relative).mean(dim=1)


@metric(
    "robustness",
    cite="alvarezmelis2018",
    attribute="input-sensitivity",
    higher_is_better=False,
    bounds=(0.0, float("inf")),
    needs={"explain"},
    undefined=_ZERO,
    test="Robustness",
    formula="max_δ ‖Φ(x + δ) − Φ(x)‖ / (‖δ‖ · ‖Φ(x)‖), |δ| ≤ r",
    reading="The paper searches the ball for the largest ratio; here it is the largest of the images that max-sensitivity "
    "explains, without extra cost. It is divided by the norm of the map, because a map that is twice as bright is not "
    "half as robust; the paper's constant itself: `relative=false`.",
    caveats={"alvarezmelis2018": "the largest of a few random neighbours is only a lower bound of the Lipschitz constant"},
)
@dataclass(frozen=True)
class Robustness(_PerturbedMaps):
    """The largest change of the map per change of the image, relative to the map's own size: 0 is no change.

    Alvarez-Melis & Jaakkola 2018, the local Lipschitz constant: max over `samples` of ‖Φ(x + δ) - Φ(x)‖ / ‖δ‖, divided
    by ‖Φ(x)‖ unless `relative=False`; δ as for max-sensitivity, norms over all inputs. A map of norm 4 that moves by 2
    when the image moves by 5 gives 0.1.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.radius == 0:
            raise ValueError("radius must be above 0, because otherwise the image does not change")

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        changes = _changes(case, self.samples, self.radius, rng)
        return replace(changes, maps=changes.maps / changes.inputs).of(case.maps, self.relative).amax(dim=1)


def perturb_inputs(
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


@dataclass(frozen=True, eq=False)
class _Changes:
    """The distance of each perturbed image from the image, and of its map from the image's map."""

    maps: Float[Tensor, "batch samples"]
    inputs: Float[Tensor, "batch samples"]

    def of(self, maps: Float[Tensor, "batch height width"], relative: bool) -> Float[Tensor, "batch samples"]:
        """The changes of the map, or (`relative`) their ratio to its size; NaN where that is zero."""
        size = torch.linalg.vector_norm(maps, dim=(1, 2), dtype=torch.float64).unsqueeze(1)
        changes = (self.maps / size).masked_fill(size == 0, torch.nan) if relative else self.maps
        return changes.to(maps.dtype)


def _changes(case: Case, samples: int, radius: float, rng: Rng) -> _Changes:
    def compute() -> _Changes:
        moved = perturb_inputs(case.inputs, samples, radius, rng=rng.child("sensitivity"))
        # Another name, so that the method's own draws are independent of the noise.
        maps = case.explain(moved, rng=rng.child("sensitivity/explain").repeat(range(samples)))
        return _Changes(_distances(maps, case.maps), _distances(moved, case.inputs))

    return cached_per_case(case, ("changes", samples, radius, rng), compute)


def _distances(changed: Float[Tensor, "rows ..."], original: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch samples"]:
    gaps = changed.view(len(original), -1, original[0].numel()) - original.flatten(1).unsqueeze(1)
    norms: Tensor = torch.linalg.vector_norm(gaps, dim=2, dtype=torch.float64)
    return norms
