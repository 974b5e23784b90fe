"""Deletion: how fast the target's probability falls when the most salient pixels are removed first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from snellen.maps.fills import MEAN
from snellen.metrics.pixel_removal import RemovalMetric, area_under_curve
from snellen.plugins.registry import metric
from snellen.types import Case, CurveMetric, Fill, Output, Rng


@metric(
    "deletion",
    cite="petsiuk2018",
    attribute="input-sensitivity",
    higher_is_better=False,
    bounds=(0.0, 1.0),
    rank_only=True,
    undefined="the map holds NaN",
    test="Deletion",
    formula="∫₀¹ p(x without its t most salient pixels) dt, by the trapezoid rule",
    reading="28 steps of the softmax probability onto zero inputs, as in the batch evaluation of Petsiuk et al. 2018 and in "
    "Zhang et al. 2024; for single images the authors of the first take 224 steps (preset petsiuk2018).",
    caveats={
        "hooker2019": "images with holes are unlike what the classifier was trained on, so its output may be due to holes",
        "tomsett2020": "the order of methods differs from image to image and with the fill",
        "gomez2022": "only the order of the pixels counts; how much more one weighs than another is ignored",
    },
    presets={"petsiuk2018": {"steps": 224}, "zhang2024": {"steps": 28}},
)
@dataclass(frozen=True)
class Deletion(CurveMetric, RemovalMetric):
    """The target's mean probability while pixels are removed, most salient first: low is good.

    Petsiuk et al. 2018. In each of `steps` equal steps the next pixels take the fill's value; 28 steps on 224×224 are
    the authors' 1792 pixels at a time. Probabilities 0.8, 0.2, 0.2 at nothing, half and all removed give (0.8 / 2 + 0.2
    + 0.2 / 2) / 2 = 0.35. The bounds hold for probabilities, not for `of="logit"`.
    """

    keep_salient: ClassVar[bool] = False
    steps: int = 28
    """Number of equal steps of removal."""
    fill: Fill = MEAN
    of: Output = "probability"

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """The target's output from the whole image to the fill alone."""
        return self.outputs(case, rng).of(self.of)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The normalised area under each curve."""
        return area_under_curve(curve)
