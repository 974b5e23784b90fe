"""What the generated pages of methods and metrics have in common."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

from snellen.plugins.checks.exemptions import exemptions_of
from snellen.plugins.citations import CITATIONS
from snellen.plugins.registry import text_of


def paragraphs(plugin: type) -> list[str]:
    """The docstring, a line per paragraph with an empty one after each."""
    blocks = inspect.cleandoc(plugin.__doc__ or "").split("\n\n")
    return [line for block in blocks for line in (" ".join(block.split()), "")]


def settings(plugin: Any) -> list[str]:
    """The table of settings with their defaults and, for methods, the values that are worth trying besides."""
    fields = dataclasses.fields(plugin)
    if not fields:
        return []
    ranges = getattr(plugin.traits, "ranges", None)
    rows = [f"| `{field.name}` | `{text_of(getattr(plugin(), field.name))}` |" for field in fields]
    if ranges is None:
        return ["| setting | default |", "| --- | --- |", *rows, ""]
    rows = [f"{row} {_range(ranges.get(field.name))} |" for row, field in zip(rows, fields, strict=True)]
    return ["| setting | default | worth trying |", "| --- | --- | --- |", *rows, ""]


def presets(traits: Any) -> list[str]:
    """The table of presets with their sources."""
    if not traits.presets:
        return []
    rows = []
    for preset, chosen in traits.presets.items():
        text = f"`{chosen}`" if isinstance(chosen, str) else _settings(chosen)
        rows.append(f"| `{traits.name}@{preset}` | {text} | {CITATIONS[preset.split('-')[0]]} |")
    return ["| preset | settings | source |", "| --- | --- | --- |", *rows, ""]


def failures(traits: Any) -> list[str]:
    """The list of known failures with their sources."""
    if not traits.caveats:
        return []
    rows = [f"- {text[0].upper()}{text[1:]} ({CITATIONS[key]})." for key, text in traits.caveats.items()]
    return ["Known failures:", "", *rows, ""]


def exemptions(name: str) -> list[str]:
    """The list of checks of the contract suite that the plug-in is known to fail."""
    rows = [f"- `{check}`: {reason}." for check, reason in exemptions_of(name).items()]
    return ["Checks of the contract suite that it is known to fail:", "", *rows, ""] if rows else []


def holds(path: Path, text: str) -> bool:
    """Whether the file holds this text."""
    return path.exists() and path.read_text(encoding="utf-8") == text


def _range(values: Any) -> str:
    if values is None or isinstance(values, str):
        return values or ""
    return ", ".join(f"`{value if isinstance(value, str) else text_of(value)}`" for value in values)


def _settings(values: Any) -> str:
    words = [f"{key} = {value if isinstance(value, str) else text_of(value)}" for key, value in values.items()]
    return f"`{', '.join(words)}`" if words else "the defaults"
