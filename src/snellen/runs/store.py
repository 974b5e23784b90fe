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
"""What to do about a damaged study result."""

PICKLE = ".pickle"
"""The ending of files of trained variants that have to be unpickled."""

VERDICTS = "verdicts.json"
"""The file in the run folder that holds its verdicts. Deleting it loses nothing: they are computed again."""

FITTED = "lessons"
"""The folder of fitted states; its name, like the next, is an older word that stored runs have."""

VARIANTS = "relatives"
"""The folder of trained variants."""

DAMAGED = "damaged"
"""The folder inside the run folder that damaged files are moved to."""

F = TypeVar("F", FittedFile, VariantFile)

_KEY = re.compile(r"[0-9a-f]{20}")


def key_of(facts: Any) -> str:
    """A hash of plain values, as 20 hexadecimal digits."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def files_of(unit: UnitRecord) -> list[tuple[str, str]]:
    """The files of a finished unit as (folder, name); a unit without metrics has no scores."""
    return [("maps", unit.maps), *([("scores", unit.scores)] if unit.metrics else [])]


def needs_trust(variant: VariantFile) -> bool:
    """Whether opening this variant means to unpickle a file that was not made on this machine."""
    return variant.file.endswith(PICKLE) and not is_sealed(["variant", variant.file], variant.seal)


def _seal(file: str) -> str | None:
    return seal(["variant", file]) if file.endswith(PICKLE) else None


class Store:
    """Reads and writes one run folder. A unit is finished when its record is in `units/`.

    The record is written last, so all files that it names are complete: a crash loses work in progress, nothing else.
    Every file that is read is compared with its name or its checksum. Reading methods refuse a damaged file. Those with
    `intact` in their name, which writers use, move it to `damaged/` and go on without it.

    Args:
        folder: The run folder.
        on_damage: Called with a sentence for each damaged file that is moved away.
    """

    def __init__(self, folder: Path, on_damage: Callable[[str], None] = lambda sentence: None) -> None:
        self.folder = folder
        self._on_damage = on_damage

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Creates the folder and locks it against other writers until the body ends."""
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
        """Writes the maps of one unit; returns the file's name."""
        return self._put("maps", save({"maps": np.ascontiguousarray(maps, dtype=np.float32)}), ".safetensors")

    def put_scores(self, rows: list[dict[str, Any]]) -> str:
        """Writes the scores of one unit; returns the file's name."""
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows, schema=SCORE_COLUMNS), sink)
        return self._put("scores", sink.getvalue().to_pybytes(), ".parquet")

    def put_picture(self, png: bytes) -> str:
        """Writes an image as the classifier sees it, as PNG; returns the file's name."""
        return self._put("pictures", png, ".png")

    def put_fitted(self, key: str, record: FittedRecord, state: dict[str, Tensor]) -> None:
        """Writes the fitted state of a method, then the record that names it."""
        (self.folder / FITTED).mkdir(exist_ok=True)
        name = self._put(FITTED, save({tensor: values.numpy() for tensor, values in state.items()}), ".safetensors")
        self._write(self.folder / FITTED / f"{key}.json", FittedFile(**record.as_json(), file=name))

    def put_variant(
        self, key: str, module: bytes, ending: str, *, name: str, accuracy: float | None, cost: Cost
    ) -> VariantFile:
        """Writes a trained variant of the classifier, then the record that names it.

        Args:
            key: A hash of all that its training depends on.
            module: The module as bytes (see `variant_training.pack`).
            ending: Of the file: weights or a pickle.
            name: Of the variant.
            accuracy: On the labelled samples; None where that is not defined.
            cost: Of the training.
        """
        (self.folder / VARIANTS).mkdir(exist_ok=True)
        file = self._put(VARIANTS, module, ending)
        variant = VariantFile(name=name, accuracy=accuracy, cost=cost, file=file, seal=_seal(file))
        self._write(self.folder / VARIANTS / f"{key}.json", variant)
        return variant

    def put_people_table(self, table: bytes) -> str:
        """Writes the table of people's scores per image; returns the file's name."""
        with self._disk_errors():
            (self.folder / "people").mkdir(exist_ok=True)
        return self._put("people", table, ".parquet")

    def put_people(self, record: StudyRecord) -> None:
        """Writes the result of a study in place of an earlier result of the same study."""
        part = self.folder / "people"
        before = self.people().get(record.digest)
        self._write(part / f"{record.digest}.json", record)
        if before is not None and before.file != record.file:
            (part / before.file).unlink(missing_ok=True)

    def finish(self, key: str, unit: UnitRecord) -> None:
        """Writes the record of a unit, which makes it finished."""
        self._write(self.folder / "units" / f"{key}.json", unit)

    def put_record(self, record: RunRecord) -> None:
        """Writes run.json."""
        self._write(self.folder / "run.json", record)

    def merge(self, files: Sequence[tuple[str, Sequence[str]]]) -> str:
        """Writes all scores as one table, reading one unit at a time; returns the table's digest."""
        with (
            self._disk_errors(),
            replacing(self.folder / "scores.parquet") as path,
            pq.ParquetWriter(path, SCORE_COLUMNS) as table,
        ):
            for file in files:
                table.write_table(self.scores([file], SCORE_COLUMNS.names))
        return digest((self.folder / "scores.parquet").read_bytes())

    # Reading --------------------------------------------------------------------------------------------------------

    def record(self) -> RunRecord | None:
        """The record in run.json, or None where there is none yet."""
        path = self.folder / "run.json"
        if not path.exists():
            return None
        return read_run(path, f"give the command that made '{self.folder}' again: what is intact is kept")

    def intact_record(self) -> RunRecord | None:
        """The record in run.json, or None where there is none or it is damaged."""
        with self._moving_damaged("run.json"):
            return self.record()
        return None

    def units(self, keys: Iterable[str]) -> dict[str, UnitRecord]:
        """The records of these units by key, without those that are not finished."""
        units = {}
        for key in keys:
            path = self.folder / "units" / f"{key}.json"
            if _KEY.fullmatch(key) is None:
                raise DamagedError(self.folder / "run.json", f"'{key}' cannot be the name of a unit", self.remedy)
            if path.exists():
                units[key] = self._unit(path)
        return units

    def intact_units(self) -> dict[str, UnitRecord]:
        """The records of all finished units by key."""
        units = {}
        for path in sorted((self.folder / "units").glob("*.json")):
            with self._moving_damaged(f"units/{path.name}"):
                units[path.stem] = self._unit(path)
        return units

    def is_intact(self, key: str, unit: UnitRecord) -> bool:
        """Whether the files of a finished unit are intact; if not, its record is moved away and it is computed again."""
        for part, name in files_of(unit):
            with self._moving_damaged(f"units/{key}.json", f"{part}/{name}"):
                self._content(part, name)
                continue
            return False
        return True

    def maps(self, name: str) -> np.ndarray:
        """The maps of one unit."""
        array: np.ndarray = load(self._content("maps", name))["maps"]
        return array

    def picture(self, name: str) -> bytes:
        """An image as the classifier sees it, as PNG."""
        return self._content("pictures", name)

    def intact_fitted(self, key: str) -> tuple[FittedRecord, dict[str, Tensor]] | None:
        """The record of a fitted state and its tensors, or None where none is stored under this key."""
        stored = self._intact_named(FITTED, key, FittedFile)
        if stored is None:
            return None
        record, content = stored
        facts = {name: value for name, value in record.as_json().items() if name != "file"}
        return FittedRecord(**facts), {name: torch.from_numpy(array) for name, array in load(content).items()}

    def intact_variant(self, key: str) -> VariantFile | None:
        """The record of a trained variant, or None where none is stored under this key."""
        stored = self._intact_named(VARIANTS, key, VariantFile)
        return None if stored is None else stored[0]

    def variant_content(self, file: str) -> bytes:
        """The content of a trained variant's file."""
        return self._content(VARIANTS, file)

    def seal_variants(self) -> None:
        """Marks all pickled variants as trusted."""
        for key in self.unsealed_variants():
            path = self.folder / VARIANTS / f"{key}.json"
            variant = read(path, VariantFile, self.remedy)
            self._write(path, variant.changed(seal=_seal(variant.file)))

    def unsealed_variants(self) -> list[str]:
        """The keys of pickled variants that were not made on this machine."""
        keys = []
        for path in sorted((self.folder / VARIANTS).glob("*.json")):
            with suppress(DamagedError):  # a damaged file is never unpickled
                if needs_trust(read(path, VariantFile, self.remedy)):
                    keys.append(path.stem)
        return keys

    def people(self) -> dict[str, StudyRecord]:
        """The record of every study that was joined, by key."""
        paths = sorted((self.folder / "people").glob("*.json"))
        return {path.stem: read_study(path, REJOIN) for path in paths}

    def people_table(self, file: str) -> pa.Table:
        """People's scores per image."""
        return pq.read_table(pa.BufferReader(read_named(self.folder / "people", file, REJOIN)))

    def scores(self, files: Sequence[tuple[str, Sequence[str]]], columns: list[str]) -> pa.Table:
        """The scores in these files, in this order.

        Args:
            files: Names of score files, each with the metrics to read from it.
            columns: Names out of `SCORE_COLUMNS`.
        """
        parts = [
            pq.read_table(
                pa.BufferReader(self._content("scores", name)), columns=columns, filters=[("metric", "in", metrics)]
            )
            for name, metrics in files
            if metrics
        ]
        return pa.concat_tables(parts) if parts else SCORE_COLUMNS.empty_table().select(columns)

    @property
    def remedy(self) -> str:
        """What to do about a damaged file, for error messages."""
        return f"`snellen resume {self.folder}`, or the command that made it, computes what is damaged again"

    def _unit(self, path: Path) -> UnitRecord:
        return read(path, UnitRecord, self.remedy)

    def _content(self, part: str, name: str) -> bytes:
        return read_named(self.folder / part, name, self.remedy)

    def _intact_named(self, part: str, key: str, kind: type[F]) -> tuple[F, bytes] | None:
        """A record and the content of its file; None where there is none, or one of the two is damaged."""
        path = self.folder / part / f"{key}.json"
        if path.exists():
            with self._moving_damaged(f"{part}/{path.name}"):
                record = read(path, kind, self.remedy)
                with self._moving_damaged(f"{part}/{path.name}", f"{part}/{record.file}"):
                    return record, self._content(part, record.file)
        return None

    @contextmanager
    def _moving_damaged(self, *names: str) -> Iterator[None]:
        """Moves these files to `damaged/` where the body raises a DamagedError."""
        try:
            yield
        except DamagedError as problem:
            self._on_damage(f"'{problem.path}' is damaged ({problem.reason}) and is computed again")
            for name in names:
                self._set_aside(self.folder / name)

    def _set_aside(self, path: Path) -> None:
        if path.exists() and self.folder in (path.parent, path.parent.parent):  # a damaged record may name any path
            with self._disk_errors():
                (self.folder / DAMAGED).mkdir(exist_ok=True)
                path.replace(self.folder / DAMAGED / f"{path.parent.name}-{path.name}")

    # Below this line bytes reach the disk ----------------------------------------------------------------------------

    def _put(self, part: str, content: bytes, ending: str) -> str:
        name = digest(content) + ending
        path = self.folder / part / name
        if path.exists():
            with self._moving_damaged(f"{part}/{name}"):
                self._content(part, name)
                return name
        self._write(path, content)
        return name

    def _write(self, path: Path, content: bytes | Record) -> None:
        with self._disk_errors():
            write_whole(path, dump(content) if isinstance(content, Record) else content)

    @contextmanager
    def _disk_errors(self) -> Iterator[None]:
        """Turns an error of the disk into a sentence."""
        try:
            yield
        except OSError as problem:
            raise SnellenError(
                f"cannot write to '{self.folder}' ({problem.strerror}); "
                "make room and run the same command: finished work is kept"
            ) from None

    def _sweep(self) -> None:
        """Removes temporary files that a killed writer left."""
        for leftover in self.folder.rglob(f"{PREFIX}*"):
            leftover.unlink(missing_ok=True)
