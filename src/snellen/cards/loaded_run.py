"""A run's classifier and images, loaded again and checked, to try its methods beside the run in other ways."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

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
from snellen.runs.evaluate import UnfinishedError
from snellen.runs.progress import Observer, Relay
from snellen.runs.reload import reload_subject
from snellen.types import Method, Metric, Passes

FOLDER = "methodology"
"""Where all of it is kept, inside the run's folder."""

_PYTHON = "snellen.cards.methodology.measure(run, classifier=..., samples=...)"


def failures(run: Run) -> dict[str, str]:
    """By label, why a method could not explain all images."""
    return run.record.method_failures


@dataclass(frozen=True, kw_only=True, eq=False)
class LoadedRun:
    """Everything that a run explained, at hand again."""

    run: Run
    classifier: Classifier
    samples: Samples
    methods: Mapping[str, Method]
    """By label, those that explained every image."""
    observer: Observer

    @staticmethod
    def of(run: Run, classifier: Any, samples: Any, observer: Observer, *, trust: bool = False) -> LoadedRun:
        """Loads what the run's request names, or takes what is given; refuses anything but what the run saw."""
        instead = "or leave the methodology out with --no-measure"
        model, images = reload_subject(run, classifier, samples, observer, usage=_PYTHON, instead=instead, trust=trust)
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
        """How fast the classifier is."""
        return planning.measure_pass_seconds(self.classifier, self.inputs, gradients=True)

    def image(self, place: int) -> tuple[Float[Tensor, "1 channels height width"], Int[Tensor, " 1"], str]:
        """One image, the class that the run explained, and the image's name; new tensors each time, so nothing is shared."""
        target = self.run.record.samples.rows[place].target
        return self.classifier.to_inputs(self.samples[place].image[None]), torch.tensor([target]), self.samples.ids[place]

    def ids(self, images: int) -> list[str]:
        """The names of the first images."""
        return list(self.samples.ids[:images])

    def passes(self, method: Method) -> Passes:
        """What one map should cost."""
        return method.passes(self.size, self.classifier)

    @contextmanager
    def fitted(self, methods: Sequence[Method], *, seed: int) -> Iterator[None]:
        """Inside, the classifier has the fitted state that these methods need, from all images of the run and this seed."""
        before = dict(self.classifier.fitted_state)
        try:
            unfitted = [method for method in methods if set(methods_to_fit(method)) - set(before)]
            if unfitted:
                fit(self.classifier, self.samples, methods=unfitted, seed=seed, observer=self.observer)
            yield
        finally:
            self.classifier.fitted_state = before

    def explain(self, name: str, methods: Sequence[Method], *, images: int, seed: int, metrics: Sequence[Metric]) -> Run:
        """A run beside the run, of its first images; what is there already is not done again, and failures stay out."""
        folder = self.run.folder / FOLDER / f"{name}-{images}"
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
                    options=Options(shard=images, compile=False, pass_seconds=self.pass_seconds),
                    observer=Relay(self.observer, name.replace("-", " "), lambda text: False),
                )
            except UnfinishedError:
                return Run(folder)
