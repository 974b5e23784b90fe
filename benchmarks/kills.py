"""Kills runs of a small network at random moments, resumes them, and compares with a run that nobody disturbed.

    python benchmarks/kills.py [--kills 12] [--seed 0]

Half of the runs use two worker processes; each run is killed by SIGKILL or SIGTERM after a random time, again and again
until it ends. Counted: kills, processes that outlived their parent by a minute (a worker that is still starting ends once it
has), and runs whose table of scores is not the same bytes as the undisturbed one's.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

MAIN = "from snellen.cli.main import main; main()"
ENDLESS = 40
"""So often a run is killed at most."""


def command(out: Path, workers: int) -> list[str]:
    """A run over the digits that takes some seconds."""
    return [
        sys.executable, "-c", MAIN, "run", "--model", "digits", "--images", "zoo:digits", "--out", str(out),
        "--shard", "50", "--threads", "1", "--engine", "eager", "--workers", str(workers),
        "--methods", "gradient,grad-cam,random",
        "--metrics", "deletion(steps=8),complexity",
    ]  # fmt: skip


def main() -> None:
    """Prints a row per kind of kill."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=12, help="at least so many of each kind")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    luck = random.Random(chosen.seed)
    place = Path(tempfile.mkdtemp(prefix="kills-"))
    started = time.perf_counter()
    subprocess.run(command(place / "undisturbed", 0), check=True, capture_output=True)
    longest = time.perf_counter() - started
    reference = (place / "undisturbed" / "scores.parquet").read_bytes()
    print("| signal | workers | kills | runs | orphans | other exit codes | tables that differ |\n" + "| --- " * 7 + "|")
    for number in (signal.SIGKILL, signal.SIGTERM):
        for workers in (0, 2):
            kills = runs = orphans = codes = differ = 0
            while kills < chosen.kills:
                out = place / f"{number.name}-{workers}-{runs}"
                for _ in range(ENDLESS):
                    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
                    process = subprocess.Popen(command(out, workers), **quiet)
                    try:
                        code = process.wait(timeout=luck.uniform(0.2, 1.0) * longest)
                        assert code == 0, code
                        break
                    except subprocess.TimeoutExpired:
                        children = psutil.Process(process.pid).children(recursive=True)
                        process.send_signal(number)
                        # Before Python has installed its handler, SIGTERM ends it as the system does.
                        codes += process.wait(timeout=60) not in (-number, 128 + number)
                        kills += 1
                        orphans += len(psutil.wait_procs(children, timeout=60)[1])
                else:
                    subprocess.run(command(out, workers), check=True, capture_output=True)
                runs += 1
                differ += (out / "scores.parquet").read_bytes() != reference
            print(f"| {number.name} | {workers} | {kills} | {runs} | {orphans} | {codes} | {differ} |", flush=True)


if __name__ == "__main__":
    main()
