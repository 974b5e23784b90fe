"""Documents: values from YAML, TOML and JSON files, read with limits and checked against declared types.

A file kind is declared once, as a dataclass or a TypedDict with the bounds of its fields; see `parse_as` and `check_shape`.
A mistake raises a `SnellenError` with the file, the path of the value in it, the value and the rule.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import re
import tomllib
import typing
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast

import yaml
from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from snellen.errors import SnellenError, nearest, short_repr, shorten

T = TypeVar("T")
Steps = tuple[str | int, ...]
"""Path of a value in a document: names and indices."""

MOST_BYTES = 4 << 20
"""Largest size in bytes of a file written by a user; files written by Snellen have no limit."""
MOST_VALUES = 100_000
"""Largest number of values in a YAML file after its aliases are expanded."""
MOST_DEPTH = 40
"""Deepest nesting of values; limited because reading them recurses."""
MOST_WHOLE = 2**63 - 1
"""Largest magnitude of a whole number."""

EXACT = ConfigDict(extra="forbid", allow_inf_nan=False)
"""For files that users write: unknown names are refused, and numbers are finite."""
OPEN = ConfigDict(extra="allow", allow_inf_nan=False)
"""For records: another version of Snellen may have written more fields."""


def _number_from_json(value: Any) -> Any:
    if value is None:
        return math.nan
    return float(value) if value in ("inf", "-inf") else value


PlainName = Annotated[str, Field(pattern=r"^\w[\w.-]*$", max_length=200)]
"""A name that can be part of a path without leaving its folder."""

Number = Annotated[float, Field(allow_inf_nan=True), BeforeValidator(_number_from_json)]
"""A number that is null in JSON if undefined, and "inf" or "-inf" if infinite."""

Loose = Annotated[Any, BeforeValidator(lambda value: math.nan if value is None else value)]
"""Any value; null means an undefined number."""


def read_text(path: str | Path, what: str, *, remedy: str, most: int | None = MOST_BYTES) -> str:
    """The text of a file.

    Args:
        path: the file.
        what: what the file is, for the error message.
        remedy: what the user can do about it, for the error message.
        most: largest size in bytes; None for no limit.
    """
    try:
        with open(path, "rb") as file:
            content = file.read() if most is None else file.read(most + 1)
        if most is not None and len(content) > most:
            raise SnellenError(f"{what} {short_repr(str(path))} is larger than {most >> 20} MiB; {remedy}")
        return content.decode("utf-8-sig")
    except (OSError, ValueError, MemoryError) as problem:  # a ValueError is a name with NUL or a file that is not UTF-8
        reason = problem.strerror if isinstance(problem, OSError) else problem
        raise SnellenError(f"cannot read {what} {short_repr(str(path))} ({shorten(str(reason))}); {remedy}") from None


def parse_yaml(text: str, owner: str) -> Any:
    """Values from YAML text; `owner` names the file in error messages."""
    return _parse(lambda: yaml.load(text, _Loader), "YAML", owner)


def parse_toml(text: str, owner: str) -> Any:
    """Values from TOML text; `owner` names the file in error messages."""
    return _parse(lambda: tomllib.loads(text), "TOML", owner)


def parse_json(text: str, owner: str) -> Any:
    """Values from JSON text; `owner` names the file in error messages."""
    return _parse(lambda: json.loads(text), "JSON", owner)


def read_json(path: Path, what: str, *, remedy: str) -> Any:
    """Values from a JSON file that Snellen wrote.

    Args:
        path: the file.
        what: what the file is, for the error message.
        remedy: what the user can do about it, for the error message.
    """
    return parse_json(read_text(path, what, remedy=remedy, most=None), f"'{path}'")


def parse_as(kind: type[T], values: Any, owner: str) -> T:
    """Values from a file or a command line as an object of type `kind`; `owner` names them in error messages."""
    _check_plain(values, owner)
    try:
        # JSON mode accepts lists for tuples and mappings for dataclasses, and is strict otherwise.
        adapter: Any = _adapter(cast("Any", kind))
        value: T = adapter.validate_json(json.dumps(values, default=os.fspath), strict=True)
        return value
    except ValidationError as problem:
        raise SnellenError(_sentence(problem, values, owner, kind)) from None


def check_shape(kind: Any, values: Any, owner: str) -> None:
    """Refuses values that do not have the type `kind`, without converting them."""
    _check_plain(values, owner)
    try:
        _adapter(kind).validate_python(values, strict=True)
    except ValidationError as problem:
        raise SnellenError(_sentence(problem, values, owner, kind)) from None


@cache
def _adapter(kind: Any) -> Any:
    return TypeAdapter(kind)


def _parse(parse: Callable[[], Any], kind: str, owner: str) -> Any:
    try:
        values = parse()
    except RecursionError:
        raise SnellenError(f"{owner} is nested too deep; write it with at most {MOST_DEPTH} levels") from None
    except (ValueError, yaml.YAMLError) as problem:  # also an impossible date, or a number of too many digits
        raise SnellenError(f"{owner} is not valid {kind}: {shorten(str(problem), 200)}") from None
    except (TypeError, KeyError, AttributeError, OverflowError) as problem:  # YAML tags on values of the wrong type
        raise SnellenError(f"{owner} is not valid {kind}: {shorten(f'{type(problem).__name__}: {problem}', 200)}") from None
    _check_plain(values, owner)
    return values


class _Loader(yaml.SafeLoader):
    """Safe YAML that refuses deep nesting and aliases that expand to too many values, before building them."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.depth = self.total = 0
        self.sizes: dict[int, int] = {}

    def compose_node(self, parent: Any, index: Any) -> Any:
        """A node, counted with all nodes below it, including those that aliases repeat."""
        alias = self.check_event(yaml.AliasEvent)
        before = self.total
        self.depth += 1
        if self.depth > MOST_DEPTH:
            raise yaml.YAMLError(f"it is nested deeper than {MOST_DEPTH} levels")
        node = super().compose_node(parent, index)
        self.depth -= 1
        if alias and id(node) not in self.sizes:
            raise yaml.YAMLError("an alias refers to a value that contains it")
        self.total += self.sizes[id(node)] if alias else 1
        if self.total > MOST_VALUES:
            raise yaml.YAMLError(f"it holds more than {MOST_VALUES:,} values once its aliases are written out")
        self.sizes.setdefault(id(node), self.total - before)
        return node


