"""Infidelity: the error of the map as a prediction of how the output changes when the image changes."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.fills import MEAN
from snellen.metrics.case_cache import output_parts
from snellen.plugins.registry import metric
from snellen.types import Case, CurveMetric, Fill, Passes, Rng, SharedPasses


@metric(
    "infidelity",
    cite="yeh2019",
    attribute="input-sensitivity",
    higher_is_better=False,
    bounds=(0.0, float("inf")),
    undefined="the map holds NaN",
    test="Infidelity",
    formula="E_I (Σ I·Φ − (f(x) − f(x − I)))²",
    reading="Squares at independent random places are removed; I is 1 inside and 0 outside, so Φ is read as what each pixel "
    "contributes. `perturb=noise` subtracts Gaussian noise, equal in all channels, and reads Φ as a gradient. The curve "
    "holds both values; `scaled=true` scores the map times its best factor, so that units do not matter.",
    caveats={
        "hedstrom2023": "a common implementation lets the squares accumulate, so that its draws are not independent",
        "kokhlikyan2020": "without scaling, the unit of a map decides: ten times a map has up to a hundred times its error",
    },
)
@dataclass(frozen=True)
class Infidelity(CurveMetric, SharedPasses):
    """The mean squared error of the map's prediction of the output when a part of the image is removed: 0 is exact.

    Yeh et al. 2019, definition 2.1, of the logit. A square has `size` times the shorter side of the image. Where a map
    predicts a loss of 3 and 1 for two squares and the output falls by 2 and 2, it is ((3 - 2)² + (1 - 2)²) / 2 = 1; the
    best factor β = (3 · 2 + 1 · 2) / (3² + 1²) = 0.8 leaves ((2.4 - 2)² + (0.8 - 2)²) / 2 = 0.8.
    """

    perturb: Literal["square", "noise"] = "square"
    """What is removed: a square at a random place, or Gaussian noise."""
    samples: int = 64
    """Number of perturbations of each image."""
    size: float = 0.25
    fill: Fill = MEAN
    scaled: bool = False
    """Multiply the map by the factor that fits best first."""

    def __post_init__(self) -> None:
        if self.samples < 1:
            raise ValueError(f"samples must be at least 1, not {self.samples}")
        if self.size <= 0 or (self.perturb == "square" and self.size > 1):
            raise ValueError(f"size must be above 0, and a square at most 1, not {self.size}")

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """The infidelity of the map, and of the map times its best factor."""
        classifier, inputs, targets = case.classifier, case.inputs, case.targets
        draws = rng.child("infidelity")

        def changed_images() -> Iterator[tuple[Tensor, Tensor]]:
            if self.perturb == "noise":
                yield from ((inputs - noise.unsqueeze(1), targets) for noise in self.perturbations(inputs, rng=draws))
                return
            filled = self.fill(classifier, inputs, rng=rng)
            for squares in self._squares(inputs, draws).masks(at_once=classifier.copies(inputs)):
                # As exact as `where`, because weights are 0 or 1, and five times as fast.
                yield torch.lerp(inputs, filled, squares.to(inputs)).flatten(0, 1), targets.repeat(len(squares))

        key = ("infidelity", self.perturb, self.samples, self.size, self.fill, rng)
        after = classifier.cached(key, inputs, targets, lambda: classifier.scores(changed_images(), "logit"))
        loss = classifier.output(inputs, targets, "logit").double()[:, None] - after.double().view(self.samples, -1).T
        maps = case.maps.double()
        if self.perturb == "square":
            predicted = self._squares(inputs, draws).sums(maps)
        else:
            predicted = torch.stack([(maps * noise).sum(dim=(1, 2)) for noise in self.perturbations(inputs, rng=draws)], 1)
        power = predicted.square().sum(dim=1, keepdim=True)
        # A map of zeros is the same under every factor.
        factor = torch.where(power == 0, 0.0, (predicted * loss).sum(dim=1, keepdim=True) / power)
        errors = [(predicted - loss).square().mean(dim=1), (factor * predicted - loss).square().mean(dim=1)]
        return torch.stack(errors, dim=1).to(case.maps.dtype)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The first value, or with `scaled` the second."""
        return curve[:, int(self.scaled)]

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """Without and with the best factor."""
        return ("plain", "scaled")

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """All passes; they are the same for every method."""
        key = ("images", "infidelity", self.perturb, self.samples, self.size, self.fill)
        return output_parts() | {key: Passes(forward=self.samples)}

    def perturbations(
        self, inputs: Float[Tensor, "batch channels height width"], *, rng: Rng
    ) -> Iterator[Float[Tensor, "batch height width"]]:
        """The perturbations I of the formula, one per sample: ones in a square, or noise."""
        if self.perturb == "square":
            yield from (squares[0, :, 0].to(inputs) for squares in self._squares(inputs, rng).masks(at_once=1))
            return
        for draw in range(self.samples):
            yield self.size * rng.normal(f"noise {draw}", tuple(inputs.shape[2:])).to(inputs)

    def _squares(self, inputs: Float[Tensor, "batch channels height width"], rng: Rng) -> _Squares:
        size = inputs.shape[2:]
        side = max(1, round(self.size * min(size)))
        corners = rng.uniform("corners", (self.samples, 2)).to(inputs.device)
        first = [(corners[:, :, axis, None] * (length - side + 1)).long() for axis, length in enumerate(size)]
        places = [torch.arange(length, device=inputs.device) for length in size]
        down, across = ((at >= start) & (at < start + side) for at, start in zip(places, first, strict=True))
        return _Squares(down, across)


@dataclass(frozen=True, eq=False)
class _Squares:
    """The rows and the columns of a square per image and draw."""

    down: Bool[Tensor, "batch draws height"]
    across: Bool[Tensor, "batch draws width"]

    def masks(self, *, at_once: int) -> Iterator[Float[Tensor, "draws batch 1 height width"]]:
        """The squares of one draw after another, 1 inside and 0 outside, so many draws at once."""
        down, across = (sides.transpose(0, 1).float().contiguous() for sides in (self.down, self.across))
        for some_down, some_across in zip(down.split(at_once), across.split(at_once), strict=True):
            yield some_down[:, :, None, :, None] * some_across[:, :, None, None, :]

    def sums(self, maps: Float[Tensor, "batch height width"]) -> Float[Tensor, "batch draws"]:
        """The sum of each map over each of its squares."""
        total: Tensor = (self.down.to(maps) @ maps * self.across).sum(dim=2)
        return total
