"""The catalogue of everything that is registered, read from the plug-ins themselves, which imports torch and all of them."""

from __future__ import annotations

from typing import Any

from snellen.catalogue.listed import Kind, Listed, ListedPlugin, ListedSource
from snellen.methods.positive_controls import POSITIVE_CONTROLS
from snellen.plugins.registry import CONDITIONS, METHODS, METRICS, Registry, spec, traits
from snellen.zoo.sources.source import all_sources


def registered(kind: Kind, package: str = "") -> Listed:
    """All plug-ins or sources of one kind, in the order of the list.

    Args:
        kind: what to list.
        package: only those whose module begins with this text, such as "snellen."; all of them otherwise.
    """
    if kind == "models":
        return [
            ListedSource(name=source.name, spec=source.spec, what=source.what, needs=source.needs)
            for source in all_sources()
            if source.load.__module__.startswith(package)
        ]
    registries: dict[Kind, Registry[Any]] = {"methods": METHODS, "metrics": METRICS, "conditions": CONDITIONS}
    registry = registries[kind]
    names = list(registry)
    if kind == "methods":
        names = [*sorted(names, key=lambda name: traits(METHODS[name]).control), *POSITIVE_CONTROLS]  # a stable sort
    return [
        ListedPlugin(traits(registry[name]), spec(registry.build(name))["params"])
        for name in names
        if registry[name].__module__.startswith(package)
    ]
