"""The numbers of findings as a card shows them: named numbers, and a table of tried settings."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from snellen.cards.schema import Finding
from snellen.charts import numbers

_NAMES = {
    "changed": "repeated maps that changed",
    "mean": "likeness to the run's maps, mean",
    "lowest": "likeness, lowest",
    "undefined": "maps that cannot be compared",
    "n": "images",
    "seeds": "other seeds",
    "needs": "needs",
    "seconds": "time of one map",
    "forward": "passes forward",
    "backward": "passes backward",
    "memory_mib": "memory beyond the model's",
    "order": "order of magnitude",
    "machine": "machine",
    "metrics": "ranked by",
    "methods": "methods of the run",
    "chance": "likeness under another seed alone",
}
"""Likeness is a rank correlation: 1 is the same order of all pixels, 0 is unrelated."""


def facts_of(finding: Finding) -> list[tuple[str, str]]:
    """The numbers with readable names, in stored order."""
    return [
        (_NAMES.get(name, name.replace("_", " ")), _fact(name, value))
        for name, value in finding.numbers.items()
        if name != "settings"
    ]


def settings_of(finding: Finding) -> dict[str, Any] | None:
    """The settings that were tried: one row per value, with the likeness of the maps and the rank of the method."""
    settings: Mapping[str, Any] = finding.numbers.get("settings") or {}
    metrics = [str(metric) for metric in finding.numbers.get("metrics") or ()]
    groups = []
    for name, setting in settings.items():
        rows = [
            {"value": value, "likeness": _likeness(tried), "places": [_moved(tried, metric) for metric in metrics]}
            for value, tried in (setting.get("values") or {}).items()
        ]
        rows += [
            {"value": value, "likeness": f"not tried: {why}", "places": ["" for _ in metrics]}
            for value, why in (setting.get("not_tried") or {}).items()
        ]
        if rows:
            groups.append({"name": name, "own": setting.get("own"), "rows": rows})
    return {"metrics": metrics, "groups": groups} if groups else None


def _likeness(tried: Mapping[str, Any]) -> str:
    value = tried.get("correlation")
    return "cannot be compared" if value is None or math.isnan(value) else numbers.short(value)


def _moved(tried: Mapping[str, Any], metric: str) -> str:
    places = (tried.get("places") or {}).get(metric)
    if not places:
        return ""
    then, now = places
    return f"{then} → {now}" if then != now else f"{then}, stays"


def _fact(name: str, value: Any) -> str:
    if name == "machine" and isinstance(value, Mapping):
        threads = value.get("threads")
        parts = [value.get("processor"), value.get("gpu"), numbers.count(threads, "thread") if threads else None]
        return ", ".join(str(part) for part in parts if part)
    if isinstance(value, Mapping):
        return "; ".join(f"{key}: {_fact('', item)}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return ", ".join(_fact("", item) for item in value) or "only outputs"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return {True: "yes", False: "no", None: "not known"}.get(value, str(value))
    if name == "seconds":
        return numbers.duration(value)
    if name == "changed":
        return f"{value:.0%}"
    if name == "order":
        return f"10{str(int(value)).translate(numbers.SUPERSCRIPTS)} s"
    text = numbers.amount(value) if float(value).is_integer() and abs(value) < 1000 else numbers.short(value)
    return f"{text} MiB" if name == "memory_mib" else text
