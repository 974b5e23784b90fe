"""Exceptions whose message is a sentence for the user, and functions that write such sentences."""

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
"""Longest text of an error in characters."""


class SnellenError(Exception):
    """A mistake of the user, as one sentence: who refuses, which rule, which value, and the remedy."""

    def __str__(self) -> str:
        """The sentence; if it is very long, its middle is left out."""
        text = Exception.__str__(self)  # a subclass may also be a KeyError, which adds quotes
        return (
            text if len(text) <= LONGEST_SENTENCE else f"{text[: LONGEST_SENTENCE // 2]} … {text[-LONGEST_SENTENCE // 4 :]}"
        )


class InterruptionError(SnellenError):
    """The user stopped the program; the sentence says which results are saved."""


class ForeignExitError(Exception):
    """A model or plug-in called sys.exit; only the task that it was running has failed."""


def nearest(word: str, names: Iterable[str]) -> str:
    """A hint such as `; did you mean 'grad-cam'?`, or "" if no name is similar.

    >>> nearest("gradcam", ["grad-cam", "rise"])
    "; did you mean 'grad-cam'?"
    """
    close = difflib.get_close_matches(word, list(names), n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""


_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxdict = _SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = _SHORT.maxfrozenset = 3
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 40

LONGEST = 80
"""Largest number of characters of a value that an error quotes."""


def short_repr(value: Any) -> str:
    """A value as an error quotes it: short, on one line; it never raises.

    >>> short_repr("gradcam"), short_repr([1, [2, [3, [4]]]] * 9)
    ("'gradcam'", '[1, [2, [3, [...]]], 1, ...]')
    """
    try:
        text = _SHORT.repr(value)
    except Exception:  # an integer of too many digits, or an object whose own repr fails
        text = f"a {type(value).__name__}"
    return shorten(text)


def shorten(text: str, longest: int = LONGEST) -> str:
    """Text on one line with at most `longest` characters; characters that cannot be printed are escaped."""
    text = " ".join(text[: 4 * longest].encode("utf-8", "backslashreplace").decode().replace("\0", "\\0").split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def first_line(problem: BaseException) -> str:
    """The first line of an exception's message, or its type if it has none."""
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]


def log_failure(problem: BaseException) -> Path | None:
    """Writes a traceback to a temporary file that only its owner can read; returns its path, or None if that fails.

    It is not written to the run's folder, because that is often shared and a traceback contains paths.
    """
    with contextlib.suppress(Exception):
        handle, name = tempfile.mkstemp(prefix="snellen-", suffix=".log")  # readable for its owner only
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write("".join(traceback.format_exception(problem)))
        return Path(name)
    return None


@contextlib.contextmanager
def no_exit(owner: str, error: type[Exception] = ForeignExitError) -> Iterator[None]:
    """Turns a call of sys.exit in the body into an error; `owner` names the model or plug-in whose code runs."""
    try:
        yield
    except SystemExit as end:
        code = "" if end.code is None else repr(end.code)
        raise error(f"{owner} called sys.exit({code}), which would end everything; let it raise an error instead") from end
