"""Scenes of TextBox per second: each background, every scene another, and as in training, each scene in all twelve buckets.

    python benchmarks/textbox_scenes.py [--seconds 1] [--repeats 5] [--processes 2] [--markdown FILE]

The backgrounds take turns, so that a busy moment of the machine does not fall on one of them alone. Every process draws
scenes on one thread; "all" adds up what they make at the same time. The aim is 50,000 per second in all on black, on two
cores.
"""

from __future__ import annotations

import argparse
import datetime
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch

from snellen.runs.machine import machine
from snellen.textbox.scenes.backgrounds import BACKGROUNDS, find_background
from snellen.textbox.scenes.scenes import SceneLayout

BATCH = 516
"""A multiple of the twelve buckets."""

AIM = 50_000


def measure(name: str, shared: bool, seconds: float) -> tuple[float, float]:
    """Scenes per second of the clock, and per second of the processor, on one thread."""
    torch.set_num_threads(1)
    layout = SceneLayout(background=find_background(name))
    buckets = torch.arange(1, layout.buckets + 1).repeat(BATCH // layout.buckets)
    distinct = BATCH // layout.buckets if shared else BATCH
    layout.scenes(buckets, range(BATCH), seed=0)  # photographs are read once, before the clock starts
    made, start = 0, time.perf_counter()
    worked = time.process_time()
    while time.perf_counter() - start < seconds:
        indices = torch.arange(made, made + distinct).repeat_interleave(BATCH // distinct)
        layout.scenes(buckets, indices, seed=1)
        made += BATCH
    return made / (time.perf_counter() - start), made / (time.process_time() - worked)


def report(seconds: float, repeats: int, processes: int, command: str) -> list[str]:
    """Markdown lines that also read well in a terminal."""
    cases = [(name, shared) for name in BACKGROUNDS for shared in (False, True)]
    alls: dict[tuple[str, bool], list[float]] = {case: [] for case in cases}
    works: dict[tuple[str, bool], list[float]] = {case: [] for case in cases}
    with ProcessPoolExecutor(processes) as pool:
        for turn in range(repeats):
            for case in cases if turn % 2 == 0 else reversed(cases):
                measurements = list(pool.map(measure, *zip(*[(*case, seconds)] * processes, strict=True)))
                alls[case].append(sum(clock for clock, _ in measurements))
                works[case] += [worked for _, worked in measurements]
    where = machine()
    reached = statistics.median(alls["black", False])
    return [
        "## Scenes of TextBox",
        "",
        f"- command: `{command}`",
        f"- date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        f"- machine: {where['processor']}, {where['cores']} cores, {where['memory_gib']} GiB; "
        f"Python {where['python']}, torch {where['torch']}",
        f"- work: 64×64 scenes with exact masks in batches of {BATCH}; {processes} processes of one thread each; medians of "
        f"{repeats} turns of {seconds:g} s",
        "",
        "| background | scenes          | all, per second |     least to most | per second of one processor |",
        "| :------ | :-------------- | --------------: | ----------------: | --------------------------: |",
        *(_line(*case, alls[case], works[case]) for case in cases),
        "",
        f"black, all different: {reached:,.0f} per second (aim: {AIM:,})",
    ]


def _line(name: str, shared: bool, alls: list[float], works: list[float]) -> str:
    what = "12 buckets each" if shared else "all different"
    middle, worked = statistics.median(alls), statistics.median(works)
    return f"| {name:7} | {what:15} | {middle:15,.0f} | {min(alls):7,.0f} – {max(alls):7,.0f} | {worked:27,.0f} |"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description="Scenes of TextBox per second.")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    chosen = parser.parse_args(arguments)
    command = " ".join(["python benchmarks/textbox_scenes.py", *arguments])
    text = "\n".join(report(chosen.seconds, chosen.repeats, chosen.processes, command))
    print(text)
    if chosen.markdown:
        chosen.markdown.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
