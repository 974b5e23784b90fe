"""What a list shows of a plug-in or a source of models: its traits and settings, in memory and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from snellen.errors import SnellenError, nearest
from snellen.plugins.citations import CITATIONS
from snellen.plugins.traits import ConditionTraits, MethodTraits, MetricTraits, TraitEvidence

Kind = Literal["methods", "metrics", "conditions", "models"]
KINDS: tuple[Kind, ...] = get_args(Kind)

SCHEMA = 1
"""Version of the JSON documents. It grows when a field changes its meaning."""

TRAITS: Mapping[str, Any] = {"methods": MethodTraits, "metrics": MetricTraits, "conditions": ConditionTraits}
"""By kind, the class of the traits."""


@dataclass(frozen=True)
class ListedPlugin:
    """A method, metric or condition: its traits, and its settings with their defaults."""

    traits: MethodTraits | MetricTraits | ConditionTraits
    settings: Mapping[str, Any]
    """By name, the default as JSON; a plug-in is an object with its `name` and its `params`."""

    @property
    def citation(self) -> str:
        """The defining work in words."""
        return CITATIONS.get(self.traits.cite, self.traits.cite)

    def as_json(self) -> dict[str, Any]:
        """Traits, settings and citation as JSON can hold them; a bound that does not exist is null."""
        return _plain(asdict(self.traits) | {"settings": self.settings, "citation": self.citation})  # type: ignore[no-any-return]


@dataclass(frozen=True, kw_only=True)
class ListedSource:
    """A way to name a model, as `snellen list models` prints it."""

    name: str
    """Its prefix, or its name where models are written without a prefix."""
    spec: str
    """How a model of this source is written."""
    what: str
    """What its models are."""
    needs: str
    """The extra that must be installed."""

    def as_json(self) -> dict[str, Any]:
        """Its fields."""
        return asdict(self)


Listed = Sequence[ListedPlugin | ListedSource]


def kind_of(what: str) -> Kind:
    """One of `KINDS`, as a user wrote it."""
    for kind in KINDS:
        if what == kind:
            return kind
    raise SnellenError(f"cannot list '{what}'{nearest(what, KINDS)} (known: {', '.join(KINDS)})")


def document(kind: Kind, listed: Listed) -> dict[str, Any]:
    """The JSON document of one kind: `docs/schema/list-KIND.json` describes it."""
    return {"schema": SCHEMA, kind: [entry.as_json() for entry in listed]}


def read_document(kind: Kind, values: Mapping[str, Any]) -> Listed:
    """What `document` wrote."""
    if kind == "models":
        return [ListedSource(**entry) for entry in values[kind]]
    return [_read_plugin(kind, entry) for entry in values[kind]]


def _read_plugin(kind: Kind, entry: Mapping[str, Any]) -> ListedPlugin:
    fields = {name: value for name, value in entry.items() if name not in ("settings", "citation")}
    for name in {"needs", "optional_needs"} & fields.keys():
        fields[name] = frozenset(fields[name])
    for name in {"complete", "implementation_invariant"} & fields.keys():
        fields[name] = TraitEvidence(**fields[name]) if isinstance(fields[name], dict) else fields[name]
    if "ranges" in fields:
        fields["ranges"] = _with_tuples(fields["ranges"])
    if "bounds" in fields:
        lowest, highest = fields["bounds"]
        fields["bounds"] = (-math.inf if lowest is None else lowest, math.inf if highest is None else highest)
    return ListedPlugin(TRAITS[kind](**fields), entry["settings"])


def _with_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_tuples(item) for name, item in value.items()}
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
