"""The numbers of a published table, by block, method and metric, under the paper's names and in its units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from snellen.papers.claims import MissingError

CellKey = tuple[str, str, str]
"""Block of the table (a target class, a transform, a dataset, or nothing), method, metric."""


@dataclass(frozen=True)
class TableValues:
    """A published or a measured table; numbers that were not published or measured are absent."""

    cells: Mapping[CellKey, float]
    """By block, method and metric."""

    def get(self, block: str, method: str, metric: str) -> float:
        """One number; `MissingError` names the method and the metric that have none."""
        value = self.cells.get((block, method, metric))
        if value is None or math.isnan(value):
            raise MissingError(f"{method} has no {metric}{f' for {block}' if block else ''}")
        return value

    def methods(self, metric: str, block: str = "") -> dict[str, float]:
        """The number of every method that has one, the highest first."""
        values = {
            key[1]: value
            for key, value in self.cells.items()
            if (key[0], key[2]) == (block, metric) and not math.isnan(value)
        }
        return dict(sorted(values.items(), key=lambda item: -item[1]))

    def row(self, block: str, methods: Iterable[str], metric: str) -> list[float]:
        """The numbers of these methods, all of which must be there."""
        return [self.get(block, method, metric) for method in methods]

    def without(self, methods: Sequence[str]) -> TableValues:
        """The table without some methods."""
        return TableValues({key: value for key, value in self.cells.items() if key[1] not in methods})

    def only(self, methods: Iterable[str]) -> TableValues:
        """The table of these methods alone, so that ranks in two tables are among the same methods."""
        names = set(methods)
        return TableValues({key: value for key, value in self.cells.items() if key[1] in names})
