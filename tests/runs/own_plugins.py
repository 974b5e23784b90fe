"""Methods and metrics that a test registers temporarily and that call a function of the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from snellen.plugins.registry import METHODS, METRICS, method, metric
from snellen.types import Passes


@contextmanager
def own_method(name: str, act: Callable[..., Any], **traits: Any) -> Iterator[type]:
    """A method whose maps are the first channel of the inputs after `act(classifier, inputs, targets)`."""

    @method(name, cite="nobody", **traits)
    @dataclass(frozen=True)
    class Own:
        """Calls `act`; the map is the image."""

        def __call__(self, classifier, inputs, targets, *, rng):
            maps = inputs[:, 0].clone()
            act(classifier, inputs, targets)
            return maps

        def passes(self, size, classifier):
            return Passes()

    try:
        yield Own
    finally:
        del METHODS._classes[name]


@contextmanager
def own_metric(name: str, act: Callable[..., Any], **traits: Any) -> Iterator[type]:
    """A metric that scores 1 after `act(case)`."""

    @metric(name, cite="nobody", attribute="minimality", higher_is_better=True, bounds=(0.0, 1.0), **traits)
    @dataclass(frozen=True)
    class Own:
        """Calls `act`; the score is 1."""

        def __call__(self, case, *, rng):
            act(case)
            return torch.ones(len(case))

        def passes(self, size, explain, classifier):
            return Passes()

    try:
        yield Own
    finally:
        del METRICS._classes[name]
