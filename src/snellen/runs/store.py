"""The run folder: immutable files named by their content, written to a temporary name and renamed, one record per unit."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import filelock
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.numpy import load, save
from torch import Tensor

from snellen.errors import SnellenError
from snellen.files.atomic import PREFIX, replacing, write_whole
from snellen.files.integrity import DamagedError, digest, read_named
from snellen.files.seals import is_sealed, seal
from snellen.runs.record import (
    Cost,
    FittedFile,
    FittedRecord,
    Record,
    RunRecord,
    StudyRecord,
    UnitRecord,
    VariantFile,
    dump,
    read,
    read_run,
    read_study,
)

SCORE_COLUMNS = pa.schema(
    [
        ("sample", pa.string()),
        ("method", pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("curve", pa.list_(pa.float32())),
    ]
)

REJOIN = "join the study again: snellen study join"
"""What to do about damaged answers of people."""

PICKLE = ".pickle"
"""How files of trained variants end that only unpickling can open."""

VERDICTS = "verdicts.json"
"""The file in the run folder that holds its verdicts. Deleting it loses nothing: they are computed again."""

DAMAGED = "damaged"
"""The folder inside the run's that damaged files are moved to when they are computed again."""

F = TypeVar("F", FittedFile, VariantFile)

_KEY = re.compile(r"[0-9a-f]{20}")


