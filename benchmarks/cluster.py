"""Two workers against one, on EfficientNet-Lite0: a Dask cluster on this machine, and `--workers`; one thread each.

    python benchmarks/cluster.py [--images 12] [--repeats 2] [--markdown FILE]

Each worker process is pinned to a core of its own; the client shares them, as it would on a small machine. The same run is
computed by one worker and by two, in turn. What two workers lose is divided into what two processes lose that do not know
of each other (memory bandwidth, clock of the processor), and the rest: sending, gathering, writing, idle workers at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import json
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cloudpickle
import psutil
import torch

from snellen import zoo
from snellen.classifier import Classifier
from snellen.images import Samples
from snellen.runs import Options, evaluate
from snellen.runs.executors import dask_executor
from snellen.runs.machine import machine, revision
from snellen.runs.parcel import pack
from snellen.runs.plan import PassSeconds
from snellen.runs.progress import Silent
from snellen.runs.unit import PackedClassifier, Unit

METHODS = "gradient,grad-cam,random,edge"
METRICS = "deletion(steps=8),insertion(steps=8)"
SHARD = 2


@contextlib.contextmanager
def cluster(workers: int) -> Iterator[str]:
    """The address of a scheduler with so many workers, each in a process pinned to a core."""
    processes: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "scheduler.json")

        def start(kind: str, *options: str) -> subprocess.Popen[bytes]:
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{kind}", "--no-dashboard", *options],
                cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            processes.append(process)
            return process

        start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(place))
        deadline = time.monotonic() + 60
        while not place.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        for core in range(workers):
            worker = start("worker", "--scheduler-file", str(place), "--nthreads", "1", "--no-nanny")
            psutil.Process(worker.pid).cpu_affinity([core % (os.cpu_count() or 1)])
        try:
            yield json.loads(place.read_text())["address"]
        finally:
            for process in processes:
                process.kill()
                process.wait()


def timed(work: Callable[[], object]) -> float:
    """Seconds that this takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def run(classifier: Classifier, samples: Samples, pass_seconds: PassSeconds, workers: int = 0, executor=None) -> float:
    """Seconds of a run."""
    options = Options(shard=SHARD, threads=1, workers=workers, engine="eager", pass_seconds=pass_seconds)
    return timed(
        lambda: evaluate(
            classifier, samples, methods=METHODS, metrics=METRICS, options=options, executor=executor, observer=Silent()
        )
    )


def alone_and_beside(repeats: int) -> tuple[float, float]:
    """Seconds of the same passes in one process, and in each of two that run at the same time on cores of their own."""
    script = (
        "import sys,time,torch; from snellen import zoo\n"
        "torch.set_num_threads(1)\n"
        "model = zoo.load_classifier('efficientnet-lite0'); x = torch.rand(4, 3, 224, 224)\n"
        "for _ in range(3): model.logits(x + torch.rand(1))\n"
        "print('ready', flush=True); sys.stdin.readline(); started = time.perf_counter()\n"
        "for _ in range(40): model.logits(x + torch.rand(1))\n"
        "print(time.perf_counter() - started, flush=True)\n"
    )

    def measure(count: int) -> float:
        processes = [
            subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            for _ in range(count)
        ]
        for core, process in enumerate(processes):
            psutil.Process(process.pid).cpu_affinity([core])
            process.stdout.readline()
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        seconds = [float(process.stdout.readline()) for process in processes]
        for process in processes:
            process.wait()
        return statistics.mean(seconds)

    times = [(measure(1), measure(2)) for _ in range(repeats)]
    return statistics.median(time[0] for time in times), statistics.median(time[1] for time in times)


def bytes_per_unit(classifier: Classifier, samples: Samples) -> tuple[int, int, int]:
    """Bytes that a unit of `SHARD` pictures sends with its classifier, without it, and in a bundle of 16 units."""
    from snellen.plugins.registry import METHODS as ALL_METHODS
    from snellen.plugins.registry import METRICS as ALL_METRICS

    def unit(start: int) -> Unit:
        part = samples.take(range(start, start + SHARD))
        return Unit(
            classifier=PackedClassifier(classifier), method=ALL_METHODS.parse("gradient"),
            metrics=(ALL_METRICS.parse("deletion"),), samples=part, digests=tuple(part.digests),
            targets=(0,) * SHARD, seed=0, engine="eager", threads=1,
        )  # fmt: skip

    units = [(str(number), unit(number % 4 * SHARD)) for number in range(16)]
    buffer = io.BytesIO()
    cloudpickle.Pickler(buffer, pickle.HIGHEST_PROTOCOL).dump(units[0])
    return len(buffer.getvalue()), len(pack(units[:1])[0]), len(pack(units)[0]) // 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=12)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--folder", help="photographs; those of the demo extra otherwise")
    parser.add_argument("--markdown", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    classifier = zoo.load_classifier("efficientnet-lite0")
    from snellen.images import from_path

    samples = (
        from_path(arguments.folder, geometry=classifier.geometry, channels=3).take(range(arguments.images))
        if arguments.folder
        else zoo.photographs(classifier.geometry, 3).take(range(arguments.images))
    )
    whole, without, bundled = bytes_per_unit(classifier, samples)
    pass_seconds = PassSeconds(0.03, 0.06)
    rows: dict[str, tuple[float, float]] = {}
    single, beside = alone_and_beside(arguments.repeats)
    rows["bare passes, no Snellen between"] = single, beside / 2
    with cluster(1) as first, cluster(2) as second, dask_executor(first) as alone, dask_executor(second) as both:
        alone._client.wait_for_workers(1, timeout=60)
        both._client.wait_for_workers(2, timeout=60)
        for executor in (alone, both):  # imports
            run(classifier, samples.take(range(2 * SHARD)), pass_seconds, executor=executor)
        print(rows, flush=True)
        times = [
            (run(classifier, samples, pass_seconds, executor=alone), run(classifier, samples, pass_seconds, executor=both))
            for _ in range(arguments.repeats)
        ]
    rows["Dask"] = tuple(map(statistics.median, zip(*times, strict=True)))
    print(rows, flush=True)
    here = [run(classifier, samples, pass_seconds) for _ in range(arguments.repeats)]
    pool = [run(classifier, samples, pass_seconds, workers=2) for _ in range(arguments.repeats)]
    rows["--workers 2 against this process, with starting processes"] = statistics.median(here), statistics.median(pool)
    lines = [
        f"{datetime.date.today()}, {machine()['processor']}, {os.cpu_count()} cores, revision {revision()}",
        "",
        f"{len(samples)} pictures × {METHODS} × {METRICS}, shards of {SHARD}, 1 thread per worker.",
        "",
        "| | one worker | two workers | times as fast |",
        "|---|---|---|---|",
        *(f"| {name} | {a:.1f} s | {b:.1f} s | {a / b:.2f} |" for name, (a, b) in rows.items()),
        "",
        f"Bytes sent per unit: {whole:,} with its classifier, as before; {without:,} now; {bundled:,} in a bundle of 16.",
    ]
    print("\n".join(lines))
    if arguments.markdown:
        arguments.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
