"""Ledger: the passes that a model made, the seconds they took, and the passes that a cache saved."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch

from snellen.types import Passes


@dataclass
class Ledger:
    """Passes and seconds, counted while a `counting()` block runs."""

    passes: Passes = field(default_factory=Passes)
    """Passes that the model made."""
    seconds: float = 0.0
    """Seconds inside the model."""
    cached: Passes = field(default_factory=Passes)
    """Passes that were needed, but whose result was cached."""
    cached_seconds: float = 0.0
    """Seconds that the cached passes took when they were made."""
    on_pass: Callable[[Passes], None] | None = None
    """Called with the passes of each booking, cached ones too."""

    def book(self, passes: Passes, seconds: float) -> None:
        """Adds passes that the model made."""
        self.passes += passes
        self.seconds += seconds
        if self.on_pass:
            self.on_pass(passes)

    def book_cached(self, passes: Passes, seconds: float) -> None:
        """Adds passes whose result was cached."""
        self.cached += passes
        self.cached_seconds += seconds
        if self.on_pass:
            self.on_pass(passes)

    def record(self) -> dict[str, float | int]:
        """The ledger as JSON, as stored in a run."""
        return {
            **dataclasses.asdict(self.passes),
            "model_seconds": self.seconds,
            "shared_forward": self.cached.forward,
            "shared_backward": self.cached.backward,
            "shared_seconds": self.cached_seconds,
        }


class Ledgers:
    """The open ledgers of a classifier; each of them books every pass."""

    def __init__(self) -> None:
        self._open: list[Ledger] = []

    def __len__(self) -> int:
        return len(self._open)

    @contextlib.contextmanager
    def counting(self, on_pass: Callable[[Passes], None] | None = None) -> Iterator[Ledger]:
        """Opens a ledger while the body runs."""
        ledger = Ledger(on_pass=on_pass)
        self._open.append(ledger)
        try:
            yield ledger
        finally:
            # By identity, because two open ledgers may hold equal numbers.
            self._open[:] = [other for other in self._open if other is not ledger]

    @contextlib.contextmanager
    def booking(self, passes: Passes, device: torch.device) -> Iterator[None]:
        """Books these passes, with the seconds that the body takes on the device."""
        started = time.perf_counter()
        yield
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds = time.perf_counter() - started
        for ledger in self._open:
            ledger.book(passes, seconds)

    def book_cached(self, passes: Passes, seconds: float) -> None:
        """Books passes whose result was cached."""
        for ledger in self._open:
            ledger.book_cached(passes, seconds)
