"""What the model was asked for: passes, seconds inside the model, and passes that were saved by sharing."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field

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
