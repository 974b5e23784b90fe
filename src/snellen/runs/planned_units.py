"""PlannedUnits: the units that a run consists of, in columns."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, overload

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from snellen.errors import SnellenError
from snellen.images.columns import Names
from snellen.runs.json_record import Record

UnitKey = Annotated[str, Field(pattern="^[0-9a-f]{20}$")]


class PlannedUnit(Record):
    """A unit that the run consists of, and the metrics that are read from it."""

    unit: UnitKey
    """Its key."""
    metrics: tuple[str, ...]
    """Their labels."""


PLAN_COLUMNS = pa.schema([("unit", pa.large_string()), ("metrics", pa.dictionary(pa.int32(), pa.string()))])
"""Lists of metrics are JSON texts, of which there are few."""


class PlannedUnits:
    """The units of a run in the order of its tables: a sequence of `PlannedUnit`, held in columns.

    >>> plan = PlannedUnits.of([("0" * 20, ("deletion",)), ("1" * 20, ())])
    >>> plan[0].metrics, len(plan), list(plan.pairs())[1]
    (('deletion',), 2, ('11111111111111111111', ()))

    Args:
        table: With the columns `PLAN_COLUMNS`, or a function that reads it.
    """

    def __init__(self, table: pa.Table | Callable[[], pa.Table]) -> None:
        self._table: pa.Table | None = table if isinstance(table, pa.Table) else None
        self._read = None if isinstance(table, pa.Table) else table

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, tuple[str, ...]]]) -> PlannedUnits:
        """The plan of these keys, each with the metrics that are read from the unit."""
        numbers: dict[tuple[str, ...], int] = {}
        keys: list[str] = []
        indices: list[int] = []
        for key, metrics in pairs:
            keys.append(key)
            indices.append(numbers.setdefault(metrics, len(numbers)))
        texts = pa.array([json.dumps(metrics) for metrics in numbers], pa.string())
        metrics_column = pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), texts)
        return cls(pa.table([pa.array(keys, pa.large_string()), metrics_column], schema=PLAN_COLUMNS))

    @staticmethod
    def parse(content: bytes) -> pa.Table:
        """The columns in the bytes of `as_bytes`; other bytes raise a SnellenError, in words that follow 'it'."""
        try:
            table = pq.read_table(pa.BufferReader(content), read_dictionary=["metrics"])
            table = table.select(PLAN_COLUMNS.names).cast(PLAN_COLUMNS).unify_dictionaries().combine_chunks()
            for text in _words(table):
                if not all(isinstance(name, str) for name in json.loads(text)):
                    raise ValueError(text)
        except (pa.ArrowException, KeyError, OSError, ValueError, TypeError):
            raise SnellenError("it does not hold the columns of planned units") from None
        return table

    @property
    def table(self) -> pa.Table:
        """Both columns."""
        if self._table is None:
            assert self._read is not None
            self._table = self._read()
        return self._table

    @property
    def keys(self) -> Names:
        """The key of each unit."""
        column = self.table.column("unit")
        return Names(column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())

    def pairs(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Key and metrics of each unit."""
        for batch in self.table.to_batches(max_chunksize=4096):
            lists = [tuple(json.loads(text)) for text in batch.column("metrics").dictionary.to_pylist()]
            indices = batch.column("metrics").indices.to_pylist()
            yield from zip(batch.column("unit").to_pylist(), (lists[index] for index in indices), strict=True)

    def as_bytes(self) -> bytes:
        """The table as Parquet."""
        sink = pa.BufferOutputStream()
        pq.write_table(self.table, sink, compression="zstd")
        content: bytes = sink.getvalue().to_pybytes()
        return content

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, index: int) -> PlannedUnit: ...

    @overload
    def __getitem__(self, index: slice) -> PlannedUnits: ...

    def __getitem__(self, index: int | slice) -> PlannedUnit | PlannedUnits:
        if isinstance(index, slice):
            return PlannedUnits(self.table.take(list(range(len(self))[index])))
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        values = self.table.slice(index % len(self), 1).to_pylist()[0]
        return PlannedUnit(unit=values["unit"], metrics=tuple(json.loads(values["metrics"])))

    def __iter__(self) -> Iterator[PlannedUnit]:
        for key, metrics in self.pairs():
            yield PlannedUnit.model_construct(unit=key, metrics=metrics)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlannedUnits) and list(self.pairs()) == list(other.pairs())

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return PlannedUnits, (self.table,)


def _words(table: pa.Table) -> list[str]:
    return [text for chunk in table.column("metrics").chunks for text in chunk.dictionary.to_pylist()]
