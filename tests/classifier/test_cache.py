"""Cached results: who gets them, how they are booked, and when they are dropped."""

from __future__ import annotations

import copy
import gc
import weakref

import torch

from snellen.plugins.checks.planted import planted_batch
from snellen.types import Passes


def test_ledgers_nest_and_cached_passes_are_booked_separately() -> None:
    case = planted_batch(3)
    with case.classifier.counting() as outer:
        case.classifier.logits(case.inputs)
        with case.classifier.counting() as inner:
            first = case.classifier.gradient(case.inputs, case.targets, cached=True)
            again = case.classifier.gradient(case.inputs, case.targets, cached=True)
        case.classifier.gradient(case.inputs, case.targets)
    assert (inner.passes, inner.cached) == (Passes(3, 3), Passes(3, 3))
    assert (outer.passes, outer.cached) == (Passes(9, 6), Passes(3, 3))
    assert 0 < inner.seconds < outer.seconds
    for own, other in zip(first, again, strict=True):
        assert torch.equal(own, other)
        assert own is not other, "a caller may write into a cached result"
    with case.classifier.counting() as after:
        pass
    assert after.passes == Passes()


def test_only_the_same_unchanged_tensors_hit_the_cache() -> None:
    case = planted_batch(3)
    gradient = case.classifier.gradient
    first, _ = gradient(case.inputs, case.targets, cached=True)
    with case.classifier.counting() as ledger:
        gradient(case.inputs, case.targets, cached=True, of="probability")
        gradient(case.inputs.clone(), case.targets, cached=True)
        gradient(case.inputs, case.targets.clone(), cached=True)
        case.inputs.mul_(1.5)
        case.inputs[:, :, :12] = 0
        changed, _ = gradient(case.inputs, case.targets, cached=True)
    assert (ledger.passes, ledger.cached) == (Passes(12, 12), Passes())
    assert not torch.equal(first, changed)


def test_cached_results_are_dropped_with_their_tensors() -> None:
    case = planted_batch(3)
    for _ in range(5):
        case.classifier.gradient(case.inputs.clone(), case.targets, cached=True)
        case.classifier.layer_gradient(case.inputs, case.targets.clone(), "pool")
    assert not case.classifier._cache


def test_cached_results_are_dropped_with_a_variant_though_the_tensors_live_on() -> None:
    case = planted_batch(3)
    variant = case.classifier.variant(copy.deepcopy(case.classifier.module), "twin")
    variant.cached_logits(case.inputs)
    (entry,) = variant._cache._cache.entries.values()
    result = weakref.ref(entry.value)
    del variant, entry
    gc.collect()
    assert result() is None
