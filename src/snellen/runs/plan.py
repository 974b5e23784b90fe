"""What is checked and estimated before computing: needs, targets, passes and time."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.classifier.heads import Head, Number, SingleLogit, WithTargets
from snellen.classifier.targets import Contrast, Down, FurtherTarget, OutputFunction
from snellen.errors import SnellenError
from snellen.maps.explaining_again import why_not_scored
from snellen.maps.made_elsewhere import MapsMadeElsewhere, maps_made_elsewhere
from snellen.plugins.notation import split_names
from snellen.plugins.outside import refuse_equal_names
from snellen.plugins.registry import METHODS, METRICS, label, spec, traits
from snellen.runs.guard import Guard
from snellen.runs.record import MapsRecord, MethodSpec, MetricSpec
from snellen.runs.unit import ShardFacts
from snellen.types import (
    Findings,
    HasPoints,
    MadeOfTruth,
    Method,
    Metric,
    NeedsVariants,
    Passes,
    ReadsOutputs,
    Rng,
    SharedPasses,
)
from snellen.zoo.models import find_object


@runtime_checkable
class HasPrepare(Protocol):
    """A method that checks a classifier, and finds its layer, before anything is computed."""

    def prepare(self, classifier: Classifier, inputs: Float[Tensor, "batch channels height width"]) -> None: ...


@dataclass(frozen=True)
class PassSeconds:
    """Seconds per image of a forward pass, and of the backward pass after it."""

    forward: float
    """Of a forward pass."""
    backward: float
    """Of the backward pass after it."""

    def seconds(self, passes: Passes) -> float:
        """How long these passes should take."""
        return passes.forward * self.forward + passes.backward * self.backward


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


def refuse_positive_controls(methods: Sequence[Method], reason: str) -> None:
    """Refuses positive controls where there are no masks that they could be made of.

    Args:
        methods: What was named.
        reason: Why they make no sense, as words that follow "so".
    """
    for method in methods:
        if isinstance(method, MadeOfTruth):
            raise SnellenError(
                f"'{label(method)}' is a positive control, made of the masks of a run's own images, so {reason} (it belongs "
                "in --methods of snellen run or suite, with --masks or --boxes)"
            )


def check_needs(
    classifier: Classifier, methods: Sequence[Method], inputs: Float[Tensor, "batch channels height width"]
) -> None:
    """Refuses methods that need more than this classifier offers, all of them by name."""
    refused = [
        f"{label(method)} needs {missing}"
        for method in methods
        if (missing := _missing(method, classifier)) and not _works_inside(method, classifier, inputs)
    ]
    refused_heads = [f"{label(method)} {problem}" for method in methods if (problem := head_problem(method, classifier))]
    if refused_heads:
        raise SnellenError("; ".join(refused_heads))
    if refused:
        able = [name for name in METHODS if not traits(METHODS[name]).needs and not traits(METHODS[name]).control]
        raise SnellenError(f"{'; '.join(refused)}; but {_lack(classifier)}. Methods that do not need it: {', '.join(able)}")
    for method in methods:
        if isinstance(method, HasPrepare):
            with Guard({"the model": classifier}, {"the inputs": inputs}).watching(label(method), SnellenError):
                method.prepare(classifier, inputs)


def _works_inside(method: Method, classifier: Classifier, inputs: Float[Tensor, "batch channels height width"]) -> bool:
    """Whether a method that starts at a layer works although no gradient reaches the inputs; it is tried on one image."""
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
    """The methods that can explain this classifier; and by label of the others, a sentence that says why they cannot."""
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
    """What a metric needs and does not have, in a few words with the remedy; None where it has everything.

    Args:
        metric: The metric.
        classifier: The classifier.
        truths: Whether every sample says where its evidence is.
        labels: Whether some sample has a label.
        recipe: Whether a recipe can train variants.
        checkpoints: Whether there are checkpoints.
    """
    if missing := _missing(metric, classifier):
        return f"needs {missing}, but {_lack(classifier)}"
    if problem := head_problem(metric, classifier):
        return problem
    return missing_input(metric, truths=truths, labels=labels, recipe=recipe, checkpoints=checkpoints)


def missing_input(metric: Metric, *, truths: bool, labels: bool, recipe: bool, checkpoints: bool) -> str | None:
    """What a metric needs beside the classifier (truths, labels, recipe, checkpoints) and does not have, with the remedy."""
    needs = traits(metric).needs
    # Whether trained variants are needed depends on the settings of the metric, not on the method.
    trains = isinstance(metric, NeedsVariants) and bool(metric.trained_variants(METHODS.build("constant")))
    if ("recipe" in needs or trains) and not recipe:
        return "needs a recipe: give --recipe and --training"
    if "checkpoints" in needs and not checkpoints:
        return "needs saved states of the classifier: give --checkpoints"
    if "labels" in needs and not labels:
        return "needs labels: give --labels or class sub-folders"
    if "truth" in needs and not truths:
        return "needs the truth of every picture: give --masks or --boxes"
    return None


def head_problem(plugin: Method | Metric, classifier: Classifier) -> str | None:
    """Why a plug-in has no meaning for what the classifier's outputs are, with the remedy; None where it has."""
    head, facts, name = classifier.head, traits(plugin), classifier.name
    if "recipe" in facts.needs and not (head.exclusive and head.smallest > 1):
        return f"trains models of exclusive classes, but '{name}' has {head.words}"
    if {"recipe", "labels"} <= facts.needs and classifier.target_name is not None:
        return f"compares predictions with labels, but explained is {classifier.target_name}; name a class as the target"
    if isinstance(plugin, ReadsOutputs) and (problem := plugin.output_problem(classifier)):
        return problem
    if head.decides_targets and head.reads_probability:
        return None
    what = classifier.target_name or head.words
    if facts.needs_output == "probability" and (not head.decides or not head.reads_probability):
        return f"needs the probability of a class, but '{name}' gives {what}"
    if facts.needs_output == "decision" and not head.decides_targets:
        return f"needs a decision that can change, but '{name}' gives {what}"
    if facts.needs_output == "classes" and not head.decides:
        return f"compares a class with others, but '{name}' gives {what}"
    if getattr(plugin, "of", None) == "probability" and not head.reads_probability:
        remedy = " or state its range: heads='number(low=0, high=100)'" if not head.decides else ""
        return f"reads a probability, but '{name}' gives {what}; say {facts.name}(of=logit){remedy}"
    return None


