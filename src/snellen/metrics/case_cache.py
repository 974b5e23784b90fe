"""Kept: what several metrics ask of the same case, worked out once."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from snellen.types import Case, Passes

T = TypeVar("T")


class Kept(Generic[T]):
    """Answers by case and question for as long as the case lives; who asks again books the passes as shared."""

    def __init__(self) -> None:
        self._known: weakref.WeakKeyDictionary[Case, dict[Hashable, tuple[T, Passes, float]]] = weakref.WeakKeyDictionary()

    def __call__(self, case: Case, question: Hashable, compute: Callable[[], T]) -> T:
        """The answer, from `compute` the first time."""
        known = self._known.setdefault(case, {})
        if question in known:
            value, passes, seconds = known[question]
            case.classifier.book_shared(passes, seconds)
            return value
        with case.classifier.counting() as ledger:
            value = compute()
        known[question] = (value, ledger.passes + ledger.shared, ledger.seconds + ledger.shared_seconds)
        return value


def answered_parts(*relative: Hashable) -> dict[Hashable, Passes]:
    """What the classifier, or this relative of it, says of the untouched picture: paid once for all metrics and methods."""
    return {("images", "answered", *relative): Passes(forward=1)}
