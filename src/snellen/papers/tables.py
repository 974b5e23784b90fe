"""Every published table by name."""

from __future__ import annotations

from collections.abc import Mapping

from snellen.papers import cose2023, zhang2024
from snellen.papers.published_table import PublishedTable

TABLES: Mapping[str, PublishedTable] = {table.name: table for table in (*zhang2024.TABLES, *cose2023.TABLES)}
