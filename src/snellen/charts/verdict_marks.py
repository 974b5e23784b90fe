"""Shapes and colours of verdicts, on pages and in the terminal; a colour is always shown with its shape and word."""

from __future__ import annotations

from rich.text import Text

MARKS = {"pass": "●", "fail": "■", "inconclusive": "◆", "not counted": "○"}
"""The shape of each verdict."""

STYLES = {"pass": "green", "fail": "red", "inconclusive": "yellow", "not counted": "dim"}
"""The colour of each verdict in the terminal, as rich names it."""


ARROWS = {True: "↑", False: "↓", None: ""}
DIRECTIONS = {True: "higher is better", False: "lower is better", None: ""}
"""By whether higher is better; None where nothing was measured."""


def colour_of(verdict: str) -> str:
    """The name of a verdict's colour in `COLOURS`, which is also its CSS class.

    >>> colour_of("not counted")
    'not-counted'
    """
    return verdict.replace(" ", "-")


def legend() -> Text:
    """The verdicts with their shapes and colours, for the terminal."""
    return Text.assemble(*((f"{mark} {name}  ", STYLES[name]) for name, mark in MARKS.items()))
