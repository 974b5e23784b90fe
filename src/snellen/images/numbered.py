"""Numbered files: many paths or URLs in one text, such as train-{000..099}.tar."""

from __future__ import annotations

import re

from snellen.errors import SnellenError

MOST_FILES = 100_000
"""Most files that one text may name."""

_BRACES = re.compile(r"\{(\d+)\.\.(\d+)\}")


def numbered(text: str) -> list[str]:
    """The paths that a text names: itself, or one for each number in braces.

    >>> numbered("a-{08..10}.tar")
    ['a-08.tar', 'a-09.tar', 'a-10.tar']
    """
    match = _BRACES.search(text)
    if match is None:
        return [text]
    first, last = match.groups()
    count = int(last) - int(first) + 1
    if not 1 <= count <= MOST_FILES:
        raise SnellenError(f"'{text}' must count upwards and name at most {MOST_FILES} files")
    numbers = (str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
    return [text[: match.start()] + number + text[match.end() :] for number in numbers]
