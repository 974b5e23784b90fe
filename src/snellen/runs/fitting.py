"""Fits methods to the user's images before they explain any of them, one small batch in memory at a time."""

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
from snellen.images import Samples
from snellen.maps.fitted_state import digest, methods_to_fit
from snellen.plugins.registry import label, traits
from snellen.runs import plan as planning
from snellen.runs import requirements
from snellen.runs.guard import Guard
from snellen.runs.progress import Observer, default_observer
from snellen.runs.record import FittedRecord
from snellen.runs.store import Store, key_of
from snellen.runs.subject import samples_for
from snellen.runs.tasks import common_key
from snellen.runs.unit import cost_since
from snellen.types import Method, NeedsFit, Passes, Rng

LIMIT = 500
"""The most images that a method is fitted to, drawn by the seed; more would hardly make the statistics better."""

FEW = 20
"""With fewer images a note says that the statistics are poor."""

BATCH = 16
"""Images in memory at a time."""


def fit(classifier: Classifier, samples: Any, *, methods: Any, seed: int = 0, observer: Observer | None = None) -> None:
    """Fits methods to images; the fitted states are put into `classifier.fitted_state`.

    `evaluate` does the same with its own samples for states that the classifier lacks. To explain few images with the
    statistics of many, call this first.

    Args:
        classifier: The classifier that the methods will explain.
        samples: Images to fit to, in any form that `evaluate` takes.
        methods: Names or plug-ins; those that need no fit are ignored.
        seed: Which images are drawn, where there are more than `LIMIT`.
        observer: Shows progress.
    """
    images = samples_for(classifier, samples)
    parsed = planning.parse_methods(methods)
    methods_by_state = states_to_fit(parsed)
    if not methods_by_state:
        return
    images = fitting_samples(images, seed)
    inputs = classifier.to_inputs(images[0].image[None])
    classifier.check(inputs)
    requirements.check_needs(classifier, parsed, inputs)
    progress = observer or default_observer()
    with fitting_stage(progress, images, len(methods_by_state)):
        for state, method in methods_by_state.items():
            progress.running(f"fitting {state}")
            with classifier.counting(progress.passed):
                classifier.fitted_state[state] = fit_state(method, classifier, images, seed=seed)
            progress.finished(Passes())


def install_fitted_states(
    methods_by_state: Mapping[str, NeedsFit],
    classifier: Classifier,
    samples: Samples,
    store: Store,
    *,
    seed: int,
    batch: int,
    threads: int | None,
    observer: Observer,
) -> dict[str, FittedRecord]:
    """Fills `classifier.fitted_state`: a state that is there stays, others are read from the store, or fitted and stored.

    Args:
        methods_by_state: By name of the state, a method that can fit it.
        classifier: The classifier that is explained.
        samples: The images of the run.
        store: The run folder.
        seed: Which images are drawn, where there are more than `LIMIT`.
        batch: Images in memory at a time.
        threads: Torch threads; as many as before where None.
        observer: Shows progress.
    """
    records: dict[str, FittedRecord] = {}
    missing: dict[str, tuple[str, NeedsFit]] = {}
    images = fitting_samples(samples, seed) if methods_by_state else samples
    digests = [list(pair) for pair in zip(images.ids, images.digests, strict=True)]
    for state, method in methods_by_state.items():
        facts = {**common_key(classifier, seed, "eager"), "samples": digests, "version": traits(method).version}
        key = key_of({**facts, "lesson": state})  # an older word for a fitted state, which the keys of old runs hold
        if state in classifier.fitted_state:
            records[state] = FittedRecord(images=None, digest=digest(classifier.fitted_state[state]))
        elif (stored := store.intact_fitted(key)) is not None:
            records[state], classifier.fitted_state[state] = stored
        else:
            missing[key] = state, method
    if not missing:
        return records
    if (note := few_images_note(len(images), [method for _, method in missing.values()])) is not None:
        observer.note(note)
    with fitting_stage(observer, images, len(missing)), using_threads(threads):
        for key, (state, method) in missing.items():
            observer.running(f"fitting {state}")
            started = time.perf_counter()
            with classifier.counting(observer.passed) as paid:
                classifier.fitted_state[state] = fit_state(method, classifier, images, seed=seed, batch=batch)
            records[state] = FittedRecord(
                images=len(images), digest=digest(classifier.fitted_state[state]), cost=cost_since(started, paid)
            )
            store.put_fitted(key, records[state], classifier.fitted_state[state])
            observer.finished(Passes())
    return records


def few_images_note(images: int, methods: Sequence[NeedsFit]) -> str | None:
    """A sentence where there are so few images that the statistics are poor; otherwise None."""
    if images >= FEW:
        return None
    names = ", ".join(label(method) for method in methods)
    return f"{names}: fitted to {images} image{'' if images == 1 else 's'} only, so the statistics are poor"


def states_to_fit(methods: Sequence[Method]) -> dict[str, NeedsFit]:
    """The fitted states that these methods need, each with a method that can fit it."""
    return {state: part for method in methods for state, part in methods_to_fit(method).items()}


def fitting_samples(samples: Samples, seed: int) -> Samples:
    """The images that methods are fitted to: all, or `LIMIT` of them drawn by the seed, in their own order."""
    if len(samples) <= LIMIT:
        return samples
    indices = Rng(seed, ()).shared("lesson").permutation(len(samples))[:LIMIT]
    return samples.take(sorted(int(index) for index in indices))


def fit_state(
    method: NeedsFit, classifier: Classifier, samples: Samples, *, seed: int, batch: int = BATCH
) -> dict[str, Tensor]:
    """The tensors that a method fits to these images, `batch` of them in memory at a time."""

    def batches() -> Iterator[Float[Tensor, "batch channels height width"]]:
        for start in range(0, len(samples), batch):
            images = [samples[index].image for index in range(start, min(start + batch, len(samples)))]
            yield classifier.to_inputs(torch.stack(images))

    guard = Guard({"the model": classifier}, {"the inputs": classifier.to_inputs(samples[0].image[None])})
    with guard.watching(label(method), SnellenError), torch.no_grad(), no_exit(label(method), SnellenError):
        tensors = method.fit(classifier, batches(), rng=Rng(seed, tuple(samples.ids)))
    for name, values in tensors.items():
        if values.is_floating_point() and not bool(values.isfinite().all()):
            raise SnellenError(f"the state that {label(method)} fitted to the images ({name}) holds NaN or infinite values")
    return {name: values.detach().cpu().contiguous() for name, values in tensors.items()}


@contextmanager
def fitting_stage(observer: Observer, samples: Samples, states: int) -> Iterator[None]:
    """Shows the progress of fitting, in which every one of so many states needs one pass over the images."""
    images = f"{len(samples)} image{'' if len(samples) == 1 else 's'}"
    observer.begin(f"fitting to {images}", Passes(forward=len(samples) * states), states)
    try:
        yield
    finally:
        observer.end()


@contextmanager
def using_threads(count: int | None) -> Iterator[None]:
    """Inside, torch has as many threads as the workers will have, so that results do not depend on where units run."""
    before = torch.get_num_threads()
    torch.set_num_threads(count or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
