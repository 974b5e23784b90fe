"""What the generated pages of methods and metrics have in common."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

from snellen.plugins.citations import CITATIONS
from snellen.plugins.registry import text_of


def paragraphs(plugin: type) -> list[str]:
    """The docstring, a line per paragraph with an empty one after each."""
    found = [" ".join(one.split()) for one in inspect.cleandoc(plugin.__doc__ or "").split("\n\n")]
    return [line for one in found for line in (one, "")]


def settings(plugin: Any) -> list[str]:
    """The table of fields with their defaults and, where the plug-in says so, the values that are worth trying besides."""
    fields = dataclasses.fields(plugin)
    if not fields:
        return []
    ranges = getattr(plugin.traits, "ranges", None)
    rows = [f"| `{one.name}` | `{text_of(getattr(plugin(), one.name))}` |" for one in fields]
    if ranges is None:
        return ["| setting | default |", "| --- | --- |", *rows, ""]
    rows = [f"{row} {_tried(ranges.get(one.name))} |" for row, one in zip(rows, fields, strict=True)]
    return ["| setting | default | worth trying |", "| --- | --- | --- |", *rows, ""]


def presets(facts: Any) -> list[str]:
    """The table of presets with their sources."""
    if not facts.presets:
        return []
    rows = []
    for preset, chosen in facts.presets.items():
        text = f"`{chosen}`" if isinstance(chosen, str) else _chosen(chosen)
        rows.append(f"| `{facts.name}@{preset}` | {text} | {CITATIONS[preset.split('-')[0]]} |")
    return ["| preset | settings | source |", "| --- | --- | --- |", *rows, ""]


def failures(facts: Any) -> list[str]:
    """The list of known failures with their sources."""
    if not facts.caveats:
        return []
    rows = [f"- {text[0].upper()}{text[1:]} ({CITATIONS[key]})." for key, text in facts.caveats.items()]
    return ["Known failures:", "", *rows, ""]


def holds(path: Path, text: str) -> bool:
    """Whether the file says just this."""
    return path.exists() and path.read_text(encoding="utf-8") == text


def _tried(values: Any) -> str:
    if values is None or isinstance(values, str):
        return values or ""
    return ", ".join(f"`{one if isinstance(one, str) else text_of(one)}`" for one in values)


def _chosen(values: Any) -> str:
    words = [f"{key} = {value if isinstance(value, str) else text_of(value)}" for key, value in values.items()]
    return f"`{', '.join(words)}`" if words else "the defaults"
