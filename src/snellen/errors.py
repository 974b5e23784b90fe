"""The one exception that a user's own mistake raises, and the one for a user who has had enough."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SnellenError(Exception):
    """One sentence for a person: who refuses, which rule, which value, and the remedy."""


class InterruptionError(SnellenError):
    """Stopped from the keyboard: one sentence that says what is kept."""


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint such as `; did you mean 'grad-cam'?`, or nothing when no known name is close.

    >>> nearest("gradcam", ["grad-cam", "rise"])
    "; did you mean 'grad-cam'?"
    """
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""
