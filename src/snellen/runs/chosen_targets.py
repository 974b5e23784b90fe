"""The targets that a run explains: what `--target` means for a classifier and its images, and what pages call it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.classifier.heads import Head, Number, SingleLogit, WithTargets
from snellen.classifier.targets import Contrast, Down, FurtherTarget, OutputFunction
from snellen.errors import SnellenError
from snellen.runs.unit import ShardFacts
from snellen.types import Findings
from snellen.zoo.models import find_object


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
