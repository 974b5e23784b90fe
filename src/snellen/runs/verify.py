"""Compares everything in a run folder with its name or its checksum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from snellen.errors import SnellenError
from snellen.files.integrity import DamagedError, digest, has_checksum, read_named
from snellen.runs.record import FileRecord, R, Record, RunRecord, UnitRecord, read
from snellen.runs.store import DAMAGED, FITTED, REJOIN, VARIANTS, VERDICTS, Store, files_of

_CONTENT_FOLDERS = ("maps", "scores", "pictures", FITTED, VARIANTS, "people")
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
    root, result = Path(folder), VerifyResult()
    folders = sorted(path.parent for path in root.rglob("run.json") if DAMAGED not in path.relative_to(root).parts)
    if not folders:
        raise SnellenError(f"'{folder}' is not a run folder: it has no run.json")
    for run_folder in folders:
        _Check(Store(run_folder), result, on_file).everything()
    result.problems = list(dict.fromkeys(result.problems))
    return result


@dataclass(frozen=True)
class _Check:
    store: Store
    result: VerifyResult
    on_file: Callable[[str], None]

    def everything(self) -> None:
        folder = self.store.folder
        record = self._record(folder / "run.json", f"give the command that made '{folder}' again", RunRecord)
        units = {path.stem: self._record(path, self.store.remedy, UnitRecord) for path in self._paths("units")}
        for part in _CONTENT_FOLDERS:
            remedy = REJOIN if part == "people" else self.store.remedy
            needed = set[str]()
            for path in self._paths(part) if part in _RECORD_FOLDERS else ():
                named = self._record(path, remedy, FileRecord)
                needed |= {named.file} if named else set()
            needed |= {name for unit in units.values() if unit for where, name in files_of(unit) if where == part}
            if part == "pictures":
                needed |= set(record.samples.pictures.values()) if record else set()
            self._contents(part, needed, remedy)
        if record is not None and record.finished is not None:
            self._finished(record, units)
        for path in sorted(folder.glob("truth/*/")):
            self._contents(f"truth/{path.name}", (), "delete it: it is computed from the maps when it is needed")
        for path in folder.glob(VERDICTS):
            self._record(path, "delete it: verdicts are computed again from the scores", Record)
        for path in sorted(folder.glob("methodology/*.json")):
            self._record(path, "delete it, and `snellen cards` measures again", Record)

    def _paths(self, part: str) -> Iterator[Path]:
        return iter(sorted((self.store.folder / part).glob("*.json")))

    def _contents(self, part: str, needed: Iterable[str], remedy: str) -> None:
        """Every file that is there, and every file that should be."""
        folder = self.store.folder / part
        existing = {path.name for path in folder.glob("*") if path.is_file() and path.suffix not in (".json", "")}
        existing = {name for name in existing if not name.startswith(".")}
        for name in sorted(existing | set(needed)):
            with self._counted(folder / name):
                read_named(folder, name, remedy)

    def _record(self, path: Path, remedy: str, kind: type[R]) -> R | None:
        with self._counted(path):
            record = read(path, kind, remedy)
            self.result.unprotected += not has_checksum(path)
            return record
        return None

    def _finished(self, record: RunRecord, units: Mapping[str, UnitRecord | None]) -> None:
        """All units that a finished run is made of, and the table of all scores."""
        for planned in record.units:
            if planned.unit not in units:
                path = self.store.folder / "units" / f"{planned.unit}.json"
                with self._counted(path):
                    raise DamagedError(path, "it is missing", self.store.remedy)
        table = self.store.folder / "scores.parquet"
        with self._counted(table):
            if not table.is_file():
                raise DamagedError(table, "it is missing", self.store.remedy)
            if record.merged not in (None, digest(table.read_bytes())):
                raise DamagedError(table, "its content does not match run.json", self.store.remedy)

    @contextmanager
    def _counted(self, path: Path) -> Iterator[None]:
        """Counts a file, and notes the sentence where it is damaged."""
        self.on_file(str(path))
        self.result.files += 1
        try:
            yield
        except DamagedError as problem:
            self.result.problems.append(str(problem))
        else:
            self.result.bytes += path.stat().st_size
