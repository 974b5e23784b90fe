"""What the contract suite found about one plug-in: a list of rules that passed, failed or do not apply."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from snellen.errors import SnellenError, nearest, no_exit, short_repr, shorten
from snellen.plugins import named_code, outside
from snellen.plugins.checks.check import Check, FailedCheckError, summary_of
from snellen.plugins.checks.exemptions import exemption
from snellen.plugins.checks.method_checks import (
    KINDS,
    METHOD_RULES,
    NETWORK_RULES,
    method_checks,
    rules_without_method_trait,
)
from snellen.plugins.checks.method_trial import refusal_of, shared_classifier
from snellen.plugins.checks.metric_checks import ALL_RULES, metric_checks, rules_for_other_metrics
from snellen.plugins.checks.planted import NetworkKind
from snellen.plugins.notation import read_plugin
from snellen.plugins.registry import METHODS, METRICS, label, traits
from snellen.plugins.traits import MethodTraits
from snellen.types import Method, Metric

Result = Literal["pass", "fail", "exempt", "not applicable"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of one rule."""

    check: str
    """Name of the rule; rules that are tried on one small network end with its kind: `finite-maps/vit`."""
    summary: str
    """What the rule demands, in a sentence."""
    result: Result
    """Whether the plug-in passed."""
    reason: str = ""
    """Why it failed, is exempt or does not apply."""
    raised: bool = False
    """Whether it failed because the plug-in raised an error."""

    @property
    def rule(self) -> str:
        """The name without the network."""
        return self.check.partition("/")[0]

    @property
    def network(self) -> str:
        """The kind of network, "" for rules that are tried on all together."""
        return self.check.partition("/")[2]


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """All rules of the contract for one method or metric, with their results."""

    plugin: str
    """The label of the method or metric."""
    kind: Literal["method", "metric"]
    """Whether it is a method or a metric."""
    is_plain: bool
    """Whether it is a plain function or class, which states next to nothing about itself."""
    outcomes: tuple[Outcome, ...]
    """The result of each rule, in the order in which they ran."""

    @property
    def failures(self) -> tuple[Outcome, ...]:
        """The rules that it broke."""
        return tuple(outcome for outcome in self.outcomes if outcome.result == "fail")

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return dataclasses.asdict(self)

    @staticmethod
    def of(
        plugin: Any,
        *,
        good: Any = None,
        bad: Any = None,
        on_progress: Callable[[str, int, int], None] = lambda name, index, count: None,
    ) -> CheckReport:
        """Tries all rules; no rule stops the others.

        Args:
            plugin: what to check; `find_plugin` lists the forms.
            good: for a metric: a method that it must score better than `bad`, in the forms that `methods=` takes.
            bad: see `good`.
            on_progress: called with the name of a rule, its index and the number of rules before the rule is tried.
        """
        built = find_plugin(plugin)
        is_method = isinstance(traits(built), MethodTraits)
        if is_method and (good is not None or bad is not None):
            raise SnellenError(f"a good and a bad method are compared by a metric, but {label(built)} is a method")
        planned, outcomes = _plan_method(built) if is_method else _plan_metric(built, good, bad)
        broken: dict[str, str] = {}  # by network, the rule that did not even get a result
        for index, check in enumerate(planned):
            on_progress(check.name, index, len(planned))
            outcome = _try(check, broken)
            outcomes.append(outcome)
            if outcome.raised and check.rule in ("finite-maps", "direction"):
                broken[outcome.network] = check.rule
        if any(outcome.result == "fail" for outcome in outcomes):
            shared_classifier.cache_clear()  # it may have changed the networks, which the next plug-in must not meet
        return CheckReport(
            plugin=label(built),
            kind="method" if is_method else "metric",
            is_plain=outside.is_unstated(traits(built)),
            outcomes=tuple(outcomes),
        )


def find_plugin(plugin: Any) -> Any:
    """A method or metric from its name, from `mine.py:f` or `package.module:f`, a class, an instance or a function."""
    return _explaining(_find(plugin))


