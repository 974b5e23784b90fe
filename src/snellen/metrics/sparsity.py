"""Sparsity: how far a map's peak stands above its average."""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from snellen.plugins.registry import metric
from snellen.types import Case, NoPasses, Rng


@metric(
    "sparsity",
    cite="gomez2022",
    attribute="minimality",
    higher_is_better=True,
    bounds=(1.0, float("inf")),
    undefined="the map is zero everywhere",
    test="Sparsity",
    formula="max |a| / mean |a|",
    reading="Maximum over mean, as in Gomez et al. 2022 and the text of the saliency card; the card's template says maximum "
    "over minimum, which most maps cannot be divided by. A signed map counts by its magnitude.",
    caveats={"tomsett2020": "a single wrong peak is enough for a high score, so read it beside a test of fidelity"},
)
@dataclass(frozen=True)
class Sparsity(NoPasses):
    """The map's largest magnitude over its mean magnitude: 1 when all pixels weigh the same, high when few stand out.

    Gomez et al. 2022. Of four pixels, values 3, -1, 0, 0 give 3 / 1 = 3; the most that n pixels can reach is n.
    """

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        size = case.maps.double().abs().flatten(1)
        # A constant map is 1 by definition; rounding must not push it below. 0 / 0 is NaN, as it should be.
        ratio: Tensor = (size.amax(dim=1) / size.mean(dim=1)).clamp_min(1)
        return ratio.to(case.maps.dtype)
