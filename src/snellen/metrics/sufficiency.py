"""Sufficiency and minimality: the output for the most salient pixels alone, and how many of them are needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.maps.fills import MEAN
from snellen.maps.row_ranges import has_nan
from snellen.metrics.pixel_removal import RemovalMetric, removal_counts
from snellen.plugins.registry import metric
from snellen.types import Case, CurveMetric, Fill, NoPasses, Output, Rng

_TINY = torch.finfo(torch.float32).tiny


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} must be between 0 and 1, not {value}")


@metric(
    "sufficiency",
    cite="carter2019",
    attribute="input-sensitivity",
    higher_is_better=True,
    bounds=(0.0, 1.0),
    needs_output="probability",
    rank_only=True,
    undefined="the map holds NaN, or the target's probability is so small that it is rounded to zero",
    version=2,
    test="Sufficiency",
    formula="min(1, p(x_S) / p(x)), where x_S keeps only the `share` most salient pixels S",
    reading="The card asks whether the salient pixels suffice for a confident prediction; a map does not say how many are "
    "salient, so the first quarter is taken. Carter et al. 2019 ask it of the sets that their own method finds.",
    caveats={
        "carter2021": "classifiers may be confident about a few pixels in which people see nothing, so that a map can be "
        "sufficient without making sense",
    },
)
@dataclass(frozen=True)
class Sufficiency(CurveMetric, RemovalMetric):
    """How much of the target's probability is left when only the most salient quarter of the pixels is kept.

    After Carter et al. 2019; all other pixels take the fill's value. `share` is taken at the nearest of `steps` equal
    steps. From p = 0.8 on the image to 0.6 on its salient quarter the score is 0.75; more than before counts as 1.
    """

    keep_salient: ClassVar[bool] = True
    share: float = 0.25
    steps: int = 28
    fill: Fill = MEAN

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_share("share", self.share)

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """The target's probability from nothing kept to the whole image."""
        return self.outputs(case, rng).probability

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The ratio of the point at `share` to the last, at most 1."""
        at = round(self.share * (curve.shape[1] - 1))
        whole = curve[:, -1]
        return (curve[:, at] / whole).clamp_max(1).masked_fill(whole == 0, torch.nan)


@metric(
    "minimality",
    cite="carter2019",
    attribute="minimality",
    higher_is_better=False,
    bounds=(0.0, 1.0),
    needs_output="decision",
    rank_only=True,
    undefined="the map holds NaN, or the target is not the prediction for the whole image",
    version=2,
    test="Minimality",
    formula="min k/L such that argmax f(xₖ) is the target and p(xₖ) ≥ 0.9 p(x), where xₖ keeps the k/L most salient pixels",
    reading="The card asks whether the salient pixels are the smallest set that suffices; here the size of the first set in "
    "the map's own order that does. Carter et al. 2019 choose the threshold per model; `confidence` is relative to p(x).",
    caveats={
        "carter2021": "classifiers may be confident about a few pixels in which people see nothing, so that a small set "
        "need not make sense",
    },
)
@dataclass(frozen=True)
class Minimality(CurveMetric, RemovalMetric):
    """The smallest share of the most salient pixels that keeps the prediction and most of its probability: low is good.

    After Carter et al. 2019; all other pixels take the fill's value. Probabilities 0.1, 0.75, 0.8 with nothing, half and
    all kept give 0.5 if the target is the prediction from the second on, as 0.75 ≥ 0.9 · 0.8. 1: only the whole image
    does.
    """

    keep_salient: ClassVar[bool] = True
    confidence: float = 0.9
    """The share of the target's probability that must be kept."""
    steps: int = 28
    """Number of equal steps of removal."""
    fill: Fill = MEAN

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_share("confidence", self.confidence)

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """The target's probability relative to the whole image's, from nothing to all; 0 where it is not the prediction."""
        outputs = self.outputs(case, rng)
        ratio = outputs.probability / outputs.probability[:, -1:].clamp_min(_TINY)
        is_predicted = outputs.predicted == case.targets.unsqueeze(1)
        return ratio.masked_fill(~is_predicted & ~ratio.isnan(), 0.0).masked_fill(~is_predicted[:, -1:], torch.nan)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The first point that is high enough, as a share of the curve."""
        # Zero means that the target is not the prediction, which is never high enough.
        first = ((curve >= self.confidence) & (curve > 0)).float().argmax(dim=1)
        return (first / (curve.shape[1] - 1)).masked_fill(curve[:, -1].isnan(), torch.nan)


@metric(
    "effective-complexity",
    cite="nguyen2020",
    attribute="minimality",
    higher_is_better=False,
    bounds=(0.0, float("inf")),
    rank_only=True,
    undefined="the map holds NaN",
    formula="min |Mₖ| such that (f(x) − f(x ⊙ Mₖ))² ≤ 0.01, where Mₖ keeps the k most salient pixels",
    reading="The definition of Nguyen & Martínez 2020 as Zhang et al. 2024 write it, on the target's probability and at the "
    "points of the removal curve; what Zhang et al. computed is effective-complexity-count.",
    caveats={"carter2021": "classifiers may be confident about a few pixels that mean nothing to people"},
)
@dataclass(frozen=True)
class EffectiveComplexity(RemovalMetric):
    """The least number of most salient pixels that keep the target's output where it was: low is good.

    Nguyen & Martínez 2020: squared loss at most `tolerance`. Pixels come in `steps` equal steps, so the count is rounded
    up to a step; 0 means that the fill alone gets the same output. Probabilities 0.1, 0.85, 0.9 with 0, 8 and 16 pixels
    kept give 8, as (0.9 - 0.85)² = 0.0025 ≤ 0.01.
    """

    keep_salient: ClassVar[bool] = True
    tolerance: float = 0.01
    steps: int = 28
    fill: Fill = MEAN
    of: Output = "probability"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tolerance < 0:
            raise ValueError(f"tolerance must not be negative, not {self.tolerance}")

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        outputs = self.outputs(case, rng).of(self.of)
        loss = (outputs - outputs[:, -1:]).square()
        counts = torch.tensor(removal_counts(self.steps, case.size), dtype=outputs.dtype)
        first = (loss <= self.tolerance).float().argmax(dim=1)
        return counts[first].masked_fill(outputs[:, -1].isnan(), torch.nan)


@metric(
    "effective-complexity-count",
    cite="nguyen2020",
    attribute="minimality",
    higher_is_better=False,
    bounds=(0.0, float("inf")),
    undefined="the map holds NaN",
    formula="#{i : |aᵢ| > 10⁻⁵}",
    reading="What the published code of Zhang et al. 2024 computes as effective complexity; the definition in "
    "their text is effective-complexity.",
    caveats={
        "zhang2024": "a map without exact zeros has nearly all of its pixels counted: a constant map "
        "with one dark pixel has 50175 of 50176"
    },
)
@dataclass(frozen=True)
class EffectiveComplexityCount(NoPasses):
    """How many pixels of the map are not (nearly) zero: low is good.

    Nguyen & Martínez 2020 as coded: magnitudes above `threshold`, on the map as it is. It therefore depends on the map's
    unit. Values 0.5, -0.5, 0 and 0.000001 give 2.
    """

    threshold: float = 1e-5

    def __post_init__(self) -> None:
        if self.threshold < 0:
            raise ValueError(f"threshold must not be negative, not {self.threshold}")

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        flat = case.maps.flatten(1)
        return (flat.abs() > self.threshold).sum(dim=1).to(flat.dtype).masked_fill(has_nan(flat), torch.nan)