def _missing(plugin: Method | Metric, classifier: Classifier) -> str:
    """What a plug-in needs of the model and this classifier does not offer, in words; empty where nothing."""
    return " and ".join(sorted((traits(plugin).needs & {"gradients", "layer", "relu"}) - classifier.offers))


def _lack(classifier: Classifier) -> str:
    """A clause that says which of gradients and layers the classifier lacks."""
    if classifier.no_gradient_reason and "gradients" not in classifier.offers:
        return f"'{classifier.name}' gives no gradients ({classifier.no_gradient_reason})"
    return f"'{classifier.name}' {'has' if classifier.offers else 'is a black-box function and has'} no such thing"


def check_requirements(
    metrics: Sequence[Metric], classifier: Classifier, *, labels: bool, recipe: bool, checkpoints: bool
) -> None:
    """Refuses metrics whose requirements are not met, all of them by name; see `check_truth` for the truth."""
    refused = {
        label(metric): missing_requirement(
            metric, classifier, truths=True, labels=labels, recipe=recipe, checkpoints=checkpoints
        )
        for metric in metrics
    }
    lacking = "; ".join(f"{name} {reason}" for name, reason in refused.items() if reason)
    if lacking:
        raise SnellenError(f"{lacking}. Metrics that cannot be computed have to be left out.")


def check_truth(plugins: Sequence[Method | Metric], ids: Sequence[str], truths: Sequence[str]) -> None:
    """Refuses metrics and positive controls, which need the truth of every sample, where some sample has none."""
    for plugin in plugins:
        if "truth" in traits(plugin).needs:
            what = "positive control" if isinstance(plugin, MadeOfTruth) else "metric"
            lacking = [sample_id for sample_id, truth in zip(ids, truths, strict=True) if truth == "none"]
            if lacking:
                raise SnellenError(
                    f"{label(plugin)} needs Sample.truth, but '{lacking[0]}' has none"
                    f"{f' (nor have {len(lacking) - 1} others)' if len(lacking) > 1 else ''}. "
                    f"Drop the {what} or give --masks or --boxes."
                )


def unit_of(head: Head) -> str:
    """The unit of a number, where it is stated."""
    number = head.head if isinstance(head, WithTargets) else head
    return number.unit if isinstance(number, Number) else ""


def check_numbers(classifier: Classifier, ids: Sequence[str], numbers: Sequence[float | None]) -> None:
    """Refuses true numbers where the classifier estimates none, and those beyond the range that is stated for it."""
    head = classifier.head.head if isinstance(classifier.head, WithTargets) else classifier.head
    for sample_id, number in zip(ids, numbers, strict=True):
        if number is None:
            continue
        if not isinstance(head, Number):
            raise SnellenError(
                f"'{sample_id}' has the number {number:g}, but '{classifier.name}' has {head.words}; say heads='number' "
                "where it estimates one, or give a label"
            )
        if head.low is not None and head.high is not None and not head.low <= number <= head.high:
            raise SnellenError(
                f"the label of '{sample_id}' is {number:g}, but the number was stated to lie between {head.low:g} and "
                f"{head.high:g}; correct the label, or state another range"
            )


