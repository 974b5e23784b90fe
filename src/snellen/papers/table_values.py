"""Numbers of a table by arm, method and metric, under the paper's names and in its units."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Key = tuple[str, str, str]
"""Arm (a target class, a transform, a dataset, or nothing), method, metric."""


@dataclass(frozen=True)
class Values:
    """A table, published or measured; what is not there is not there."""

    cells: Mapping[Key, float]

    def get(self, arm: str, method: str, metric: str) -> float:
        """One number; a `Missing` names what has none."""
        value = self.cells.get((arm, method, metric))
        if value is None or math.isnan(value):
            raise MissingError(f"{method} has no {metric}{f' for {arm}' if arm else ''}")
        return value

    def methods(self, metric: str, arm: str = "") -> dict[str, float]:
        """Every method's number, best first where higher is better."""
        rows = {one[1]: value for one, value in self.cells.items() if (one[0], one[2]) == (arm, metric)}
        found = {method: value for method, value in rows.items() if not math.isnan(value)}
        return dict(sorted(found.items(), key=lambda pair: -pair[1]))

    def row(self, arm: str, methods: Iterable[str], metric: str) -> list[float]:
        """The numbers of these methods, all of which must be there."""
        return [self.get(arm, method, metric) for method in methods]

    def without(self, methods: Sequence[str]) -> Values:
        """The table less some methods."""
        return Values({key: value for key, value in self.cells.items() if key[1] not in methods})

    def only(self, methods: Iterable[str]) -> Values:
        """The table for these methods alone, so that places in two tables are places among the same methods."""
        kept = set(methods)
        return Values({key: value for key, value in self.cells.items() if key[1] in kept})


class MissingError(LookupError):
    """A check asks for a number that the table does not hold."""
