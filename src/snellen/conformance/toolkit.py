"""A toolkit under test: its name, its version, and one function per metric that it offers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from snellen.conformance.fixtures import Fixture

Compute = Callable[..., Sequence[float]]
"""Computes a metric for a fixture, with settings by name: one number per sample, or only their mean."""


MetricSettings = Mapping[str, Any]
NONE: MetricSettings = MappingProxyType({})


class NotOffered(Exception):  # noqa: N818 - a normal result, not a fault
    """The toolkit does not compute this metric, or not with these settings."""


@dataclass(frozen=True)
class Toolkit:
    """A toolkit, the installed version, and a function for each metric that it offers.

    The parameters of such a function are the settings that the toolkit accepts; a case that needs others is not offered.
    """

    name: str
    version: str
    offers: Mapping[str, Compute]
    """By name of the metric."""

    def compute(self, metric: str, fixture: Fixture, settings: MetricSettings = NONE, *, copied: bool = True) -> list[float]:
        """The toolkit's scores; it receives a copy of the fixture, because some toolkits modify their arguments."""
        if metric not in self.offers:
            raise NotOffered(metric)
        function = self.offers[metric]
        try:
            inspect.signature(function).bind(fixture, **settings)
        except TypeError:
            raise NotOffered(f"{metric} with {dict(settings)}") from None
        return [float(score) for score in function(fixture.copy() if copied else fixture, **settings)]
