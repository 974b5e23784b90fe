"""Finds the methods of a run by label or, where the run has a method in one setting only, by name."""

from __future__ import annotations

from collections.abc import Mapping

from snellen.errors import SnellenError, nearest


def find_label(name: str, methods: Mapping[str, str], owner: str) -> str:
    """The label that a user means.

    Args:
        name: A label, or the name of a method.
        methods: By label, the name of the method.
        owner: The run, for errors.

    >>> find_label("rise", {"grad-cam": "grad-cam", "rise(masks=500)": "rise"}, "'runs/mine'")
    'rise(masks=500)'
    """
    written = "".join(name.split())
    exact = [label for label in methods if "".join(label.split()) == written]
    named = exact or [label for label, method in methods.items() if method == written]
    if len(named) == 1:
        return named[0]
    if named:
        raise SnellenError(f"{owner} has '{name}' with several settings; name one: {', '.join(named)}")
    raise SnellenError(
        f"{owner} has no method '{name}'{nearest(name, [*methods, *methods.values()])} (it has: {', '.join(methods)})"
    )
