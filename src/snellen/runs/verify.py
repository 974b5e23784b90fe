"""Compares everything in a run folder with its name or its checksum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from snellen.errors import SnellenError
from snellen.files.folder import folder_at
from snellen.files.integrity import DamagedError, digest, has_checksum, read_named
from snellen.images.columns import Names
from snellen.runs.json_record import FileRecord, R, Record
from snellen.runs.record import RUN, TABLES, RunRecord, UnitRecord, read, read_run
from snellen.runs.segments import SEGMENTS, UNITS, FinishedUnit
from snellen.runs.store import DAMAGED, FITTED, MERGED, REJOIN, VARIANTS, VERDICTS, Store, files_of
from snellen.runs.unit_index import INDEX, UnitIndex, read_segments, read_stored, stored_indexes

_CONTENT_FOLDERS = ("maps", "scores", "pictures", TABLES, FITTED, VARIANTS, "people")
"""The folders with files that are named by their content."""

_RECORD_FOLDERS = (FITTED, VARIANTS, "people")
"""The folders whose records name files beside them."""


@dataclass
class VerifyResult:
    """What was compared, and what is wrong."""

    files: int = 0
    """How many were compared."""
    bytes: int = 0
    """The size of intact files."""
    unprotected: int = 0
    """Records that an older version wrote without a checksum: only their form could be checked."""
    problems: list[str] = field(default_factory=list)
    """A sentence for every damaged or missing file."""

    @property
    def summary(self) -> str:
        """The result in one sentence."""
        words = f"{self.files:,} files ({self.bytes / 1e6:,.1f} MB) checked, {len(self.problems):,} damaged or missing"
        older = f"; {self.unprotected:,} records are of an older version and have no checksum"
        return words + (older if self.unprotected else "")


def verify(folder: str | Path, on_file: Callable[[str], None] = lambda path: None) -> VerifyResult:
    """Compares every file of a run folder, and of run folders inside it, with its name or its checksum; changes nothing."""
    root, result = folder_at(folder), VerifyResult()
    names = [PurePosixPath(name) for name in root.find(RUN)]
    folders = sorted(name.parent for name in names if DAMAGED not in name.parts)
    if not folders:
        raise SnellenError(f"'{folder}' is not a run folder: it has no run.json")
    for inside in folders:
        _Check(Store(root if inside == PurePosixPath() else root.below(str(inside))), result, on_file).everything()
    result.problems = list(dict.fromkeys(result.problems))
    return result


@dataclass(frozen=True)
class _Check:
    store: Store
    result: VerifyResult
    on_file: Callable[[str], None]

    def everything(self) -> None:
        folder = self.store.folder
        record = self._run(f"give the command that made '{folder}' again")
        units = {
            PurePosixPath(name).stem: self._record(name, self.store.remedy, UnitRecord) for name in self._records("units")
        }
        for part in _CONTENT_FOLDERS:
            remedy = REJOIN if part == "people" else self.store.remedy
            needed = set[str]()
            for name in self._records(part) if part in _RECORD_FOLDERS else ():
                named = self._record(name, remedy, FileRecord)
                needed |= {named.file} if named else set()
            needed |= {name for unit in units.values() if unit for where, name in files_of(unit) if where == part}
            if part == "pictures":
                needed |= set(record.samples.pictures.values()) if record else set()
            if part == TABLES and record is not None:
                needed |= {name for name in (record.samples.table, record.plan and record.plan.table) if name}
            self._contents(part, needed, remedy)
        index = self._segments()
        if record is not None and record.finished is not None:
            self._finished(record, index, units)
        for part in folder.parts("truth"):
            self._contents(part, (), "delete it: it is computed from the maps when it is needed")
        if folder.exists(VERDICTS):
            self._record(VERDICTS, "delete it: verdicts are computed again from the scores", Record)
        for name in self._records("methodology"):
            self._record(name, "delete it, and `snellen cards` measures again", Record)

    def _records(self, part: str) -> list[str]:
        return [f"{part}/{name}" for name in self.store.folder.list(part) if name.endswith(".json")]

    def _contents(self, part: str, needed: Iterable[str], remedy: str) -> None:
        """Every file that is there, and every file that should be."""
        existing = {name for name in self.store.folder.list(part) if PurePosixPath(name).suffix not in (".json", "")}
        existing = {name for name in existing if not name.startswith(".")}
        for name in sorted(existing | set(needed)):
            with self._counted(f"{part}/{name}"):
                read_named(self.store.folder, f"{part}/{name}", remedy)

    def _run(self, remedy: str) -> RunRecord | None:
        """The record of the run, whose tables are read when they are used."""
        self._record(RUN, remedy, RunRecord)
        try:
            return read_run(self.store.folder, remedy)
        except DamagedError as problem:
            if str(problem) not in self.result.problems:
                self.result.problems.append(str(problem))
        return None

    def _record(self, name: str, remedy: str, kind: type[R]) -> R | None:
        with self._counted(name):
            record = read(self.store.folder, name, kind, remedy)
            self.result.unprotected += not has_checksum(self.store.folder.read(name))
            return record
        return None

    def _segments(self) -> UnitIndex:
        """All segments: every frame, the maps that units name, and the stored index, which may not say anything else."""
        folder = self.store.folder
        for name in stored_indexes(folder):
            with self._counted(f"{INDEX}/{name}"):
                read_stored(folder, name)
        index, damages = read_segments(folder)
        broken = {problem.file: problem for problem in damages}
        for name in folder.list(SEGMENTS):
            if name.endswith(UNITS):
                with self._counted(f"{SEGMENTS}/{name}"):
                    if (problem := broken.get(f"{SEGMENTS}/{name}")) is not None:
                        raise DamagedError(f"{folder}/{problem.file}", problem.reason, self.store.remedy)
        places: dict[str, list[FinishedUnit]] = {}
        for unit in index.units():
            if unit.maps is not None and unit.maps.segment:
                places.setdefault(unit.maps.segment, []).append(unit)
        for name, units in sorted(places.items()):
            with self._counted(f"{SEGMENTS}/{name}"):
                damaged: list[DamagedError] = []
                for unit in sorted(units, key=lambda unit: unit.maps or ()):
                    try:
                        self.store.maps(unit)
                    except DamagedError as problem:
                        damaged.append(problem)
                self.result.problems += map(str, damaged[1:])
                if damaged:
                    raise damaged[0]
        return index

    def _finished(self, record: RunRecord, index: UnitIndex, units: Mapping[str, UnitRecord | None]) -> None:
        """All units that a finished run is made of, and the table of all scores."""
        folder = self.store.folder
        try:
            keys = record.units.keys
        except DamagedError:
            keys = Names([])  # it was reported among the tables
        for key in index.missing(keys):
            if key not in units:
                where = SEGMENTS if record.plan is not None else f"units/{key}.json"
                self.result.problems.append(
                    str(DamagedError(f"{folder}/{where}", f"the unit {key} is missing", self.store.remedy))
                )
        with self._counted(MERGED):
            if not folder.exists(MERGED):
                raise DamagedError(f"{folder}/{MERGED}", "it is missing", self.store.remedy)
            if record.merged not in (None, digest(folder.read(MERGED))):
                raise DamagedError(f"{folder}/{MERGED}", "its content does not match run.json", self.store.remedy)

    @contextmanager
    def _counted(self, name: str) -> Iterator[None]:
        """Counts a file, and notes the sentence where it is damaged."""
        self.on_file(f"{self.store.folder}/{name}")
        self.result.files += 1
        try:
            yield
        except DamagedError as problem:
            self.result.problems.append(str(problem))
        else:
            self.result.bytes += self.store.folder.size(name)
