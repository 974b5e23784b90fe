"""Insertion: how fast the target's probability rises when the most salient pixels are inserted first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from snellen.maps.fills import BLUR
from snellen.metrics.pixel_removal import RemovalMetric, area_under_curve
from snellen.plugins.registry import metric
from snellen.types import Case, CurveMetric, Fill, Output, Rng


@metric(
    "insertion",
    cite="petsiuk2018",
    attribute="input-sensitivity",
    higher_is_better=True,
    bounds=(0.0, 1.0),
    rank_only=True,
    undefined="the map holds NaN",
    test="Insertion",
    formula="∫₀¹ p(blur with the t most salient pixels of x) dt, by the trapezoid rule",
    reading="28 steps of the softmax probability from the blur of Petsiuk et al. 2018 (window 11); the published code of "
    "Zhang et al. 2024 starts from a window of 5, which hides less (preset zhang2024).",
    caveats={
        "tomsett2020": "the order of methods differs from image to image and with the fill",
        "gomez2022": "only the order of the pixels counts; how much more one weighs than another is ignored",
    },
    presets={
        "petsiuk2018": {"steps": 224},
        "zhang2024": {"fill": {"name": "blur", "params": {"kernel": 5}}},
    },
)
@dataclass(frozen=True)
class Insertion(CurveMetric, RemovalMetric):
    """The target's mean probability while pixels are inserted into a blurred image, most salient first: high is good.

    Petsiuk et al. 2018. In each of `steps` equal steps the next pixels of the image replace the fill. Probabilities 0.2,
    0.8, 0.8 with nothing, half and all inserted give (0.2 / 2 + 0.8 + 0.8 / 2) / 2 = 0.65. The bounds hold for
    probabilities, not for `of="logit"`.
    """

    keep_salient: ClassVar[bool] = True
    steps: int = 28
    """Number of equal steps of insertion."""
    fill: Fill = BLUR
    of: Output = "probability"

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """The target's output from the fill alone to the whole image."""
        return self.outputs(case, rng).of(self.of)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The normalised area under each curve."""
        return area_under_curve(curve)
