"""SampleTable: the samples of a run in columns, read from the run folder when they are needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, overload

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from snellen.errors import SnellenError
from snellen.images.columns import Names
from snellen.runs.json_record import Count, Record


class SampleRow(Record):
    """One sample, and what the classifier predicts for it."""

    sample: str
    """Its id."""
    label: Count | None
    """The class that is right; None where it is unknown, or several are."""
    prediction: Count
    """The most likely class."""
    probability: float
    """Of the predicted class."""
    target: Count
    """The class that its maps explain."""
    truth: str | None = None
    """Whether a mask says where the evidence is: some, empty or none."""
    group: str | None = None
    """Such as a patient; None without one."""
    number: float | None = None
    """The true number, where the model estimates one."""
    estimate: float | None = None
    """The number that the model estimates."""


SAMPLE_COLUMNS = pa.schema(
    [
        pa.field("sample", pa.large_string(), nullable=False),
        pa.field("label", pa.int64()),
        pa.field("prediction", pa.int64(), nullable=False),
        pa.field("probability", pa.float64(), nullable=False),
        pa.field("target", pa.int64(), nullable=False),
        ("truth", pa.large_string()),
        ("group", pa.large_string()),
        ("number", pa.float64()),
        ("estimate", pa.float64()),
    ]
)


class SampleTable:
    """The rows of all samples: a sequence of `SampleRow`, held in columns. A million samples take about 100 MB.

    >>> table = SampleTable.of_columns({"sample": ["a", "b"], "label": [1, None], "prediction": [1, 0],
    ...                                 "probability": [0.5, 0.75], "target": [1, 0]})
    >>> table[1].probability, table.values("label"), len(table)
    (0.75, [1, None], 2)

    Args:
        table: With the columns `SAMPLE_COLUMNS`, or a function that reads it.
    """

    def __init__(self, table: pa.Table | Callable[[], pa.Table]) -> None:
        self._table: pa.Table | None = table if isinstance(table, pa.Table) else None
        self._read = None if isinstance(table, pa.Table) else table

    @classmethod
    def of_columns(cls, columns: Mapping[str, Sequence[Any]]) -> SampleTable:
        """The table with these columns; what is left out is null."""
        count = len(columns["sample"])
        arrays = [
            column.array
            if isinstance(column := columns.get(field.name), Names)
            else pa.array(column, field.type)
            if column is not None
            else pa.nulls(count, field.type)
            for field in SAMPLE_COLUMNS
        ]
        return cls(pa.table(arrays, schema=SAMPLE_COLUMNS))

    @classmethod
    def of_rows(cls, rows: Iterable[SampleRow]) -> SampleTable:
        """The table with these rows."""
        listed = list(rows)
        return cls.of_columns({name: [getattr(row, name) for row in listed] for name in SAMPLE_COLUMNS.names})

    @staticmethod
    def parse(content: bytes) -> pa.Table:
        """The columns in the bytes of `as_bytes`; other bytes raise a SnellenError, in words that follow 'it'."""
        try:
            table = pq.read_table(pa.BufferReader(content))
            table = table.select(SAMPLE_COLUMNS.names).cast(SAMPLE_COLUMNS)
        except (pa.ArrowException, KeyError, OSError, ValueError):
            raise SnellenError("it does not hold the columns of samples") from None
        return table

    @property
    def table(self) -> pa.Table:
        """All columns."""
        if self._table is None:
            assert self._read is not None
            self._table = self._read()
        return self._table

    @property
    def names(self) -> Names:
        """The id of each sample."""
        column = self.table.column("sample")
        return Names(column.chunk(0) if column.num_chunks == 1 else column.combine_chunks())

    def values(self, name: str) -> list[Any]:
        """A column as a list; None where it has no value."""
        values: list[Any] = self.table.column(name).to_pylist()
        return values

    def highest(self, name: str) -> int:
        """The largest number of a column; 0 where there is none."""
        return int(pc.max(self.table.column(name)).as_py() or 0)

    def as_bytes(self) -> bytes:
        """The table as Parquet."""
        sink = pa.BufferOutputStream()
        pq.write_table(self.table, sink, compression="zstd")
        content: bytes = sink.getvalue().to_pybytes()
        return content

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @overload
    def __getitem__(self, index: int) -> SampleRow: ...

    @overload
    def __getitem__(self, index: slice) -> list[SampleRow]: ...

    def __getitem__(self, index: int | slice) -> SampleRow | list[SampleRow]:
        if isinstance(index, slice):
            return [_row(values) for values in self.table.take(list(range(len(self))[index])).to_pylist()]
        if not -len(self) <= index < len(self):
            raise IndexError(index)
        return _row(self.table.slice(index % len(self), 1).to_pylist()[0])

    def __iter__(self) -> Iterator[SampleRow]:
        for batch in self.table.to_batches(max_chunksize=4096):
            yield from map(_row, batch.to_pylist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SampleTable) and self.table.equals(other.table)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return SampleTable, (self.table,)


def _row(values: dict[str, Any]) -> SampleRow:
    return SampleRow.model_construct(**values)
