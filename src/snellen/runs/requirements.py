"""What methods and metrics need of a classifier and its images, checked before anything is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.plugins.registry import METHODS, label, traits
from snellen.runs.guard import Guard
from snellen.types import MadeOfTruth, Method, Metric, NeedsVariants, ReadsOutputs, Rng


@runtime_checkable
class HasPrepare(Protocol):
    """A method that checks a classifier, and finds its layer, before anything is computed."""

    def prepare(self, classifier: Classifier, inputs: Float[Tensor, "batch channels height width"]) -> None: ...


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
