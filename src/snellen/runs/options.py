"""Options: how a run is computed, and the numbers that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from snellen.files.documents import MOST_WHOLE, check_shape
from snellen.runs import engine_choice
from snellen.runs import plan as planning
from snellen.runs.kept_maps import check_keep_maps
from snellen.runs.schedule import Budget, MakeDecider, Until

Seed = Annotated[int, Field(ge=0, le=MOST_WHOLE)]
ShardSize = Annotated[int, Field(ge=1, le=1_000_000)]
Workers = Annotated[int, Field(ge=0, le=256)]
Threads = Annotated[int, Field(ge=1, le=256)]
"""A number beyond what a machine has would end the process."""


@dataclass(frozen=True)
class Options:
    """How to compute. Only `shard`, `engine` and `fold_norms` can change a score, and only by rounding."""

    shard: int = 16
    """Images per unit of work."""
    workers: int = 0
    """Processes; 0 computes in this one."""
    threads: int | None = None
    """Torch threads of each process."""
    engine: str | None = None
    """How forward-only passes are computed: eager, compiled or onnxruntime; the fastest by measuring where None."""
    fold_norms: bool = False
    """Whether gradients come from a copy of the model with batch normalisations folded into convolutions, which is faster;
    single pixels of a map may differ by a few percent (see decision 39)."""
    request: dict[str, Any] | None = None
    """The settings of the command line, stored in the run so that `snellen resume` can continue it."""
    pass_seconds: planning.PassSeconds | None = None
    """How long passes take, where that was measured already."""
    until: str | None = None
    """When a comparison has enough images: settled, or precision 0.1; all images are computed otherwise."""
    budget: str | None = None
    """How much to spend where it decides most, such as 10m or 500000 passes; as much as it takes otherwise."""
    decider: MakeDecider | None = None
    """Who decides what is settled; the rule of verdicts otherwise."""
    keep_maps: str | None = None
    """Which maps are kept after they were scored: all (of a new run), some (a sample, and the best and worst by each metric)
    or none. A run that is continued keeps its setting where none is stated."""

    @property
    def stops_early(self) -> bool:
        """Whether only what decides verdicts is computed."""
        return self.until is not None or self.budget is not None

    def check(self) -> None:
        """Refuses numbers that no machine can use."""
        bounds: dict[str, Any] = {"shard": ShardSize, "workers": Workers, "threads": Threads | None}
        for name, kind in bounds.items():
            check_shape(kind, getattr(self, name), f"options: {name}")
        if self.budget is not None:
            Budget.parse(self.budget)
        if self.until is not None:
            Until.parse(self.until)
        engine_choice.check_engine(self.engine)
        check_keep_maps(self.keep_maps)
