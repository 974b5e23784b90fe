"""How a command ends when something goes wrong: one sentence and an exit code.

A user's mistake is reported in one sentence. An unexpected error is reported in one sentence too, with the path of a log
that holds its traceback.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn

from snellen.errors import InterruptionError, SnellenError, log_failure, short_repr, shorten

UNEXPECTED, MISTAKE, INTERRUPTED = 1, 2, 130
"""Exit codes: an unexpected error, a user's mistake, an interruption from the keyboard."""


@contextlib.contextmanager
def reporting_failures(received: Sequence[signal.Signals]) -> Iterator[None]:
    """Turns an exception of the command that runs within into a sentence and an exit code.

    Args:
        received: the signals that asked the command to stop, filled while it runs.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # characters that the terminal cannot print are escaped
            stream.reconfigure(errors="backslashreplace")
    try:
        yield
    except SnellenError as problem:
        _print_error(str(problem))
        sys.exit(_interrupted(received) if isinstance(problem, InterruptionError) else MISTAKE)
    except (KeyboardInterrupt, SystemExit) as end:
        # typer turns an interruption into an exit of its own, silently and with the shell's code for it.
        if isinstance(end, SystemExit) and end.code != INTERRUPTED:
            raise
        how = f"stopped by {received[0].name}" if received else "interrupted"
        print(f"\nsnellen: {how}; finished work is kept, and the same command continues", file=sys.stderr)
        sys.exit(_interrupted(received))
    except BrokenPipeError:  # the reader of the output has stopped reading, as `head` does
        with contextlib.suppress(OSError):  # otherwise the interpreter complains when it flushes
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(UNEXPECTED)
    except OSError as problem:
        if problem.filename is None:
            _fail(problem)
        # A path that cannot be read or written, wherever in the code, is a mistake that the user can correct.
        path = short_repr(str(problem.filename))
        _print_error(f"{path} cannot be used ({problem.strerror}); check the path, its rights and the disk")
        sys.exit(MISTAKE)
    except Exception as problem:
        _fail(problem)


def check_words(words: Sequence[str]) -> None:
    """Refuses words that are not text, as names of files can be, and empty ones: an empty path means the current folder."""
    for word, before in zip(words, ("snellen", *words), strict=False):
        option, equals, value = word.partition("=")
        if not word.strip() or (option.startswith("--") and equals and not value.strip()):
            previous = option if equals else before
            raise SnellenError(f"the word after '{previous}' is empty; write what you mean, or leave out the option")
        try:
            word.encode()
        except UnicodeEncodeError:
            raise SnellenError(f"{short_repr(word)} on the command line is not UTF-8; rename that file") from None


def _fail(problem: Exception) -> NoReturn:
    log = log_failure(problem)
    where = f"its traceback is in '{log}'; please report it" if log else "its traceback could not be written"
    reason = shorten(f"{type(problem).__name__}: {problem}")
    _print_error(f"stopped by an error that Snellen did not foresee ({reason}); {where}")
    sys.exit(UNEXPECTED)


def _interrupted(received: Sequence[int]) -> int:
    """The exit code of a stopped command: the shell's code for the signal that stopped it, if one did."""
    return 128 + received[0] if received else INTERRUPTED


def _print_error(sentence: str) -> None:
    from rich.console import Console

    text = " ".join(sentence.split())  # messages of libraries may have several lines
    Console(stderr=True, soft_wrap=True).print(f"snellen: {text}", style="red", highlight=False, markup=False)
