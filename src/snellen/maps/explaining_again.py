"""Which metrics cannot score maps that no method computes: those that would have to explain again."""

from __future__ import annotations

from collections.abc import Sequence

from snellen.maps.made_elsewhere import MapsMadeElsewhere
from snellen.plugins.registry import METHODS, label, traits
from snellen.types import MadeOfTruth, Method, Metric, NeedsVariants


def why_not_scored(method: Method, metric: Metric) -> str | None:
    """Why a metric cannot score maps that were made elsewhere, or of the truth; None where it can."""
    # Of its class Python remembers whether it follows a protocol; an instance it asks anew, a hundred times as long.
    if isinstance(method, MapsMadeElsewhere):
        origin = "its maps were made elsewhere"
    elif issubclass(type(method), MadeOfTruth):
        origin = "the maps are made of the masks"
    else:
        return None
    if "explain" in traits(metric).needs:
        return f"{origin}, and this metric must explain changed images, targets or models by the same method"
    if isinstance(metric, NeedsVariants):
        names, others = (
            {variant.name for variant in metric.trained_variants(candidate)}
            for candidate in (method, METHODS.build("constant"))
        )
        if names != others:
            return f"{origin}, and this metric must explain training images by the same method"
    return None


def refusals(methods: Sequence[Method], metrics: Sequence[Metric]) -> dict[tuple[str, str], str]:
    """By labels of method and metric, the refusals among them."""
    return {
        (label(method), label(metric)): problem
        for method in methods
        for metric in metrics
        if (problem := why_not_scored(method, metric)) is not None
    }
