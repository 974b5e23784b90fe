"""The catalogue that comes with Snellen: `shipped.json`, which `docs/catalogue.py` generates from the decorators.

Reading it imports no plug-in and no torch, which takes seconds. A package that adds plug-ins through the entry-point group
`snellen.plugins` has to be imported for its traits; then all plug-ins are.
"""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

from snellen.catalogue.listed import Kind, Listed, read_document
from snellen.plugins import ENTRY_POINTS

FILE = Path(__file__).with_name("shipped.json")


def listed(kind: Kind) -> Listed:
    """Everything of one kind that this installation has."""
    if importlib.metadata.entry_points(group=ENTRY_POINTS):
        from snellen.catalogue.registered import registered

        return registered(kind)
    return shipped(kind)


def shipped(kind: Kind) -> Listed:
    """What comes with Snellen."""
    return read_document(kind, json.loads(FILE.read_text(encoding="utf-8")))
