"""How long the command line takes before it answers: processor and wall seconds of commands that compute nothing.

    python benchmarks/start.py [--repeats 20] [--before PATH/src] [--markdown FILE]

Each command is a process of its own, started with bytecode and files in the system's cache; the commands take turns, so a
disturbance meets all of them. `--before` measures the package in another checkout beside this one, taking turns too.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

import typer

import snellen
from snellen.runs.machine import revision

COMPLETE = {"_SNELLEN_COMPLETE": "complete_bash", "COMP_WORDS": "snellen\nrun\n--methods\ngr", "COMP_CWORD": "3"}
HOME = Path(snellen.__file__).parents[1]
MODULE = ("-m", "snellen")

COMMANDS: dict[str, tuple[tuple[str, ...], dict[str, str]]] = {
    "python -c pass": (("-c", "pass"), {}),
    "import snellen": (("-c", "import snellen"), {}),
    "snellen --version": ((*MODULE, "--version"), {}),
    "snellen --help": ((*MODULE, "--help"), {}),
    "snellen run --help": ((*MODULE, "run", "--help"), {}),
    "snellen run --metods x (a mistyped option)": ((*MODULE, "run", "--metods", "x"), {}),
    "snellen list methods": ((*MODULE, "list", "methods"), {}),
    "snellen list metrics --json": ((*MODULE, "list", "metrics", "--json"), {}),
    "the tab key after snellen run --methods gr": (MODULE, COMPLETE),
    "import torch": (("-c", "import torch"), {}),
    "snellen run --methods x (an unknown method)": ((*MODULE, "run", "--methods", "x"), {}),
}
"""By what is measured, the arguments of the interpreter and the environment."""


REFUSED = 2
"""The exit code of a command that refuses what was asked, as two of these do on purpose."""


def measure(name: str, home: Path) -> tuple[float, float] | None:
    """Processor and wall seconds of one process; None if this version has no such command."""
    arguments, environment = COMMANDS[name]
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments], env={**os.environ, "PYTHONPATH": str(home), **environment}, cwd="/",
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != (REFUSED if name.endswith(")") else 0):
        return None
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def table(homes: dict[str, Path], repeats: int) -> list[str]:
    """Medians, and the slowest of all repeats, in seconds."""
    seconds: dict[tuple[str, str], list[tuple[float, float] | None]] = {}
    for _ in range(repeats + 1):
        for name in COMMANDS:
            for side, home in homes.items():
                seconds.setdefault((name, side), []).append(measure(name, home))
    head = [f"{side}: {what}" for side in homes for what in ("processor", "wall", "slowest wall")]
    lines = [f"| | {' | '.join(head)} |", "| --- |" + " ---: |" * len(head)]
    for name in COMMANDS:
        cells: list[str] = []
        for side in homes:
            turns = [turn for turn in seconds[name, side][1:] if turn]  # the first turn writes bytecode
            processor, wall = zip(*turns, strict=True) if turns else ((), ())
            figures = [statistics.median(processor), statistics.median(wall), max(wall)] if turns else []
            cells += [f"{figure:.2f}" for figure in figures] or ["–"] * 3
        label = name if name.startswith("the ") else f"`{name.partition(' (')[0]}`{name[len(name.partition(' (')[0]) :]}"
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    """Measures, prints and writes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--before", type=Path, help="the src folder of another checkout")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    homes = ({"before": options.before.resolve()} if options.before else {}) | {"now": HOME}
    now = datetime.datetime.now(datetime.UTC)
    lines = [
        "## How long the command line takes to answer",
        "",
        f"- command: `python {' '.join(['benchmarks/start.py', *sys.argv[1:]])}`",
        f"- date: {now:%Y-%m-%d %H:%M} UTC, Snellen {snellen.__version__} at {(revision() or '')[:7]}",
        f"- machine: {os.cpu_count()} cores; Python {platform.python_version()}, typer {typer.__version__}",
        f"- seconds, the median of {options.repeats} repeats; the commands take turns",
        "",
        *table(homes, options.repeats),
    ]
    print("\n".join(lines))
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
