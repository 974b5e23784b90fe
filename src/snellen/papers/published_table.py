"""A published table: what was run, under which names and in which units, what the paper claims, and what differs here."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources

import numpy as np
from jaxtyping import Float

from snellen.papers.claims import Claim
from snellen.papers.table_values import CellKey, TableValues

UnitConversion = Callable[[float], float]

Pooling = Callable[[Float[np.ndarray, "images points"], Sequence[str]], float]
"""From the traces of some images, and the names of their columns, to one number."""


def per_cent(value: float) -> float:
    """A share as the paper prints it."""
    return 100 * value


def per_cent_left(value: float) -> float:
    """100 less a share in per cent, so that higher is better for a share that should be low."""
    return 100 - 100 * value


def unchanged(value: float) -> float:
    """The number itself."""
    return value


def read_row(row: Mapping[str, str]) -> tuple[CellKey, float]:
    """A row of a CSV file with method, metric and value, and with a target or a transform where there are several blocks."""
    return (row.get("target") or row.get("transform") or "", row["method"], row["metric"]), float(row["value"])


@dataclass(frozen=True, kw_only=True)
class PublishedColumn:
    """A column of a published table."""

    metric: str
    """Snellen's metric, with its settings."""
    unit: UnitConversion
    """Converts Snellen's number into the paper's."""
    short: str
    """Heading in a terminal."""
    pooling: Pooling | None = None
    """Computes one number from the traces of all images, where the paper does not average numbers per image."""


@dataclass(frozen=True, kw_only=True)
class TableBlock:
    """A block of rows of a published table, with the settings that differ from block to block."""

    title: str = ""
    """Heading in a terminal; empty where the table has one block."""
    published: str = ""
    """Name of the block in the paper's file."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Of the run, such as its target."""
    variations: tuple[Mapping[str, str | int], ...] = ({},)
    """Further settings. The first is run unless more are requested; a `seed` among them is added to the run's."""


@dataclass(frozen=True, kw_only=True)
class PublishedTable:
    """A published table and the protocol that makes it."""

    name: str
    """As on the command line, such as `zhang2024-table1`."""
    cite: str
    """The key of the reference."""
    title: str
    file: str
    """Name of the CSV file with the paper's numbers."""
    methods: Mapping[str, str]
    """Snellen's methods by the paper's names."""
    columns: Mapping[str, PublishedColumn]
    """By the paper's name of the metric."""
    blocks: tuple[TableBlock, ...]
    claims: tuple[Claim[TableValues], ...]
    differs: tuple[str, ...]
    """What is known to differ between the paper's protocol and Snellen's."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """By method why it is run only on request."""
    subject: Mapping[str, str] = field(default_factory=dict)
    """Settings that replace the default model and images."""
    read_row: Callable[[Mapping[str, str]], tuple[CellKey, float]] = read_row
    """Reads a row of the file: cell and number."""

    def published(self) -> TableValues:
        """The paper's numbers."""
        text = resources.files("snellen.papers").joinpath("published", self.file).read_text(encoding="utf-8")
        return TableValues(dict(self.read_row(row) for row in csv.DictReader(text.splitlines())))
