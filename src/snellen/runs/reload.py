"""The classifier and the images of a run, loaded again and checked: a run keeps maps and scores, not what they are of."""

from __future__ import annotations

from typing import Any

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.images import apply_condition, as_samples
from snellen.runs.foreign_code import MODEL, require_trust
from snellen.runs.progress import Observer
from snellen.runs.recording import samples_digest
from snellen.runs.run import Run
from snellen.runs.settings import LoadedSubject, Settings
from snellen.runs.store import Store
from snellen.runs.tasks import split_into_shards


def reload_subject(
    run: Run, classifier: Any, samples: Any, observer: Observer, *, given: str, instead: str = "", trust: bool = False
) -> LoadedSubject:
    """What the run's request names, or what is given here; anything else than what the run saw is refused.

    `given` shows how both are given in Python, and `instead` what else could be done, for the sentence that refuses. A model
    of a stranger's run is loaded only with `trust`.
    """
    if (classifier is None) != (samples is None):
        raise SnellenError(f"classifier and samples belong together: {given}")
    record, spec = run.record, run.record.spec
    if classifier is None:
        if record.request is None:
            other = f"; {instead}" if instead else ""
            raise SnellenError(f"'{run.folder}' was made from Python objects, which have to be given there: {given}{other}")
        require_trust(Store(run.folder), record, MODEL, trust=trust)
        classifier, samples = Settings.of(record.request).load(observer)
    known = classifier if isinstance(classifier, Classifier) else Classifier(classifier)
    loaded = as_samples(samples, geometry=known.geometry, channels=known.channels, classes=known.classes)
    if spec.condition is not None:
        loaded = apply_condition(loaded, spec.condition, seed=spec.seed)
    pairs = {
        "another classifier": (record.classifier.fingerprint, known.fingerprint),
        "other images": (record.samples.digest, samples_digest(split_into_shards(loaded, spec.shard))),
    }
    for what, (before, now) in pairs.items():
        if before != now:
            raise SnellenError(
                f"'{run.folder}' was made with {what} ({before[:8]}, now {now[:8]}); "
                f"make the run again, or give what it saw: {given}"
            )
    return known, loaded
