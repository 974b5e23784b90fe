"""Complexity: over how many pixels a map spreads its weight."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.maps.folding import mass
from snellen.plugins.registry import metric
from snellen.types import Case, NoPasses, Rng


@metric(
    "complexity",
    cite="bhatt2020",
    attribute="minimality",
    higher_is_better=False,
    bounds=(0.0, float("inf")),
    undefined="the map is zero everywhere",
    formula="−Σ p ln p, with p = |a| / Σ|a|",
    reading="The natural logarithm, on all pixels; magnitudes, so that signs do not cancel.",
    caveats={
        "zhang2024": "most methods lie close together, and a map may be as simple as one wrong pixel",
    },
)
@dataclass(frozen=True)
class Complexity(NoPasses):
    """The entropy, in nats, of the map's magnitude shared out over the pixels: 0 when a single pixel has it all.

    Bhatt et al. 2020: -Σ p ln p with p = |a| / Σ|a|. Two equal pixels and zeros elsewhere give ln 2 = 0.693; a constant
    map of n pixels gives ln n, the largest value there is.
    """

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        shares = mass(case.maps.double())
        entropy: Tensor = torch.special.entr(shares).sum(dim=(1, 2))
        return entropy.to(case.maps.dtype)
