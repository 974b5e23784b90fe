"""Pointing games: whether the maximum, or the positive part, of the map lies on the object that a person marked."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from snellen.metrics.requirements import require_truth
from snellen.plugins.registry import metric
from snellen.types import Case, NoPasses, Rng


@metric(
    "pointing-game",
    cite="zhang2018",
    attribute="perceptual-correspondence",
    higher_is_better=True,
    bounds=(0.0, 1.0),
    rank_only=True,
    needs={"truth"},
    undefined="the truth is empty",
    test="The Pointing Game",
    formula="1 if argmax a ∈ T, else 0; equal maxima share it",
    reading="No tolerance: Zhang et al. 2018 count a pixel within 15 pixels of the object as on it (`tolerance=15`).",
    caveats={"zhang2018": "objects of photographs lie near the middle, so a map of the centre is a strong baseline"},
    presets={"zhang2018": {"tolerance": 15}},
)
@dataclass(frozen=True)
class PointingGame(NoPasses):
    """Whether the most salient pixel lies on the marked object (1) or not (0).

    Zhang et al. 2018. Where several pixels share the maximum the score is the share of them that lie on the object: two
    equal maxima, one inside, give 0.5. A pixel within `tolerance` pixels of the object counts as on it; the authors
    allow 15 on full-size photographs, the default is 0.
    """

    tolerance: int = 0

    def __post_init__(self) -> None:
        if self.tolerance < 0:
            raise ValueError(f"tolerance must not be negative, not {self.tolerance}")

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        truth = require_truth(case, "pointing-game")
        highest = case.maps == case.maps.amax(dim=(1, 2), keepdim=True)
        hits = (highest & _dilate(truth, self.tolerance)).sum(dim=(1, 2))
        return (hits / highest.sum(dim=(1, 2))).masked_fill(~truth.flatten(1).any(dim=1), torch.nan)


@metric(
    "energy-pointing-game",
    cite="wang2020",
    attribute="perceptual-correspondence",
    higher_is_better=True,
    bounds=(0.0, 1.0),
    needs={"truth"},
    undefined="the truth is empty, or the map has no positive value",
    formula="Σ_T max(a, 0) / Σ max(a, 0)",
    reading="Wang et al. 2020 rectify their maps, and so does this; relevance-mass counts magnitudes instead.",
    caveats={"wang2020": "a constant map scores the truth's share of the image, so large objects score high"},
)
@dataclass(frozen=True)
class EnergyPointingGame(NoPasses):
    """The share of the map's positive values that lies on the marked object.

    Wang et al. 2020 define it for rectified maps, so a signed map is rectified too. Values 3 inside, 1 and -5 outside
    give 3 / 4 = 0.75.
    """

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        truth = require_truth(case, "energy-pointing-game")
        energy = case.maps.clamp_min(0).double()
        share = (energy * truth).sum(dim=(1, 2)) / energy.sum(dim=(1, 2))
        return share.masked_fill(~truth.flatten(1).any(dim=1), torch.nan).to(case.maps.dtype)


def _dilate(truth: Bool[Tensor, "batch height width"], reach: int) -> Bool[Tensor, "batch height width"]:
    """The mask with every pixel whose centre is at most `reach` pixels away from it."""
    if not reach:
        return truth
    steps = torch.arange(-reach, reach + 1, device=truth.device)
    disc = (steps.view(-1, 1) ** 2 + steps**2 <= reach**2).float()
    return functional.conv2d(truth.float().unsqueeze(1), disc[None, None], padding=reach).squeeze(1) > 0.5
