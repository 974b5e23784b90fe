"""Peak memory of `snellen run` at 200 and at 2,000 small images: it is bounded by the shard, not by the number of images.

    python benchmarks/memory.py [--few 200] [--many 2000] [--markdown FILE]

Each run is a process of its own; its peak is what the operating system says of it after its end (ru_maxrss).
"""

from __future__ import annotations

import argparse
import datetime
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

SIDE = 32
METHODS = "gradient,integrated-gradients(steps=8),smoothgrad(samples=4),grad-cam,rise(masks=64),occlusion,random"
METRICS = (
    "deletion(steps=8),insertion(steps=8),average-drop,complexity,sparseness,"
    "max-sensitivity(samples=2),avg-sensitivity(samples=2)"
)
AIM = 1.2


@dataclass(frozen=True)
class Peak:
    """One run."""

    images: int
    mebibytes: float
    seconds: float


def write_images(folder: Path, count: int) -> Path:
    """Smooth coloured blobs, each another, as PNG files."""
    folder.mkdir(parents=True)
    generator = np.random.default_rng(0)
    for place in range(count):
        coarse = generator.integers(0, 255, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(folder / f"{place:05d}.png")
    return folder


def measure(folder: Path, images: Path, count: int, shard: int, threads: int) -> Peak:
    """Runs the command and waits for it; peak of the process and of whatever it started."""
    command = [
        sys.executable, "-c", "from snellen.cli.main import main; main()", "run",
        "--model", "small:load", "--images", str(images), "--out", str(folder / f"run-{count}"),
        "--methods", METHODS, "--metrics", METRICS, "--shard", str(shard), "--threads", str(threads),
        "--no-compile",  # a compiler in memory is a fixed price that only the longer plan would pay
    ]  # fmt: skip
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
    started = time.perf_counter()
    with (folder / f"run-{count}.log").open("w") as log:
        process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}, stdout=log, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"snellen run ended with code {process.returncode}:\n{(folder / f'run-{count}.log').read_text()}")
    scale = 2**20 if sys.platform == "darwin" else 2**10  # ru_maxrss is in bytes there and in kibibytes elsewhere
    return Peak(count, usage.ru_maxrss / scale, time.perf_counter() - started)


def report(few: Peak, many: Peak, shard: int, command: str) -> list[str]:
    """Markdown lines that also read well in a terminal."""
    # Only now: a child's peak counts from its parent's size at the fork, so the parent stays small while there are runs.
    from snellen.runs.machine import machine

    where = machine()
    ratio = many.mebibytes / few.mebibytes
    return [
        "## Peak memory of a run",
        "",
        f"- command: `{command}`",
        f"- date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        f"- machine: {where['processor']}, {where['cores']} cores, {where['memory_gib']} GiB; "
        f"Python {where['python']}, torch {where['torch']}",
        f"- work: {SIDE}×{SIDE} images in shards of {shard}; {METHODS}; {METRICS}",
        "",
        "| images | peak MiB | seconds |",
        "| -----: | -------: | ------: |",
        *(
            f"| {measurement.images:6,} | {measurement.mebibytes:8.0f} | {measurement.seconds:7.0f} |"
            for measurement in (few, many)
        ),
        "",
        f"ratio {ratio:.2f} (aim: at most {AIM})",
    ]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Peak memory of a run at few and at many images.")
    parser.add_argument("--few", type=int, default=200)
    parser.add_argument("--many", type=int, default=2000)
    parser.add_argument("--shard", type=int, default=16)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="snellen-memory-") as name:
        folder = Path(name)
        few, many = (
            measure(folder, write_images(folder / f"images-{count}", count), count, chosen.shard, chosen.threads)
            for count in (chosen.few, chosen.many)
        )
    text = "\n".join(report(few, many, chosen.shard, " ".join(["python benchmarks/memory.py", *arguments])))
    print(text)
    if chosen.markdown:
        chosen.markdown.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
