"""Perturbation testing: how far the output falls when the most (MoRF) or least (LeRF) salient pixels are removed first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from snellen.maps.fills import MEAN
from snellen.metrics.pixel_removal import RemovalMetric
from snellen.plugins.registry import metric
from snellen.types import Case, CurveMetric, Fill, Output, Rng

_NAN = "the map holds NaN"
_FILL = (
    "removed means zero inputs (the grey of the training data), and the output is the logit, as in Ancona et al. 2018; "
    '`of="probability"` reads the softmax and `fill=noise` is the exchange of Samek et al. 2017'
)


@metric(
    "morf",
    cite="ancona2018",
    attribute="input-sensitivity",
    higher_is_better=True,
    bounds=(-float("inf"), float("inf")),
    rank_only=True,
    undefined=_NAN,
    test="Perturbation Testing (MoRF)",
    formula="(1/L) Σₖ (f(x) − f(xₖ)), k = 1…L, where xₖ lacks the k/L most salient pixels",
    reading=f"The mean fall over the whole curve; {_FILL}.",
    caveats={
        "hooker2019": "images with grey holes are unlike what the classifier was trained on, so a fall may be due to "
        "the holes alone",
        "tomsett2020": "order of methods differs from image to image and with the fill",
    },
)
@dataclass(frozen=True)
class MoRF(CurveMetric, RemovalMetric):
    """How far the target's output falls on average while pixels are removed, most salient first: high is good.

    Ancona et al. 2018, after Samek et al. 2017. In each of `steps` equal steps the next pixels take the fill's value.
    Outputs 5, 2, 1 at nothing, half and all removed give ((5 - 2) + (5 - 1)) / 2 = 3.5.
    """

    keep_salient: ClassVar[bool] = False
    steps: int = 28
    """Number of equal steps of removal."""
    fill: Fill = MEAN
    of: Output = "logit"

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """The target's output from the whole image to the fill alone."""
        return self.outputs(case, rng).of(self.of)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The mean distance below the first point."""
        return _fall(curve)


@metric(
    "lerf",
    cite="ancona2018",
    attribute="input-sensitivity",
    higher_is_better=False,
    bounds=(-float("inf"), float("inf")),
    rank_only=True,
    undefined=_NAN,
    test="Perturbation Testing (LeRF)",
    formula="(1/L) Σₖ (f(x) − f(xₖ)), k = 1…L, where xₖ lacks the k/L least salient pixels",
    reading=f"The mean fall over the whole curve; {_FILL}.",
    caveats={
        "ancona2018": "the least salient pixels of a signed map are those with evidence against the target, whose removal "
        "may raise the output",
    },
)
@dataclass(frozen=True)
class LeRF(CurveMetric, RemovalMetric):
    """How far the target's output falls on average while pixels are removed, least salient first: low is good.

    Ancona et al. 2018. As morf from the other end: after k of `steps` steps only the most salient pixels are left.
    Outputs 5, 5, 1 at nothing, half and all removed give ((5 - 5) + (5 - 1)) / 2 = 2.
    """

    keep_salient: ClassVar[bool] = True
    steps: int = 28
    """Number of equal steps of removal."""
    fill: Fill = MEAN
    of: Output = "logit"

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """The target's output from the whole image to the fill alone."""
        return self.outputs(case, rng).of(self.of).flip(1)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The mean distance below the first point."""
        return _fall(curve)


def _fall(curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
    return (curve[:, :1] - curve[:, 1:]).mean(dim=1)
