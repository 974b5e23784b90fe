"""The one exception that a user's own mistake raises, and the one for a user who has had enough."""

from __future__ import annotations

import contextlib
import difflib
import os
import reprlib
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

LONGEST_SENTENCE = 2000
"""In characters."""


class SnellenError(Exception):
    """One sentence for a person: who refuses, which rule, which value, and the remedy."""

    def __str__(self) -> str:
        """The sentence; the middle of one that quotes a huge value is left out."""
        text = Exception.__str__(self)  # an error that is a KeyError too would be put in quotes
        return (
            text if len(text) <= LONGEST_SENTENCE else f"{text[: LONGEST_SENTENCE // 2]} … {text[-LONGEST_SENTENCE // 4 :]}"
        )


class InterruptionError(SnellenError):
    """Stopped from the keyboard: one sentence that says what is kept."""


class ForeignExitError(Exception):
    """A model or plug-in tried to end the process; what it was doing has failed, and nothing else."""


def nearest(word: str, known: Iterable[str]) -> str:
    """A hint such as `; did you mean 'grad-cam'?`, or nothing when no known name is close.

    >>> nearest("gradcam", ["grad-cam", "rise"])
    "; did you mean 'grad-cam'?"
    """
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""


_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxdict = _SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = _SHORT.maxfrozenset = 3
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 40

LONGEST = 80
"""How many characters of a value an error sentence quotes."""


def short_repr(value: Any) -> str:
    """A value as an error sentence quotes it: short whatever it holds, on one line, and without ever failing.

    >>> short_repr("gradcam"), short_repr([1, [2, [3, [4]]]] * 9)
    ("'gradcam'", '[1, [2, [3, [...]]], 1, ...]')
    """
    try:
        text = _SHORT.repr(value)
    except Exception:  # a whole number of too many digits, or an object whose own repr fails
        text = f"a {type(value).__name__}"
    return shorten(text)


def shorten(text: str, longest: int = LONGEST) -> str:
    """Text in one line of at most so many characters, with what cannot be printed escaped."""
    text = " ".join(text[: 4 * longest].encode("utf-8", "backslashreplace").decode().replace("\0", "\\0").split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def log_failure(problem: BaseException) -> Path | None:
    """Writes a traceback to a file that only its owner can read, and returns its path; None where that is impossible.

    It goes to the system's folder for temporary files, for a run's folder is often shared and a traceback holds paths.
    """
    with contextlib.suppress(Exception):
        handle, name = tempfile.mkstemp(prefix="snellen-", suffix=".log")  # for its owner alone from the start
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write("".join(traceback.format_exception(problem)))
        return Path(name)
    return None


@contextlib.contextmanager
def no_exit(who: str, error: type[Exception] = ForeignExitError) -> Iterator[None]:
    """Turns an exit from within a model or plug-in into an error: nobody but the command itself may end it."""
    try:
        yield
    except SystemExit as end:
        code = "" if end.code is None else repr(end.code)
        raise error(f"{who} called sys.exit({code}), which would end everything; let it raise an error instead") from end
