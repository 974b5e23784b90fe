"""Everything that can be known and refused before computing: needs, targets, passes, time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.plugins.notation import split_names
from snellen.plugins.registry import METHODS, METRICS, label, spec, traits
from snellen.runs.guard import Guard
from snellen.runs.record import MethodSpec, MetricSpec
from snellen.runs.unit import ShardFacts
from snellen.types import HasPoints, Method, Metric, NeedsVariants, Passes, Rng, SharedPasses


@runtime_checkable
class HasPrepare(Protocol):
    """A method that can find its layer, or refuse a classifier, before anything is computed."""

    def prepare(self, classifier: Classifier, inputs: Float[Tensor, "batch channels height width"]) -> None: ...


@dataclass(frozen=True)
class PassSeconds:
    """Seconds that one image takes forward, and backward on top of that."""

    forward: float
    backward: float

    def seconds(self, passes: Passes) -> float:
        """How long these passes should take."""
        return passes.forward * self.forward + passes.backward * self.backward


def parse_methods(names: Any) -> list[Method]:
    """Methods from names, texts with settings, mappings, or as they are, in a list or one text with commas; no two alike."""
    return _distinct("method", [METHODS.parse(name) for name in _listed(names)])


def parse_metrics(names: Any) -> list[Metric]:
    """Metrics from names, texts with settings, mappings, or as they are, in a list or one text with commas; no two alike."""
    return _distinct("metric", [METRICS.parse(name) for name in _listed(names)])


def _listed(names: Any) -> list[Any]:
    """Several plug-ins, however they were written: `"a,b(c=1)"`, a list, or a single plug-in."""
    if isinstance(names, str):
        return split_names(names)
    # A mapping is one plug-in with its settings, as in a settings file.
    return list(names) if isinstance(names, Iterable) and not isinstance(names, Mapping) else [names]


def _distinct(kind: str, plugins: list[Any]) -> list[Any]:
    if not plugins:
        raise SnellenError(f"no {kind} was named; `snellen list {kind}s` shows them all")
    labels = [label(plugin) for plugin in plugins]
    for one in labels:
        if labels.count(one) > 1:
            raise SnellenError(f"the {kind} '{one}' is named twice")
    return plugins


def check_needs(
    classifier: Classifier, methods: Sequence[Method], inputs: Float[Tensor, "batch channels height width"]
) -> None:
    """Refuses methods that this classifier cannot serve, all of them by name."""
    refused = [
        f"{label(one)} needs {missing}"
        for one in methods
        if (missing := _missing(one, classifier)) and not _works_inside(one, classifier, inputs)
    ]
    if refused:
        able = [name for name in METHODS if not METHODS[name].traits.needs and not METHODS[name].traits.control]  # type: ignore[attr-defined]
        raise SnellenError(f"{'; '.join(refused)}; but {_without(classifier)}. Without it work: {', '.join(able)}")
    for method in methods:
        if isinstance(method, HasPrepare):
            with Guard({"the model": classifier}, {"the inputs": inputs}).watching(label(method), SnellenError):
                method.prepare(classifier, inputs)


def _works_inside(method: Method, classifier: Classifier, inputs: Float[Tensor, "batch channels height width"]) -> bool:
    """Whether a model whose gradients are cut before its layers still serves this method, which starts at a layer."""
    if not classifier.no_gradient_reason or "layer" not in traits(method).needs:
        return False
    try:
        with torch.no_grad():
            method(classifier, inputs[:1], torch.zeros(1, dtype=torch.long), rng=Rng(0, ("probe",)))
    except Exception:  # whatever it is, it would fail in the run as well
        return False
    return True


def split_by_support(
    classifier: Classifier, methods: Sequence[Method], inputs: Float[Tensor, "batch channels height width"]
) -> tuple[list[Method], dict[str, str]]:
    """The methods that can explain this classifier, and of the others, by label, a sentence that says why they cannot."""
    able: list[Method] = []
    refused: dict[str, str] = {}
    for method in methods:
        try:
            check_needs(classifier, [method], inputs)
        except SnellenError as refusal:
            refused[label(method)] = str(refusal)
        else:
            able.append(method)
    return able, refused


def missing_requirement(
    metric: Metric, classifier: Classifier, *, truths: bool, labels: bool, recipe: bool, checkpoints: bool
) -> str | None:
    """What this metric lacks, in a few words with the remedy, given what there is; None where it lacks nothing."""
    if missing := _missing(metric, classifier):
        return f"needs {missing}, but {_without(classifier)}"
    return missing_input(metric, truths=truths, labels=labels, recipe=recipe, checkpoints=checkpoints)


def missing_input(metric: Metric, *, truths: bool, labels: bool, recipe: bool, checkpoints: bool) -> str | None:
    """The same for what a user would have to give along with the classifier, whatever that offers."""
    needs = traits(metric).needs
    # Some settings alone ask for a trained relative; any method will do to find out, for which ones is not the question.
    related = isinstance(metric, NeedsVariants) and bool(metric.trained_variants(METHODS.build("constant")))
    if ("recipe" in needs or related) and not recipe:
        return "needs a recipe: give --recipe and --training"
    if "checkpoints" in needs and not checkpoints:
        return "needs saved states of the classifier: give --checkpoints"
    if "labels" in needs and not labels:
        return "needs labels: give --labels or class sub-folders"
    if "truth" in needs and not truths:
        return "needs the truth of every picture: give --masks or --boxes"
    return None


def _missing(plugin: Method | Metric, classifier: Classifier) -> str:
    """What of the model itself a method or metric needs and this one does not offer, in words; empty where nothing."""
    return " and ".join(sorted((traits(plugin).needs & {"gradients", "layer", "relu"}) - classifier.offers))


def _without(classifier: Classifier) -> str:
    if classifier.no_gradient_reason and "gradients" not in classifier.offers:
        return f"'{classifier.name}' gives no gradients ({classifier.no_gradient_reason})"
    return f"'{classifier.name}' {'has' if classifier.offers else 'is a black-box function and has'} no such thing"


def check_requirements(
    metrics: Sequence[Metric], classifier: Classifier, *, labels: bool, recipe: bool, checkpoints: bool
) -> None:
    """Refuses metrics that lack something, all of them by name; the truth is checked sample by sample."""
    refused = {
        label(metric): missing_requirement(
            metric, classifier, truths=True, labels=labels, recipe=recipe, checkpoints=checkpoints
        )
        for metric in metrics
    }
    lacking = "; ".join(f"{name} {reason}" for name, reason in refused.items() if reason)
    if lacking:
        raise SnellenError(f"{lacking}. Or drop the metric.")


def check_truth(metrics: Sequence[Metric], ids: Sequence[str], truths: Sequence[str]) -> None:
    """Refuses metrics that need to know where the truth lies when some sample has none."""
    for metric in metrics:
        if "truth" in traits(metric).needs:
            without = [sample_id for sample_id, truth in zip(ids, truths, strict=True) if truth == "none"]
            if without:
                raise SnellenError(
                    f"{label(metric)} needs Sample.truth, but '{without[0]}' has none"
                    f"{f' (nor have {len(without) - 1} others)' if len(without) > 1 else ''}. "
                    "Drop the metric or give --masks or --boxes."
                )


def resolve_targets(
    target: str | int, classifier: Classifier, classes: int, ids: Sequence[str], seen: ShardFacts
) -> tuple[int, ...]:
    """The class that each sample's map is to explain."""
    if target == "predicted":
        return seen.predictions
    if target == "least-likely":
        return seen.least
    if target == "label":
        for sample_id, known in zip(ids, seen.labels, strict=True):
            if known is None:
                raise SnellenError(
                    f"target 'label' needs a label, but '{sample_id}' has none. Give --labels or use 'predicted'."
                )
        return tuple(int(known) for known in seen.labels if known is not None)
    if isinstance(target, str) and classifier.classes and target in classifier.classes:
        target = classifier.classes.index(target)
    if isinstance(target, str) and re.fullmatch("[0-9]{1,18}", target):
        target = int(target)
    if isinstance(target, int) and 0 <= target < classes:
        return (target,) * len(ids)
    raise SnellenError(
        f"target '{target}' is not known: say predicted, label, least-likely, a class name, "
        f"or a number from 0 to {classes - 1}"
    )


@dataclass(frozen=True)
class Plan:
    """Passes per image for (method, "maps") and (method, metric), and of the latter the parts that others may pay for."""

    passes: dict[tuple[str, str], Passes]
    parts: dict[tuple[str, str], Mapping[Hashable, Passes]]


def plan_passes(classifier: Classifier, methods: Sequence[Method], metrics: Sequence[Metric], size: tuple[int, int]) -> Plan:
    """What one image will cost, before anything is saved by sharing."""
    plan = Plan({}, {})
    for method in methods:
        explain = method.passes(size, classifier)
        plan.passes[label(method), "maps"] = explain
        for metric in metrics:
            at = label(method), label(metric)
            plan.passes[at] = metric.passes(size, explain, classifier)
            plan.parts[at] = metric.parts(size, explain, classifier) if isinstance(metric, SharedPasses) else {}
    return plan


def measure_pass_seconds(
    classifier: Classifier, inputs: Float[Tensor, "batch channels height width"], gradients: bool
) -> PassSeconds:
    """Times full batches: one to warm up, one to measure."""

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
    return MethodSpec(
        label=label(method),
        **spec(method),
        control=facts.control,
        signed=facts.signed,
        summary=facts.summary,
        cite=facts.cite,
        version=facts.version,
    )


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
