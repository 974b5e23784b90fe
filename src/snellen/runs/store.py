"""The run folder: immutable files named by their content, written to a temporary name and renamed, one record per unit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.numpy import load_file, save
from torch import Tensor

from snellen.errors import SnellenError
from snellen.writing import PREFIX, replacing, write_whole

SCHEMA = 1

SCORE_COLUMNS = pa.schema(
    [
        ("sample", pa.string()),
        ("method", pa.string()),
        ("metric", pa.string()),
        ("value", pa.float64()),
        ("curve", pa.list_(pa.float32())),
    ]
)


def key_of(facts: Any) -> str:
    """Twenty hexadecimal digits that stand for these facts."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


class Store:
    """Reads and writes one run folder. A unit is finished exactly when its record stands under `units/`.

    The record is written last, so whatever it names is complete: a crash can lose work in progress, never leave half of it.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

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

    def put_lesson(self, key: str, record: dict[str, Any], lesson: dict[str, Tensor]) -> None:
        """Keeps what a method learnt; the record that names it comes last."""
        (self.folder / "lessons").mkdir(exist_ok=True)
        name = self._put("lessons", save({one: values.numpy() for one, values in lesson.items()}), ".safetensors")
        content = json.dumps({**record, "file": name}, indent=1, allow_nan=False).encode()
        self._write(self.folder / "lessons" / f"{key}.json", content)

    def put_relative(self, key: str, record: dict[str, Any], module: bytes) -> str:
        """Keeps a trained relative of the classifier, pickled; the record that names it comes last."""
        (self.folder / "relatives").mkdir(exist_ok=True)
        name = self._put("relatives", module, ".pickle")
        content = json.dumps({**record, "file": name}, indent=1, allow_nan=False).encode()
        self._write(self.folder / "relatives" / f"{key}.json", content)
        return name

    def put_people(self, key: str, record: dict[str, Any], table: bytes) -> None:
        """Keeps what a study says in the place of what it said before; the record that names the table comes last."""
        room = self.folder / "people"
        with self._excused():
            room.mkdir(exist_ok=True)
        before = self.people().get(key)
        name = self._put("people", table, ".parquet")
        self._write(room / f"{key}.json", json.dumps({**record, "file": name}, indent=1, allow_nan=False).encode())
        if before is not None and before["file"] != name:
            (room / before["file"]).unlink(missing_ok=True)

    def finish(self, key: str, record: dict[str, Any]) -> None:
        """Declares a unit finished."""
        self._write(self.folder / "units" / f"{key}.json", json.dumps(record, indent=1, allow_nan=False).encode())

    def put_record(self, record: dict[str, Any]) -> None:
        """Writes run.json."""
        self._write(self.folder / "run.json", json.dumps(record, indent=1, allow_nan=False).encode())

    def merge(self, files: list[tuple[str, list[str]]]) -> None:
        """Writes all scores as one table, in the order given, one unit in memory at a time."""
        with (
            self._excused(),
            replacing(self.folder / "scores.parquet") as path,
            pq.ParquetWriter(path, SCORE_COLUMNS) as table,
        ):
            for one in files:
                table.write_table(self.scores([one], SCORE_COLUMNS.names))

    # Reading --------------------------------------------------------------------------------------------------------

    def record(self) -> dict[str, Any] | None:
        """run.json, or None where there is none yet."""
        path = self.folder / "run.json"
        if not path.exists():
            return None
        try:
            record: dict[str, Any] = json.loads(path.read_bytes())
        except (OSError, ValueError):
            raise SnellenError(f"'{path}' cannot be read; it is not a record of a run") from None
        if record.get("schema", 0) > SCHEMA:
            raise SnellenError(
                f"'{self.folder}' was written by a newer Snellen (schema {record['schema']}, not {SCHEMA}); upgrade"
            )
        return record

    def units(self) -> dict[str, dict[str, Any]]:
        """Every finished unit's record by key."""
        return {path.stem: json.loads(path.read_bytes()) for path in sorted((self.folder / "units").glob("*.json"))}

    def maps(self, name: str) -> np.ndarray:
        """The maps of one unit."""
        array: np.ndarray = load_file(self.folder / "maps" / name)["maps"]
        return array

    def lesson(self, key: str) -> tuple[dict[str, Any], dict[str, Tensor]] | None:
        """The record of a lesson and what was learnt, or None where nothing was learnt under this key yet."""
        path = self.folder / "lessons" / f"{key}.json"
        if not path.exists():
            return None
        record: dict[str, Any] = json.loads(path.read_bytes())
        arrays = load_file(self.folder / "lessons" / record.pop("file"))
        return record, {name: torch.from_numpy(array) for name, array in arrays.items()}

    def relative(self, key: str) -> dict[str, Any] | None:
        """The record of a trained relative, whose `file` holds it, or None where none was trained under this key yet."""
        path = self.folder / "relatives" / f"{key}.json"
        if not path.exists():
            return None
        record: dict[str, Any] = json.loads(path.read_bytes())
        return record if (self.folder / "relatives" / record["file"]).exists() else None

    def relative_module(self, file: str) -> bytes:
        """A trained relative as it was pickled."""
        return (self.folder / "relatives" / file).read_bytes()

    def people(self) -> dict[str, dict[str, Any]]:
        """The record of every study that was joined, by key."""
        found: dict[str, dict[str, Any]] = {}
        for path in sorted((self.folder / "people").glob("*.json")):
            try:
                found[path.stem] = json.loads(path.read_bytes())
            except ValueError:
                raise SnellenError(f"'{path}' is damaged; remove it and join the study again") from None
        return found

    def people_table(self, file: str) -> pa.Table:
        """People's scores per image."""
        return pq.read_table(self.folder / "people" / file)

    def scores(self, files: list[tuple[str, list[str]]], columns: list[str]) -> pa.Table:
        """The scores in these files, in this order, each for the metrics named with it."""
        parts = [
            pq.read_table(self.folder / "scores" / name, columns=columns, filters=[("metric", "in", metrics)])
            for name, metrics in files
            if metrics
        ]
        return pa.concat_tables(parts) if parts else SCORE_COLUMNS.empty_table().select(columns)

    # Below this line bytes reach the disk ----------------------------------------------------------------------------

    def _put(self, room: str, content: bytes, ending: str) -> str:
        name = hashlib.sha256(content).hexdigest()[:32] + ending
        path = self.folder / room / name
        if not path.exists():
            self._write(path, content)
        return name

    def _write(self, path: Path, content: bytes) -> None:
        with self._excused():
            write_whole(path, content)

    @contextmanager
    def _excused(self) -> Iterator[None]:
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
