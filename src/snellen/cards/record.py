"""A card as JSON with all that its verdicts rest on, and back."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping
from typing import Any

from snellen.cards.schema import Card, Evidence
from snellen.errors import SnellenError
from snellen.verdicts import Trust

SCHEMA = 1
"""Counts up when a field changes its meaning; cards of an older number stay readable."""


def as_json(card: Card) -> dict[str, Any]:
    """The card in values that JSON knows: what is undefined is null, and an infinite number is a word."""
    return {"schema": SCHEMA, **plain(card)}


def write_json(card: Card) -> str:
    """The same as text."""
    return json.dumps(as_json(card), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def read_json(text: str) -> Card:
    """The card that was written; one sentence where it is none."""
    try:
        values = json.loads(text)
    except ValueError as problem:
        raise SnellenError(f"this is no card, for it is not JSON ({problem}); write one by snellen card") from None
    if not isinstance(values, dict) or not isinstance(values.get("schema"), int):
        raise SnellenError("this JSON is no card, for it has no number 'schema'; write one by snellen card")
    if values["schema"] > SCHEMA:
        raise SnellenError(f"this card has schema {values['schema']}, but this Snellen knows {SCHEMA}; install a newer one")
    found: Card = _typed(Card, values, "card")
    return found


def plain(value: Any) -> Any:
    """A value in those that JSON knows."""
    if dataclasses.is_dataclass(value):
        fields = {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
        # What follows from the rest is for readers in other languages; it is computed anew when a card is read.
        if isinstance(value, Evidence):
            fields["weight"] = plain(value.weight)
        if isinstance(value, Trust):
            fields |= {"weight": plain(value.weight), "marks": list(value.marks)}
            if not value.people:  # without a study a card reads as it always did
                del fields["people"]
        return fields
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return [plain(one) for one in value]
    if hasattr(value, "item"):  # a number of NumPy
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value


def _typed(kind: Any, value: Any, where: str) -> Any:
    """A JSON value as what a field is declared to be."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        if not isinstance(value, dict):
            raise SnellenError(f"this is no card: '{where}' must hold fields, not {json.dumps(value)[:40]}")
        hints = typing.get_type_hints(kind)
        # What a card of an older Snellen lacks has a default.
        known = [one for one in dataclasses.fields(kind) if one.name in value or one.default is dataclasses.MISSING]
        missing = [one.name for one in known if one.name not in value]
        if missing:
            raise SnellenError(f"this is no card: '{where}' lacks '{missing[0]}'")
        return kind(**{one.name: _typed(hints[one.name], value[one.name], one.name) for one in known})  # type: ignore[operator]
    if origin in (types.UnionType, typing.Union):
        return None if value is None else _typed(next(one for one in inner if one is not type(None)), value, where)
    if origin is tuple and isinstance(value, list):
        return tuple(_typed(inner[0], one, where) for one in value)
    if origin in (dict, Mapping) and isinstance(value, dict):
        return {key: _typed(inner[1], one, where) for key, one in value.items()}
    if kind is float and (value is None or isinstance(value, int | float) or value in ("inf", "-inf")):
        return math.nan if value is None else float(value)
    if kind is Any:
        return math.nan if value is None else value
    wanted = type(inner[0]) if origin is typing.Literal else kind
    if not isinstance(value, wanted) or (origin is typing.Literal and value not in inner):
        raise SnellenError(f"this is no card: '{where}' cannot be {json.dumps(value)[:40]}")
    return value
