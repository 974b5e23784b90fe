"""How long the long commands take from a user's shell, and what settings do to two methods on the suite's default subject.

    python benchmarks/commands.py [--only suite settings ...] [--markdown FILE]

Each command is a process of its own, loading included. Run alone: the clock is the wall's.
"""

from __future__ import annotations

import argparse
import collections
import csv
import datetime
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import snellen
from snellen import zoo
from snellen.papers import TABLES
from snellen.runs.machine import revision

SETTINGS = ("rise", "rise(masks=200)", "xrai", "xrai(baselines=darkest)", "random")
HEAD = ("| command | time |", "| --- | ---: |")
SCORES = ("pointing-game", "localisation-utility", "deletion")


def timed(folder: Path, *words: str) -> str:
    """A row: the command and its seconds."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", "from snellen.cli.main import main; main()", *words],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    seconds = time.perf_counter() - started
    if done.returncode:
        sys.exit(f"snellen {' '.join(words)} failed:\n{done.stdout}{done.stderr}")
    return f"| `snellen {' '.join(words)}` | {int(seconds // 60)} min {seconds % 60:.0f} s |"


def suite(folder: Path) -> list[str]:
    """The full suite, with what it found."""
    row = timed(folder, "suite", "--full")
    with next(folder.glob("runs/*/suite.csv")).open() as table:
        cells = [row for row in csv.DictReader(table) if row["test"] and row["control"] == "False"]
    counts = collections.Counter(row["verdict"] for row in cells)
    return [
        "| command | time |",
        "| --- | ---: |",
        row,
        "",
        "Cells of the card: " + ", ".join(f"{n} {v}" for v, n in counts.items()),
    ]


def conform(folder: Path) -> list[str]:
    """All known answers."""
    return [*HEAD, timed(folder, "conform")]


def reproduce(folder: Path) -> list[str]:
    """Every published table with its defaults."""
    return [*HEAD, *(timed(folder, "reproduce", table) for table in TABLES)]


def settings(folder: Path) -> list[str]:
    """Means over the default scenes, by settings."""
    subject, scenes = zoo.load_classifier("digits"), zoo.digit_samples()
    run = snellen.evaluate(subject, scenes, methods=list(SETTINGS), metrics=list(SCORES), out=folder / "settings")
    means = run.scores().groupby(["method", "metric"])["value"].mean()
    rows = [
        f"| {setting} | " + " | ".join(f"{means[setting, score]:.2f}" for score in SCORES) + " |" for setting in SETTINGS
    ]
    return [f"| digits | {' | '.join(SCORES)} |", "| --- " * (len(SCORES) + 1) + "|", *rows]


PARTS: dict[str, Callable[[Path], list[str]]] = {
    "suite": suite,
    "settings": settings,
    "conform": conform,
    "reproduce": reproduce,
}


def main() -> None:
    """Runs, prints and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    now = datetime.datetime.now(datetime.UTC)
    where = f"{now:%Y-%m-%d %H:%M} UTC, Snellen at {(revision() or '')[:7]}, {os.cpu_count()} cores"
    lines = ["## How long commands take", "", f"- {where}"]
    for name in options.only:
        with tempfile.TemporaryDirectory() as folder:
            lines += ["", *PARTS[name](Path(folder))]
    print("\n".join(lines))
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
