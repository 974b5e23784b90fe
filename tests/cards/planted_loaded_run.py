"""Runs of the planted classifier with methods whose luck and whose settings do what they are told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from snellen.cards.card_set import MethodFindings
from snellen.cards.loaded_run import LoadedRun
from snellen.cards.methodology import measure
from snellen.images import Samples, from_arrays
from snellen.plugins.checks.planted import SIDE, PlantedBatch, planted_batch
from snellen.plugins.registry import METHODS, method
from snellen.runs import Options, Run, evaluate
from snellen.runs.progress import Silent
from snellen.types import Passes, Rng

RAMP = torch.arange(SIDE**2, dtype=torch.float32).view(1, SIDE, SIDE) / SIDE**2
ACROSS = RAMP.transpose(1, 2)
COUNT = 6


class Free:
    """What the planted methods need: nothing."""

    def passes(self, size: tuple[int, int], classifier: Any) -> Passes:
        return Passes()


@dataclass(frozen=True)
class Noisy(Free):
    """A ramp with noise on it that the seed decides; `idle` does nothing."""

    spread: float = 0.3
    idle: int = 1

    def __call__(self, classifier: Any, inputs: Tensor, targets: Tensor, *, rng: Rng) -> Tensor:
        return RAMP + self.spread * rng.normal("noise", (SIDE, SIDE))


@dataclass(frozen=True)
class Dialled(Free):
    """A ramp that a dial turns from one way to the other; `idle` does nothing, and `still` makes it constant."""

    turn: float = 0.0
    idle: int = 1
    still: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.turn <= 1:
            raise ValueError(f"turn must lie between 0 and 1, not {self.turn}")

    def prepare(self, classifier: Any, inputs: Tensor) -> None:
        from snellen.errors import SnellenError

        if self.idle == 13:
            raise SnellenError("planted-dial does not take 13")

    def __call__(self, classifier: Any, inputs: Tensor, targets: Tensor, *, rng: Rng) -> Tensor:
        map_ = (1 - self.turn) * RAMP + self.turn * ACROSS.square() if not self.still else torch.ones_like(RAMP)
        return map_.repeat(len(inputs), 1, 1)


@dataclass(frozen=True)
class Broken(Free):
    """Breaks always, or with any other seed than 0, or with another setting."""

    when: Literal["always", "seed", "never"] = "seed"

    def __call__(self, classifier: Any, inputs: Tensor, targets: Tensor, *, rng: Rng) -> Tensor:
        if self.when == "always" or (self.when == "seed" and rng.seed):
            raise RuntimeError("the planted failure")
        return RAMP.repeat(len(inputs), 1, 1)


RANGES: dict[type, tuple[str, dict[str, Any]]] = {
    Noisy: ("planted-noise", {"spread": (0.1, 2.0), "idle": (2,)}),
    Dialled: ("planted-dial", {"turn": (0.5, 1.0, 7.0), "idle": (2, 13), "still": (True,)}),
    Broken: ("planted-failure", {"when": ("always", "never")}),
}


@contextmanager
def registered() -> Iterator[None]:
    """Inside, the planted methods are methods like any other."""
    before = dict(METHODS._classes)
    for plugin, (name, ranges) in RANGES.items():
        method(name, cite="nobody2000", class_specific=False, deterministic=plugin is Dialled, ranges=ranges)(plugin)
    try:
        yield
    finally:
        METHODS._classes.clear()
        METHODS._classes.update(before)


def samples(case: PlantedBatch) -> Samples:
    return from_arrays(case.pixels.clamp(0, 1), case.targets, case.truth)


def planted_run(
    folder: Path | None, methods: list[str], metrics: list[str] | None, count: int = COUNT, seed: int = 0
) -> Run:
    """A run made from Python objects."""
    case = planted_batch(count)
    options = Options(shard=4)
    return evaluate(
        case.classifier, samples(case), methods=methods, metrics=metrics, out=folder, options=options,
        observer=Silent(),
    )  # fmt: skip


def measured(run: Run, **changes: Any) -> MethodFindings:
    """What is measured of a run of all planted images, with little of everything."""
    case = planted_batch(COUNT)
    settings = {"observer": Silent(), "images": 2, "seeds": 2, "classifier": case.classifier, "samples": samples(case)}
    return measure(run, **settings | changes)


@cache
def small_bench() -> LoadedRun:
    """Three planted images that gradient explained."""
    case = planted_batch(3)
    run = planted_run(None, ["gradient"], None, count=3)
    return LoadedRun.of(run, case.classifier, samples(case), Silent())
