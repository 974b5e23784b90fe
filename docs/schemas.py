"""Writes JSON schemas of files, and of what `--json` prints, to docs/schema/; `--check` only compares them."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter

from snellen.cards.comparison_json import ComparisonDocument
from snellen.cards.recommendation_json import ChoiceDocument
from snellen.catalogue.listed import KINDS, SCHEMA, TRAITS, Kind, ListedSource
from snellen.plugins.traits import TraitEvidence
from snellen.runs.record import RunRecord, UnitRecord
from snellen.runs.settings import Settings

FOLDER = Path(__file__).with_name("schema")
FILES: dict[str, tuple[str, Any]] = {
    "settings.json": ("A settings file of `snellen run`", Settings),
    "run.json": ("run.json of a run folder", RunRecord),
    "unit.json": ("units/*.json of a run folder", UnitRecord),
}
PRINTED: dict[str, tuple[str, Any]] = {
    "comparison.json": ("What `snellen compare --json` prints", ComparisonDocument),
    "recommendation.json": ("What `snellen recommend --json` prints", ChoiceDocument),
}


def schemas() -> dict[str, str]:
    """By name of the file, its text."""
    files = {name: _schema(title, TypeAdapter(kind).json_schema()) for name, (title, kind) in FILES.items()}
    files |= {name: _schema(title, _described(kind)) for name, (title, kind) in PRINTED.items()}
    return files | {f"list-{kind}.json": _schema(f"What `snellen list {kind} --json` prints", _list(kind)) for kind in KINDS}


def _schema(title: str, values: dict[str, Any]) -> str:
    """The schema of one kind of document, as text."""
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **values, "title": title}, indent=1) + "\n"


def _described(kind: Any) -> dict[str, Any]:
    """The schema of a dataclass in which the docstring of every field is its description."""
    for place in {sys.modules[kind.__module__], sys.modules[TraitEvidence.__module__]}:
        for value in vars(place).values():
            if isinstance(value, type) and dataclasses.is_dataclass(value):
                value.__pydantic_config__ = ConfigDict(use_attribute_docstrings=True)  # type: ignore[attr-defined]
    return TypeAdapter(kind).json_schema()


def _list(kind: Kind) -> dict[str, Any]:
    """The schema of a list: a plug-in has its traits, its settings and its citation in words."""
    entry = _described(ListedSource if kind == "models" else TRAITS[kind])
    entry["required"] = list(entry["properties"])  # what has a default in Python is written all the same
    definitions = {"$defs": entry.pop("$defs")} if "$defs" in entry else {}
    if kind != "models":
        entry["properties"] |= {
            "settings": {
                "type": "object",
                "description": "By name, the default; a plug-in is an object with name and params.",
            },
            "citation": {"type": "string", "description": "The defining work in words."},
        }
        entry["required"] += ["settings", "citation"]
    if kind == "metrics":
        entry["properties"]["bounds"] |= {
            "description": "Lowest and highest possible score; null where there is no bound.",
            "prefixItems": [{"type": ["number", "null"]}] * 2,
        }
    properties = {"schema": {"const": SCHEMA}, kind: {"type": "array", "items": entry}}
    return definitions | {
        "type": "object",
        "properties": properties,
        "required": ["schema", kind],
        "additionalProperties": False,
    }


def main() -> None:
    """Writes what changed, or says so."""
    files = schemas()
    stale = [name for name, text in files.items() if _text(FOLDER / name) != text]
    if "--check" in sys.argv and stale:
        sys.exit(f"docs/schema/{stale[0]} is out of date; run: make docs")
    FOLDER.mkdir(exist_ok=True)
    for name in stale:
        (FOLDER / name).write_text(files[name], encoding="utf-8")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    main()
