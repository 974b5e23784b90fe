"""How long an exam of TextBox takes from a user's shell: all methods on all shipped networks, then one more method.

    python benchmarks/textbox.py [--images 20] [--settings simple-fr,...] [--keep FOLDER] [--markdown FILE]

Each command is a process of its own: loading, verification, scoring and the report included. The aims are 20 minutes for the
exam and one minute for the new method, on two cores. Run alone: the clock is the wall's.
"""

from __future__ import annotations

import argparse
import datetime
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

import pandas as pd

from snellen.runs.machine import machine, revision
from snellen.textbox.exam.exam_results import ExamResults

AIMS = {"exam": 20 * 60.0, "new": 60.0}
NEW = "smoothgrad(of=input-x-gradient, samples=4)"
"""A method that the folder does not hold yet, of about the cost of a light method of a user's own."""


def timed(*words: str) -> float:
    """The seconds that a command takes."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", "from snellen.cli.main import main; main()", "textbox", "run", *words],
        stdout=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    if done.returncode:
        sys.exit(f"snellen textbox run {' '.join(words)} failed")
    return time.perf_counter() - started


def costs(results: ExamResults) -> list[str]:
    """What each method took: seconds of one process per image of a simple and of a complex setting."""
    table = results.costs.assign(simple=[results.networks[name].spec.simple for name in results.costs["setting"]])
    sums = table.groupby(["method", "simple"])[["images", "forward", "backward", "seconds"]].sum()
    per_image = (1000 * sums["seconds"] / sums["images"]).unstack("simple").reindex(columns=[True, False])
    total = table.groupby("method")[["forward", "backward", "seconds"]].sum().sort_values("seconds", ascending=False)
    rows = [
        f"| {name} | {row['forward']:,.0f} | {row['backward']:,.0f} | "
        + " | ".join("–" if pd.isna(value) else f"{value:.1f}" for value in per_image.loc[name])
        + f" | {row['seconds']:.0f} |"
        for name, row in total.iterrows()
    ]
    head = ["| method | forward | backward | ms per simple image | ms per complex image | seconds |"]
    return [*head, "| --- | ---: | ---: | ---: | ---: | ---: |", *rows]


def report(images: int, settings: str | None, keep: Path | None, command: str) -> list[str]:
    """Markdown lines that also read well in a terminal."""
    if keep is not None and keep.exists():
        sys.exit(f"{keep} exists; what is kept there would not be computed again")
    with nullcontext(str(keep)) if keep else tempfile.TemporaryDirectory() as folder:
        here = ["--out", folder]
        chosen = ["--settings", settings] if settings else []
        exam_seconds = timed("--methods", "all", "--images", str(images), *chosen, *here)
        new_seconds = timed("--method", NEW, *here)
        results = ExamResults.read(folder)
        scenes, methods = sum(map(len, results.scenes.values())), len(results.methods) - 1
        where = machine()
        return [
            "## An exam of TextBox",
            "",
            f"- command: `{command}`",
            f"- date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC, revision {revision()}",
            f"- machine: {where['processor']}, {where['cores']} cores, {where['memory_gib']} GiB; "
            f"Python {where['python']}, torch {where['torch']}",
            f"- work: {scenes:,} scenes of {', '.join(results.settings)}, {methods - 1} methods and controls at first",
            "",
            "| command | seconds | aim |",
            "| --- | ---: | ---: |",
            f"| `snellen textbox run --methods all --images {images}` | {exam_seconds:.0f} | {AIMS['exam']:.0f} |",
            f"| `snellen textbox run --method '{NEW}'` | {new_seconds:.0f} | {AIMS['new']:.0f} |",
            "",
            *costs(results),
        ]


def main() -> None:
    """Measures, prints, and writes the same to a file if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=20, help="scenes per bucket")
    parser.add_argument("--settings", help="comma-separated names of shipped networks")
    parser.add_argument("--keep", type=Path, help="a folder for the exam, which is thrown away otherwise")
    parser.add_argument("--markdown", type=Path, help="a file to write the tables to")
    options = parser.parse_args()
    lines = report(
        options.images, options.settings, options.keep, " ".join(["python", "benchmarks/textbox.py", *sys.argv[1:]])
    )
    print("\n".join(lines))
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
