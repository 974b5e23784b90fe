"""Every registered metric against the contract suite, and beside its slow twin."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.metric_twins import LIGHT, TWINS

from snellen.plugins.checks.check import Check
from snellen.plugins.checks.exemptions import EXEMPTIONS, exemption
from snellen.plugins.checks.metric_checks import metric_checks, metric_rules
from snellen.plugins.checks.planted import PATCH, planted_batch
from snellen.plugins.checks.planted_methods import InputTimesGradient, planted_case
from snellen.plugins.citations import CITATIONS
from snellen.plugins.registry import METRICS

NAMES = list(METRICS)


def build(name: str) -> Any:
    """The metric, with lighter settings where its defaults take long."""
    return METRICS.build(name, LIGHT.get(name))


def marks(name: str, check: str) -> list[pytest.MarkDecorator]:
    """A strict expected failure where the metric is exempt from the check."""
    reason = exemption(name, check)
    return [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]


def contract() -> list[Any]:
    """All checks of all metrics."""
    params = []
    for name in NAMES:
        params += [
            pytest.param(check, id=f"{check.name}-{name}", marks=marks(name, check.name))
            for check in metric_checks(build(name))
        ]
    return params


def with_exemptions(check: str) -> list[Any]:
    return [pytest.param(name, id=name, marks=marks(name, check)) for name in NAMES]


@pytest.mark.parametrize("check", contract())
def test_contract(check: Check):
    check.run()


@pytest.mark.parametrize("name", NAMES)
def test_it_cites_a_known_work(name):
    assert METRICS[name].traits.cite in CITATIONS


FEWER = {"road": 1, "consistency": 2, "cose": 2, "input-consistency": 2, "sensitivity": 2, "stability": 2}
"""How many images of four the fast tests compare with a twin that takes long."""


def assert_twin(name: str, count: int) -> None:
    scene = planted_batch(count)
    slopes = InputTimesGradient()(scene.classifier, scene.inputs, scene.targets, rng=scene.rng)
    # The gradient is zero outside the patch; a little noise makes every pixel's rank unique.
    maps = slopes + 0.02 * (scene.rng.uniform("map", (24, 24)) - 0.5)
    if METRICS[name].traits.needs & {"explain"}:
        maps = slopes
    elif METRICS[name].traits.needs & {"truth"}:
        maps[1] = maps[1].roll(PATCH, dims=0)  # a map that points elsewhere
    metric = METRICS.build(name)
    values = metric(planted_case(scene, InputTimesGradient(), maps=maps, metric=metric), rng=scene.rng)
    twins = torch.tensor([TWINS[name](scene, i, maps[i].double().numpy()) for i in range(count)])
    torch.testing.assert_close(values, twins.float(), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", with_exemptions("twin"))
def test_it_agrees_with_its_slow_twin(name):
    assert_twin(name, FEWER.get(name, 4))


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", FEWER)
def test_it_agrees_with_its_slow_twin_on_all_images(name):
    assert_twin(name, 4)


def test_every_metric_has_a_slow_twin_and_a_worked_example():
    worked = "\n".join(path.read_text() for path in (Path(__file__).parents[1] / "worked").glob("test_*.py"))
    shown = set(re.findall(r"^def test_(\w+?)(?:__\w+)?\(", worked, flags=re.MULTILINE))
    assert set(NAMES) == set(TWINS)
    assert {name.replace("-", "_") for name in NAMES} <= shown


def test_exemptions_name_rules_that_exist():
    rules = {rule for name in NAMES for rule in metric_rules(build(name))} | {"direction", "twin"}
    assert {check for plugin, check in EXEMPTIONS if plugin in NAMES} <= rules
