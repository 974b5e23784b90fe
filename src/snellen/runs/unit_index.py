"""UnitIndex: where the results of all finished units are, held in columns, and stored so that opening it reads one file.

The index can always be made again from the segments. What is stored in `index/` covers segments up to a size of each; frames
behind that are read when the index is opened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from snellen.files.folder import Folder
from snellen.files.integrity import DamagedError, damage, digest
from snellen.images.columns import Names
from snellen.runs.record import Cost, Refusal
from snellen.runs.segments import (
    SEGMENTS,
    UNITS,
    Broken,
    FinishedUnit,
    Part,
    Void,
    frames,
    is_segment,
    pack_cost,
    unpack_cost,
)

INDEX = "index"
"""The folder of stored indexes; the newest counts."""

_NAME = re.compile(r"([0-9]{8})-([0-9a-f]{32})\.parquet")
_ABOUT = b"snellen"
_BLOCK, _BLOCKS = 512, 8
"""Rows that are taken out of the table together, and how many such blocks stay in memory."""

_WORDS = pa.dictionary(pa.int32(), pa.string())
_SCHEMA = pa.schema(
    [
        ("key", pa.string()),
        ("map_key", pa.string()),
        ("method", _WORDS),
        ("start", pa.int64()),
        ("count", pa.int32()),
        ("maps", pa.string()),
        ("maps_segment", _WORDS),
        ("maps_offset", pa.int64()),
        ("maps_length", pa.int64()),
        ("kept", pa.list_(pa.int32())),
        ("scores", pa.string()),
        ("scores_offset", pa.int64()),
        ("scores_length", pa.int64()),
        ("segment", _WORDS),
        ("frame", pa.int64()),
        ("frame_end", pa.int64()),
        ("metrics", _WORDS),
        ("refused", _WORDS),
        ("costs_of", _WORDS),
        ("costs", pa.binary()),
    ]
)
_TEXTS = [name for name in _SCHEMA.names if _SCHEMA.field(name).type == _WORDS]


@dataclass(frozen=True)
class Damage:
    """Bytes of a segment, or a stored index, that do not match their checksum."""

    file: str
    """Its path in the run folder."""
    reason: str
    """In words that follow 'it'."""
    start: int = 0
    end: int = 0
    """The damaged bytes."""


@dataclass
class UnitIndex:
    """The finished units of a run folder that are in segments."""

    _table: pa.Table = field(default_factory=_SCHEMA.empty_table)
    _new: dict[str, FinishedUnit] = field(default_factory=dict)
    """Units that are not in the stored index, by key."""
    _new_by_maps: dict[str, dict[str, None]] = field(default_factory=dict)
    """Their keys, by key of their maps."""
    _gone: set[str] = field(default_factory=set)
    """Keys in the table that no longer count."""
    voids: dict[Void, None] = field(default_factory=dict)
    """Bytes of files of units that no longer count."""
    trusted: dict[str, Any] = field(default_factory=dict)
    """Files of segments that did not change since the stored index was written, with their state."""
    covered: dict[str, int] = field(default_factory=dict)
    """How many bytes of each file of units the index knows."""

    def __post_init__(self) -> None:
        self._sort()

    def __len__(self) -> int:
        return int(self._table.num_rows) - len(self._gone) + len(self._new)

    def __contains__(self, key: str) -> bool:
        return key in self._new or (key not in self._gone and self._row(key) is not None)

    @property
    def unstored(self) -> int:
        """How many units are not in the stored index."""
        return len(self._new)

    @property
    def is_changed(self) -> bool:
        """Whether the stored index lacks something."""
        return bool(self._new or self._gone)

    def units_in(self, file: str) -> int:
        """How many units have their maps in this file."""
        stored = pc.sum(pc.equal(self._table.column("maps_segment").cast(pa.string()), file)).as_py() or 0
        return int(stored) + sum(unit.maps is not None and unit.maps.segment == file for unit in self._new.values())

    def units(self) -> Iterator[FinishedUnit]:
        """All units, one after the other."""
        for row in range(self._table.num_rows):
            unit = self._unit(row)
            if unit.key not in self._gone:
                yield unit
        yield from list(self._new.values())

    def missing(self, keys: Names) -> Iterator[str]:
        """Those of these keys whose units are not finished."""
        texts = np.array(keys.array.to_pylist() or [""], dtype="S20")[: len(keys)]
        places = np.minimum(np.searchsorted(self._keys, texts), max(0, len(self._keys) - 1))
        is_stored = self._keys[places] == texts if len(self._keys) else np.zeros(len(texts), bool)
        if self._gone:
            is_stored &= ~np.isin(texts, np.array(list(self._gone), dtype="S20"))
        return (text for text in (raw.decode() for raw in texts[~is_stored]) if text not in self._new)

    def get(self, key: str) -> FinishedUnit | None:
        """The unit with this key; None where it is not finished."""
        if key in self._new:
            return self._new[key]
        row = None if key in self._gone else self._row(key)
        return None if row is None else self._unit(row)

    def with_maps(self, map_key: str) -> list[FinishedUnit]:
        """The units with these maps."""
        units = [self._new[key] for key in self._new_by_maps.get(map_key, ())]
        place, raw = int(np.searchsorted(self._map_keys, map_key.encode())), map_key.encode()
        while place < len(self._map_keys) and self._map_keys[place] == raw:
            unit = self._unit(int(self._map_order[place]))
            units += [] if unit.key in self._gone else [unit]
            place += 1
        return units

    def add(self, unit: FinishedUnit) -> None:
        """Adds a unit; one that was there under its key is replaced."""
        self._forget_new(unit.key)
        if self._row(unit.key) is not None:
            self._gone.add(unit.key)
        self._new[unit.key] = unit
        self._new_by_maps.setdefault(unit.map_key, {})[unit.key] = None
        self._cover(unit.frame[0], unit.frame[2])

    def remove(self, key: str) -> Void | None:
        """Takes a unit out; returns what is to be declared void."""
        unit = self.get(key)
        if unit is None:
            return None
        self._forget_new(key)
        if self._row(key) is not None:
            self._gone.add(key)
        void = Void(*unit.frame)
        self.voids[void] = None
        return void

    def void(self, void: Void) -> None:
        """Takes out what is in these bytes."""
        self.voids[void] = None
        segment = pc.equal(self._table.column("segment").cast(pa.string()), void.segment)
        rows = self._table.filter(pc.and_(segment, pc.equal(self._table.column("frame"), void.start)))
        self._gone.update(rows.column("key").to_pylist())

    def _forget_new(self, key: str) -> None:
        if (before := self._new.pop(key, None)) is not None:
            self._new_by_maps[before.map_key].pop(key, None)

    def broken(self, file: str, start: int, end: int) -> Void:
        """Notes that bytes of a file of units are damaged; returns what is to be declared void."""
        void = Void(file, start, end)
        self.voids[void] = None
        return void

    def _cover(self, segment: str, end: int) -> None:
        self.covered[segment] = max(end, self.covered.get(segment, 0))

    # Reading and writing -------------------------------------------------------------------------------------------------

    def as_file(self, number: int, states: Mapping[str, Any]) -> tuple[str, bytes]:
        """The stored form of the index: its name in the run folder and its bytes.

        Args:
            number: A higher one counts before lower ones.
            states: Of the files of segments now.
        """
        self._table = _joined([self._without_gone(), _table(self._new.values())])
        self._new, self._new_by_maps, self._gone = {}, {}, set()
        self._sort()
        about = {"covered": self.covered, "voids": [list(void) for void in self.voids], "states": dict(states)}
        table = self._table.replace_schema_metadata({_ABOUT: json.dumps(about).encode()})
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        content = sink.getvalue().to_pybytes()
        return f"{INDEX}/{number:08}-{digest(content)}.parquet", content

    def _without_gone(self) -> pa.Table:
        if not self._gone:
            return self._table
        return self._table.filter(pc.invert(pc.is_in(self._table.column("key"), pa.array(list(self._gone), pa.string()))))

    def _sort(self) -> None:
        self._blocks: dict[int, list[dict[str, Any]]] = {}
        keys = self._table.column("key").to_numpy().astype("S20")
        map_keys = self._table.column("map_key").to_numpy().astype("S20")
        self._order, self._map_order = np.argsort(keys, kind="stable"), np.argsort(map_keys, kind="stable")
        self._keys, self._map_keys = keys[self._order], map_keys[self._map_order]

    def _row(self, key: str) -> int | None:
        place = np.searchsorted(self._keys, key.encode())
        return int(self._order[place]) if place < len(self._keys) and self._keys[place] == key.encode() else None

    def _values(self, row: int) -> dict[str, Any]:
        """A row of the table; rows are often read one after the other, so some of them are taken out together."""
        block, place = divmod(row, _BLOCK)
        if block not in self._blocks:
            if len(self._blocks) >= _BLOCKS:
                self._blocks.clear()
            self._blocks[block] = self._table.slice(block * _BLOCK, _BLOCK).to_pylist()
        return self._blocks[block][place]

    def _unit(self, row: int) -> FinishedUnit:
        values = self._values(row)
        costs_of: list[str | None] = json.loads(values["costs_of"])
        numbers = np.frombuffer(values["costs"]).reshape(max(1, len(costs_of)), -1)[: len(costs_of)]
        costs = {name: unpack_cost(row) for name, row in zip(costs_of, numbers.tolist(), strict=True)}
        refused = json.loads(values["refused"])
        return FinishedUnit(
            key=values["key"],
            map_key=values["map_key"],
            method=values["method"],
            start=values["start"],
            count=values["count"],
            maps=values["maps"] and _part(values, "maps", values["maps_segment"]),
            kept=None if values["kept"] is None else tuple(values["kept"]),
            scores=values["scores"] and _part(values, "scores", values["segment"]),
            metrics=json.loads(values["metrics"]),
            refused={name: Refusal(key=key, problem=problem) for name, (key, problem) in refused.items()},
            metric_costs={name: cost for name, cost in costs.items() if name is not None},
            cost=costs.get(None),
            frame=(values["segment"], values["frame"], values["frame_end"]),
        )


def open_index(folder: Folder, *, compare: bool) -> tuple[UnitIndex, list[Damage]]:
    """The index of a run folder, and what is damaged.

    Args:
        folder: The run folder.
        compare: Whether to read files of units again that have changed since the index was stored.
    """
    damages: list[Damage] = []
    index, states = _stored(folder, damages)
    sizes = folder.list(SEGMENTS)
    index.trusted = {file: state for file, state in states.items() if file in sizes and state == state_of(folder, file)}
    changed = [
        file
        for file, size in index.covered.items()
        if sizes.get(file, -1) < size or (compare and file.endswith(UNITS) and file not in index.trusted)
    ]
    if changed:
        inside = pc.is_in(index._table.column("segment").cast(pa.string()), pa.array(changed, pa.string()))
        index = UnitIndex(
            _table=index._table.filter(pc.invert(inside)),
            voids=index.voids,
            trusted=index.trusted,
            covered={file: size for file, size in index.covered.items() if file not in changed},
        )
    _read_new(folder, index, sizes, damages)
    return index, damages


def read_segments(folder: Folder) -> tuple[UnitIndex, list[Damage]]:
    """The same from the segments alone: every frame is compared with its checksum."""
    index, damages = UnitIndex(), list[Damage]()
    _read_new(folder, index, folder.list(SEGMENTS), damages)
    return index, damages


def _read_new(folder: Folder, index: UnitIndex, sizes: Mapping[str, int], damages: list[Damage]) -> None:
    """Adds what files of units hold behind the part that the index knows."""
    units: list[FinishedUnit] = []
    broken: list[tuple[str, Broken]] = []
    for file, size in sizes.items():
        start = index.covered.get(file, 0)
        if not (file.endswith(UNITS) and is_segment(file)) or size <= start:
            continue
        try:
            content = folder.read_range(f"{SEGMENTS}/{file}", start, size - start)
        except OSError as problem:
            damages.append(Damage(file=f"{SEGMENTS}/{file}", reason=damage(problem), start=start, end=size))
            continue
        for end, entry in frames(content, file, start):
            index._cover(file, end)
            if isinstance(entry, FinishedUnit):
                units.append(entry)
            elif isinstance(entry, Broken):
                broken.append((file, entry))
            else:
                index.void(entry)
    for unit in units:
        if Void(*unit.frame) not in index.voids:
            index.add(unit)
    damages += [
        Damage(
            file=f"{SEGMENTS}/{file}",
            reason=f"bytes {part.start} to {part.end} do not match their checksum",
            start=part.start,
            end=part.end,
        )
        for file, part in broken
        if Void(file, *part) not in index.voids
    ]


def _part(values: dict[str, Any], what: str, segment: str) -> Part:
    return Part(name=values[what], segment=segment, offset=values[f"{what}_offset"], length=values[f"{what}_length"])


def state_of(folder: Folder, file: str) -> Any:
    """The state of a file of a segment, as plain values; on object storage its size, because asking takes long."""
    try:
        name = f"{SEGMENTS}/{file}"
        return repr(folder.state(name)) if folder.appends else folder.size(name)
    except OSError:
        return None


def stored_indexes(folder: Folder) -> list[str]:
    """The names of stored indexes, the newest first."""
    return sorted((name for name in folder.list(INDEX) if _NAME.fullmatch(name)), reverse=True)


def number_after(folder: Folder) -> int:
    """A number for the next stored index."""
    names = stored_indexes(folder)
    return int(names[0][:8]) + 1 if names else 1


def read_stored(folder: Folder, name: str) -> tuple[pa.Table, dict[str, Any]]:
    """The table of a stored index and what it says about segments; a damaged one is refused."""
    path = f"{INDEX}/{name}"
    remedy = "delete it: it is made again from the segments"
    match = _NAME.fullmatch(name)
    try:
        content = folder.read(path)
    except OSError as problem:
        raise DamagedError(f"{folder}/{path}", damage(problem), remedy) from None
    if match is None or digest(content) != match[2]:
        raise DamagedError(f"{folder}/{path}", "its content does not match its name", remedy)
    try:
        table = pq.read_table(pa.BufferReader(content), read_dictionary=_TEXTS)
        about = json.loads(table.schema.metadata[_ABOUT])
        columns = [table.column(name).cast(_SCHEMA.field(name).type) for name in _SCHEMA.names]
    except (pa.ArrowException, KeyError, TypeError, ValueError) as problem:
        raise DamagedError(f"{folder}/{path}", f"{type(problem).__name__}", remedy) from None
    return pa.table(columns, schema=_SCHEMA), about


def _stored(folder: Folder, damages: list[Damage]) -> tuple[UnitIndex, dict[str, Any]]:
    for name in stored_indexes(folder):
        try:
            table, about = read_stored(folder, name)
        except DamagedError as problem:
            damages.append(Damage(f"{INDEX}/{name}", problem.reason))
            continue
        voids = dict.fromkeys(Void(*void) for void in about["voids"])
        return UnitIndex(_table=_joined([table]), voids=voids, covered=about["covered"]), about["states"]
    return UnitIndex(), {}


def _joined(tables: list[pa.Table]) -> pa.Table:
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _table(units: Iterable[FinishedUnit]) -> pa.Table:
    columns: dict[str, list[Any]] = {name: [] for name in _SCHEMA.names}
    for unit in units:
        maps, scores = unit.maps, unit.scores
        costs: dict[str | None, Cost] = {} if unit.cost is None else {None: unit.cost}
        costs.update(unit.metric_costs)
        segment, frame, frame_end = unit.frame
        row = {
            "key": unit.key,
            "map_key": unit.map_key,
            "method": unit.method,
            "start": unit.start,
            "count": unit.count,
            "maps": maps and maps.name,
            "maps_segment": maps and maps.segment,
            "maps_offset": maps and maps.offset,
            "maps_length": maps and maps.length,
            "kept": unit.kept,
            "scores": scores and scores.name,
            "scores_offset": scores and scores.offset,
            "scores_length": scores and scores.length,
            "segment": segment,
            "frame": frame,
            "frame_end": frame_end,
            "metrics": json.dumps(dict(unit.metrics)),
            "refused": json.dumps({name: [refusal.key, refusal.problem] for name, refusal in unit.refused.items()}),
            "costs_of": json.dumps(list(costs)),
            "costs": np.array([pack_cost(cost) for cost in costs.values()], dtype=np.float64).tobytes(),
        }
        for name, value in row.items():
            columns[name].append(value)
    return pa.table(
        [
            pa.array(columns[name], pa.string()).dictionary_encode()
            if name in _TEXTS
            else pa.array(columns[name], _SCHEMA.field(name).type)
            for name in _SCHEMA.names
        ],
        schema=_SCHEMA,
    )
