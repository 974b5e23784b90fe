"""WriteUnit: a unit whose worker writes the result into the run folder itself, where it can reach that."""

from __future__ import annotations

import secrets
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from snellen.errors import SnellenError
from snellen.files.folder import Folder
from snellen.runs.dispatch import Call
from snellen.runs.executors import Crew
from snellen.runs.progress import Observer
from snellen.runs.recording import write_result
from snellen.runs.segments import FinishedUnit
from snellen.runs.store import Store
from snellen.runs.unit import OnPass, Unit, UnitResult
from snellen.runs.unit_writer import UnitFacts, UnitWriter

PROBE = ".reachable"
"""The file in the run folder, while units are computed, by which a worker knows that it sees the same folder."""


@dataclass(frozen=True)
class WrittenUnit:
    """What comes back of a unit that its worker wrote into the run folder."""

    unit: FinishedUnit
    """Where its results are, and what they cost."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """By metric, the error that it raised."""

    def seconds_by_kind(self) -> dict[Hashable, float]:
        """Seconds of the maps and of each metric, as those of a `UnitResult`."""
        parts = {name: cost.seconds for name, cost in self.unit.metric_costs.items()}
        maps = {} if self.unit.cost is None else {"maps": self.unit.cost.seconds}
        return {(self.unit.method, name): seconds for name, seconds in {**maps, **parts}.items()}


@dataclass(frozen=True, kw_only=True)
class WriteUnit:
    """A picklable call that computes a unit, and writes its result where the worker can reach the run folder."""

    unit: Unit
    facts: UnitFacts
    writer: UnitWriter
    token: str
    """What `PROBE` holds."""

    def __call__(self, on_pass: OnPass | None = None) -> WrittenUnit | UnitResult:
        result = self.unit(on_pass)
        if not is_reached(self.writer.folder, self.token):
            return result
        self.writer.waits = not self.writer.folder.appends  # until `close`, at the end of a bundle
        with suppress(OSError, SnellenError):  # else the client writes, or says what is wrong
            return WrittenUnit(write_result(self.writer, self.facts, result), result.failed)
        return result

    def close(self) -> None:
        """Makes sure that what was written is in the run folder."""
        if is_reached(self.writer.folder, self.token):
            self.writer.flush()


_REACHED: dict[str, bool] = {}


def is_reached(folder: Folder, token: str) -> bool:
    """Whether this process sees the folder that holds the token; looked up once."""
    if token not in _REACHED:
        _REACHED[token] = False
        with suppress(Exception):  # object storage has errors of its own where credentials are missing
            _REACHED[token] = folder.read(PROBE) == token.encode()
    return _REACHED[token]


class Reach:
    """Whether workers reach the run folder, and so write their results there themselves.

    Args:
        store: The run folder.
        crew: Who computes; None for this process.
        observer: Hears which of the two it is, where workers may be elsewhere.
    """

    def __init__(self, store: Store, crew: Crew | None, observer: Observer) -> None:
        self._store, self._crew, self._observer = store, crew, observer
        self._token = secrets.token_hex(8)
        self._writer = store.writer()
        self._noted: set[bool] = set()

    @property
    def is_reached(self) -> bool:
        """Whether workers wrote results, and all did so far."""
        return self._noted == {True}

    @contextmanager
    def probing(self, begun: bool) -> Iterator[None]:
        """Inside, the folder holds a token by which workers know it; without workers, or where nothing `begun`, not."""
        if self._crew is None or not begun:
            yield
            return
        self._store.folder.write_whole(PROBE, self._token.encode())
        try:
            yield
        finally:
            with suppress(OSError, SnellenError):
                self._store.folder.remove(PROBE)

    def call(self, unit: Unit, facts: UnitFacts) -> Call[WrittenUnit | UnitResult]:
        """What is to be run for a unit."""
        return unit if self._crew is None else WriteUnit(unit=unit, facts=facts, writer=self._writer, token=self._token)

    def written(self, result: WrittenUnit | UnitResult, facts: UnitFacts) -> FinishedUnit:
        """The unit, which is written now where its worker did not."""
        by_worker = isinstance(result, WrittenUnit)
        if self._crew is not None and self._crew.elsewhere and by_worker not in self._noted:
            self._observer.note(
                f"workers write their results into '{self._store.folder}' themselves"
                if by_worker
                else f"workers do not reach '{self._store.folder}', so results travel through this process; give an --out "
                "on a shared disk or object storage to spare that"
            )
        self._noted.add(by_worker)
        return result.unit if isinstance(result, WrittenUnit) else write_result(self._store.own_writer, facts, result)
