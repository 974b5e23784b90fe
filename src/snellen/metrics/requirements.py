"""Reads what a metric requires of a case; raises with a remedy where it is missing."""

from __future__ import annotations

from jaxtyping import Bool, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.plugins.registry import label
from snellen.types import Case, Metric


def require_truth(case: Case, name: str) -> Bool[Tensor, "batch height width"]:
    """The truth mask of every sample; `name` is the metric's."""
    if case.truth is None:
        raise SnellenError(f"{name} needs a truth mask, but these samples have none; drop the metric or give masks")
    return case.truth


def require_labels(case: Case, name: str) -> Int[Tensor, " batch"]:
    """The true classes, -1 where unlabelled; `name` is the metric's."""
    if case.labels is None:
        raise SnellenError(f"{name} needs labels: give --labels or class sub-folders")
    return case.labels


def require_variant(case: Case, metric: Metric, name: str) -> Classifier:
    """The variant of the classifier with this name."""
    if name not in case.variants:
        raise SnellenError(f"{label(metric)} needs the variant '{name}' of the classifier: give --recipe and --training")
    return case.variants[name]