def resolve_targets(
    target: str | int, classifier: Classifier, classes: int, ids: Sequence[str], facts: ShardFacts
) -> tuple[int, ...]:
    """The target that each sample's map is to explain."""
    if isinstance(classifier.head, WithTargets):
        return (classes,) * len(ids)
    if facts.targets[0] is not None:
        return tuple(index for index in facts.targets if index is not None)
    if target == "predicted":
        return facts.predictions
    if target == "least-likely":
        return facts.least
    if target == "label":
        for sample_id, index in zip(ids, facts.labels, strict=True):
            if index is None:
                raise SnellenError(
                    f"target 'label' needs a label, but '{sample_id}' has none. Give --labels or use 'predicted'."
                )
        return tuple(index for index in facts.labels if isinstance(index, int))
    return (class_index(target, classifier, classes),) * len(ids)


def class_index(target: str | int, classifier: Classifier, classes: int) -> int:
    """The column of the outputs that a target names by class name or number; `up` names the only column of a number."""
    if target == "up" and isinstance(classifier.head, Number):
        return 0
    if isinstance(target, str) and classifier.classes and target in classifier.classes:
        matches = [index for index, name in enumerate(classifier.classes) if name == target]
        if len(matches) > 1:
            raise SnellenError(
                f"target '{target}' is the name of the classes {matches[0]} and {matches[1]} of '{classifier.name}'; "
                "state the number of the class"
            )
        return matches[0]
    if isinstance(target, str) and re.fullmatch("[0-9]{1,18}", target):
        target = int(target)
    if isinstance(target, int) and 0 <= target < classes:
        return target
    if isinstance(classifier.head, Number):
        raise SnellenError(f"target '{target}' is not known: '{classifier.name}' gives a number, so say up or down")
    raise SnellenError(
        f"target '{target}' is not known: say predicted, label, every-label, least-likely, a class name, "
        f"a number from 0 to {classes - 1}, or contrast(a, b)"
    )


def class_names(classifier: Classifier, classes: int) -> tuple[str, ...]:
    """Names of the classes; their numbers where they have no names."""
    return classifier.classes or tuple(str(index) for index in range(classes))


CHOICES = ("predicted", "label", "every-label", "least-likely")
"""Targets that depend on the image."""


def plain_target(target: Any) -> Any:
    """A target; a number of numpy or torch as a plain number."""
    return target.item() if isinstance(target, np.generic | np.ndarray | Tensor) and target.ndim == 0 else target


def further_target(target: Any, classifier: Classifier, classes: int) -> FurtherTarget | None:
    """The target that a user states by `contrast(a, b)`, `down` or a function; None for the classifier's own columns."""
    if isinstance(target, FurtherTarget):
        if isinstance(target, Contrast):
            for index in (target.first, target.second):
                class_index(index, classifier, classes)
        return target
    if callable(target):
        return OutputFunction(target, getattr(target, "__name__", type(target).__name__))
    if isinstance(classifier.head, Number) and isinstance(target, str) and target in CHOICES[1:]:
        raise SnellenError(f"the target '{target}' is for classes, but '{classifier.name}' gives a number; say up or down")
    if not isinstance(target, str) or target in CHOICES or (classifier.classes and target in classifier.classes):
        return None
    if target in ("up", "down"):
        if not isinstance(classifier.head, Number):
            raise SnellenError(f"the target '{target}' is for a number, but '{classifier.name}' has {classifier.head.words}")
        return Down() if target == "down" else None
    if match := re.fullmatch(r"contrast\((.*)\)", target, flags=re.DOTALL):
        if isinstance(classifier.head, SingleLogit):
            yes = class_names(classifier, classes)[1]
            raise SnellenError(f"'{classifier.name}' has a single output, so no and yes are one contrast; say '{yes}'")
        pair = _pair(match[1], classifier)
        if pair is None:
            raise SnellenError(f"'{target}' is not a contrast of two classes; write contrast(a, b)")
        first, second = (class_index(name, classifier, classes) for name in pair)
        if first == second:
            raise SnellenError(f"a contrast needs two different classes, not {pair[0]} and {pair[1]}")
        return Contrast(first, second)
    if ":" in target:
        function = find_object(target)
        if not callable(function):
            raise SnellenError(f"the target '{target}' must be a function from logits to one number per row")
        return OutputFunction(function, target)
    return None


