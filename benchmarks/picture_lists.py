"""Memory and time of picture lists: a manifest of a million rows, without pictures, on this disk.

    python benchmarks/picture_lists.py [ROWS]

The rows name files that do not exist, but for the first; their checksums are in the list, so nothing else is read. Printed
are the seconds until samples are there, the memory that they hold, the most that this process had in between, and the size
of the part that one unit of work is sent.
"""

from __future__ import annotations

import gc
import hashlib
import pickle
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from snellen.images import samples as samples_module
from snellen.images.any_source import from_path
from snellen.images.geometry import AS_IS


def write_list(folder: Path, rows: int) -> Path:
    """A list of which only the first row names a file that exists."""
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(folder / "0.png")
    first = hashlib.sha256((folder / "0.png").read_bytes()).hexdigest()
    path = folder / "list.parquet"
    schema = pa.schema([("file", pa.string()), ("label", pa.int64()), ("group", pa.string()), ("sha256", pa.string())])
    with pq.ParquetWriter(path, schema) as table:
        for start in range(0, rows, 100_000):
            numbers = range(start, min(start + 100_000, rows))
            columns = [
                [f"class-{number % 1000:04d}/picture-{number:08d}.jpg" if number else "0.png" for number in numbers],
                [number % 1000 for number in numbers],
                [f"patient-{number // 5:07d}" for number in numbers],
                [hashlib.sha256(str(number).encode()).hexdigest() if number else first for number in numbers],
            ]
            table.write_table(pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema))
    return path


def main() -> None:
    """Prints one line."""
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    samples_module.FIRST = 1
    process = psutil.Process()
    with tempfile.TemporaryDirectory() as name:
        path = write_list(Path(name), rows)
        gc.collect()
        before, started = process.memory_info().rss, time.perf_counter()
        samples = from_path(path, geometry=AS_IS, check="first")
        seconds = time.perf_counter() - started
        gc.collect()
        pa.default_memory_pool().release_unused()
        held = process.memory_info().rss - before
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
        part = len(pickle.dumps(samples[rows // 2 : rows // 2 + 16]))
        print(
            f"{len(samples):,} rows ({path.stat().st_size / 1e6:.0f} MB): {seconds:.1f} s, {held / 1e6:.0f} MB held "
            f"({held / rows:.0f} bytes a row), at most {most / 1e6:.0f} MB in between; 16 samples are {part:,} bytes"
        )


if __name__ == "__main__":
    main()
