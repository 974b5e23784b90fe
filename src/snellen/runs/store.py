"""The run folder: segments with the results of units, and immutable files that are named by their content."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from safetensors.numpy import load, save
from torch import Tensor

from snellen.errors import SnellenError
from snellen.files.folder import Folder, InUseError, folder_at
from snellen.files.integrity import DamagedError, digest, read_named
from snellen.files.seals import is_sealed, seal
from snellen.images.columns import Names
from snellen.runs.json_record import Record
from snellen.runs.record import (
    RUN,
    TABLES,
    Cost,
    FittedFile,
    FittedRecord,
    RunRecord,
    StudyRecord,
    UnitRecord,
    VariantFile,
    dump,
    read,
    read_run,
    read_study,
)
from snellen.runs.segments import (
    SEGMENTS,
    UNITS,
    FinishedUnit,
    Part,
    is_segment,
    part_name,
    read_part,
    unpack_maps,
    unpack_scores,
)
from snellen.runs.unit_index import INDEX, Damage, UnitIndex, number_after, open_index, state_of, stored_indexes
from snellen.runs.unit_writer import UnitWriter, disk_errors

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

MERGED = "scores.parquet"
"""The table of all scores of a finished run."""

UNSTORED = 1000
"""So many finished units, or a quarter of all, may be missing in the stored index before it is written anew."""

_ROWS = 1 << 17
"""Rows of a group in the table of all scores."""
_FILES = 4
"""How many files of units stay in memory while scores are read."""

F = TypeVar("F", FittedFile, VariantFile)

_KEY = re.compile(r"[0-9a-f]{20}")
_PLAIN = re.compile(r"(\w+/)?[\w-][\w.-]*")


def is_plain(name: str) -> bool:
    """Whether a file of this name is in the run folder itself or directly in a subfolder."""
    return _PLAIN.fullmatch(name) is not None


def key_of(facts: Any) -> str:
    """A hash of plain values, as 20 hexadecimal digits."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def files_of(unit: UnitRecord) -> list[tuple[str, str]]:
    """The files of a unit of an older version as (folder, name); a unit without metrics has no scores."""
    return [("maps", unit.maps), *([("scores", unit.scores)] if unit.metrics else [])]


def needs_trust(variant: VariantFile) -> bool:
    """Whether opening this variant means to unpickle a file that was not made on this machine."""
    return variant.file.endswith(PICKLE) and not is_sealed(["variant", variant.file], variant.seal)


def _seal(file: str) -> str | None:
    return seal(["variant", file]) if file.endswith(PICKLE) else None


class ScoreRows:
    """Scores that wait to become a table."""

    def __init__(self, names: Names, columns: Sequence[str]) -> None:
        self._names, self._columns = names, columns
        self._parts: list[tuple[FinishedUnit, str, np.ndarray, np.ndarray | None]] = []
        self.count = 0

    def add(self, unit: FinishedUnit, scores: Mapping[str, tuple[np.ndarray, np.ndarray | None]]) -> None:
        """Adds the scores of a unit by metric."""
        for metric, (values, curve) in scores.items():
            self._parts.append((unit, metric, values, curve))
            self.count += len(values)

    def taken(self) -> Iterator[pa.Table]:
        """The table of all that was added since, where that is not empty."""
        parts, self._parts, self.count = self._parts, [], 0
        if not parts:
            return
        lengths = np.array([len(values) for _, _, values, _ in parts])
        columns = {
            "sample": lambda: self._names.take(
                np.concatenate([np.arange(unit.start, unit.start + len(values)) for unit, _, values, _ in parts])
            ).array.cast(pa.string()),
            "method": lambda: _repeated([unit.method for unit, *_ in parts], lengths),
            "metric": lambda: _repeated([metric for _, metric, *_ in parts], lengths),
            "value": lambda: pa.array(np.concatenate([values for _, _, values, _ in parts])),
            "curve": lambda: _curves([curve for *_, curve in parts], lengths),
        }
        yield pa.table([columns[name]() for name in self._columns], schema=_columns(self._columns))


