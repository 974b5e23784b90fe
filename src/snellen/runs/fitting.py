"""Lets methods see the user's images before they explain one of them, in small batches, never all at once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from snellen.classifier import Classifier
from snellen.errors import SnellenError, no_exit
from snellen.images import Samples, as_samples
from snellen.maps.fitted_state import digest, methods_to_fit
from snellen.plugins.registry import label, traits
from snellen.runs import plan as planning
from snellen.runs.guard import Guard
from snellen.runs.progress import Observer, default_observer
from snellen.runs.record import FittedRecord
from snellen.runs.store import Store, key_of
from snellen.runs.tasks import common_key
from snellen.runs.unit import cost_since
from snellen.types import Method, NeedsFit, Passes, Rng

LIMIT = 500
"""A lesson takes at most this many images, drawn by the seed: the error of a mean falls with the root of their number."""

FEW = 20
"""With fewer images a person is told that the statistics are poor."""

BATCH = 16


def fit(classifier: Classifier, samples: Any, *, methods: Any, seed: int = 0, observer: Observer | None = None) -> None:
    """Lets methods that need it see these images; what they learn stays with the classifier and goes wherever it goes.

    `evaluate` does the same with its own samples, unless the classifier has learnt already: to explain few images with
    the statistics of many, call this first. Methods that need no images are left out.
    """
    pictures = as_samples(samples, geometry=classifier.geometry, channels=classifier.channels, classes=classifier.classes)
    parsed = planning.parse_methods(methods)
    wanted = states_to_fit(parsed)
    if not wanted:
        return
    pictures = fitting_samples(pictures, seed)
    inputs = classifier.to_inputs(pictures[0].image[None])
    classifier.check(inputs)
    planning.check_needs(classifier, parsed, inputs)
    shown = observer or default_observer()
    with fitting_stage(shown, pictures, len(wanted)):
        for lesson, method in wanted.items():
            shown.running(f"learning {lesson}")
            with classifier.counting(shown.passed):
                classifier.fitted_state[lesson] = fit_state(method, classifier, pictures, seed=seed)
            shown.finished(Passes())


def install_fitted_states(
    wanted: Mapping[str, NeedsFit],
    classifier: Classifier,
    samples: Samples,
    store: Store,
    *,
    seed: int,
    batch: int,
    threads: int | None,
    observer: Observer,
) -> dict[str, FittedRecord]:
    """Gives the classifier each lesson: the one it has, else the store's, else a new one, which the store then keeps."""
    known: dict[str, FittedRecord] = {}
    missing: dict[str, tuple[str, NeedsFit]] = {}
    pictures = fitting_samples(samples, seed) if wanted else samples
    seen = [list(pair) for pair in zip(pictures.ids, pictures.digests, strict=True)]
    for lesson, method in wanted.items():
        facts = {**common_key(classifier, seed, compiled=False), "samples": seen, "version": traits(method).version}
        key = key_of({**facts, "lesson": lesson})
        if lesson in classifier.fitted_state:
            known[lesson] = FittedRecord(images=None, digest=digest(classifier.fitted_state[lesson]))
        elif (found := store.intact_fitted(key)) is not None:
            known[lesson], classifier.fitted_state[lesson] = found
        else:
            missing[key] = lesson, method
    if not missing:
        return known
    if (few := few_images_note(len(pictures), [method for _, method in missing.values()])) is not None:
        observer.note(few)
    with fitting_stage(observer, pictures, len(missing)), using_threads(threads):
        for key, (lesson, method) in missing.items():
            observer.running(f"learning {lesson}")
            started = time.perf_counter()
            with classifier.counting(observer.passed) as paid:
                classifier.fitted_state[lesson] = fit_state(method, classifier, pictures, seed=seed, batch=batch)
            known[lesson] = FittedRecord(
                images=len(pictures), digest=digest(classifier.fitted_state[lesson]), cost=cost_since(started, paid)
            )
            store.put_fitted(key, known[lesson], classifier.fitted_state[lesson])
            observer.finished(Passes())
    return known


def few_images_note(images: int, methods: Sequence[NeedsFit]) -> str | None:
    """A sentence where so few images teach that the statistics are poor."""
    if images >= FEW:
        return None
    names = ", ".join(label(method) for method in methods)
    return f"{names}: learning from {images} image{'' if images == 1 else 's'} only, so the statistics are poor"


def states_to_fit(methods: Sequence[Method]) -> dict[str, NeedsFit]:
    """All lessons that these methods need, each with one method that can learn it."""
    return {lesson: one for method in methods for lesson, one in methods_to_fit(method).items()}


def fitting_samples(samples: Samples, seed: int) -> Samples:
    """The images that a lesson is learnt from: all of them, or as many as the limit allows, in their own order."""
    if len(samples) <= LIMIT:
        return samples
    places = Rng(seed, ()).shared("lesson").permutation(len(samples))[:LIMIT]
    return samples.take(sorted(int(place) for place in places))


def fit_state(
    method: NeedsFit, classifier: Classifier, samples: Samples, *, seed: int, batch: int = BATCH
) -> dict[str, Tensor]:
    """One lesson from these images, `batch` of them in memory at a time."""

    def batches() -> Iterator[Float[Tensor, "batch channels height width"]]:
        for start in range(0, len(samples), batch):
            images = [samples[place].image for place in range(start, min(start + batch, len(samples)))]
            yield classifier.to_inputs(torch.stack(images))

    guard = Guard({"the model": classifier}, {"the inputs": classifier.to_inputs(samples[0].image[None])})
    with guard.watching(label(method), SnellenError), torch.no_grad(), no_exit(label(method), SnellenError):
        found = method.fit(classifier, batches(), rng=Rng(seed, tuple(samples.ids)))
    for name, values in found.items():
        if values.is_floating_point() and not bool(values.isfinite().all()):
            raise SnellenError(f"what {label(method)} learnt from the images ({name}) holds NaN or infinite values")
    return {name: values.detach().cpu().contiguous() for name, values in found.items()}


@contextmanager
def fitting_stage(observer: Observer, samples: Samples, lessons: int) -> Iterator[None]:
    """Shows that methods are learning; a lesson goes once over the images."""
    images = f"{len(samples)} image{'' if len(samples) == 1 else 's'}"
    observer.begin(f"learning from {images}", Passes(forward=len(samples) * lessons), lessons)
    try:
        yield
    finally:
        observer.end()


@contextmanager
def using_threads(count: int | None) -> Iterator[None]:
    """As many torch threads as the workers will have, so that a lesson does not depend on where the units run."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