def _check_plain(values: Any, owner: str) -> None:
    """Refuses values that JSON cannot represent, invalid text, and deep nesting."""
    todo: list[tuple[Any, Steps]] = [(values, ())]
    while todo:
        value, path = todo.pop()
        if len(path) > MOST_DEPTH:
            raise SnellenError(f"{owner} is nested too deep; write it with at most {MOST_DEPTH} levels")
        if isinstance(value, str):
            if "\0" in value or not is_unicode(value):
                raise SnellenError(f"{_where(owner, path)} holds {short_repr(value)}, which is not text")
        elif isinstance(value, Mapping):
            for key in value:
                if not isinstance(key, str | int) or (isinstance(key, str) and not is_unicode(key)):
                    raise SnellenError(
                        f"{_where(owner, path)} has the name {short_repr(key)}, which is not text; put it in quotes"
                    )
            todo += ((inner, (*path, key)) for key, inner in value.items())
        elif isinstance(value, list | tuple):
            todo += ((inner, (*path, place)) for place, inner in enumerate(value))
        elif isinstance(value, int):
            if abs(value) > MOST_WHOLE:
                raise SnellenError(f"{_where(owner, path)} holds a number of too many digits")
        elif value is not None and not isinstance(value, float | os.PathLike):
            raise SnellenError(
                f"{_where(owner, path)} holds a {type(value).__name__} ({short_repr(value)}); put it in quotes"
            )


def is_unicode(value: str) -> bool:
    """Whether a string can be encoded: it contains no lone surrogate."""
    return value.isascii() or not _SURROGATE.search(value)


def _where(owner: str, path: Steps) -> str:
    return f"{owner}, {_quoted(path)}," if path else owner


def _quoted(path: Steps) -> str:
    return f"'{shorten('.'.join(map(str, path)))}'"


_SURROGATE = re.compile("[\ud800-\udfff]")

_RULES: Mapping[str, str] = {
    "int_type": "it must be a whole number",
    "int_from_float": "it must be a whole number",
    "float_type": "it must be a number",
    "finite_number": "it must be a finite number",
    "string_type": "it must be text",
    "bool_type": "it must be true or false",
    "tuple_type": "it must be a list",
    "list_type": "it must be a list",
    "dict_type": "it must hold values by name",
    "mapping_type": "it must hold values by name",
    "dataclass_type": "it must hold values by name",
    "string_pattern_mismatch": "it must be a plain name",
}

_WORDS = {
    "Input should": "it must",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "above",
    "less than": "below",
}


def _sentence(problem: ValidationError, values: Any, owner: str, kind: Any) -> str:
    """The first mistake as a sentence for users."""
    first = problem.errors(include_url=False)[0]
    path: Steps = ()
    value = values
    for step in first["loc"]:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):  # a missing name, or pydantic's name of a member of a union
            break
        path = (*path, step)
    if first["type"] in ("missing", "missing_argument"):
        return f"{owner} lacks {_quoted(first['loc'])}"
    if first["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return f"{owner} has an unknown setting {_quoted(first['loc'])}{nearest(str(first['loc'][-1]), _names(kind, path))}"
    rule = _RULES.get(first["type"]) or first["msg"]
    for pydantic_words, plain_words in _WORDS.items():
        rule = rule.replace(pydantic_words, plain_words)
    return (
        f"{owner}: {_quoted(path)} cannot be {short_repr(value)}; {rule}"
        if path
        else f"{owner} cannot be {short_repr(value)}; {rule}"
    )


def _names(kind: Any, path: Steps) -> list[str]:
    """The names that are allowed at this path."""
    for step in path[:-1]:
        inner = typing.get_args(kind)
        kind = typing.get_type_hints(kind).get(str(step)) if dataclasses.is_dataclass(kind) else inner[0] if inner else None
    return [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
