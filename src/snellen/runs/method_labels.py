"""Methods of a run as people name them: by label or, where only one setting was run, by name alone."""

from __future__ import annotations

from collections.abc import Mapping

from snellen.errors import SnellenError, nearest


def find_label(name: str, methods: Mapping[str, str], owner: str) -> str:
    """The label that is meant; `methods` has the name of the method by its label.

    >>> find_label("rise", {"grad-cam": "grad-cam", "rise(masks=500)": "rise"}, "'runs/mine'")
    'rise(masks=500)'
    """
    written = "".join(name.split())
    exact = [one for one in methods if "".join(one.split()) == written]
    named = exact or [one for one, method in methods.items() if method == written]
    if len(named) == 1:
        return named[0]
    if named:
        raise SnellenError(f"{owner} has '{name}' with several settings; name one: {', '.join(named)}")
    raise SnellenError(
        f"{owner} has no method '{name}'{nearest(name, [*methods, *methods.values()])} (it has: {', '.join(methods)})"
    )
