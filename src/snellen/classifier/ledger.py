"""What the model was asked for: passes, seconds inside the model, and passes that were saved by sharing."""

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
    """A running account. `shared` passes were paid for by somebody else on the same images; their seconds are kept apart."""

    passes: Passes = field(default_factory=Passes)
    seconds: float = 0.0
    shared: Passes = field(default_factory=Passes)
    shared_seconds: float = 0.0
    on_pass: Callable[[Passes], None] | None = None

    def pay(self, passes: Passes, seconds: float) -> None:
        """Books passes that the model really made."""
        self.passes += passes
        self.seconds += seconds
        if self.on_pass:
            self.on_pass(passes)

    def share(self, passes: Passes, seconds: float) -> None:
        """Books passes that were needed but already there."""
        self.shared += passes
        self.shared_seconds += seconds
        if self.on_pass:
            self.on_pass(passes)

    def record(self) -> dict[str, float | int]:
        """The account as JSON."""
        return {
            **dataclasses.asdict(self.passes),
            "model_seconds": self.seconds,
            "shared_forward": self.shared.forward,
            "shared_backward": self.shared.backward,
            "shared_seconds": self.shared_seconds,
        }


class Ledgers:
    """The accounts that are open; each of them books whatever happens."""

    def __init__(self) -> None:
        self._open: list[Ledger] = []

    def __len__(self) -> int:
        """How many accounts are open."""
        return len(self._open)

    @contextlib.contextmanager
    def counting(self, on_pass: Callable[[Passes], None] | None = None) -> Iterator[Ledger]:
        """Opens one more account while the body runs."""
        ledger = Ledger(on_pass=on_pass)
        self._open.append(ledger)
        try:
            yield ledger
        finally:
            # Two open accounts may hold equal numbers, so the right one is found by identity.
            self._open[:] = [one for one in self._open if one is not ledger]

    @contextlib.contextmanager
    def paying(self, passes: Passes, device: torch.device) -> Iterator[None]:
        """Books the passes that the body makes on the device, with the seconds that it takes."""
        started = time.perf_counter()
        yield
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds = time.perf_counter() - started
        for ledger in self._open:
            ledger.pay(passes, seconds)

    def share(self, passes: Passes, seconds: float) -> None:
        """Books passes that were needed, but whose result was already there."""
        for ledger in self._open:
            ledger.share(passes, seconds)
