"""The traits of every registered method on pretrained networks: planted ones are too well behaved to disprove some."""

from __future__ import annotations

import functools

import pytest
import torch
from tests.real_networks import Real, names, real
from tests.trait_figures import CHEAPER, Tried

from snellen import zoo
from snellen.errors import SnellenError
from snellen.plugins.registry import METHODS, traits
from snellen.plugins.traits import TESTED_ON, TraitEvidence
from snellen.runs.progress import weight_of
from snellen.types import Method

FAST = {zoo.DIGITS: 2000.0, "complex-cr3": 12.0}
"""Up to which cost per map, in forward passes, a method is tried on each network in the fast tests."""

DEPTHWISE = ("deep-taylor", "deeplift-rescale", "gradient")
"""What the fast tests try on the embedded classifier, whose convolutions are depthwise."""

ROUNDED = {zoo.EMBEDDED: 0.25}
"""How far other weights of the same function may move a map where, of millions of rectifiers, some switch by rounding."""

EXEMPT: dict[tuple[str, str, str], str] = {
    ("integrated-gradients", "complex-cr4", "complete"): (
        "on the way to one scene the logit rises by ten and falls again, so that 5 % of what is left takes 2,048 steps"
    ),
}
"""(method, network, trait) and why the trait must fail there."""


@functools.cache
def subject(network: str, count: int) -> Real:
    return real(network, count)


def broken(tried: Tried) -> dict[str, float]:
    """The traits that the method does not have on this network, with the number that shows it."""
    facts = traits(tried.method)
    shares = {}
    if isinstance(facts.complete, TraitEvidence):
        shares["complete"] = _beyond(tried.gap(), facts.complete.within)
    if isinstance(facts.implementation_invariant, TraitEvidence):
        within = ROUNDED.get(tried.real.name, facts.implementation_invariant.within)
        shares["implementation-invariant"] = _beyond(tried.moved_by_rewriting(), within)
    if not facts.signed:
        shares["signed"] = _beyond(tried.negative(), 0)
    by_seed, by_target = tried.moved_by_seed(), tried.moved_by_target()
    shares["deterministic"] = _beyond(by_seed, 0) if facts.deterministic else _beyond(-by_seed, -1e-9)
    shares["class-specific"] = _beyond(-by_target, -1e-9) if facts.class_specific else _beyond(by_target, 0)
    overspent = tried.overspent()
    shares["at-most"] = _beyond(overspent if facts.at_most else overspent.abs(), 0)
    return {trait: value for trait, value in shares.items() if value}


def _beyond(values: torch.Tensor, bound: float) -> float:
    """The largest value if it is beyond the bound, else 0; undefined values say nothing."""
    worst = float(values[~values.isnan()].max()) if not values.isnan().all() else bound
    return 0.0 if worst <= bound else worst or 1.0


def assert_traits(method: Method, network: str, count: int) -> None:
    name = traits(method).name
    exempt = {trait for (exempted, where, trait) in EXEMPT if (exempted, where) == (name, network)}
    shares = broken(Tried(method, subject(network, count)))
    assert set(shares) == exempt, shares


def accepted(method: Method, network: str) -> bool:
    try:
        Tried(method, subject(network, 1))
    except SnellenError:
        return False
    return True


def cheap(method: Method, network: str) -> bool:
    case = subject(network, 1)
    size = (int(case.inputs.shape[2]), int(case.inputs.shape[3]))
    return accepted(method, network) and weight_of(method.passes(size, case.classifier)) <= FAST[network]


@pytest.mark.slow
@pytest.mark.parametrize("network", FAST)
@pytest.mark.parametrize("name", METHODS)
def test_traits(name: str, network: str) -> None:
    method = METHODS.build(name, CHEAPER.get(name))
    if cheap(method, network):
        assert_traits(method, network, 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [name if name == "deep-taylor" else pytest.param(name, marks=pytest.mark.exhaustive) for name in DEPTHWISE]
)
def test_traits_on_depthwise_convolutions(name: str) -> None:
    assert_traits(METHODS.build(name), zoo.EMBEDDED, 1)


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("network", names())
@pytest.mark.parametrize("name", METHODS)
def test_traits_with_default_settings_on_all_networks(name: str, network: str) -> None:
    method = METHODS.build(name)
    if accepted(method, network):
        assert_traits(method, network, 3 if network == zoo.EMBEDDED else 10)


@pytest.mark.parametrize("name", METHODS)
def test_a_method_says_so_when_no_pretrained_network_could_try_it(name: str) -> None:
    method = METHODS.build(name)
    assert (traits(method).tested_on == TESTED_ON) == any(accepted(method, network) for network in FAST)
