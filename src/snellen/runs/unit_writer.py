"""UnitWriter: writes results of units into a segment, in the process that computed them."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from snellen.errors import SnellenError
from snellen.files.folder import Folder
from snellen.runs.record import Cost, Refusal
from snellen.runs.segments import (
    LARGEST_MAPS,
    LARGEST_UNITS,
    MAPS,
    SEGMENTS,
    UNITS,
    FinishedUnit,
    Part,
    Void,
    new_frame,
    pack_maps,
    pack_scores,
    part_name,
    unit_frame,
)

FLUSH_BYTES, FLUSH_SECONDS = 64 << 20, 10.0
"""Where files cannot be lengthened, results wait in memory until they are so large or so old, then become a segment."""


@dataclass(frozen=True, kw_only=True)
class UnitFacts:
    """What is known about a unit before it is computed; picklable and small."""

    key: str
    """A hash of all that its numbers depend on."""
    map_key: str
    """A hash of all that the maps depend on."""
    method: str
    """Its label."""
    start: int
    """The index of the first sample in the run."""
    count: int
    """How many samples."""
    metric_keys: Mapping[str, str]
    """The key of each of its metrics, by label."""
    maps: Part | None = None
    """Maps that an earlier unit stored; None where this unit stores them."""
    computes_maps: bool = True
    """False where its maps were computed by an earlier unit, or made elsewhere."""
    sampled: tuple[int, ...] | None = None
    """The samples whose maps are kept whatever their scores are, counted from the first of the unit; None for all."""
    keeps_extremes: bool = False
    """Whether those with the best and the worst score by each metric are kept too."""


@contextmanager
def disk_errors(folder: Folder) -> Iterator[None]:
    """Turns an error of the disk into a sentence."""
    try:
        yield
    except OSError as problem:
        raise SnellenError(
            f"cannot write to '{folder}' ({problem.strerror}); make room and run the same command: finished work is kept"
        ) from None


class UnitWriter:
    """Writes results of units into segments of its own, one after the other.

    It is small and picklable, and goes with a call to wherever that runs, provided the folder can be reached there:

        writer = store.writer()                    # in the client
        unit = writer.write(facts, maps=..., ...)  # in a worker, after computing
        store.commit(unit)                         # in the client, with what the call returned

    Every process that a writer arrives in begins a segment of its own, which its later calls lengthen. When `write` returns,
    the result is on disk: a worker or client that dies now loses nothing, because whoever opens the folder next finds the
    unit. A worker that dies in the middle of `write` leaves bytes at the end of its segment that nobody reads. A unit that
    was written twice counts once. Nothing is written to the run folder but segments, so workers need no lock.

    Args:
        folder: The run folder.
        waits: Whether results may wait in memory for others where files cannot be lengthened, as on object storage; then
            they are lost with this process until `flush` returns.
    """

    def __init__(self, folder: Folder, *, waits: bool = False) -> None:
        self.folder, self.waits = folder, waits
        self.token = secrets.token_hex(4)

    def write(
        self,
        facts: UnitFacts,
        *,
        maps: np.ndarray | None,
        scores: Mapping[str, tuple[np.ndarray, np.ndarray | None]],
        cost: Cost | None,
        metric_costs: Mapping[str, Cost],
        refused: Mapping[str, str],
        kept: tuple[int, ...] | None = None,
    ) -> FinishedUnit:
        """Writes the result of a unit.

        Args:
            facts: The unit.
            maps: Of all its samples, or of those in `kept`; None where they are not to be stored, or are already.
            scores: By metric, a value per sample and, for some, a curve per sample.
            cost: Of the maps; None where an earlier unit computed them.
            metric_costs: By label, for each metric that was computed.
            refused: By label of the metric, why it cannot score these maps.
            kept: The samples whose maps are stored; None for all.
        """
        unit = FinishedUnit(
            key=facts.key,
            map_key=facts.map_key,
            method=facts.method,
            start=facts.start,
            count=facts.count,
            maps=facts.maps,
            kept=kept if maps is not None else None,
            scores=None,
            metrics={name: key for name, key in facts.metric_keys.items() if name in metric_costs},
            refused={name: Refusal(key=facts.metric_keys[name], problem=problem) for name, problem in refused.items()},
            metric_costs=dict(metric_costs),
            cost=cost,
        )
        return self._open().add(
            unit, None if maps is None else pack_maps(maps), pack_scores(scores) if scores else b"", waits=self.waits
        )

    def void(self, void: Void) -> None:
        """Declares bytes of another segment void."""
        self._open().add_void(void)

    def flush(self) -> None:
        """Writes what waits in this process."""
        self._open().flush()

    def _open(self) -> _Segment:
        """The segment that this process writes for this writer."""
        place = (os.getpid(), self.token)
        with _OPENING:
            if place not in _OPEN:
                while len(_OPEN) >= _MOST_OPEN:
                    _OPEN.pop(next(iter(_OPEN))).flush()
                _OPEN[place] = _Segment(self.folder)
            return _OPEN[place]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"waits": False}  # a worker may end at any time


_OPENING = threading.Lock()
_MOST_OPEN = 16


def _new_name() -> str:
    """Names of later segments come later in order, where clocks agree."""
    return f"{time.time_ns() // 1_000_000:013x}-{secrets.token_hex(5)}"


@dataclass
class _Segment:
    """The segment that this process is writing."""

    folder: Folder
    name: str = field(default_factory=_new_name)
    sizes: dict[str, int] = field(default_factory=lambda: {UNITS: 0, MAPS: 0})
    waiting: dict[str, list[bytes]] = field(default_factory=lambda: {UNITS: [], MAPS: []})
    since: float = 0.0
    """When the first result that waits was added."""
    turn: threading.Lock = field(default_factory=threading.Lock)

    def add(self, unit: FinishedUnit, maps: bytes | None, scores: bytes, *, waits: bool) -> FinishedUnit:
        """Writes a unit; returns it with the places of its maps and scores."""
        with self.turn:
            if maps is not None:
                place = self.sizes[MAPS]
                unit = replace(
                    unit, maps=Part(name=part_name(maps), segment=self.name + MAPS, offset=place, length=len(maps))
                )
                self._append(MAPS, maps)
            if scores:
                unit = replace(unit, scores=Part(part_name(scores)))
            frame = unit_frame(unit, scores, maps_inside=maps is not None)
            place, segment = self.sizes[UNITS], self.name + UNITS
            end = place + len(frame)
            if unit.scores is not None:
                unit = replace(
                    unit, scores=Part(name=unit.scores.name, segment=segment, offset=end - len(scores), length=len(scores))
                )
            self._append(UNITS, frame)
            self._end_turn(waits=waits)
            return replace(unit, frame=(segment, place, end))

    def add_void(self, void: Void) -> None:
        """Declares bytes of another segment void."""
        with self.turn:
            self._append(UNITS, new_frame({"void": list(void)}))
            self._end_turn(waits=False)

    def flush(self) -> None:
        """Writes what waits."""
        with self.turn:
            self._flush()

    def _end_turn(self, *, waits: bool) -> None:
        if self.folder.appends:
            if self.sizes[MAPS] > LARGEST_MAPS or self.sizes[UNITS] > LARGEST_UNITS:
                self._begin()
            return
        self.since = self.since or time.monotonic()
        if not waits or sum(self.sizes.values()) > FLUSH_BYTES or time.monotonic() - self.since > FLUSH_SECONDS:
            self._flush()

    def _append(self, ending: str, content: bytes) -> None:
        self.sizes[ending] += len(content)
        if not self.folder.appends:
            self.waiting[ending].append(content)
            return
        try:
            with disk_errors(self.folder):
                self.folder.append(f"{SEGMENTS}/{self.name}{ending}", content)
        except BaseException:
            self._begin()  # the file may end with a part of the content
            raise

    def _flush(self) -> None:
        """Writes waiting maps, then the units that name them."""
        contents = {ending: b"".join(self.waiting[ending]) for ending in (MAPS, UNITS)}
        with disk_errors(self.folder):
            for ending, content in contents.items():
                if content:
                    self.folder.write_whole(f"{SEGMENTS}/{self.name}{ending}", content)
        if any(contents.values()):
            self._begin()

    def _begin(self) -> None:
        self.name, self.since = _new_name(), 0.0
        self.sizes, self.waiting = {UNITS: 0, MAPS: 0}, {UNITS: [], MAPS: []}


_OPEN: dict[tuple[int, str], _Segment] = {}
