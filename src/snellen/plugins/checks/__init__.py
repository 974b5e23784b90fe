"""The contract suite: rules for all methods and metrics, tried on networks whose deciding pixels are known.

Use it in the tests of your own plug-in:

    from snellen.plugins.checks import check

    def test_contract():
        check(MyMethod(samples=10))

or, one test per rule:

    @pytest.mark.parametrize("rule", checks(MyMethod()), ids=lambda rule: rule.name)
    def test_contract(rule):
        rule.run()
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snellen.errors import SnellenError, short_repr
from snellen.plugins.checks.check import Check, FailedCheckError
from snellen.plugins.checks.exemptions import exemption
from snellen.plugins.checks.method_checks import method_checks
from snellen.plugins.checks.metric_checks import metric_checks
from snellen.plugins.traits import MethodTraits, MetricTraits
from snellen.types import Method, Metric

__all__ = ["Check", "FailedCheckError", "check", "checks", "exemption", "method_checks", "metric_checks"]


def checks(plugin: Method | Metric) -> list[Check]:
    """All checks of a method or metric, chosen by its traits."""
    plugin_traits: Any = getattr(plugin, "traits", None)
    if isinstance(plugin_traits, MethodTraits):
        return list(method_checks(plugin))  # type: ignore[arg-type]
    if isinstance(plugin_traits, MetricTraits):
        return list(metric_checks(plugin))  # type: ignore[arg-type]
    raise SnellenError(f"only a registered method or metric can be checked, not {short_repr(plugin)}; decorate its class")


def check(plugin: Method | Metric, *, exempt: Mapping[str, str] | None = None) -> None:
    """Runs all checks of a method or metric; raises FailedCheckError, one sentence, at the first that fails.

    Args:
        plugin: The method or metric, with settings that are fast enough for about thirty maps of tiny images.
        exempt: By name of a check, the reason why the plug-in must fail it; it is an error if the check passes.
    """
    reasons = exempt or {}
    for rule in checks(plugin):
        reason = reasons.get(rule.name) or reasons.get(rule.rule) or exemption(rule.plugin, rule.name)
        if reason is None:
            rule.run()
            continue
        try:
            rule.run()
        except FailedCheckError:
            continue
        raise FailedCheckError(f"'{rule.plugin}' passes the check {rule.name} that it is exempt from; delete the exemption")
