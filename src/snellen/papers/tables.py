"""Every published table by name."""

from __future__ import annotations

from collections.abc import Mapping

from snellen.papers import cose2023, zhang2024
from snellen.papers.published_table import Protocol

PROTOCOLS: Mapping[str, Protocol] = {one.name: one for one in (*zhang2024.TABLES, *cose2023.TABLES)}
