"""Average drop, increase and gain: what the classifier's confidence does when only the salient part stays visible.

The three look at the same pair of probabilities, so the first one asked pays for the masked picture and the others share
it for as long as the case lives.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.folding import unit_mask
from snellen.masking import BLACK
from snellen.metrics.kept import Kept
from snellen.registry import metric
from snellen.types import Case, Fill, Passes, Rng

_CONSTANT = "the map is constant, so it has no mask"
_TINY = torch.finfo(torch.float32).tiny


@metric(
    "average-drop",
    cite="chattopadhay2018",
    attribute="input-sensitivity",
    higher_is_better=False,
    bounds=(0.0, 1.0),
    undefined=_CONSTANT,
)
@dataclass(frozen=True)
class AverageDrop:
    """The share of its confidence that the classifier loses when it sees the picture through the map: low is good.

    Chattopadhay et al. 2018: [p - o]+ / p, with p the target's probability on the picture and o on the masked picture.
    The mask is |map| stretched to [0, 1] and fades to `fill`. From p = 0.8 to o = 0.6 the drop is 0.25. A softmax is
    never exactly 0, so p = 0 is rounding and counts as no drop.
    """

    fill: Fill = BLACK

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        before, after = _confidences(case, self.fill, rng)
        return (before - after).clamp_min(0) / before.clamp_min(_TINY)

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """The picture and the masked picture."""
        return Passes(forward=2)

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """Both pictures."""
        return _parts(self.fill)


@metric(
    "average-increase",
    cite="chattopadhay2018",
    attribute="input-sensitivity",
    higher_is_better=True,
    bounds=(0.0, 1.0),
    undefined=_CONSTANT,
)
@dataclass(frozen=True)
class AverageIncrease:
    """Whether the classifier is more confident when it sees the picture through the map (1) or not (0).

    Chattopadhay et al. 2018: 1[o > p], as for average-drop; its mean is the share of pictures that gained. From p = 0.8
    to o = 0.6 it is 0, from p = 0.6 to o = 0.8 it is 1.
    """

    fill: Fill = BLACK

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        before, after = _confidences(case, self.fill, rng)
        return (after > before).to(after.dtype).masked_fill(after.isnan(), torch.nan)

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """The picture and the masked picture."""
        return Passes(forward=2)

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """Both pictures."""
        return _parts(self.fill)


@metric(
    "average-gain",
    cite="zhang2024opticam",
    attribute="input-sensitivity",
    higher_is_better=True,
    bounds=(0.0, 1.0),
    undefined=_CONSTANT,
)
@dataclass(frozen=True)
class AverageGain:
    """The share of the confidence still to be won that the classifier wins through the map: high is good.

    Zhang et al. 2024 (Opti-CAM): [o - p]+ / (1 - p), as for average-drop. From p = 0.6 to o = 0.8 the gain is 0.5. A
    softmax is never exactly 1, so p = 1 is rounding and counts as no gain.
    """

    fill: Fill = BLACK

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        before, after = _confidences(case, self.fill, rng)
        return (after - before).clamp_min(0) / (1 - before).clamp_min(_TINY)

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """The picture and the masked picture."""
        return Passes(forward=2)

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """Both pictures."""
        return _parts(self.fill)


def _parts(fill: Fill) -> dict[Hashable, Passes]:
    return {("images", "answered"): Passes(forward=1), ("confidence", fill): Passes(forward=1)}


_KEPT: Kept[tuple[Tensor, Tensor]] = Kept()


def _confidences(case: Case, fill: Fill, rng: Rng) -> tuple[Float[Tensor, " batch"], Float[Tensor, " batch"]]:
    """The target's probability on the picture, and on the picture seen through the map (NaN where there is no mask)."""

    def compute() -> tuple[Tensor, Tensor]:
        classifier, inputs, targets = case.classifier, case.inputs, case.targets
        mask = unit_mask(case.maps).unsqueeze(1)
        missing = mask.isnan().flatten(1).any(dim=1)
        # Normalisation is affine, so mixing inputs with the fill's inputs is the same as mixing pixels.
        seen = torch.lerp(fill(classifier, inputs, rng=rng), inputs, mask.nan_to_num(0.0).to(inputs))
        after = classifier.scores([(seen, targets)], "probability").masked_fill(missing, torch.nan)
        return classifier.output(inputs, targets, "probability"), after

    return _KEPT(case, (fill, rng), compute)
