"""The contract suite: rules for all methods and metrics, tried on networks whose deciding pixels are known.

Use it in the tests of your own plug-in:

    from snellen.plugins.checks import check

    def test_contract():
        check(MyMethod(samples=10))

or, one test per rule:

    @pytest.mark.parametrize("rule", checks(MyMethod()), ids=lambda rule: rule.name)
    def test_contract(rule):
        rule.run()

`CheckReport.of(MyMethod())` tries all rules and lists what each found; `snellen check` prints it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snellen.plugins.checks.check import Check, FailedCheckError
from snellen.plugins.checks.check_report import CheckReport, Outcome, find_plugin
from snellen.plugins.checks.exemptions import exemption
from snellen.plugins.checks.method_checks import method_checks
from snellen.plugins.checks.metric_checks import metric_checks
from snellen.plugins.registry import traits
from snellen.plugins.traits import MethodTraits

__all__ = [
    "Check",
    "CheckReport",
    "FailedCheckError",
    "Outcome",
    "check",
    "checks",
    "exemption",
    "find_plugin",
    "method_checks",
    "metric_checks",
]


def checks(plugin: Any) -> list[Check]:
    """All checks of a method or metric, chosen by its traits; `find_plugin` lists the forms of the argument."""
    built = find_plugin(plugin)
    if isinstance(traits(built), MethodTraits):
        return list(method_checks(built))
    return list(metric_checks(built))


def check(plugin: Any, *, exempt: Mapping[str, str] | None = None) -> None:
    """Runs all checks of a method or metric; raises FailedCheckError, one sentence, at the first that fails.

    Args:
        plugin: the method or metric, with settings that are fast enough for about thirty maps of tiny images.
        exempt: by name of a check, the reason why the plug-in must fail it; it is an error if the check passes.
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
