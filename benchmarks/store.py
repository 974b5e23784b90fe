"""What the store of a run costs: files, bytes of run.json, seconds to write, open and resume, and memory.

    python benchmarks/store.py [--pictures 8000 100000] [--methods 4] [--side 8] [--markdown FILE]

Units of 16 pictures with two metrics (one with a curve) are written through the real store, without a model: maps are
noise of `side` × `side`. Resume is what `evaluate` does before it computes: it opens the folder for writing, and looks up
every unit by its key.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

from snellen.images.columns import Names
from snellen.runs.planned_units import PlannedUnits
from snellen.runs.record import Cost
from snellen.runs.sample_table import SampleTable
from snellen.runs.store import Store, key_of
from snellen.runs.unit_writer import UnitFacts

SHARD = 16
COST = Cost(
    seconds=0.1, forward=16, backward=16, model_seconds=0.05, shared_forward=0, shared_backward=0, shared_seconds=0.0
)


def keys(number: int, method: int) -> tuple[str, str]:
    """The keys of a unit and of its maps."""
    return key_of([number, method]), key_of(["maps", number, method])


def measured(folder: Path, pictures: int, methods: int, side: int) -> dict[str, str]:
    """A row of the table."""
    shards = pictures // SHARD
    names = Names([f"photos/{number:08}.jpg" for number in range(pictures)])
    maps = np.random.default_rng(0).random((SHARD, side, side), dtype=np.float32)
    values, curve = np.random.default_rng(1).random(SHARD), np.random.default_rng(2).random((SHARD, 29), dtype=np.float32)
    metric_keys = {"deletion": key_of("deletion"), "complexity": key_of("complexity")}
    started = time.perf_counter()
    store = Store(folder)
    with store.writing():
        for number in range(shards):
            for method in range(methods):
                key, map_key = keys(number, method)
                facts = UnitFacts(
                    key=key,
                    map_key=map_key,
                    method=f"method-{method}",
                    start=number * SHARD,
                    count=SHARD,
                    metric_keys=metric_keys,
                )
                scores = {"deletion": (values + number, curve), "complexity": (values * method, None)}
                unit = store.own_writer.write(
                    facts, maps=maps, scores=scores, cost=COST, metric_costs=dict.fromkeys(metric_keys, COST), refused={}
                )
                store.commit(unit)
        store.store_index()
        written = time.perf_counter() - started
        started = time.perf_counter()
        plan = PlannedUnits.of(
            (keys(number, method)[0], tuple(metric_keys)) for method in range(methods) for number in range(shards)
        )
        store.put_table(plan.as_bytes())
        numbers = list(range(pictures))
        samples = SampleTable.of_columns(
            {
                "sample": names,
                "label": numbers,
                "prediction": numbers,
                "probability": values.repeat(shards),
                "target": numbers,
            }
        )
        store.put_table(samples.as_bytes())
        tables = time.perf_counter() - started
        started = time.perf_counter()
        store.merge(((store.unit(key), by) for key, by in plan.pairs()), names)  # type: ignore[misc]
        merged = time.perf_counter() - started
    started = time.perf_counter()
    list(Store(folder).index.missing(plan.keys))
    opened = time.perf_counter() - started
    started = time.perf_counter()
    again = Store(folder)
    with again.writing():
        for number in range(shards):
            for method in range(methods):
                (unit,) = again.units_with_maps(keys(number, method)[1])
                assert again.is_intact(unit)
    resumed = time.perf_counter() - started
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        "pictures × methods": f"{pictures:,} × {methods}",
        "units": f"{shards * methods:,}",
        "files": f"{len(files):,}",
        "MB": f"{sum(path.stat().st_size for path in files) / 1e6:,.0f}",
        "write, s": f"{written:.1f}",
        "tables, s": f"{tables:.2f}",
        "all scores as one table, s": f"{merged:.1f}",
        "open, s": f"{opened:.2f}",
        "resume, s": f"{resumed:.1f}",
        "peak memory, MiB": f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f}",
    }


def main() -> None:
    """Prints a table with a row per number of pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, nargs="+", default=[8_000, 100_000])
    parser.add_argument("--methods", type=int, default=4)
    parser.add_argument("--side", type=int, default=8)
    parser.add_argument("--markdown", type=Path)
    chosen = parser.parse_args()
    rows = []
    for pictures in chosen.pictures:
        with tempfile.TemporaryDirectory(prefix="store-") as name:
            rows.append(measured(Path(name) / "run", pictures, chosen.methods, chosen.side))
        print(json.dumps(rows[-1]), flush=True)
    lines = ["| " + " | ".join(rows[0]) + " |", "| --- " + "| ---: " * (len(rows[0]) - 1) + "|"]
    lines += ["| " + " | ".join(row.values()) + " |" for row in rows]
    print("\n".join(lines))
    if chosen.markdown:
        chosen.markdown.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
