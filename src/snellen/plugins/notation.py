"""How plug-ins and their settings are written as text, such as `rise(masks=500)`; names are not looked up here."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

from snellen.errors import SnellenError, shorten

LONGEST_TEXT = 10_000
"""Largest number of characters of a plug-in with its settings."""
DEEPEST = 20
"""Deepest nesting of plug-ins and lists; limited because reading them recurses."""


def split_names(text: str) -> list[str]:
    """Splits `a,b(c=1,d=2)` at the commas outside brackets and quotes.

    >>> split_names("gradient, rise(masks=500, cells=7)")
    ['gradient', 'rise(masks=500, cells=7)']
    """
    parts, depth, current, quoted, escaped = [], 0, "", False, False
    for letter in text:
        if letter == '"' and not escaped:
            quoted = not quoted
        escaped = quoted and letter == "\\" and not escaped
        if not quoted:
            depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0 and not quoted:
            parts.append(current)
            current = ""
        else:
            current += letter
    return [part.strip() for part in [*parts, current] if part.strip()]


def read_plugin(text: str) -> tuple[str, dict[str, Any]]:
    """A name, and the settings in brackets after it. A path with brackets or commas stands in quotes.

    >>> read_plugin("rise(masks=500, fill=blur)")
    ('rise', {'masks': 500, 'fill': 'blur'})
    >>> read_plugin('"my code (1)/mine.py:f"(power=2)')
    ('my code (1)/mine.py:f', {'power': 2})
    """
    if len(text) > LONGEST_TEXT or _depth(text) > DEEPEST:
        raise SnellenError(f"cannot read '{shorten(text)}'; it is longer or nested deeper than any name with settings")
    match = _PLUGIN.fullmatch(text)
    if not match or not _is_balanced(match["settings"] or ""):
        if _PATH.fullmatch(text) and text.count("(") == text.count(")"):
            return text.strip(), {}
        quoted = '; a path with brackets or commas stands in quotes: "my code (1)/mine.py:f"' if ".py:" in text else ""
        raise SnellenError(f"cannot read '{shorten(text)}'; write a name such as rise, or rise(masks=500){quoted}")
    params: dict[str, Any] = {}
    for part in split_names(match["settings"] or ""):
        key, equals, value = part.partition("=")
        if not equals:
            raise SnellenError(f"cannot read '{shorten(part)}' in '{shorten(text)}'; write settings as name=value")
        params[key.strip()] = _read_value(value.strip())
    return match["quoted"] or match["name"], params


_PLUGIN = re.compile(
    r"""\s*(?:"(?P<quoted>[^"]+)"|(?P<name>[^()"]*\S\.py:[^()\s]+|[^()\s]+))\s*(?:\((?P<settings>.*)\))?\s*""", re.DOTALL
)
"""A name, in quotes or not, and settings in brackets; only the path of a file has spaces."""

_PATH = re.compile(r"[^\"]*\.py:[\w.]+\s*")
"""A file with brackets in its path, and a name in it, without settings."""


def write_value(value: Any) -> str:
    """Writes a number, a word or None so that it is read back as the same value.

    >>> write_value("layer4"), write_value("7")
    ('layer4', '"7"')
    """
    if isinstance(value, str) and re.fullmatch(r"[\w.:/+-]+", value) and _read_value(value) == value:
        return value
    return json.dumps(value)  # in quotes, because a text such as 7 would be read as a number


def _read_value(value: str) -> Any:
    if value.startswith("[") and value.endswith("]"):
        return [_read_value(name) for name in split_names(value[1:-1])]
    try:
        return json.loads(value)
    except ValueError:  # also a number of too many digits
        return value


def _is_balanced(text: str) -> bool:
    """Whether no bracket closes that was not opened, as in the path `code (1)/mine.py:f(steps=3)`."""
    depths = itertools.accumulate((letter in "([") - (letter in ")]") for letter in re.sub(r'"(?:[^"\\]|\\.)*"', "", text))
    return min(depths, default=0) >= 0


def _depth(text: str) -> int:
    depth = deepest = 0
    for letter in text:
        depth += (letter in "([{") - (letter in ")]}")
        deepest = max(deepest, depth)
    return deepest
