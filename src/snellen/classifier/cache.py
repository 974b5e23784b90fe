"""Caches of results: computed once per key, and booked as cached passes when they are used again."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

from torch import Tensor

from snellen.classifier.ledger import Ledger
from snellen.types import Passes

T = TypeVar("T")


@runtime_checkable
class Account(Protocol):
    """What counts the passes of a computation: a classifier, or its ledgers."""

    def counting(self) -> AbstractContextManager[Ledger]: ...

    def book_cached(self, passes: Passes, seconds: float) -> None: ...


@dataclass(frozen=True, eq=False)
class CachedResult:
    """A cached result with the passes and seconds that computing it took."""

    value: Any
    """The result."""
    passes: Passes
    """The passes that computing it took."""
    seconds: float
    """The time that computing it took."""


class Cache:
    """Results by key.

    Args:
        copies: give every caller its own copy of cached tensors, so that callers may write into them.
    """

    def __init__(self, *, copies: bool = False) -> None:
        self.entries: dict[Hashable, CachedResult] = {}
        self._copy = _copy_tensors if copies else lambda value: value

    def __len__(self) -> int:
        return len(self.entries)

    def get_or_compute(self, key: Hashable, compute: Callable[[], T], account: Account | None = None) -> T:
        """The cached result, which is booked as cached passes, or else the result of `compute`.

        Args:
            key: says what is computed, with all settings that change the result.
            account: counts the passes of `compute`; None for results that are not booked.
        """
        entry = self.entries.get(key)
        if entry is not None:
            if account is not None:
                account.book_cached(entry.passes, entry.seconds)
            return cast(T, self._copy(entry.value))
        if account is None:
            value = compute()
            self.entries[key] = CachedResult(self._copy(value), Passes(), 0.0)
        else:
            with account.counting() as ledger:
                value = compute()
            passes, seconds = ledger.passes + ledger.cached, ledger.seconds + ledger.cached_seconds
            self.entries[key] = CachedResult(self._copy(value), passes, seconds)
        return value


class CachePerObject:
    """One cache for each object, such as a case or a classifier; it is dropped together with the object."""

    def __init__(self) -> None:
        self._caches: weakref.WeakKeyDictionary[Any, Cache] = weakref.WeakKeyDictionary()

    def get_or_compute(self, owner: object, key: Hashable, compute: Callable[[], T], account: Account | None = None) -> T:
        """As `Cache.get_or_compute`, from the cache of `owner`."""
        return self._caches.setdefault(owner, Cache()).get_or_compute(key, compute, account)


class TensorCache:
    """Results for particular input and target tensors, dropped as soon as a tensor is freed or changed in place."""

    def __init__(self) -> None:
        self._cache = Cache(copies=True)

    def __len__(self) -> int:
        return len(self._cache)

    def get_or_compute(
        self, key: tuple[Any, ...], inputs: Tensor, targets: Tensor, compute: Callable[[], T], account: Account
    ) -> T:
        """As `Cache.get_or_compute`, for these tensor objects (not for equal ones)."""
        if inputs.is_inference() or targets.is_inference():  # such tensors have no version, so a change goes unnoticed
            return compute()
        whole_key = (key, _identity(inputs), _identity(targets))
        is_new = whole_key not in self._cache.entries
        value = self._cache.get_or_compute(whole_key, compute, account)
        if is_new:
            # The id of a freed tensor may be used again. The weak reference lets the cache go before the tensors do.
            for tensor in (inputs, targets):
                weakref.finalize(tensor, _drop, weakref.ref(self), whole_key)
        return value

    def find(self, key_start: tuple[Any, ...], inputs: Tensor) -> tuple[Any, float] | None:
        """A cached result for these inputs and any targets whose key starts like this, and the seconds that it took."""
        if inputs.is_inference():
            return None
        for (key, tensor, _), entry in self._cache.entries.items():  # type: ignore[misc]
            if key[: len(key_start)] == key_start and tensor == _identity(inputs):  # type: ignore[has-type]
                return _copy_tensors(entry.value), entry.seconds
        return None


def _copy_tensors(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.clone()
    return tuple(map(_copy_tensors, value)) if type(value) is tuple else value


def _identity(tensor: Tensor) -> tuple[int, int]:
    return id(tensor), tensor._version


def _drop(cache: weakref.ref[TensorCache], key: tuple[Any, ...]) -> None:
    living = cache()
    if living is not None:
        living._cache.entries.pop(key, None)