def key_of(facts: Any) -> str:
    """Twenty hexadecimal digits that stand for these facts."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def files_of(unit: UnitRecord) -> list[tuple[str, str]]:
    """The files that a finished unit needs, by room and name: one without metrics needs no scores."""
    return [("maps", unit.maps), *([("scores", unit.scores)] if unit.metrics else [])]


def needs_trust(variant: VariantFile) -> bool:
    """Whether a trained variant would be unpickled that was not made here."""
    return variant.file.endswith(PICKLE) and not is_sealed(["variant", variant.file], variant.seal)


def _seal(file: str) -> str | None:
    return seal(["variant", file]) if file.endswith(PICKLE) else None


class Store:
    """Reads and writes one run folder. A unit is finished exactly when its record stands under `units/`.

    The record is written last, so whatever it names is complete: a crash can lose work in progress, never leave half of it.
    Whatever is read is compared with its name or its checksum. Reading refuses what is damaged; the `sound` ones, which
    writers use, move it out of the way, tell of it in a sentence, and go on as if it had never been there.
    """

    def __init__(self, folder: Path, told: Callable[[str], None] = lambda sentence: None) -> None:
        self.folder = folder
        self._told = told

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Makes the folder, proves that it can be written, and keeps other writers out until the body ends."""
        try:
            for name in ("maps", "scores", "units", "pictures"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
        except OSError as problem:
            raise SnellenError(f"cannot write to '{self.folder}' ({problem.strerror}); choose another --out") from None
        lock = filelock.FileLock(self.folder / ".lock", blocking=False)
        try:
            lock.acquire()
        except filelock.Timeout:
            raise SnellenError(
                f"'{self.folder}' is being written by another run; wait until it ends or choose another --out"
            ) from None
        except OSError as problem:
            raise SnellenError(f"cannot write to '{self.folder}' ({problem.strerror}); choose another --out") from None
        try:
            self._sweep()
            yield
        finally:
            lock.release()

    # Writing --------------------------------------------------------------------------------------------------------

    def put_maps(self, maps: np.ndarray) -> str:
        """Keeps the maps of one unit; returns the file's name."""
        return self._put("maps", save({"maps": np.ascontiguousarray(maps, dtype=np.float32)}), ".safetensors")

    def put_scores(self, rows: list[dict[str, Any]]) -> str:
        """Keeps the scores of one unit; returns the file's name."""
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows, schema=SCORE_COLUMNS), sink)
        return self._put("scores", sink.getvalue().to_pybytes(), ".parquet")

    def put_picture(self, png: bytes) -> str:
        """Keeps a photograph as the classifier saw it; returns the file's name."""
        return self._put("pictures", png, ".png")

    def put_fitted(self, key: str, record: FittedRecord, lesson: dict[str, Tensor]) -> None:
        """Keeps what a method learnt; the record that names it comes last."""
        (self.folder / "lessons").mkdir(exist_ok=True)
        name = self._put("lessons", save({one: values.numpy() for one, values in lesson.items()}), ".safetensors")
        self._write(self.folder / "lessons" / f"{key}.json", FittedFile(**record.as_json(), file=name))

    def put_variant(
        self, key: str, module: bytes, ending: str, *, name: str, accuracy: float | None, cost: Cost
    ) -> VariantFile:
        """Keeps a trained relative of the classifier, as weights or pickled; the record that names it comes last."""
        (self.folder / "relatives").mkdir(exist_ok=True)
        file = self._put("relatives", module, ending)
        variant = VariantFile(name=name, accuracy=accuracy, cost=cost, file=file, seal=_seal(file))
        self._write(self.folder / "relatives" / f"{key}.json", variant)
        return variant

    def put_people_table(self, table: bytes) -> str:
        """Keeps the table of people's scores per image; returns the file's name."""
        with self._explaining():
            (self.folder / "people").mkdir(exist_ok=True)
        return self._put("people", table, ".parquet")

    def put_people(self, record: StudyRecord) -> None:
        """Keeps what a study says in the place of what it said before."""
        room = self.folder / "people"
        before = self.people().get(record.digest)
        self._write(room / f"{record.digest}.json", record)
        if before is not None and before.file != record.file:
            (room / before.file).unlink(missing_ok=True)

    def finish(self, key: str, unit: UnitRecord) -> None:
        """Declares a unit finished."""
        self._write(self.folder / "units" / f"{key}.json", unit)

    def put_record(self, record: RunRecord) -> None:
        """Writes run.json."""
        self._write(self.folder / "run.json", record)

    def merge(self, files: Sequence[tuple[str, Sequence[str]]]) -> str:
        """Writes all scores as one table, in this order, one unit in memory at a time; returns the table's digest."""
        with (
            self._explaining(),
            replacing(self.folder / "scores.parquet") as path,
            pq.ParquetWriter(path, SCORE_COLUMNS) as table,
        ):
            for file in files:
                table.write_table(self.scores([file], SCORE_COLUMNS.names))
        return digest((self.folder / "scores.parquet").read_bytes())

    # Reading --------------------------------------------------------------------------------------------------------

    def record(self) -> RunRecord | None:
        """run.json, or None where there is none yet."""
        path = self.folder / "run.json"
        if not path.exists():
            return None
        return read_run(path, f"give the command that made '{self.folder}' again: what is intact is kept")

    def intact_record(self) -> RunRecord | None:
        """run.json, or None where there is none or it is damaged."""
        with self._moving_damaged("run.json"):
            return self.record()
        return None

    def units(self, keys: Iterable[str]) -> dict[str, UnitRecord]:
        """The records of these units by key, without those that are not finished."""
        found = {}
        for key in keys:
            path = self.folder / "units" / f"{key}.json"
            if _KEY.fullmatch(key) is None:
                raise DamagedError(self.folder / "run.json", f"'{key}' cannot be the name of a unit", self.again)
            if path.exists():
                found[key] = self._unit(path)
        return found

    def intact_units(self) -> dict[str, UnitRecord]:
        """The records of all finished units by key."""
        found = {}
        for path in sorted((self.folder / "units").glob("*.json")):
            with self._moving_damaged(f"units/{path.name}"):
                found[path.stem] = self._unit(path)
        return found

    def is_intact(self, key: str, unit: UnitRecord) -> bool:
        """Whether the files of a finished unit are intact; where they are not, the unit counts as never computed."""
        for room, name in files_of(unit):
            with self._moving_damaged(f"units/{key}.json", f"{room}/{name}"):
                self._content(room, name)
                continue
            return False
        return True

    def maps(self, name: str) -> np.ndarray:
        """The maps of one unit."""
        array: np.ndarray = load(self._content("maps", name))["maps"]
        return array

    def picture(self, name: str) -> bytes:
        """A photograph as the classifier saw it."""
        return self._content("pictures", name)

    def intact_fitted(self, key: str) -> tuple[FittedRecord, dict[str, Tensor]] | None:
        """The record of a lesson and what was learnt, or None where nothing was learnt under this key yet."""
        found = self._intact_named("lessons", key, FittedFile)
        if found is None:
            return None
        record, content = found
        facts = {name: value for name, value in record.as_json().items() if name != "file"}
        return FittedRecord(**facts), {name: torch.from_numpy(array) for name, array in load(content).items()}

    def intact_variant(self, key: str) -> VariantFile | None:
        """The record of a trained relative, whose `file` holds it, or None where none was trained under this key yet."""
        found = self._intact_named("relatives", key, VariantFile)
        return None if found is None else found[0]

    def variant_content(self, file: str) -> bytes:
        """The content of a trained relative's file."""
        return self._content("relatives", file)

    def seal_variants(self) -> None:
        """Declares that all pickled variants can be trusted."""
        for key in self.unsealed_variants():
            path = self.folder / "relatives" / f"{key}.json"
            variant = read(path, VariantFile, self.again)
            self._write(path, variant.changed(seal=_seal(variant.file)))

    def unsealed_variants(self) -> list[str]:
        """The keys of pickled variants that were not made here."""
        found = []
        for path in sorted((self.folder / "relatives").glob("*.json")):
            with suppress(DamagedError):  # what is damaged is never unpickled
                if needs_trust(read(path, VariantFile, self.again)):
                    found.append(path.stem)
        return found

    def people(self) -> dict[str, StudyRecord]:
        """The record of every study that was joined, by key."""
        paths = sorted((self.folder / "people").glob("*.json"))
        return {path.stem: read_study(path, REJOIN) for path in paths}

    def people_table(self, file: str) -> pa.Table:
        """People's scores per image."""
        return pq.read_table(pa.BufferReader(read_named(self.folder / "people", file, REJOIN)))

    def scores(self, files: Sequence[tuple[str, Sequence[str]]], columns: list[str]) -> pa.Table:
        """The scores in these files, in this order, each for the metrics named with it."""
        parts = [
            pq.read_table(
                pa.BufferReader(self._content("scores", name)), columns=columns, filters=[("metric", "in", metrics)]
            )
            for name, metrics in files
            if metrics
        ]
        return pa.concat_tables(parts) if parts else SCORE_COLUMNS.empty_table().select(columns)

    @property
    def again(self) -> str:
        """What to do about a damaged file."""
        return f"`snellen resume {self.folder}`, or the command that made it, computes what is damaged again"

    def _unit(self, path: Path) -> UnitRecord:
        return read(path, UnitRecord, self.again)

    def _content(self, room: str, name: str) -> bytes:
        return read_named(self.folder / room, name, self.again)

    def _intact_named(self, room: str, key: str, kind: type[F]) -> tuple[F, bytes] | None:
        """A record and the content of the file that it names; None where there is none, or one of both is damaged."""
        path = self.folder / room / f"{key}.json"
        if path.exists():
            with self._moving_damaged(f"{room}/{path.name}"):
                record = read(path, kind, self.again)
                with self._moving_damaged(f"{room}/{path.name}", f"{room}/{record.file}"):
                    return record, self._content(room, record.file)
        return None

    @contextmanager
    def _moving_damaged(self, *names: str) -> Iterator[None]:
        """Moves these files out of the way where the body finds one of them damaged."""
        try:
            yield
        except DamagedError as problem:
            self._told(f"'{problem.path}' is damaged ({problem.reason}) and is computed again")
            for name in names:
                self._set_aside(self.folder / name)

    def _set_aside(self, path: Path) -> None:
        if path.exists() and self.folder in (path.parent, path.parent.parent):  # a record may name anything
            with self._explaining():
                (self.folder / DAMAGED).mkdir(exist_ok=True)
                path.replace(self.folder / DAMAGED / f"{path.parent.name}-{path.name}")

    # Below this line bytes reach the disk ----------------------------------------------------------------------------

    def _put(self, room: str, content: bytes, ending: str) -> str:
        name = digest(content) + ending
        path = self.folder / room / name
        if path.exists():
            with self._moving_damaged(f"{room}/{name}"):
                self._content(room, name)
                return name
        self._write(path, content)
        return name

    def _write(self, path: Path, content: bytes | Record) -> None:
        with self._explaining():
            write_whole(path, dump(content) if isinstance(content, Record) else content)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Says in a sentence what the disk refuses."""
        try:
            yield
        except OSError as problem:
            raise SnellenError(
                f"cannot write to '{self.folder}' ({problem.strerror}); "
                "make room and run the same command: finished work is kept"
            ) from None

    def _sweep(self) -> None:
        """Removes what a killed writer left behind; nothing refers to it."""
        for leftover in self.folder.rglob(f"{PREFIX}*"):
            leftover.unlink(missing_ok=True)
