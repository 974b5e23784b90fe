"""What makes a published table: what was run, under which names and in which units, what was found, and what differs."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources

import numpy as np
from jaxtyping import Float

from snellen.papers.table_rules import Finding
from snellen.papers.table_values import Key, Values

Unit = Callable[[float], float]

Pooled = Callable[[Float[np.ndarray, "images points"], Sequence[str]], float]
"""From the traces of some images, and the names of their columns, to one number."""


def per_cent(value: float) -> float:
    """A share as the paper prints it."""
    return 100 * value


def per_cent_left(value: float) -> float:
    """What a share leaves of 100, which makes a low number a high one."""
    return 100 - 100 * value


def as_it_is(value: float) -> float:
    """The number itself."""
    return value


def usual_cell(row: Mapping[str, str]) -> tuple[Key, float]:
    """A line that names method and metric, and the arm as a target or a transform where there are several."""
    return (row.get("target") or row.get("transform") or "", row["method"], row["metric"]), float(row["value"])


@dataclass(frozen=True)
class Column:
    """A column of the table: our metric, the paper's unit, and its short name.

    `pooled` makes one number of the traces of all images, where the paper does not average numbers per image.
    """

    metric: str
    unit: Unit
    short: str
    pooled: Pooled | None = None


@dataclass(frozen=True)
class Arm:
    """A block of the table: the settings that differ from block to block. `published` names it in the paper's file.

    Of several `variations`, the first is run unless more are asked for; a `seed` among them is added to the run's.
    """

    title: str = ""
    published: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
    variations: tuple[Mapping[str, str | int], ...] = ({},)


@dataclass(frozen=True)
class Protocol:
    """A published table.

    `left_out` says by method why it is run only on request; `subject` are settings that replace the usual default ones;
    `cell` reads a line of the file.
    """

    name: str
    cite: str
    title: str
    file: str
    methods: Mapping[str, str]
    columns: Mapping[str, Column]
    arms: tuple[Arm, ...]
    findings: tuple[Finding, ...]
    differs: tuple[str, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)
    subject: Mapping[str, str] = field(default_factory=dict)
    cell: Callable[[Mapping[str, str]], tuple[Key, float]] = usual_cell

    def published(self) -> Values:
        """The paper's numbers under (arm, method, metric)."""
        text = resources.files("snellen.papers").joinpath("published", self.file).read_text(encoding="utf-8")
        return Values(dict(self.cell(row) for row in csv.DictReader(text.splitlines())))
