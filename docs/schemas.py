"""Writes JSON schemas of Snellen's files to docs/schema/, for editors; `--check` only says whether they are up to date."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from snellen.runs.record import RunRecord, UnitRecord
from snellen.runs.settings import Settings

FOLDER = Path(__file__).with_name("schema")
FILES: dict[str, tuple[str, Any]] = {
    "settings.json": ("A settings file of `snellen run`", Settings),
    "run.json": ("run.json of a run folder", RunRecord),
    "unit.json": ("units/*.json of a run folder", UnitRecord),
}


def schema(title: str, kind: Any) -> str:
    """The schema of one kind of file, as text."""
    values = TypeAdapter(kind).json_schema()
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **values, "title": title}, indent=1) + "\n"


def main() -> None:
    """Writes what changed, or says so."""
    stale = [name for name, facts in FILES.items() if _text(FOLDER / name) != schema(*facts)]
    if "--check" in sys.argv and stale:
        sys.exit(f"docs/schema/{stale[0]} is out of date; run: make docs")
    FOLDER.mkdir(exist_ok=True)
    for name in stale:
        (FOLDER / name).write_text(schema(*FILES[name]), encoding="utf-8")


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    main()
