"""Target-sensitivity and random-logit: whether the map of another class is another map.

The method uses the same random draws for both classes, so that only the class differs: with new draws a map of pure
noise would seem perfectly sensitive to the class.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.maps.similarity import Likeness, likeness
from snellen.metrics.case_cache import output_parts
from snellen.plugins.registry import metric
from snellen.types import Case, CurveMetric, Passes, Rng

_CONSTANT = "two constant maps are neither alike nor unlike (for the correlations: one constant map)"


@metric(
    "target-sensitivity",
    cite="zhang2024",
    attribute="label-sensitivity",
    higher_is_better=True,
    bounds=(0.0, 2.0),
    needs={"explain"},
    needs_output="classes",
    undefined=f"the target is itself the least likely class; {_CONSTANT}",
    formula="1 − likeness(Φ(x, c), Φ(x, least likely class))",
    reading="Zhang et al. 2024 (Table 2) explain the right, the predicted and the least likely class and compare scores; "
    "here the maps themselves are compared. The curve also holds the label, where there is one that is not the target.",
    caveats={"zhang2024": "scores for a class that is not in the image hardly distinguish methods"},
)
@dataclass(frozen=True)
class TargetSensitivity(CurveMetric):
    """How unlike the map for the target and the map for the least likely class are: 0 when the class makes no difference.

    After Zhang et al. 2024, Table 2: 1 - structural similarity of the two maps (`likeness` for a correlation instead),
    the same method on the same image. Maps with a similarity of 0.3 give 0.7.
    """

    likeness: Likeness = "ssim"

    def curve(self, case: Case, *, rng: Rng) -> Float[Tensor, "batch points"]:
        """1 - likeness for the least likely class, and for the label where there is one that is not the target."""
        least_likely = case.classifier.head.least(case.classifier.cached_logits(case.inputs))
        maps = case.explain(case.inputs, targets=least_likely, rng=rng)
        away = (1 - likeness(case.maps, maps, self.likeness)).masked_fill(least_likely == case.targets, torch.nan)
        right = torch.full_like(away, torch.nan)
        others = (
            [] if case.labels is None else ((case.labels >= 0) & (case.labels != case.targets)).nonzero().flatten().tolist()
        )
        if case.labels is not None and others:
            draws = replace(rng, ids=tuple(rng.ids[row] for row in others))
            maps = case.explain(case.inputs[others], targets=case.labels[others], rng=draws)
            right[others] = 1 - likeness(case.maps[others], maps, self.likeness)
        return torch.stack([away, right], dim=1)

    def score(self, curve: Float[Tensor, "batch points"]) -> Float[Tensor, " batch"]:
        """The value for the least likely class."""
        return curve[:, 0]

    def points(self, size: tuple[int, int], classifier: Classifier) -> tuple[str, ...]:
        """The classes that the target is compared with."""
        return ("least-likely", "label")

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """The outputs and two maps; one map less for samples without label or with the label as target."""
        return explain * 2 + Passes(forward=1)

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The outputs for all classes."""
        return output_parts()


@metric(
    "random-logit",
    cite="sixt2020",
    attribute="label-sensitivity",
    higher_is_better=False,
    bounds=(-1.0, 1.0),
    needs={"explain"},
    needs_output="classes",
    undefined=f"there is only one class; {_CONSTANT}",
    formula="likeness(Φ(x, c), Φ(x, c′)), c′ ≠ c drawn at random",
    reading="Structural similarity, as in Sixt et al. 2020; `likeness=pearson` or `spearman` for a correlation.",
    caveats={
        "sixt2020": "a low value only says that the maps differ, not that either is right",
    },
)
@dataclass(frozen=True)
class RandomLogit:
    """How alike the map for the target and the map for another class are: 1 when the class makes no difference.

    Sixt et al. 2020: the structural similarity (`likeness` for a correlation instead) of the maps for the target and for
    a class drawn evenly from all others. A method that ignores the class, such as fake-cam, scores 1; a constant map has
    no structural similarity.
    """

    likeness: Likeness = "ssim"

    def __call__(self, case: Case, *, rng: Rng) -> Float[Tensor, " batch"]:
        others = case.classifier.cached_logits(case.inputs).shape[1] - 1  # a contrast is a column too, the last
        classes = (rng.child("random-logit").uniform("class", (1,)).flatten() * others).long().clamp_max(max(0, others - 1))
        classes = (classes + (classes >= case.targets)).clamp_max(others)
        maps = case.explain(case.inputs, targets=classes, rng=rng)
        return likeness(case.maps, maps, self.likeness).masked_fill(classes == case.targets, torch.nan)

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        """The outputs, and a map for another class."""
        return explain + Passes(forward=1)

    def parts(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Mapping[Hashable, Passes]:
        """The outputs for all classes."""
        return output_parts()