def targets_of_images(
    target: str | int, classifier: Classifier, classes: int, ids: Sequence[str], shards: Sequence[ShardFacts]
) -> list[tuple[int, ...]]:
    """The targets of each image where several labels may be right."""
    labels = [stated for facts in shards for stated in facts.labels]
    for sample_id, stated in zip(ids, labels, strict=True):
        check_findings(stated, sample_id, classifier, classes)
    if target == "predicted":
        return [predicted for facts in shards for predicted in facts.predicted]
    if target == "least-likely":
        return [(least,) for facts in shards for least in facts.least]
    if target not in ("label", "every-label"):
        return [(class_index(target, classifier, classes),)] * len(ids)
    rows = []
    for sample_id, stated in zip(ids, labels, strict=True):
        if stated is None:
            raise SnellenError(
                f"target '{target}' needs labels, but '{sample_id}' has none. Give --labels or use 'predicted'."
            )
        row = stated.present if isinstance(stated, Findings) else (stated,)
        if target == "label" and len(row) > 1:
            raise SnellenError(f"'{sample_id}' has {len(row)} labels, so target 'label' is not one; say 'every-label'")
        rows.append(row)
    return rows


def check_findings(stated: int | Findings | None, sample_id: str, classifier: Classifier, classes: int) -> None:
    """Refuses marks for another number of labels than the classifier has, and indices beyond them."""
    if stated is None:
        return
    findings = stated if isinstance(stated, Findings) else Findings((stated,))
    if findings.columns not in (None, classes):
        raise SnellenError(
            f"'{sample_id}' has marks for {findings.columns} labels, but '{classifier.name}' has {classes}; mark each"
        )
    highest = max((*findings.present, *findings.absent), default=0)
    if highest >= classes:
        raise SnellenError(f"'{sample_id}' has label {highest}, but '{classifier.name}' has labels 0 to {classes - 1}")


def label_agreement(classifier: Classifier, shards: Sequence[ShardFacts]) -> str:
    """How often the classifier finds the labels that are stated as present, and those stated as absent; "" without any."""
    pairs = [
        (index in predicted, index in stated.present)
        for facts in shards
        for predicted, stated in zip(facts.predicted, facts.labels, strict=True)
        if isinstance(stated, Findings)
        for index in (*stated.present, *stated.absent)
    ]
    present = [is_predicted for is_predicted, is_present in pairs if is_present]
    absent = [is_predicted for is_predicted, is_present in pairs if not is_present]
    parts = []
    if present:
        parts.append(
            f"predicts {sum(present)} of {len(present)} labels that are present ({sum(present) / len(present):.2f})"
        )
    if absent:
        parts.append(f"{sum(absent)} of {len(absent)} that are absent ({sum(absent) / len(absent):.2f})")
    return f"'{classifier.name}' {' and '.join(parts)}" if parts else ""


def _pair(text: str, classifier: Classifier) -> tuple[str, str] | None:
    """The two names around a comma; class names may themselves hold commas."""
    splits = [(text[:place].strip(), text[place + 1 :].strip()) for place, letter in enumerate(text) if letter == ","]
    names = set(classifier.classes or ())
    best = [pair for pair in splits if set(pair) <= names] or splits
    return best[0] if best and all(best[0]) else None


def target_name(target: FurtherTarget, classifier: Classifier, classes: int) -> str:
    """The target in words, for pages."""
    names = class_names(classifier, classes)
    if isinstance(target, Contrast):
        return f"{names[target.first]}, not {names[target.second]}"
    return f"{names[0]} going down" if isinstance(target, Down) else target.text.partition(" ")[0]


def probability_note(classifier: Classifier) -> str | None:
    """What stands for the probability that metrics speak of, where it is none of a class or label."""
    head = classifier.head
    number = head.head if isinstance(head, WithTargets) else head
    if isinstance(number, Number) and number.low is not None and number.high is not None and head.reads_probability:
        down = ", counted from the upper end" if isinstance(head, WithTargets) else ""
        ends = f"{number.low:g} and {number.high:g} {number.unit}".strip()
        return f"what metrics call a probability is the place of the number between {ends}{down}"
    if isinstance(head, WithTargets) and isinstance(head.further[0], Contrast):
        return f"the probability of '{classifier.target_name}' is that of the first if only these two were possible"
    return None


def caption_outputs(
    classifier: Classifier, inputs: Float[Tensor, "batch channels height width"], targets: Int[Tensor, " batch"]
) -> tuple[Float[Tensor, " batch"], str, str]:
    """What captions show of the targets: probabilities, or else the number; how they call it; and its unit."""
    head = classifier.head
    further = head.further[0] if isinstance(head, WithTargets) else None
    if head.decides and head.reads_probability:
        return classifier.output(inputs, targets, "probability"), "p", ""
    values = classifier.output(inputs, targets, "logit")
    if isinstance(further, Down):
        return -values, "value", unit_of(head)
    return values, "value", "" if further is not None else unit_of(head)


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