def _explaining(plugin: Any) -> Any:
    """The plug-in, unless it is a positive control, which cannot explain the images of a check."""
    if isinstance(traits(plugin), MethodTraits) and traits(plugin).positive:
        raise SnellenError(
            f"'{label(plugin)}' is a positive control, made of the masks of a run's own images, so it cannot explain those "
            "of a check; name a method"
        )
    return plugin


def _find(plugin: Any) -> Any:
    if isinstance(plugin, str):
        name, _ = read_plugin(plugin)
        if named_code.names_code(name):
            registry = _REGISTRIES[outside.kind_of(named_code.find_object(name, files=True), name)]
            return registry.parse(plugin, load=True)
        if name.partition("@")[0] in METRICS:
            return METRICS.parse(plugin, load=True)
        if name.partition("@")[0] in METHODS:
            return METHODS.parse(plugin, load=True)
        raise SnellenError(
            f"unknown method or metric '{shorten(name)}'{nearest(name, [*METHODS, *METRICS])} (code of your own: mine.py:f)"
        )
    if not callable(plugin):
        raise SnellenError(f"only a method or metric can be checked, not {short_repr(plugin)}")
    return _REGISTRIES[outside.kind_of(plugin, short_repr(plugin))].parse(plugin)


_REGISTRIES: dict[str, Any] = {"method": METHODS, "metric": METRICS}


def _plan_method(method: Method) -> tuple[list[Check], list[Outcome]]:
    """The checks to run, and the rules that do not apply."""
    accepted: list[NetworkKind] = []
    outcomes = []
    for kind in KINDS:
        try:
            refusal = refusal_of(method, kind)
        except Exception as problem:
            refusal = f"it raises {named_code.reason_and_line(problem)}"
        if refusal is None:
            accepted.append(kind)
        else:
            summary = f"It works on the small {kind.upper() if kind != 'resnet' else 'ResNet'}."
            outcomes.append(Outcome(check=f"accepts/{kind}", summary=summary, result="not applicable", reason=refusal))
    rules = NETWORK_RULES | METHOD_RULES
    outcomes += _left_out(rules_without_method_trait(traits(method)), rules)
    return list(method_checks(method, kinds=accepted)), outcomes


def _plan_metric(metric: Metric, good: Any, bad: Any) -> tuple[list[Check], list[Outcome]]:
    pair = [None if method is None else _explaining(METHODS.parse(method, load=True)) for method in (good, bad)]
    planned = list(metric_checks(metric, good=pair[0], bad=pair[1]))
    return planned, _left_out(rules_for_other_metrics(metric), ALL_RULES)


def _left_out(reasons: Mapping[str, str], rules: Mapping[str, Callable[..., None]]) -> list[Outcome]:
    return [
        Outcome(check=rule, summary=summary_of(rules[rule]), result="not applicable", reason=reason)
        for rule, reason in reasons.items()
    ]


def _try(check: Check, broken: Mapping[str, str]) -> Outcome:
    """Runs one check. Where the first rule already raised an error, the others would only repeat it."""
    network = check.name.partition("/")[2]
    blocked = broken if not network and check.rule != "settings-survive-json" else {network} & set(broken)
    if blocked:
        first = broken[next(iter(blocked))]
        return _outcome(check, "not applicable", f"not tried, because {first} raised an error")
    exempt = exemption(check.plugin, check.name)
    try:
        with no_exit(f"'{check.plugin}'", SnellenError):
            check.function()
    except FailedCheckError as failure:
        return _outcome(check, "exempt" if exempt else "fail", exempt or str(failure))
    except SnellenError as problem:
        return _outcome(check, "fail", str(problem), raised=True)
    except Exception as problem:
        return _outcome(check, "fail", f"it raises an error {named_code.reason_and_line(problem)}", raised=True)
    if exempt:
        return _outcome(check, "fail", f"it passes a check that it is exempt from ({exempt})")
    return _outcome(check, "pass")


def _outcome(check: Check, result: Result, reason: str = "", *, raised: bool = False) -> Outcome:
    return Outcome(check=check.name, summary=check.summary, result=result, reason=reason, raised=raised)
