"""Engines of variants, which are prepared once a variant has computed enough rows to repay it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from snellen.classifier.engines.engine import EngineName
from snellen.classifier.engines.trial import Trial


@dataclass(frozen=True)
class VariantEngine:
    """The engine that variants of a classifier use later."""

    name: EngineName
    """Of the engine."""
    rows: int
    """How many rows each variant computes eagerly first."""


@dataclass
class LaterEngine:
    """Counts the rows of one variant. It goes by rows and not by seconds, so that the same work gives the same numbers."""

    engine: VariantEngine
    """What comes later."""
    rows: int = 0
    """How many rows the variant has computed."""

    def is_due(self, rows: int) -> bool:
        """Whether the engine is to compute these rows, which are counted."""
        self.rows += rows
        return self.rows - rows >= self.engine.rows


def rows_that_repay(eager: Trial, other: Trial) -> int | None:
    """How many rows an engine must compute to save the time that preparing it takes; None if it never does."""
    if eager.row_seconds is None or other.row_seconds is None or other.seconds is None:
        return None
    saved = eager.row_seconds - other.row_seconds
    return math.ceil(other.seconds / saved) if saved > 0 else None
