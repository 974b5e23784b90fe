"""The contract suite as authors of other packages use it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from snellen.classifier import Classifier
from snellen.errors import SnellenError
from snellen.plugins.checks import FailedCheckError, check, checks
from snellen.plugins.registry import METHODS, METRICS, method, metric
from snellen.types import Case, Passes, Rng


@dataclass(frozen=True)
class InputTimesGradientTwin:
    """Input times gradient, written by somebody else."""

    def passes(self, size: tuple[int, int], classifier: Classifier) -> Passes:
        return Passes(1, 1)

    def __call__(self, classifier: Classifier, inputs: Tensor, targets: Tensor, *, rng: Rng) -> Tensor:
        gradient, _ = classifier.gradient(inputs, targets)
        return (inputs * gradient).sum(dim=1)


@dataclass(frozen=True)
class MeanOfMap:
    """The mean of the map, larger for maps that mark more."""

    def passes(self, size: tuple[int, int], explain: Passes, classifier: Classifier) -> Passes:
        return Passes()

    def __call__(self, case: Case, *, rng: Rng) -> Tensor:
        return case.maps.mean(dim=(1, 2))


@pytest.fixture(autouse=True)
def restore() -> Iterator[None]:
    before = set(METHODS), set(METRICS)
    yield
    for registry, names in zip((METHODS, METRICS), before, strict=True):
        for name in set(registry) - names:
            del registry._classes[name]


def test_a_method_of_another_package_passes() -> None:
    method("twin", cite="me2026", signed=True, needs={"gradients"})(InputTimesGradientTwin)
    check(InputTimesGradientTwin())


def test_a_wrong_trait_gets_one_sentence() -> None:
    method("twin", cite="me2026", signed=True, needs={"gradients"}, deterministic=False)(InputTimesGradientTwin)
    with pytest.raises(FailedCheckError) as caught:
        check(InputTimesGradientTwin())
    assert str(caught.value) == "'twin' fails the check deterministic/cnn: another seed gives the same map"


def test_an_exemption_is_strict() -> None:
    method("twin", cite="me2026", needs={"gradients"})(InputTimesGradientTwin)
    check(InputTimesGradientTwin(), exempt={"signed": "maps are folded elsewhere"})
    with pytest.raises(FailedCheckError, match="'twin' passes the check finite-maps/cnn that it is exempt from"):
        check(InputTimesGradientTwin(), exempt={"signed": "maps are folded elsewhere", "finite-maps": "none"})


def test_a_metric_of_another_package_is_checked_by_its_traits() -> None:
    metric("mean-of-map", cite="me2026", attribute="minimality", higher_is_better=False, bounds=(-torch.inf, torch.inf))(
        MeanOfMap
    )
    rules = {rule.name for rule in checks(MeanOfMap())}
    assert {"bounds", "not-rank-only"} <= rules
    assert not {"ties", "rank-only", "empty-truth"} & rules
    check(MeanOfMap())
    metric("mean-of-map", cite="me2026", attribute="minimality", higher_is_better=True, bounds=(0.0, 0.01))(MeanOfMap)
    failed = []
    for rule in checks(MeanOfMap()):
        try:
            rule.run()
        except FailedCheckError:
            failed.append(rule.name)
    assert failed[:2] == ["direction", "bounds"]


def test_only_plugins_can_be_checked() -> None:
    @dataclass(frozen=True)
    class Undecorated:
        passes = InputTimesGradientTwin.passes
        __call__ = InputTimesGradientTwin.__call__

    check(Undecorated())  # as a plain callable, which states no traits
    with pytest.raises(SnellenError, match=r"only a method or metric can be checked, not 7"):
        check(7)
    with pytest.raises(SnellenError, match=r"is neither a method, which is called as .*, nor a metric"):
        check(print)


def test_the_suite_needs_no_test_framework() -> None:
    import subprocess
    import sys

    code = "import snellen.plugins.checks, sys; sys.exit('pytest' in sys.modules or 'tests' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
