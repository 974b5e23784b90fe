"""What a metric needs of a case, or one sentence that says how it would come to be there."""

from __future__ import annotations

from jaxtyping import Bool, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.plugins.registry import label
from snellen.types import Case, Metric


def truth_of(case: Case, name: str) -> Bool[Tensor, "batch height width"]:
    """The truth of every sample; a metric that needs it refuses to go without."""
    if case.truth is None:
        raise SnellenError(f"{name} needs a truth mask, but these samples have none; drop the metric or give masks")
    return case.truth


def labels_of(case: Case, name: str) -> Int[Tensor, " batch"]:
    """The right classes, -1 where nobody knows."""
    if case.labels is None:
        raise SnellenError(f"{name} needs labels: give --labels or class sub-folders")
    return case.labels


def variant_of(case: Case, metric: Metric, name: str) -> Classifier:
    """The relative of this name."""
    if name not in case.variants:
        raise SnellenError(f"{label(metric)} needs the relative '{name}' of the classifier: give --recipe and --training")
    return case.variants[name]
