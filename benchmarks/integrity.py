"""What damage does to a run folder, what looking for it costs, and what sudden deaths leave behind.

    python benchmarks/integrity.py [--flips 1200] [--resumed 60] [--kills 20] [--megabytes 300] [--markdown FILE]

Flips: a small real run (digits, with a method that learns and trained variants, weights and pickled), and single random
bits of its files, one at a time. After each, everything is read that a report reads, and `snellen verify` looks. Counted are
flips that were refused or reported (caught), flips that changed nothing that is read (harmless), and flips after which a
number was another or a traceback came (wrong). Some are followed by the run's own command, which must give the first tables
again.

Cost: reading maps with the comparison, and by safetensors alone.

Kills: `snellen run` in processes that are killed at random moments until one ends by itself; the folder must then hold the
same tables as one that was left alone, and nothing damaged.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import hashlib
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from snellen import zoo
from snellen.errors import SnellenError
from snellen.files import integrity
from snellen.files.folder import LocalFolder
from snellen.runs import Options, Run, evaluate
from snellen.runs.machine import revision
from snellen.runs.progress import Silent
from snellen.runs.segments import FinishedUnit
from snellen.runs.store import Store
from snellen.runs.unit_index import open_index
from snellen.runs.unit_writer import UnitFacts
from snellen.runs.verify import verify

KINDS = (
    "segments/*.maps", "segments/*.units", "index/*", "tables/*", "pictures/*", "run.json", "scores.parquet",
    "lessons/*.safetensors", "lessons/*.json", "relatives/*.safetensors", "relatives/*.pickle", "relatives/*.json",
)  # fmt: skip


def compute(folder: Path) -> Run:
    """The run that is damaged, or mended."""
    return evaluate(
        zoo.load_classifier("digits"),
        zoo.digit_samples()[:32],
        methods=["gradient", "grad-cam", "iba(steps=2, samples=2)", "random"],
        metrics=["pointing-game", "complexity", "deletion(steps=8)", "repeatability", "reproducibility"],
        recipe="zoo:digits",
        training=zoo.training_digits()[:60],
        out=folder,
        options=Options(shard=8, threads=1, engine="eager"),
        observer=Silent(),
    )


def read(folder: Path) -> str:
    """Stands for everything that a report reads; costs in seconds differ from run to run, and the rest must not."""
    integrity._CHECKED.clear()
    run = Run(folder)
    ids = list(run.samples()["sample"])
    facts = [run.scores(), run.samples(), run.costs(), run.problems(), run.record, run.curves("deletion(steps=8)")]
    facts += [run.maps(method, ids) for method in run.methods]
    facts += [run.picture(sample) for sample in ids]
    return hashlib.sha256(pickle.dumps([fact.to_csv() if hasattr(fact, "to_csv") else fact for fact in facts])).hexdigest()


def flips(folder: Path, count: int, resumed: int) -> list[str]:
    """A table of what became of the flips, by kind of file."""
    first = compute(folder / "first")
    table, reference = first.table(), read(folder / "first")
    luck = random.Random(0)
    counts: dict[str, collections.Counter[str]] = {kind: collections.Counter() for kind in KINDS}
    copy = folder / "copy"
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        if number == 0 or copy.exists() is False:
            shutil.copytree(first.folder, copy)
        path = luck.choice(sorted(copy.glob(kind)))
        whole = path.read_bytes()
        place, bit = luck.randrange(len(whole)), luck.randrange(8)
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << bit]) + whole[place + 1 :])
        try:
            reading = "same" if read(copy) == reference else "another"
        except SnellenError:
            reading = "refused"
        except Exception as problem:
            reading = f"{type(problem).__name__}"
            print(f"wrong: {path.name} byte {place} bit {bit}: {problem!r}")
        reported = bool(verify(copy).problems)
        caught = reported or reading == "refused"
        outcome = "wrong" if reading not in ("same", "refused") else "caught" if caught else "harmless"
        counts[kind][outcome] += 1
        counts[kind]["refused on reading"] += reading == "refused"
        if number % max(1, count // max(1, resumed)) == 0:
            integrity._CHECKED.clear()
            again = compute(copy)
            whole_again = again.table().equals(table) and not verify(copy).problems
            counts[kind]["mended" if whole_again else "not mended"] += 1
            shutil.rmtree(copy)
        else:
            path.write_bytes(whole)
        if number % 100 == 99:
            print(f"{number + 1} flips", flush=True)
    names = ("caught", "refused on reading", "harmless", "wrong", "mended", "not mended")
    total = sum(counts.values(), collections.Counter())
    rows = [f"| {kind} | " + " | ".join(str(counts[name]) for name in names) + " |" for kind, counts in counts.items()]
    return [
        "| file | caught | of these refused on reading | harmless | wrong | run again: mended | not mended |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
        *rows,
        "| all | " + " | ".join(str(total[name]) for name in names) + " |",
    ]


def written(store: Store, maps: np.ndarray, number: int) -> FinishedUnit:
    """A unit with these maps and no scores."""
    key = f"{number:020x}"
    facts = UnitFacts(key=key, map_key=key, method="random", start=16 * number, count=16, metric_keys={})
    unit = store.own_writer.write(facts, maps=maps, scores={}, cost=None, metric_costs={}, refused={})
    store.commit(unit)
    return unit


def finished(folder: Path) -> int:
    """How many units are finished."""
    return len(open_index(LocalFolder(folder), compare=False)[0])


def cost(folder: Path, megabytes: int) -> list[str]:
    """A table of rates."""
    store = Store(folder / "cost")
    maps = np.random.default_rng(0).random((16, 224, 224), dtype=np.float32)
    with store.writing():
        names = [written(store, maps + place, place) for place in range(max(1, megabytes * 10**6 // maps.nbytes))]
    plain = [folder / f"{place}.safetensors" for place in range(len(names))]
    for place, path in enumerate(plain):
        save_file({"maps": maps + place}, path)
    size = len(names) * maps.nbytes / 1e6

    def seconds(call: Callable[[Any], Any], items: Sequence[Any]) -> float:
        started = time.perf_counter()
        for item in items:
            call(item)
        return time.perf_counter() - started

    rows: dict[str, list[float]] = {"safetensors alone": [], "compared": []}
    for _ in range(3):
        rows["safetensors alone"].append(seconds(load_file, plain))
        rows["compared"].append(seconds(store.maps, names))
    return [
        f"| reading {size:,.0f} MB of maps from memory | seconds | MB/s |",
        "| --- | ---: | ---: |",
        *(f"| {name} | {min(values):.2f} | {size / min(values):,.0f} |" for name, values in rows.items()),
    ]


def kills(folder: Path, count: int) -> list[str]:
    """One sentence."""
    words = ["run", "--model", "digits", "--images", "zoo:digits", "--shard", "60", "--threads", "1", "--engine", "eager"]
    words += ["--methods", "gradient,grad-cam,rise(masks=40),random", "--metrics", "deletion(steps=8),complexity"]
    command = [sys.executable, "-c", "from snellen.cli.main import main; main()", *words, "--out"]
    subprocess.run([*command, str(folder / "alone")], check=True, capture_output=True)
    luck, done, damaged = random.Random(0), 0, 0
    while done < count:
        out = folder / f"killed-{done}"
        while True:
            process = subprocess.Popen([*command, str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            started = finished(out)
            while process.poll() is None and done < count and finished(out) < started + 4:
                time.sleep(0.002)
            time.sleep(luck.uniform(0, 0.3))
            if done >= count or process.poll() is not None:
                process.wait()
                break
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
            done += 1
            damaged += len(verify(out).problems) if (out / "run.json").exists() else 0
        same = (out / "scores.parquet").read_bytes() == (folder / "alone" / "scores.parquet").read_bytes()
        damaged += len(verify(out).problems) + (not same)
        print(f"{done} kills", flush=True)
    return [f"{done} processes killed by SIGKILL at random moments: {damaged} files damaged or tables different at the end."]


def main() -> None:
    """Runs all three and prints their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--flips", type=int, default=1200)
    parser.add_argument("--resumed", type=int, default=60)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--megabytes", type=int, default=300)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    lines = ["## Damage to a run folder", ""]
    lines += [f"{datetime.date.today()}, {revision() or 'no revision'}: `python {' '.join(sys.argv)}`", ""]
    with tempfile.TemporaryDirectory() as name:
        for amount, part in (
            (options.flips, lambda at: flips(at, options.flips, options.resumed)),
            (options.megabytes, lambda at: cost(at, options.megabytes)),
            (options.kills, lambda at: kills(at, options.kills)),
        ):
            if amount:
                lines += [*part(Path(name)), ""]
    print("\n".join(lines))
    if options.markdown:
        options.markdown.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