def _columns(names: Sequence[str]) -> pa.Schema:
    return pa.schema([SCORE_COLUMNS.field(name) for name in names])


def _repeated(texts: list[str], lengths: np.ndarray) -> pa.Array:
    return pa.array(texts, pa.string()).take(np.repeat(np.arange(len(texts)), lengths))


def _curves(curves: list[np.ndarray | None], lengths: np.ndarray) -> pa.Array:
    """A list per row; none where a metric has no curve."""
    points = [0 if curve is None else curve.shape[1] for curve in curves]
    ends = np.concatenate([[0], np.cumsum(np.repeat(points, lengths))])
    missing = np.repeat([curve is None for curve in curves], lengths)
    flat = np.concatenate([np.empty(0, np.float32), *(curve.ravel() for curve in curves if curve is not None)])
    offsets = pa.array(ends, pa.int32(), mask=np.append(missing, False))
    return pa.ListArray.from_arrays(offsets, pa.array(flat, pa.float32()))


def _regrouped(tables: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of this many, however they came."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(each.num_rows for each in waiting) >= rows:
            joined = pa.concat_tables(waiting)
            whole = joined.num_rows // rows * rows
            for start in range(0, whole, rows):
                yield joined.slice(start, rows)
            waiting = [joined.slice(whole)]
    if sum(each.num_rows for each in waiting):
        yield pa.concat_tables(waiting)


class Store:
    """Reads and writes one run folder. A unit is finished when its frame is in a segment (see `segments`).

    Older versions wrote three files per unit: its record in `units/`, its maps and its scores; these count as before.
    Whatever is read is compared with its name or its checksum. Reading methods refuse what is damaged. Those with `intact`
    in their name, which writers use, copy or move it to `damaged/` and go on without it.

    Args:
        folder: The run folder.
        on_damage: Called with a sentence for each damaged file that is moved away.
    """

    def __init__(self, folder: str | Path | Folder, on_damage: Callable[[str], None] = lambda sentence: None) -> None:
        self.folder = folder_at(folder)
        self._on_damage = on_damage
        self._is_writing = False
        self._writer = UnitWriter(self.folder, waits=True)
        self._compared = Counter[str]()
        self._earlier: Container[str] = ()
        self._contents: OrderedDict[str, bytes] = OrderedDict()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Creates the folder and locks it against other writers until the body ends."""
        with ExitStack() as stack:
            try:
                stack.enter_context(self.folder.lock())
            except InUseError as problem:
                raise SnellenError(f"'{self.folder}' is being written by another run; {problem.remedy}") from None
            except OSError as problem:
                raise SnellenError(f"cannot write to '{self.folder}' ({problem.strerror}); choose another --out") from None
            self.folder.sweep()
            self._is_writing, self._earlier = True, self.folder.list(SEGMENTS)
            self._compared.clear()
            self.__dict__.pop("index", None)
            try:
                yield
            finally:
                try:
                    self._writer.flush()
                finally:
                    self._is_writing = False

    # Units of work ---------------------------------------------------------------------------------------------------

    @cached_property
    def index(self) -> UnitIndex:
        """Where the units in segments are. For a writer, what is damaged was set aside."""
        index, damages = open_index(self.folder, compare=self._is_writing)
        for damage in damages:
            if self._is_writing:
                self._repair(index, damage)
            elif damage.file.startswith(SEGMENTS):
                raise DamagedError(f"{self.folder}/{damage.file}", damage.reason, self.remedy)
        return index

    @cached_property
    def loose(self) -> dict[str, FinishedUnit]:
        """The units that older versions wrote, by key."""
        units = {}
        for name in self._records("units"):
            key = PurePosixPath(name).stem
            if not self._is_writing:
                units[key] = self._loose_unit(key)
                continue
            with self._moving_damaged(name):
                units[key] = self._loose_unit(key)
        return units

    def writer(self) -> UnitWriter:
        """Writes results wherever they are computed; see there. `commit` takes what it returns."""
        return UnitWriter(self.folder)

    @property
    def own_writer(self) -> UnitWriter:
        """Writes results that were computed in this process, or came back to it."""
        return self._writer

    def commit(self, unit: FinishedUnit) -> None:
        """Notes that a unit is finished and where its results are."""
        self.index.add(unit)
        if self.index.unstored >= max(UNSTORED, len(self.index) // 4):
            self.store_index()

    def store_index(self) -> None:
        """Writes what waits, and then the index, so that the next one who opens the folder reads little."""
        self._writer.flush()
        if not self.index.unstored and not self.index.is_changed:
            return
        before = stored_indexes(self.folder)
        sizes = self.folder.list(SEGMENTS)
        complete = {name for name, size in sizes.items() if self.index.covered.get(name, size) == size}
        states = {name: state for name in complete if (state := self._state_if_compared(name)) is not None}
        name, content = self.index.as_file(number_after(self.folder), states)
        self._write(name, content)
        for old in before:
            self.folder.remove(f"{INDEX}/{old}")

    def unit(self, key: str) -> FinishedUnit | None:
        """The finished unit with this key; None where it is not finished."""
        return self.index.get(key) or self.loose.get(key)

    def check_units(self, keys: Names) -> None:
        """Refuses a folder in which one of these units is missing."""
        missing = self.index.missing(keys)
        for key in missing:
            if key not in self.loose:
                where = f"{SEGMENTS}" if self.folder.list(SEGMENTS) else f"units/{key}.json"
                raise DamagedError(f"{self.folder}/{where}", f"the unit {key} is missing", self.remedy)

    def units_with_maps(self, map_key: str) -> list[FinishedUnit]:
        """The finished units with these maps, those of older versions first."""
        return [*self._loose_by_maps.get(map_key, ()), *self.index.with_maps(map_key)]

    @cached_property
    def _loose_by_maps(self) -> dict[str, list[FinishedUnit]]:
        units: dict[str, list[FinishedUnit]] = {}
        for unit in self.loose.values():
            units.setdefault(unit.map_key, []).append(unit)
        return units

    def is_intact(self, unit: FinishedUnit, *, compare: bool = False) -> bool:
        """Whether maps and scores of a unit are intact; if not, it no longer counts and is computed again.

        Args:
            unit: The unit.
            compare: Whether to read maps in any case. Otherwise those are not read whose segment is as it was when the index
                was stored.
        """
        if unit.frame[0] == "":
            return self._is_intact_loose(unit)
        if unit.maps is None or (unit.maps.segment in self.index.trusted and not compare):
            return True
        try:
            self._content_of(unit.maps, f"the maps of {self._words(unit)}")
        except DamagedError as problem:
            self._on_damage(f"'{problem.path}' is damaged ({problem.reason}) and is computed again")
            self.discard(unit)
            return False
        self._compared[unit.maps.segment] += not compare
        return True

    def discard(self, unit: FinishedUnit) -> None:
        """Takes a damaged unit out of those that are finished, and copies its bytes to `damaged/`."""
        segment, start, end = unit.frame
        for name, first, length in [(segment, start, end - start), *([unit.maps[1:]] if unit.maps else [])]:
            with suppress(OSError):
                content = self.folder.read_range(f"{SEGMENTS}/{name}", first, length)
                self._write(f"{DAMAGED}/{SEGMENTS}-{name}-{first}", content)
        void = self.index.remove(unit.key)
        if void is not None:
            self._writer.void(void)

    def _is_intact_loose(self, unit: FinishedUnit) -> bool:
        key = f"units/{unit.key}.json"
        for part, place in (("maps", unit.maps), ("scores", unit.scores if unit.metrics else None)):
            if place is None:
                continue
            with self._moving_damaged(key, f"{part}/{place.name}"):
                self._content(part, place.name)
                continue
            self.loose.pop(unit.key, None)
            return False
        return True

    def _repair(self, index: UnitIndex, damage: Damage) -> None:
        """Sets aside what is damaged, so that it is noticed once."""
        path = f"{self.folder}/{damage.file}"
        if damage.file.startswith(f"{INDEX}/"):
            self._on_damage(f"'{path}' is damaged ({damage.reason}) and is made again from the segments")
            self._set_aside(damage.file)
            return
        self._on_damage(f"'{path}' is damaged ({damage.reason}) and what it held is computed again")
        with suppress(OSError):
            content = self.folder.read_range(damage.file, damage.start, damage.end - damage.start)
            self._write(f"{DAMAGED}/{damage.file.replace('/', '-')}-{damage.start}", content)
        self._writer.void(index.broken(damage.file.removeprefix(f"{SEGMENTS}/"), damage.start, damage.end))

    def _state_if_compared(self, name: str) -> Any:
        """The state of a file of a segment that was compared as a whole, or written by this run; None for others."""
        is_compared = name in self.index.trusted or name not in self._earlier or name.endswith(UNITS)
        is_compared = is_compared or self._compared[name] >= self.index.units_in(name)
        return state_of(self.folder, name) if is_compared else None

    def _words(self, unit: FinishedUnit) -> str:
        """A unit in words."""
        return f"{unit.method} for samples {unit.start + 1} to {unit.start + unit.count}"

    # Writing --------------------------------------------------------------------------------------------------------

    def put_table(self, table: bytes) -> str:
        """Writes a table that run.json names; returns the file's name."""
        return self._put(TABLES, table, ".parquet")

    def put_picture(self, png: bytes) -> str:
        """Writes an image as the classifier sees it, as PNG; returns the file's name."""
        return self._put("pictures", png, ".png")

    def put_fitted(self, key: str, record: FittedRecord, state: dict[str, Tensor]) -> None:
        """Writes the fitted state of a method, then the record that names it."""
        name = self._put(FITTED, save({tensor: values.numpy() for tensor, values in state.items()}), ".safetensors")
        self._write(f"{FITTED}/{key}.json", FittedFile(**record.as_json(), file=name))

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
        file = self._put(VARIANTS, module, ending)
        variant = VariantFile(name=name, accuracy=accuracy, cost=cost, file=file, seal=_seal(file))
        self._write(f"{VARIANTS}/{key}.json", variant)
        return variant

    def put_people_table(self, table: bytes) -> str:
        """Writes the table of people's scores per image; returns the file's name."""
        return self._put("people", table, ".parquet")

    def put_people(self, record: StudyRecord) -> None:
        """Writes the result of a study in place of an earlier result of the same study."""
        before = self.people().get(record.digest)
        self._write(f"people/{record.digest}.json", record)
        if before is not None and before.file != record.file:
            self.folder.remove(f"people/{before.file}")

    def put_record(self, record: RunRecord) -> None:
        """Writes run.json."""
        self._write(RUN, record)

    def merge(self, units: Iterable[tuple[FinishedUnit, Sequence[str]]], names: Names) -> str:
        """Writes the scores of these units as one table, in this order; returns the table's digest.

        Args:
            units: Each with the metrics that count.
            names: The ids of all samples.
        """
        with disk_errors(self.folder), self.folder.draft() as draft:
            with pq.ParquetWriter(draft, SCORE_COLUMNS) as table:
                for rows in _regrouped(self._score_tables(units, names, SCORE_COLUMNS.names), _ROWS):
                    table.write_table(rows, row_group_size=_ROWS)
            merged = digest(draft.read_bytes())
            self.folder.adopt(draft, MERGED)
        return merged

    def is_merged(self, merged: str | None) -> bool:
        """Whether the table of all scores is there with this digest."""
        return merged is not None and self.folder.exists(MERGED) and digest(self.folder.read(MERGED)) == merged

    # Reading --------------------------------------------------------------------------------------------------------

    def record(self) -> RunRecord | None:
        """The record in run.json, or None where there is none yet."""
        if not self.folder.exists(RUN):
            return None
        return read_run(self.folder, f"give the command that made '{self.folder}' again: what is intact is kept")

    def intact_record(self) -> RunRecord | None:
        """The record in run.json, or None where there is none or it is damaged."""
        with self._moving_damaged(RUN):
            return self.record()
        return None

    def maps(self, unit: FinishedUnit) -> np.ndarray:
        """The maps of a unit that were kept."""
        if unit.maps is None:
            raise SnellenError(
                f"the maps of {self._words(unit)} were not kept; make the run again with --keep-maps all and another --out"
            )
        content = self._content_of(unit.maps, f"the maps of {self._words(unit)}")
        try:
            return unpack_maps(content, unit.count if unit.kept is None else len(unit.kept))
        except ValueError as problem:
            raise DamagedError(f"{self.folder}/{SEGMENTS}/{unit.maps.segment}", str(problem), self.remedy) from None

    def table(self, name: str) -> bytes:
        """A table that run.json names."""
        return self._content(TABLES, name)

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
            name = f"{VARIANTS}/{key}.json"
            variant = read(self.folder, name, VariantFile, self.remedy)
            self._write(name, variant.changed(seal=_seal(variant.file)))

    def unsealed_variants(self) -> list[str]:
        """The keys of pickled variants that were not made on this machine."""
        keys = []
        for name in self._records(VARIANTS):
            with suppress(DamagedError):  # a damaged file is never unpickled
                if needs_trust(read(self.folder, name, VariantFile, self.remedy)):
                    keys.append(PurePosixPath(name).stem)
        return keys

    def people(self) -> dict[str, StudyRecord]:
        """The record of every study that was joined, by key."""
        return {PurePosixPath(name).stem: read_study(self.folder, name, REJOIN) for name in self._records("people")}

    def people_table(self, file: str) -> pa.Table:
        """People's scores per image."""
        return pq.read_table(pa.BufferReader(read_named(self.folder, f"people/{file}", REJOIN)))

    def scores(self, units: Iterable[tuple[FinishedUnit, Sequence[str]]], names: Names, columns: Sequence[str]) -> pa.Table:
        """The scores of these units, in this order.

        Args:
            units: Each with the metrics to read.
            names: The ids of all samples.
            columns: Names out of `SCORE_COLUMNS`.
        """
        tables = list(self._score_tables(units, names, columns))
        return pa.concat_tables(tables) if tables else SCORE_COLUMNS.empty_table().select(columns)

    def _score_tables(
        self, units: Iterable[tuple[FinishedUnit, Sequence[str]]], names: Names, columns: Sequence[str]
    ) -> Iterator[pa.Table]:
        """The scores in tables of some ten thousand rows."""
        columns = list(columns)
        rows = ScoreRows(names, columns)
        for unit, metrics in units:
            if not metrics or unit.scores is None:
                continue
            if unit.scores.segment == "":
                yield from rows.taken()
                content = pa.BufferReader(self._content("scores", unit.scores.name))
                yield pq.read_table(content, columns=columns, filters=[("metric", "in", list(metrics))])
                continue
            try:
                scores = self._unpacked_scores(unit, unit.scores, len(names))
            except DamagedError:
                if self._is_writing:
                    self.discard(unit)
                raise
            rows.add(unit, {metric: scores[metric] for metric in metrics if metric in scores})
            if rows.count > _ROWS:
                yield from rows.taken()
        yield from rows.taken()

    def _unpacked_scores(
        self, unit: FinishedUnit, part: Part, samples: int
    ) -> dict[str, tuple[np.ndarray, np.ndarray | None]]:
        content = self._scores_of(unit, part)
        try:
            if unit.start + unit.count > samples:
                raise ValueError(f"it has scores for sample {unit.start + unit.count} of {samples}")
            return unpack_scores(content, unit.count)
        except ValueError as problem:
            raise DamagedError(f"{self.folder}/{SEGMENTS}/{part.segment}", str(problem), self.remedy) from None

    def _scores_of(self, unit: FinishedUnit, part: Part) -> bytes:
        """The scores of a unit; files of units are read as a whole, because their scores are read one after the other."""
        if part.segment not in self._contents or len(self._contents[part.segment]) < part.offset + part.length:
            with suppress(OSError):  # the error is raised below, in a sentence
                if is_segment(part.segment):
                    self._contents[part.segment] = self.folder.read(f"{SEGMENTS}/{part.segment}")
            while len(self._contents) > _FILES:
                self._contents.popitem(last=False)
        elif next(reversed(self._contents)) != part.segment:
            self._contents.move_to_end(part.segment)
        content = self._contents.get(part.segment, b"")[part.offset : part.offset + part.length]
        if part_name(content) == part.name:
            return content
        self._contents.pop(part.segment, None)
        return self._content_of(part, f"the scores of {self._words(unit)}")

    def _content_of(self, part: Part, what: str) -> bytes:
        if part.segment == "":
            return self._content("maps", part.name)
        return read_part(self.folder, part, what, self.remedy)

    @property
    def remedy(self) -> str:
        """What to do about a damaged file, for error messages."""
        return f"`snellen resume {self.folder}`, or the command that made it, computes what is damaged again"

    def _loose_unit(self, key: str) -> FinishedUnit:
        """A unit that an older version wrote."""
        if _KEY.fullmatch(key) is None:
            raise DamagedError(f"{self.folder}/{RUN}", f"'{key}' cannot be the name of a unit", self.remedy)
        record = read(self.folder, f"units/{key}.json", UnitRecord, self.remedy)
        return FinishedUnit(
            key=key,
            map_key=record.map_key,
            method=record.method,
            start=-1,
            count=len(record.samples),
            names=record.samples,
            maps=Part(record.maps),
            scores=Part(record.scores),
            metrics=record.metrics,
            refused=record.refused,
            metric_costs=record.metric_costs,
            cost=record.cost,
        )

    def _records(self, part: str) -> list[str]:
        """The names of all JSON files in a subfolder."""
        return [f"{part}/{name}" for name in self.folder.list(part) if name.endswith(".json")]

    def _content(self, part: str, name: str) -> bytes:
        return read_named(self.folder, f"{part}/{name}", self.remedy)

    def _intact_named(self, part: str, key: str, kind: type[F]) -> tuple[F, bytes] | None:
        """A record and the content of its file; None where there is none, or one of the two is damaged."""
        name = f"{part}/{key}.json"
        if self.folder.exists(name):
            with self._moving_damaged(name):
                record = read(self.folder, name, kind, self.remedy)
                with self._moving_damaged(name, f"{part}/{record.file}"):
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
                self._set_aside(name)

    def _set_aside(self, name: str) -> None:
        if is_plain(name) and self.folder.exists(name):  # a damaged record may name any path
            with disk_errors(self.folder):
                self.folder.move(name, f"{DAMAGED}/{name.replace('/', '-')}")

    # Below this line bytes reach the disk ----------------------------------------------------------------------------

    def _put(self, part: str, content: bytes, ending: str) -> str:
        name = digest(content) + ending
        if self.folder.exists(f"{part}/{name}"):
            with self._moving_damaged(f"{part}/{name}"):
                self._content(part, name)
                return name
        self._write(f"{part}/{name}", content)
        return name

    def _write(self, name: str, content: bytes | Record) -> None:
        with disk_errors(self.folder):
            self.folder.write_whole(name, dump(content) if isinstance(content, Record) else content)
