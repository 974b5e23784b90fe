"""Region perturbation: how far the output falls when whole regions are replaced, most salient first."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from snellen.classifier import Classifier
from snellen.classifier.outputs import TargetOutputs
from snellen.maps.fills import NOISE
from snellen.metrics.case_cache import output_parts
from snellen.metrics.pixel_removal import (
    check_steps,
    even_counts,
    outputs_by_rank,
    pixel_ranks,
    removal_outputs,
    removal_parts,
)
from snellen.plugins.registry import metric
from snellen.types import Case, CurveMetric, Fill, Output, Passes, Rng


@metric(
    "region-perturbation",
    cite="samek2017",
    attribute="input-sensitivity",
    higher_is_better=True,
    bounds=(-1.0, 1.0),
    undefined="the map holds NaN",
    test="Region Perturbation",
    formula="AOPC = 1/(L+1) Σₖ (f(x) − f(xₖ)), k = 0…L, where xₖ has other pixels in its k/L · share most salient regions",
    reading="Regions of 9×9 uniform random pixels as in Samek et al. 2017, but replaced until none is left, in at most 28 "
    "steps; the preset samek2017 replaces one by one the first 100 of the 625 regions of a 224×224 image.",
    caveats={
        "hooker2019": "images with noisy holes are unlike what the classifier was trained on, so a fall may be due to "
        "the holes alone",
    },
    presets={"samek2017": {"steps": 100, "share": 0.16}},
)
@dataclass(frozen=True)
class RegionPerturbation(CurveMetric):
    """How far the target's probability falls on average while square regions are replaced by noise, most salient first.

    Samek et al. 2017, equation 12: the area over the perturbation curve (AOPC), the unchanged image included. A grid of
    `region`×`region` pixels covers the image; where it does not fit, the regions at the right and lower edges are
    smaller. Regions are ordered by their mean. The bounds hold for probabilities, not for `of="logit"`. Probabilities
    0.9, 0.3, 0.3 give (0 + 0.6 + 0.6) / 3 = 0.4.
    """

    region: int = 9
    steps: int = 28
    """Most steps of replacement."""
    share: float = 1.0
    """The share of all regions that is replaced in the end."""
    fill: Fill = NOISE
    of: Output = "probability"

    def __post_init__(self) -> None:
        check_steps(self.steps)
        if self.region < 1:
            raise ValueError(f"region must be at least 1, not {self.region}")
        if not 0 < self.share <= 1:
            raise ValueError(f"share must be above 0 and at most 1, not {self.share}")

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """The target's output, starting with the whole image."""
        return self._outputs(case, rng).of(self.of)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The mean fall below the first point, which is included."""
        return (curve[:, :1] - curve).mean(dim=1)

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """One pass per point."""
        return Passes(forward=len(self._counts(size)))

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The unchanged image; with regions of one pixel the curve is that of deletion."""
        if self._pixelwise:
            return removal_parts(self.fill, keep_salient=False, steps=self.steps, size=size)
        return output_parts()

    @property
    def _pixelwise(self) -> bool:
        return self.region == 1 and self.share == 1

    def _outputs(self, case: Case, rng: Rng) -> TargetOutputs:
        if self._pixelwise:
            return removal_outputs(case, self.fill, keep_salient=False, steps=self.steps, rng=rng)
        return outputs_by_rank(
            case, self._order(case.maps, rng), self._counts(case.size), self.fill, keep_salient=False, rng=rng
        )

    def _order(self, maps: Float[Tensor, "batch height width"], rng: Rng) -> Int[Tensor, "batch height width"]:
        """The rank of each pixel's region."""
        means = functional.avg_pool2d(maps.double().unsqueeze(1), self.region, ceil_mode=True).squeeze(1)
        region_ranks = pixel_ranks(means, rng=rng)
        wide = region_ranks.repeat_interleave(self.region, dim=1).repeat_interleave(self.region, dim=2)
        return wide[:, : maps.shape[1], : maps.shape[2]]

    def _counts(self, size: tuple[int, int]) -> list[int]:
        """The number of replaced regions at each point."""
        regions = -(-size[0] // self.region) * -(-size[1] // self.region)
        return even_counts(self.steps, max(1, round(self.share * regions)))
