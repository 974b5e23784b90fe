"""Every line of docs/what-works.md is what happens."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.what_works.folder import write_folder
from tests.what_works.page import PAGE, line, outcome
from tests.what_works.rows import ROWS, Row

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("what-works"))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.section}: {row.what}")
def test_the_page_says_what_happens(row: Row, folder: Path) -> None:
    assert line(row, outcome(row, folder)) in PAGE.read_text(encoding="utf-8").splitlines(), "run: make docs"


def test_the_page_has_no_other_lines() -> None:
    lines = [text for text in PAGE.read_text(encoding="utf-8").splitlines() if text.startswith("| ") and "`--" in text]
    assert len(lines) == len(ROWS)
