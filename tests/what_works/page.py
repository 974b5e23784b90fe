"""How each command of the table ended, and docs/what-works.md."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tests import command
from tests.what_works.folder import write_folder
from tests.what_works.rows import ROWS, Row

PAGE = Path(__file__).parents[2] / "docs" / "what-works.md"
_HEAD = """# What works, and what is refused

Every line was tried by `tests/what_works`, whose test fails if an answer changes; `python -m tests.what_works.page` writes
this page anew. The commands are those of `snellen run`, shortened: unless stated, the images are three PNG files, the
methods `gradient,random` and the metric `deletion`. A refusal comes before anything is computed, as one sentence.
"""


def outcome(row: Row, folder: Path) -> str:
    """`works`, or the sentence of the refusal."""
    out = Path(tempfile.mkdtemp(dir=folder))
    done = command.snellen(*row.words, "--out", out / "run", cwd=folder)
    shutil.rmtree(out)
    assert "Traceback" not in done.stderr, f"{row.words}: {done.stderr}"
    if done.returncode == 0:
        return "works"
    assert done.returncode == 2, f"{row.words} ended with {done.returncode}: {done.stderr}"
    return f"refused: {done.stderr.strip().splitlines()[-1].removeprefix('snellen: ').replace(f'{folder}/', '')}"


def line(row: Row, answer: str) -> str:
    """The row as a line of the page."""
    return f"| {row.what} | `{row.options}` | {answer} |"


def page(folder: Path) -> str:
    """The page as text; all commands run for it."""
    parts = [_HEAD]
    for section in dict.fromkeys(row.section for row in ROWS):
        lines = [line(row, outcome(row, folder)) for row in ROWS if row.section == section]
        parts.append("\n".join([f"## {section}", "", "| | `snellen run` | |", "|---|---|---|", *lines, ""]))
    return "\n".join(parts)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        PAGE.write_text(page(write_folder(Path(temporary))), encoding="utf-8")
