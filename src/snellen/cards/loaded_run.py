"""A run's classifier and images, loaded again and checked, to run its methods with other seeds and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.images import Samples
from snellen.maps.fitted_state import methods_to_fit
from snellen.plugins.registry import METHODS, traits
from snellen.runs import Options, Run, evaluate, fit
from snellen.runs import plan as planning
from snellen.runs.job import UnfinishedError
from snellen.runs.progress import Observer, Relay
from snellen.runs.reload import reload_subject
from snellen.types import Method, Metric, Passes

FOLDER = "methodology"
"""The folder of the results, inside the run's folder."""

_USAGE = "snellen.cards.methodology.measure(run, classifier=..., samples=...)"


def failures(run: Run) -> dict[str, str]:
    """By label, why a method could not explain all images."""
    return run.record.method_failures


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadedRun:
    """A run with its classifier, images and methods loaded."""

    run: Run
    classifier: Classifier
    samples: Samples
    """The images of the run."""
    methods: Mapping[str, Method]
    """By label, the methods that explained every image."""
    observer: Observer

    @staticmethod
    def of(run: Run, classifier: Any, samples: Any, observer: Observer, *, trust: bool = False) -> LoadedRun:
        """Loads the model and images of the run's request, or uses the arguments; refuses others than those of the run."""
        instead = "or leave the methodology out with --no-measure"
        model, images = reload_subject(run, classifier, samples, observer, usage=_USAGE, instead=instead, trust=trust)
        methods = {}
        for method_spec in run.record.spec.methods:
            if method_spec.label in run.explained:
                methods[method_spec.label] = method = METHODS.build(method_spec.name, method_spec.params)
                if traits(method).version != method_spec.version:
                    raise SnellenError(
                        f"'{run.folder}' holds maps of version {method_spec.version} of {method_spec.name}, but version "
                        f"{traits(method).version} is installed; make the run again"
                    )
        return LoadedRun(run=run, classifier=model, samples=images, methods=methods, observer=observer)

    @cached_property
    def inputs(self) -> Float[Tensor, "1 channels height width"]:
        """The first image as the network sees it."""
        return self.classifier.to_inputs(self.samples[0].image[None])

    @cached_property
    def size(self) -> tuple[int, int]:
        """Height and width of the images."""
        return int(self.inputs.shape[2]), int(self.inputs.shape[3])

    @cached_property
    def pass_seconds(self) -> planning.PassSeconds:
        """Seconds per pass of the classifier."""
        return planning.measure_pass_seconds(self.classifier, self.inputs, gradients=True)

    def image(self, number: int) -> tuple[Float[Tensor, "1 channels height width"], Int[Tensor, " 1"], str]:
        """One image, its explained class and its name; new tensors on every call, so that nothing cached is reused."""
        target = self.run.record.samples.rows[number].target
        return self.classifier.to_inputs(self.samples[number].image[None]), torch.tensor([target]), self.samples.ids[number]

    def ids(self, images: int) -> list[str]:
        """The names of the first images."""
        return list(self.samples.ids[:images])

    def maps(self, name: str, images: int) -> np.ndarray:
        """The maps of a method for the first images: those of the run, or computed again where it did not keep them."""
        ids = self.ids(images)
        if self.run.record.spec.keeps_all_maps or set(ids) <= set(self.run.kept_maps(name)):
            return self.run.maps(name, ids)
        self.observer.note(f"maps of '{name}' were not kept, so {images} are computed again")
        again = self.explain("own-maps", [self.methods[name]], images=images, seed=self.run.record.spec.seed, metrics=())
        return again.maps(name, ids)

    def passes(self, method: Method) -> Passes:
        """The declared cost of one map."""
        return method.passes(self.size, self.classifier)

    @contextmanager
    def fitted(self, methods: Sequence[Method], *, seed: int) -> Iterator[None]:
        """A context in which these methods are fitted to all images of the run, with this seed."""
        before = dict(self.classifier.fitted_state)
        try:
            unfitted = [method for method in methods if set(methods_to_fit(method)) - set(before)]
            if unfitted:
                fit(self.classifier, self.samples, methods=unfitted, seed=seed, observer=self.observer)
            yield
        finally:
            self.classifier.fitted_state = before

    def explain(self, name: str, methods: Sequence[Method], *, images: int, seed: int, metrics: Sequence[Metric]) -> Run:
        """An additional run on the first images, in the run's folder. Finished work is reused; methods may fail in it."""
        folder = f"{self.run.folder}/{FOLDER}/{name}-{images}"
        with self.fitted(methods, seed=seed):
            try:
                return evaluate(
                    self.classifier,
                    self.samples[:images],
                    methods=methods,
                    metrics=metrics or None,
                    target=self.run.record.spec.target,
                    seed=seed,
                    out=folder,
                    options=Options(shard=images, engine="eager", pass_seconds=self.pass_seconds),
                    observer=Relay(self.observer, name.replace("-", " "), lambda text: False),
                )
            except UnfinishedError:
                return Run(folder)
