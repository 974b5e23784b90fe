"""Columns: the ids and checksums of many samples, held in arrays instead of Python objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from snellen.errors import SnellenError, short_repr

_BYTES = 32
"""Length of a SHA-256 checksum."""


class Names(Sequence[str]):
    """Texts in one Arrow array: a million ids of 30 letters take 34 MB. It equals a tuple or list of the same texts.

    >>> names = Names(["b.png", "a.png", "c.png"])
    >>> names[0], names[1:], names.take([2, 0]) == ("c.png", "b.png")
    ('b.png', Names(['a.png', 'c.png']), True)
    """

    __slots__ = ("array",)

    def __init__(self, texts: Iterable[str] | pa.Array) -> None:
        self.array: pa.Array = texts if isinstance(texts, pa.Array) else text_array(texts)

    def __len__(self) -> int:
        return len(self.array)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Names: ...

    def __getitem__(self, index: int | slice) -> str | Names:
        if isinstance(index, slice):
            return self.take(range(len(self))[index])
        text: str = self.array[_place(index, len(self))].as_py()
        return text

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), 4096):
            yield from self.array.slice(start, 4096).to_pylist()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Names):
            return bool(self.array.equals(other.array))
        return isinstance(other, tuple | list) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # a sequence of a million texts is no key

    def __repr__(self) -> str:
        return f"Names({self[:4].array.to_pylist()})" if len(self) <= 4 else f"<{len(self)} names, first {self[0]!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return Names, (self.array,)  # Arrow writes only the part of its buffers that an array uses

    def take(self, indices: Sequence[int] | np.ndarray) -> Names:
        """The texts at these indices, copied, so that pickling them pickles nothing else."""
        return Names(self.array.take(index_array(indices)))

    def duplicate(self) -> str | None:
        """The first text that occurs a second time; None where each occurs once."""
        if pc.count_distinct(self.array).as_py() == len(self):
            return None
        indices = self.array.dictionary_encode().indices.to_numpy()
        return self[int(np.flatnonzero(np.bincount(indices)[indices] > 1)[0])]


class Digests(Sequence[str]):
    """SHA-256 checksums as rows of bytes; each reads as 64 hexadecimal digits. It equals a tuple or list of the same texts.

    >>> Digests(["00" * 31 + "ff"])[0][-4:]
    '00ff'
    """

    __slots__ = ("rows",)

    def __init__(self, texts: Iterable[str] | np.ndarray) -> None:
        if not isinstance(texts, np.ndarray):
            texts = np.frombuffer(bytearray().join(map(bytes.fromhex, texts)), dtype=np.uint8)
        self.rows: np.ndarray = texts.reshape(-1, _BYTES)

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Digests: ...

    def __getitem__(self, index: int | slice) -> str | Digests:
        if isinstance(index, slice):
            return Digests(self.rows[index].copy())
        row: bytes = self.rows[_place(index, len(self))].tobytes()
        return row.hex()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Digests):
            return np.array_equal(self.rows, other.rows)
        return isinstance(other, tuple | list) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<checksums of {len(self)} samples>"

    def take(self, indices: Sequence[int] | np.ndarray) -> Digests:
        """The checksums at these indices."""
        return Digests(self.rows[index_array(indices)])


def text_array(texts: Iterable[str | None]) -> pa.Array:
    """Texts as an Arrow array; what is not text is refused."""
    values = texts if isinstance(texts, list) else list(texts)
    try:
        return pa.array(values, pa.large_string())
    except (pa.ArrowException, UnicodeError, TypeError):
        wrong = next((value for value in values if not _is_text(value)), None)
        raise SnellenError(f"the name {short_repr(wrong)} is not text in UTF-8; rename it") from None


def index_array(indices: Sequence[int] | np.ndarray) -> np.ndarray:
    """Indices as an array."""
    if isinstance(indices, range):
        return np.arange(indices.start, indices.stop, indices.step, dtype=np.int64)
    return np.asarray(indices, dtype=np.int64)


def _place(index: int, count: int) -> int:
    place = int(index) + (count if index < 0 else 0)
    if not 0 <= place < count:
        raise IndexError(f"index {index} of {count}")
    return place


def _is_text(value: Any) -> bool:
    try:
        return value is None or bool(isinstance(value, str) and value.encode() is not None)
    except UnicodeError:
        return False
