"""The classifier and the images of a run, loaded again and checked: a run stores neither model nor images."""

from __future__ import annotations

import re
from typing import Any

from snellen.classifier import Classifier
from snellen.classifier.targets import Contrast
from snellen.errors import SnellenError
from snellen.images import Samples, apply_condition
from snellen.images.cases import make_cases
from snellen.runs import chosen_targets
from snellen.runs.foreign_code import MODEL, require_trust
from snellen.runs.progress import Observer
from snellen.runs.recording import samples_digest
from snellen.runs.run import Run
from snellen.runs.schedule import seeded_order
from snellen.runs.settings import LoadedSubject, Settings
from snellen.runs.store import Store
from snellen.runs.subject import samples_for
from snellen.runs.tasks import split_into_shards


def reload_subject(
    run: Run, classifier: Any, samples: Any, observer: Observer, *, usage: str, instead: str = "", trust: bool = False
) -> LoadedSubject:
    """The classifier and samples of a run: those that its request names, or those of the call; others are refused.

    Args:
        run: The run.
        classifier: The classifier of a run that was made from Python objects; otherwise None.
        samples: The same for its samples.
        observer: Shows progress.
        usage: How both are passed in Python, for error messages.
        instead: What else could be done, for error messages.
        trust: Whether to load a model that somebody else's run names.
    """
    if (classifier is None) != (samples is None):
        raise SnellenError(f"classifier and samples belong together: {usage}")
    record, spec = run.record, run.record.spec
    if classifier is None:
        if record.request is None:
            other = f"; {instead}" if instead else ""
            raise SnellenError(f"'{run.folder}' was made from Python objects; pass them again: {usage}{other}")
        require_trust(Store(run.folder), record, MODEL, trust=trust)
        classifier, samples = Settings.of_request(record.request).load(observer)
    wrapped = classifier if isinstance(classifier, Classifier) else Classifier(classifier)
    if spec.fold_norms:
        wrapped = wrapped.with_folded_norms()
    loaded = samples_for(wrapped, samples)
    if spec.condition is not None:
        loaded = apply_condition(loaded, spec.condition, seed=spec.seed)
    if spec.order is not None:
        loaded = loaded.take(seeded_order(loaded.ids, spec.seed))
    wrapped, loaded = _with_target(run, wrapped), _with_cases(run, loaded)
    pairs = {
        "another classifier": (record.classifier.fingerprint, wrapped.fingerprint),
        "other images": (record.samples.digest, samples_digest(split_into_shards(loaded, spec.shard))),
    }
    for what, (before, now) in pairs.items():
        if before != now:
            raise SnellenError(
                f"'{run.folder}' was made with {what} ({before[:8]}, now {now[:8]}); "
                f"make the run again, or give what it saw: {usage}"
            )
    return wrapped, loaded


def _with_target(run: Run, classifier: Classifier) -> Classifier:
    """The classifier with the run's target as a further column, where it is no output of the model."""
    record = run.record
    if record.classifier.further_target is None or classifier.target_name is not None:
        return classifier
    classes, stated = record.classifier.classes, (record.request or {}).get("target", record.spec.target)
    numbers = re.fullmatch(r"contrast\((\d+), (\d+)\)", str(record.spec.target))
    target = chosen_targets.further_target(
        Contrast(int(numbers[1]), int(numbers[2])) if numbers else stated, classifier, classes
    )
    if target is None:
        name = record.classifier.further_target
        raise SnellenError(
            f"'{run.folder}' explains {name}, a function that is not stored; pass "
            f"classifier=classifier.with_target(OutputFunction(function, '{name}'), '{name}')"
        )
    return classifier.with_target(target, chosen_targets.target_name(target, classifier, classes))


def _with_cases(run: Run, samples: Samples) -> Samples:
    """The samples with a case per target, where the run has one."""
    classifier, rows = run.record.classifier, run.record.samples.rows
    if not classifier.labels_may_be_several or classifier.further_target is not None or samples.pictures is not None:
        return samples
    names = classifier.class_names or tuple(map(str, range(classifier.classes)))
    targets: dict[str, list[int]] = {}
    for row in rows:
        targets.setdefault(row.sample.removesuffix(f" [{names[row.target]}]"), []).append(row.target)
    return make_cases(samples, [targets.get(sample_id, []) for sample_id in samples.ids], names)
