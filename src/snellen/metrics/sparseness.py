"""Sparseness: how unequally a map spreads its weight."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.maps.folding import mass
from snellen.maps.sorted_rows import sort_rows
from snellen.plugins.registry import metric
from snellen.types import Case, NoPasses, Rng


@metric(
    "sparseness",
    cite="chalasani2020",
    attribute="minimality",
    higher_is_better=True,
    bounds=(0.0, 1.0),
    undefined="the map is zero everywhere",
    formula="1 − 2 Σₖ pₖ (n − k + ½) / n, with the shares p = |a| / Σ|a| in rising order",
    reading="The Gini index of Hurley & Rickard 2009 that Chalasani et al. 2020 use, on magnitudes.",
    caveats={
        "zhang2024": "most methods lie close together, and a map may be as sparse as one wrong pixel",
    },
)
@dataclass(frozen=True)
class Sparseness(NoPasses):
    """The Gini index of the map's magnitude: 0 when all pixels weigh the same, near 1 when a few have it all.

    Chalasani et al. 2020, after Hurley & Rickard 2009: 1 - 2 Σ p_k (n - k + 1/2) / n over the shares p_k in rising
    order. Of four pixels, weights 0, 0, 0, 1 give 1 - 2·1·(1/2)/4 = 0.75.
    """

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        shares = sort_rows(mass(case.maps.double()).flatten(1))
        count = shares.shape[1]
        above = torch.arange(count, 0, -1, dtype=shares.dtype, device=shares.device) - 0.5
        # A constant map is 0 by definition; rounding must not push it below.
        return (1 - 2 * (shares * above).sum(dim=1) / count).clamp_min(0).to(case.maps.dtype)
