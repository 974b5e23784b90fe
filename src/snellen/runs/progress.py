"""Progress of a run: what is running, how fast, and how long it will still take."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn

from snellen.types import Passes


@runtime_checkable
class Observer(Protocol):
    """Is called with everything that happens in a run, and decides what to show."""

    def note(self, text: str) -> None:
        """A sentence for the user."""
        ...

    def begin(self, stage: str, passes: Passes, units: int) -> None:
        """A stage starts that needs this many passes in this many units."""
        ...

    def running(self, what: str) -> None:
        """What is being computed now."""
        ...

    def passed(self, passes: Passes) -> None:
        """The model made these passes."""
        ...

    def finished(self, passes: Passes) -> None:
        """A unit is done; `passes` are those that `passed` did not report, because another process made them."""
        ...

    def end(self) -> None:
        """The stage is over."""
        ...


class Silent:
    """Shows nothing."""

    def note(self, text: str) -> None:
        """Ignored."""

    def begin(self, stage: str, passes: Passes, units: int) -> None:
        """Ignored."""

    def running(self, what: str) -> None:
        """Ignored."""

    def passed(self, passes: Passes) -> None:
        """Ignored."""

    def finished(self, passes: Passes) -> None:
        """Ignored."""

    def end(self) -> None:
        """Ignored."""


@dataclass(frozen=True)
class Relay:
    """Passes everything on to another observer, with a title in front of it, and notes only where `shows` is true."""

    observer: Observer
    title: str = ""
    """Stands before the name of every stage; empty for none."""
    shows: Callable[[str], bool] = lambda text: True
    """Whether a note is passed on."""

    def note(self, text: str) -> None:
        """Passed on as it is, if `shows` says so."""
        if self.shows(text):
            self.observer.note(text)

    def begin(self, stage: str, passes: Passes, units: int) -> None:
        """Passed on with the title."""
        self.observer.begin(self._titled(stage), passes, units)

    def running(self, what: str) -> None:
        """Passed on with the title."""
        self.observer.running(self._titled(what))

    def passed(self, passes: Passes) -> None:
        """Passed on."""
        self.observer.passed(passes)

    def finished(self, passes: Passes) -> None:
        """Passed on."""
        self.observer.finished(passes)

    def end(self) -> None:
        """Passed on."""
        self.observer.end()

    def _titled(self, text: str) -> str:
        return f"{self.title}: {text}" if self.title else text


BACKWARD_WEIGHT = 2.0
"""A backward pass takes about as long as two forward passes; only the progress bar relies on it."""


class Live:
    """A progress bar in a terminal; a plain line every ten seconds where the output is a file or a log."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self._bar: Progress | None = None
        self._reset("", 0.0, 0)

    def _reset(self, stage: str, total: float, units: int) -> None:
        self._stage, self._total, self._units = stage, total, units
        self._done, self._images, self._unit, self._what = 0.0, 0, 0, stage
        self._started = self._printed = time.monotonic()

    def note(self, text: str) -> None:
        """Prints the sentence."""
        self.console.print(text, highlight=False, markup=False)

    def begin(self, stage: str, passes: Passes, units: int) -> None:
        """Opens the bar."""
        self._reset(stage, weight_of(passes), units)
        if self.console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                TextColumn("{task.percentage:>3.0f} %"),
                TextColumn("{task.fields[speed]}"),
                console=self.console,
                transient=True,
            )
            self._task = self._bar.add_task(stage, total=self._total or 1, speed="")
            self._bar.start()

    def running(self, what: str) -> None:
        """Shows what is being computed."""
        self._what = what
        self._show()

    def passed(self, passes: Passes) -> None:
        """Moves the bar."""
        self._done += weight_of(passes)
        self._images += passes.forward
        self._show()

    def finished(self, passes: Passes) -> None:
        """Counts a unit."""
        self._unit += 1
        self.passed(passes)

    def end(self) -> None:
        """Closes the bar."""
        if self._bar:
            self._bar.stop()
            self._bar = None

    def _show(self) -> None:
        now = time.monotonic()
        spent = max(now - self._started, 1e-6)
        share = min(1.0, self._done / self._total) if self._total else 0.0
        left = f", {duration(spent / share - spent)} left" if share > 0.02 else ""
        speed = f"{self._images / spent:,.0f} images/s{left}"
        if self._bar:
            unit = f"{min(self._unit + 1, self._units)}/{self._units}"
            self._bar.update(
                self._task, completed=self._done, description=f"{escape(self._what)}  [dim]{unit}[/dim]", speed=speed
            )
        elif now - self._printed > 10:
            self._printed = now
            self.console.print(f"{self._stage}: {share:.0%}, {self._what}, {speed}", highlight=False, markup=False)


def default_observer() -> Observer:
    """A progress bar in a terminal, nothing elsewhere."""
    return Live() if sys.stderr.isatty() else Silent()


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> duration(130.0)
    '2 min 10 s'
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"


def weight_of(passes: Passes) -> float:
    """About how long passes take, in units of forward passes."""
    return passes.forward + BACKWARD_WEIGHT * passes.backward
