"""Integrated gradients adds steps until the map's sum meets the rise, image by image."""

from __future__ import annotations

import functools

import pytest
import torch
from tests.real_networks import Real, real
from tests.trait_figures import Tried
from torch import Tensor

from snellen import zoo
from snellen.methods.guided_ig import GuidedIG
from snellen.methods.integrated_gradients import FEWEST, MOST, IntegratedGradients

COUNT = 4
STRICT = IntegratedGradients(tolerance=0.004)


@functools.cache
def scenes() -> Real:
    """Digits, whose small network makes many steps cheap."""
    return real(zoo.DIGITS, COUNT)


def spent(method: IntegratedGradients, row: slice) -> int:
    case = scenes()
    with case.classifier.counting() as ledger:
        method(case.classifier, case.inputs[row], case.targets[row], rng=case.rng[row])
    assert ledger.passes.forward == ledger.passes.backward
    return ledger.passes.backward


@functools.cache
def costs() -> list[int]:
    """Gradients that each scene alone takes."""
    return [spent(STRICT, slice(place, place + 1)) for place in range(COUNT)]


def by_trapezoids(inputs: Tensor, target: Tensor, steps: int) -> Tensor:
    """The definition, point by point."""
    total = torch.zeros_like(inputs)
    for place in range(steps + 1):
        gradient, _ = scenes().classifier.gradient(place / steps * inputs, target)
        total += gradient * (0.5 if place in (0, steps) else 1.0) / steps
    return (inputs * total).sum(dim=1)


def test_the_default_keeps_the_promise_that_a_fixed_number_of_steps_breaks() -> None:
    case = real("complex-cr3", COUNT)
    fixed, default = (Tried(method, case).gap() for method in (IntegratedGradients(steps=32), IntegratedGradients()))
    assert float(fixed.max()) > 0.1
    assert float(default.max()) <= IntegratedGradients().tolerance


def test_steps_are_added_only_where_they_are_needed_and_no_gradient_is_taken_twice() -> None:
    assert set(costs()) <= {FEWEST * 2**k + 1 for k in range(5)}
    assert min(costs()) == FEWEST + 1
    assert max(costs()) > FEWEST + 1
    assert spent(STRICT, slice(0, COUNT)) == sum(costs())


def test_the_map_is_the_trapezoid_rule_with_as_many_steps() -> None:
    case = scenes()
    place = costs().index(max(costs()))
    row = slice(place, place + 1)
    steps = costs()[place] - 1
    maps = STRICT(case.classifier, case.inputs[row], case.targets[row], rng=case.rng[row])
    expected = by_trapezoids(case.inputs[row], case.targets[row], steps)
    torch.testing.assert_close(maps, expected, rtol=1e-3, atol=1e-5 * float(expected.abs().max()))


def test_a_batch_equals_its_images_alone() -> None:
    case = scenes()
    together = Tried(STRICT, case).plain
    for place in range(COUNT):
        row = slice(place, place + 1)
        alone = STRICT(case.classifier, case.inputs[row], case.targets[row], rng=case.rng[row])
        torch.testing.assert_close(together[row], alone, rtol=1e-3, atol=1e-5 * float(alone.abs().max()))


def test_a_tolerance_out_of_reach_ends_at_the_most_steps() -> None:
    assert spent(IntegratedGradients(tolerance=1e-9), slice(0, 1)) == MOST + 1


def test_a_picture_like_the_baseline_costs_no_further_steps() -> None:
    case = scenes()
    inputs = torch.zeros_like(case.inputs[:2])
    with case.classifier.counting() as ledger:
        maps = IntegratedGradients()(case.classifier, inputs, case.targets[:2], rng=case.rng[:2])
    assert ledger.passes.backward == 2 * (FEWEST + 1)
    assert not maps.any()


@pytest.mark.exhaustive
def test_guided_ig_misses_the_rise_where_integrated_gradients_meets_it() -> None:
    case = real("complex-cr4", 10)
    assert float(Tried(GuidedIG(), case).gap().max()) > 0.3
    assert float(Tried(IntegratedGradients(), case).gap().median()) < 0.05
