"""Signals that ask the command to stop."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = ("SIGTERM", "SIGHUP")
"""Sent by `kill`, job schedulers and closed terminals; Windows has only the first."""


@contextmanager
def stopping_on_signals() -> Iterator[list[signal.Signals]]:
    """A context in which these signals raise `KeyboardInterrupt`, so that open files are closed; yields the received ones.

    A signal that is ignored already (nohup) stays ignored, and a second one ends the process at once.
    """
    received: list[signal.Signals] = []
    available = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    handled = [number for number in available if signal.getsignal(number) is signal.SIG_DFL]

    def stop(number: int, frame: FrameType | None) -> None:
        received.append(signal.Signals(number))
        for other in handled:
            signal.signal(other, signal.SIG_DFL)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # Python allows handlers nowhere else
        yield received
        return
    for number in handled:
        signal.signal(number, stop)
    try:
        yield received
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
