"""Finds the methods of a run by label or, where the run has a method in one setting only, by name."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from snellen.errors import SnellenError, nearest


def find_label(name: str, methods: Mapping[str, str], owner: str, positive: Collection[str] = ()) -> str:
    """The label that a user means.

    Args:
        name: A label, or the name of a method.
        methods: By label, the name of the method.
        owner: The run, for errors.
        positive: Labels of its positive controls, which are no methods.

    >>> find_label("rise", {"grad-cam": "grad-cam", "rise(masks=500)": "rise"}, "'runs/mine'")
    'rise(masks=500)'
    >>> find_label("code/mine.py:f", {"mine.py:f": "mine.py:f"}, "'runs/mine'")
    'mine.py:f'
    """
    written = "".join(name.split())
    without_folders = re.sub(r"[^(=,\[]*[/\\]", "", written)  # labels name files without their folders
    named = _find(written, methods) or _find(without_folders, methods)
    if len(named) == 1:
        return named[0]
    if named:
        raise SnellenError(f"{owner} has '{name}' with several settings; name one: {', '.join(named)}")
    if written in {"".join(label.split()) for label in positive}:
        raise SnellenError(
            f"'{name}' is a positive control of {owner}, made of its masks, and no method; name one of {', '.join(methods)}"
        )
    raise SnellenError(
        f"{owner} has no method '{name}'{nearest(name, [*methods, *methods.values()])} (it has: {', '.join(methods)})"
    )


def _find(written: str, methods: Mapping[str, str]) -> list[str]:
    exact = [label for label in methods if "".join(label.split()) == written]
    return exact or [label for label, method in methods.items() if method == written]
