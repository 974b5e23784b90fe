"""Stability: the rank correlation of the map with that of the worst small change of the image that was found."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.row_ranges import has_nan
from snellen.maps.similarity import correlation
from snellen.maps.sorted_rows import mean_ranks
from snellen.metrics.case_cache import output_parts
from snellen.plugins.registry import metric
from snellen.types import Case, CurveMetric, Passes, Rng


@metric(
    "stability",
    cite="ghorbani2019",
    attribute="input-sensitivity",
    higher_is_better=True,
    bounds=(-1.0, 1.0),
    rank_only=True,
    needs={"explain"},
    needs_output="decision",
    undefined="the map is constant, or no changed image keeps the predicted class and has a map without NaN",
    version=2,
    test="Stability",
    formula="min_δ ρ(Φ(x), Φ(x + δ)), |δ| ≤ r, same prediction",
    reading="Ghorbani et al. 2019 follow the gradient of the map, which few methods have. Here the ball is searched for "
    "every method alike: rounds of images whose input values all change by ±r, each round starting from the worst so far.",
    caveats={
        "ghorbani2019": "a search with few steps finds only an upper limit of the worst case",
        "zhang2024": "a map that never changes (fake-cam) is perfectly stable",
    },
)
@dataclass(frozen=True)
class Stability(CurveMetric):
    """The rank correlation of the map and the map of the worst changed image found: 1 is the same order of pixels.

    Ghorbani et al. 2019, with a search that needs only maps. In each of `rounds`, every input value of `candidates`
    copies changes by ±`radius`; copies that keep the predicted class count. Signs are drawn in tiles of 1, 2, 4 and 8
    pixels: all of them in the first round, then half, a quarter and so on of those of the worst copy so far. As long as
    no copy keeps the class, the next round changes a quarter as much. Each copy costs a map and a pass. Rank
    correlations 0.9, 0.7 and 0.8 give 0.7.
    """

    rounds: int = 5
    candidates: int = 4
    radius: float = 0.1

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.candidates < 1:
            raise ValueError(f"rounds and candidates must be at least 1, not {self.rounds} and {self.candidates}")
        if self.radius < 0:
            raise ValueError(f"radius must not be negative, not {self.radius}")

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """The lowest correlation up to each round."""
        ranks = mean_ranks(case.maps.double().flatten(1))
        predicted = case.classifier.cached_outputs(case.inputs, case.targets).predicted
        worst = torch.full((len(case),), torch.inf, dtype=torch.float64)
        best = torch.zeros_like(case.inputs)
        step = torch.full((len(case), 1, 1, 1, 1), self.radius).to(case.inputs)
        lowest_so_far = []
        for turn in range(self.rounds):
            signs = self._signs(best, 0.5**turn, rng.child(f"stability/{turn}"))
            alike = self._likeness(case, ranks, predicted, signs * step, turn, rng)
            lowest = alike.nan_to_num(torch.inf).min(dim=1)
            better = lowest.values < worst
            worst = torch.where(better, lowest.values, worst)
            best[better] = signs[better, lowest.indices[better]]
            step[worst.isinf()] /= 4
            lowest_so_far.append(worst.masked_fill(worst.isinf(), torch.nan))
        undefined = has_nan(case.maps).unsqueeze(1)
        return torch.stack(lowest_so_far, dim=1).masked_fill(undefined, torch.nan).to(case.maps.dtype)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The lowest correlation after the last round."""
        return curve[:, -1]

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """The outputs for the image, and a map and a pass per changed copy."""
        return (explain + Passes(forward=1)) * (self.rounds * self.candidates) + Passes(forward=1)

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The unchanged image."""
        return output_parts()

    def _signs(
        self, best: Float[Tensor, "batch channels height width"], share: float, rng: Rng
    ) -> Float[Tensor, "batch candidates channels height width"]:
        """The sign of the change of each input value: as in the worst copy so far, except for a share of new signs."""
        channels, height, width = best.shape[1:]
        signs = []
        for candidate in range(self.candidates):
            side = max(1, min(2 ** (candidate % 4), height // 2, width // 2))
            tiles = rng.child(str(candidate)).uniform("signs", (2, channels, -(-height // side), -(-width // side))).to(best)
            whole = tiles.repeat_interleave(side, dim=3).repeat_interleave(side, dim=4)[..., :height, :width]
            redrawn = (whole[:, 0] < share) | (best == 0)
            signs.append(torch.where(redrawn, torch.where(whole[:, 1] < 0.5, -1.0, 1.0).to(best), best))
        return torch.stack(signs, dim=1)

    def _likeness(
        self, case: Case, ranks: Tensor, predicted: Tensor, moves: Tensor, turn: int, rng: Rng
    ) -> Float[Tensor, "batch candidates"]:
        """The correlation with the map of each candidate; NaN where its prediction changes or its map holds NaN."""
        moved = (case.inputs.unsqueeze(1) + moves).flatten(0, 1)
        draws = rng.child(f"stability/{turn}/explain").repeat(range(self.candidates))
        maps = case.explain(moved, rng=draws)
        after = case.classifier.target_outputs([(moved, case.targets.repeat_interleave(self.candidates))]).predicted
        alike = correlation(ranks.repeat_interleave(self.candidates, dim=0), mean_ranks(maps.double().flatten(1)))
        valid = (after == predicted.repeat_interleave(self.candidates)) & ~has_nan(maps)
        return alike.masked_fill(~valid, torch.nan).view(len(case), self.candidates)
