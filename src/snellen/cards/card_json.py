"""Cards as JSON, with all numbers that their verdicts depend on: writing and reading."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

from snellen.cards.schema import ATTRIBUTES, Card, Evidence
from snellen.errors import SnellenError
from snellen.files.documents import parse_as, parse_json
from snellen.verdicts import Trust

SCHEMA = 1
"""Version of the format. It grows when a field changes its meaning; older cards stay readable."""


def as_json(card: Card) -> dict[str, Any]:
    """The card as values that JSON can hold: undefined numbers are null, infinite ones are strings."""
    return {"schema": SCHEMA, **plain(card)}


def write_json(card: Card) -> str:
    """The card as JSON text."""
    return json.dumps(as_json(card), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read_json(text: str) -> Card:
    """The card in a JSON text. Raises `SnellenError` if it is not a card."""
    values = parse_json(text, "this")
    if not isinstance(values, dict) or not isinstance(values.get("schema"), int):
        raise SnellenError("this JSON is no card, for it has no number 'schema'; write one by snellen card")
    if values["schema"] > SCHEMA:
        raise SnellenError(f"this card has schema {values['schema']}, but this Snellen knows {SCHEMA}; install a newer one")
    card = parse_as(Card, values, "this is no card")
    missing = [attribute for attribute in ATTRIBUTES if attribute not in card.grades]
    if missing:
        raise SnellenError(f"this is no card: it has no grade of {missing[0]}")
    return card


def plain(value: Any) -> Any:
    """A value as JSON can hold it."""
    if dataclasses.is_dataclass(value):
        fields = {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
        # Derived values, for programs that read the file without Snellen; `read_json` computes them again.
        if isinstance(value, Evidence):
            fields["weight"] = plain(value.weight)
        if isinstance(value, Trust):
            fields |= {"weight": plain(value.weight), "marks": list(value.marks)}
            if not value.people:  # cards without a study keep their former format
                del fields["people"]
        return fields
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [plain(item) for item in value]
    if hasattr(value, "item"):  # a NumPy scalar
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
