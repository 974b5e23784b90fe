"""Average drop, increase, gain and local accuracy: the change of the confidence when the map masks the image.

All use the same two probabilities, for the image and for the masked image, which are computed once per case.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.fills import BLACK
from snellen.maps.folding import unit_mask
from snellen.maps.row_ranges import has_nan
from snellen.metrics.case_cache import cached_per_case, output_parts
from snellen.plugins.registry import metric
from snellen.types import Case, Fill, Passes, Rng, SharedPasses

_CONSTANT = "the map is constant, so it has no mask"
_TINY = torch.finfo(torch.float32).tiny
_READING = (
    "The mask is the magnitude stretched to [0, 1] and fades to black pixels, as in the published code of Zhang et al. "
    "2024; `fill=mean` multiplies the normalised image instead, as in that of Poppi et al. 2021."
)
_FOOLED = {"poppi2021": "a map of ones that hides a single pixel (fake-cam) scores almost perfectly and is useless"}


@dataclass(frozen=True)
class _MaskedConfidence(SharedPasses, Protocol):
    """The setting of all four metrics; they read the same two probabilities."""

    fill: Fill = BLACK

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The outputs for the image and the masked image."""
        return confidence_parts(self.fill)


@metric(
    "average-drop",
    cite="chattopadhay2018",
    attribute="input-sensitivity",
    higher_is_better=False,
    bounds=(0.0, 1.0),
    needs_output="probability",
    undefined=_CONSTANT,
    formula="[p(x) − p(x⊙m)]₊ / p(x)",
    reading=_READING,
    caveats=_FOOLED,
    presets={"poppi2021": {"fill": "mean"}},
)
@dataclass(frozen=True)
class AverageDrop(_MaskedConfidence):
    """The share of its confidence that the classifier loses when the map masks the image: low is good.

    Chattopadhay et al. 2018: [p - o]+ / p, with p the target's probability on the image and o on the masked image. The
    mask is |map| stretched to [0, 1] and fades to `fill`. From p = 0.8 to o = 0.6 the drop is 0.25. A softmax is never
    exactly 0, so p = 0 is rounding and counts as no drop.
    """

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        before, after = confidences(case, self.fill, rng)
        return (before - after).clamp_min(0) / before.clamp_min(_TINY)


@metric(
    "average-increase",
    cite="chattopadhay2018",
    attribute="input-sensitivity",
    higher_is_better=True,
    bounds=(0.0, 1.0),
    needs_output="probability",
    undefined=_CONSTANT,
    formula="1[p(x⊙m) > p(x)]",
    reading=_READING,
    caveats={"zhang2024": "the slightest increase counts as much as a large one, so a map that hides next to nothing wins"},
    presets={"poppi2021": {"fill": "mean"}},
)
@dataclass(frozen=True)
class AverageIncrease(_MaskedConfidence):
    """Whether the classifier is more confident about the masked image than about the whole (1) or not (0).

    Chattopadhay et al. 2018: 1[o > p], as for average-drop; its mean is the share of images with more confidence. From p
    = 0.8 to o = 0.6 it is 0, from p = 0.6 to o = 0.8 it is 1.
    """

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        before, after = confidences(case, self.fill, rng)
        return (after > before).to(after.dtype).masked_fill(after.isnan(), torch.nan)


@metric(
    "average-gain",
    cite="zhang2024opticam",
    attribute="input-sensitivity",
    higher_is_better=True,
    bounds=(0.0, 1.0),
    needs_output="probability",
    undefined=_CONSTANT,
    formula="[p(x⊙m) − p(x)]₊ / (1 − p(x))",
    reading=_READING,
    caveats={"zhang2024": "most maps gain nothing on most images, so few images decide the mean"},
)
@dataclass(frozen=True)
class AverageGain(_MaskedConfidence):
    """The gain of confidence when the map masks the image, as a share of what is missing to 1: high is good.

    Zhang et al. 2024 (Opti-CAM): [o - p]+ / (1 - p), as for average-drop. From p = 0.6 to o = 0.8 the gain is 0.5. A
    softmax is never exactly 1, so p = 1 is rounding and counts as no gain.
    """

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        before, after = confidences(case, self.fill, rng)
        return (after - before).clamp_min(0) / (1 - before).clamp_min(_TINY)


@metric(
    "local-accuracy",
    cite="lundberg2017",
    attribute="input-sensitivity",
    higher_is_better=False,
    bounds=(0.0, 1.0),
    needs_output="probability",
    undefined=_CONSTANT,
    formula="|p(x) − p(x⊙m)|",
    reading="Lundberg & Lee 2017 name the property; the number is that of Zhang et al. 2024, section 4.1. " + _READING,
    caveats={**_FOOLED, "zhang2024": "it does not distinguish a loss of confidence from a gain"},
)
@dataclass(frozen=True)
class LocalAccuracy(_MaskedConfidence):
    """The absolute change of the confidence when the map masks the image: 0 is no change.

    Lundberg & Lee 2017, as Zhang et al. 2024 read it for images: |p - o|, as for average-drop. From p = 0.8 to o = 0.6
    it is 0.2, and so it is from 0.6 to 0.8.
    """

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        before, after = confidences(case, self.fill, rng)
        return (before - after).abs()


def confidence_parts(fill: Fill) -> dict[Hashable, Passes]:
    """The cost of `confidences`, by cache key."""
    return output_parts() | {("confidence", fill): Passes(forward=1)}


def mask_inputs(
    case: Case, fill: Fill, *, rng: Rng
) -> tuple[Float[Tensor, "batch channels height width"], Bool[Tensor, " batch"]]:
    """Each image masked by its map, and whether the map has no mask; then the image is the fill alone."""
    mask = unit_mask(case.maps)
    missing = has_nan(mask)
    if bool(missing.any()):
        mask = mask.nan_to_num(0.0)
    # Normalisation is affine, so mixing inputs with the fill's inputs is the same as mixing pixels.
    filled = fill(case.classifier, case.inputs, rng=rng)
    return torch.lerp(filled, case.inputs, mask.unsqueeze(1).to(case.inputs)), missing


def confidences(case: Case, fill: Fill, rng: Rng) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
    """The target's probability for the image, and for the masked image (NaN where there is no mask)."""

    def compute() -> tuple[Tensor, Tensor]:
        masked, missing = mask_inputs(case, fill, rng=rng)
        after = case.classifier.scores([(masked, case.targets)], "probability").masked_fill(missing, torch.nan)
        return case.classifier.output(case.inputs, case.targets, "probability"), after

    return cached_per_case(case, ("confidences", fill, rng), compute)
