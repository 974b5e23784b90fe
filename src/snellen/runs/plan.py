"""What is planned before computing: methods, metrics, passes and time."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.maps.explaining_again import why_not_scored
from snellen.maps.made_elsewhere import MapsMadeElsewhere, maps_made_elsewhere
from snellen.plugins.notation import split_names
from snellen.plugins.outside import refuse_equal_names
from snellen.plugins.registry import METHODS, METRICS, label, spec, traits
from snellen.runs.record import MapsRecord, MethodSpec, MetricSpec
from snellen.types import HasPoints, Method, Metric, Passes, SharedPasses


@dataclass(frozen=True)
class PassSeconds:
    """Seconds per image of a forward pass, and of the backward pass after it."""

    forward: float
    """Of a forward pass."""
    backward: float
    """Of the backward pass after it."""
    alone: float | None = None
    """Of a forward pass without a backward pass, by another engine; None where all are eager."""

    def seconds(self, passes: Passes) -> float:
        """How long these passes should take."""
        alone = self.forward if self.alone is None else self.alone
        followed = min(passes.forward, passes.backward)
        return (passes.forward - followed) * alone + followed * self.forward + passes.backward * self.backward


def parse_methods(names: Any, maps: Any = None, map_range: Any = None) -> list[Method]:
    """Methods from names, texts with settings, mappings or plug-ins, in a list or one comma-separated text.

    Maps made elsewhere follow them; with these, there may be no method at all.

    >>> [type(method).__name__ for method in parse_methods("random,centre")]
    ['Random', 'Centre']
    """
    parsed = [METHODS.parse(name, load=True) for name in _listed(names)]
    return _distinct("method", [*parsed, *maps_made_elsewhere(maps, map_range)])


def parse_metrics(names: Any) -> list[Metric]:
    """Metrics in the same forms."""
    return _distinct("metric", [METRICS.parse(name, load=True) for name in _listed(names)])


def _listed(names: Any) -> list[Any]:
    """The single plug-ins in `"a,b(c=1)"`, in a list, or in a single plug-in."""
    if isinstance(names, str):
        return split_names(names)
    # A mapping is one plug-in with its settings, as in a settings file.
    return list(names) if isinstance(names, Iterable) and not isinstance(names, Mapping) else [names]


def _distinct(kind: str, plugins: list[Any]) -> list[Any]:
    if not plugins:
        raise SnellenError(f"no {kind} was named; `snellen list {kind}s` shows them all")
    refuse_equal_names(plugins)
    labels = [label(plugin) for plugin in plugins]
    for name in labels:
        if labels.count(name) > 1:
            raise SnellenError(f"the {kind} '{name}' is named twice")
    return plugins


@dataclass(frozen=True)
class Plan:
    """Passes per image, by (method, "maps") and (method, metric)."""

    passes: dict[tuple[str, str], Passes]
    parts: dict[tuple[str, str], Mapping[Hashable, Passes]]
    """Those of metrics, split by the key under which the cache shares them."""


def plan_passes(classifier: Classifier, methods: Sequence[Method], metrics: Sequence[Metric], size: tuple[int, int]) -> Plan:
    """The passes per image, before anything is saved by the cache."""
    plan = Plan({}, {})
    for method in methods:
        explain = method.passes(size, classifier)
        plan.passes[label(method), "maps"] = explain
        for metric in metrics:
            key = label(method), label(metric)
            if why_not_scored(method, metric) is not None:
                plan.passes[key], plan.parts[key] = Passes(), {}
                continue
            plan.passes[key] = metric.passes(size, explain, classifier)
            plan.parts[key] = metric.parts(size, explain, classifier) if isinstance(metric, SharedPasses) else {}
    return plan


def measure_pass_seconds(
    classifier: Classifier, inputs: Float[Tensor, "batch channels height width"], gradients: bool
) -> PassSeconds:
    """Times a full batch, after another one to warm up.

    Args:
        classifier: The classifier.
        inputs: Of which the first image is repeated.
        gradients: Whether to time backward passes too.
    """

    def seconds_per_row(rows: int, run: Callable[[Tensor], object]) -> float:
        batch = inputs[:1].repeat(rows, 1, 1, 1)
        run(batch)
        started = time.perf_counter()
        run(batch)
        return (time.perf_counter() - started) / rows

    forward = seconds_per_row(classifier.rows_for(inputs), classifier.logits)
    if not gradients or "gradients" not in classifier.offers:
        return PassSeconds(forward, 0.0)
    rows = classifier.rows_for(inputs, gradients=True)
    targets = torch.zeros(rows, dtype=torch.long)
    return PassSeconds(forward, max(0.0, seconds_per_row(rows, lambda batch: classifier.gradient(batch, targets)) - forward))


def describe_method(method: Method) -> MethodSpec:
    """A method as run.json holds it."""
    facts = traits(method)
    described = MethodSpec(
        label=label(method),
        **spec(method),
        control=facts.control,
        signed=facts.signed,
        summary=facts.summary,
        cite=facts.cite,
        version=facts.version,
    )
    if not isinstance(method, MapsMadeElsewhere):
        return described
    return described.changed(maps=MapsRecord(source=method.source, count=method.count, digest=method.digest or ""))


def describe_metric(metric: Metric, size: tuple[int, int], classifier: Classifier) -> MetricSpec:
    """A metric as run.json holds it."""
    facts = traits(metric)
    low, high = (None if abs(end) == float("inf") else end for end in facts.bounds)
    return MetricSpec(
        label=label(metric),
        **spec(metric),
        attribute=facts.attribute,
        higher_is_better=facts.higher_is_better,
        bounds=(low, high),
        undefined=facts.undefined,
        test=facts.test,
        formula=facts.formula,
        tolerance=facts.tolerance,
        points=tuple(metric.points(size, classifier)) if isinstance(metric, HasPoints) else None,
        summary=facts.summary,
        cite=facts.cite,
        version=facts.version,
    )
