"""Writes src/snellen/catalogue/shipped.json from the decorators; `--check` only says whether it is up to date."""

from __future__ import annotations

import json
import sys

from snellen.catalogue.listed import KINDS, document
from snellen.catalogue.registered import registered
from snellen.catalogue.shipped import FILE


def text() -> str:
    """The file: one JSON document of all kinds, a line per entry."""
    parts = []
    for kind in KINDS:
        entries = document(kind, registered(kind, "snellen."))[kind]
        lines = ",\n".join(json.dumps(entry, ensure_ascii=False, allow_nan=False) for entry in entries)
        parts.append(f'"{kind}": [\n{lines}\n]')
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        if not FILE.exists() or FILE.read_text(encoding="utf-8") != text():
            sys.exit("src/snellen/catalogue/shipped.json is out of date; run: make docs")
    else:
        FILE.write_text(text(), encoding="utf-8")
