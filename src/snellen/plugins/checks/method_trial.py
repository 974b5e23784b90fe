"""A method on one planted network: which networks it accepts, its preparation, and the maps that all checks share."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import torch
from torch import Tensor

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.maps.fitted_state import methods_to_fit
from snellen.plugins.checks.planted import SIDE, NetworkKind, PlantedBatch, planted_batch, planted_classifier
from snellen.plugins.registry import traits
from snellen.plugins.traits import MethodTraits
from snellen.types import Method, Passes, Rng


def accepts(method: Method, kind: NetworkKind) -> bool:
    """Whether the method accepts the planted network of this kind."""
    return refusal_of(method, kind) is None


def refusal_of(method: Method, kind: NetworkKind) -> str | None:
    """Why the method does not accept the planted network of this kind; None where it does."""
    try:
        prepare(method, shared_classifier(kind), planted_batch(3, classifier=shared_classifier(kind)).inputs)
    except SnellenError as problem:
        return str(problem)
    return None


class MethodTrial:
    """A method on one planted network, with its maps of three images, which all checks share."""

    def __init__(self, method: Method, kind: NetworkKind) -> None:
        self.method = method
        self.kind = kind

    @property
    def traits(self) -> MethodTraits:
        """The traits that the checks try to disprove."""
        method_traits: MethodTraits = traits(self.method)
        return method_traits

    def batch(self) -> PlantedBatch:
        """Three images in new tensors, so that nothing cached per tensor is used."""
        return planted_batch(3, classifier=shared_classifier(self.kind))

    def explain(self, batch: PlantedBatch, *, targets: Tensor | None = None, rng: Rng | None = None) -> Tensor:
        """The method's maps of a batch."""
        return explain(
            self.method,
            batch.classifier,
            batch.inputs,
            batch.targets if targets is None else targets,
            batch.rng if rng is None else rng,
        )

    @functools.cached_property
    def first(self) -> FirstRun:
        """The first run on three images and the next one on the same tensors."""
        batch = self.batch()
        prepare(self.method, batch.classifier, batch.inputs)
        inputs, targets = batch.inputs.clone(), batch.targets.clone()
        state = torch.get_rng_state()
        maps, first = self._count(batch)
        values = maps.clone()
        requires_grad = maps.requires_grad
        maps.detach().add_(1)
        unchanged = torch.equal(batch.inputs, inputs) and torch.equal(batch.targets, targets)
        untracked = batch.inputs.grad is None and not batch.inputs.requires_grad
        again, second = self._count(batch)
        return FirstRun(
            maps=values.detach(),
            again=again,
            passes=(first, second),
            requires_grad=requires_grad,
            inputs_unchanged=unchanged and untracked,
            torch_rng_unchanged=torch.equal(torch.get_rng_state(), state),
        )

    @property
    def maps(self) -> Tensor:
        """The maps that all others are compared with."""
        return self.first.maps

    def _count(self, batch: PlantedBatch) -> tuple[Tensor, Passes]:
        with batch.classifier.counting() as ledger:
            maps = self.method(batch.classifier, batch.inputs, batch.targets, rng=batch.rng)
        return maps, ledger.passes + ledger.cached


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class FirstRun:
    """What the first two runs of a method on the same tensors showed."""

    maps: Tensor
    """The maps of the first run."""
    again: Tensor
    """The maps of the second run, after 1 was added to those that the first run returned."""
    passes: tuple[Passes, Passes]
    """The passes of each run."""
    requires_grad: bool
    """Whether the maps are part of a graph."""
    inputs_unchanged: bool
    """Whether the inputs are as they were."""
    torch_rng_unchanged: bool
    """Whether torch's own random numbers are where they were."""


_TRIALS: dict[tuple[Any, NetworkKind], MethodTrial] = {}


def trial_of(method: Method, kind: NetworkKind) -> MethodTrial:
    """The method on one planted network; the same object for equal methods, whose maps are computed once."""
    return _TRIALS.setdefault((method, kind), MethodTrial(method, kind))


@functools.cache
def shared_classifier(kind: NetworkKind) -> Classifier:
    """A planted classifier that checks share, because setting it up takes longer than most of them."""
    return planted_classifier(kind=kind)


def explain(method: Method, classifier: Classifier, inputs: Tensor, targets: Tensor, rng: Rng) -> Tensor:
    """Prepares, fits and runs a method."""
    prepare(method, classifier, inputs)
    return method(classifier, inputs, targets, rng=rng)


def prepare(method: Method, classifier: Classifier, inputs: Tensor) -> None:
    """Calls the method's own `prepare`, if it has one, and fits the method if it must be fitted."""
    if hasattr(method, "prepare"):
        method.prepare(classifier, inputs)
    fit(method, classifier, (int(inputs.shape[2]), int(inputs.shape[3])))


def fit(method: Method, classifier: Classifier, size: tuple[int, int]) -> None:
    """Fits a method, and those that it wraps, always to the same images."""
    for key, fitted in methods_to_fit(method).items():
        if key not in classifier.fitted_state:
            rng = Rng(seed=5, ids=tuple(f"lesson-{i}" for i in range(6)))
            planted = size == (SIDE, SIDE)
            images = planted_batch(6, seed=5, classifier=classifier).inputs if planted else rng.normal("lesson", (3, *size))
            classifier.fitted_state[key] = fitted.fit(classifier, [images], rng=rng)
