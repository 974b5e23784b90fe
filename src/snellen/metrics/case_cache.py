"""Results that several metrics use of the same case, computed once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from snellen.classifier.cache import CachePerObject
from snellen.types import Case, Passes

T = TypeVar("T")

_CACHE = CachePerObject()


def cached_per_case(case: Case, key: Hashable, compute: Callable[[], T]) -> T:
    """The result of `compute`, cached while the case lives; using it again books its passes as cached.

    Args:
        case: the case that the result is about.
        key: names the result, with all settings that change it.
        compute: computes the result the first time.
    """
    return _CACHE.get_or_compute(case, key, compute, case.classifier)


def output_parts(*variant: Hashable) -> dict[Hashable, Passes]:
    """Cost of the outputs for the unchanged image, of the classifier or a variant; paid once for all metrics and methods."""
    return {("images", "outputs", *variant): Passes(forward=1)}
