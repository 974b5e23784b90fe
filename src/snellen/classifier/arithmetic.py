"""Arithmetic: the precision of passes, the memory that they reuse, and work beside them in several threads."""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeVar

import torch

from snellen.errors import SnellenError

Part = TypeVar("Part")
Result = TypeVar("Result")

Precision = Literal["float32", "bfloat16", "float16"]

REUSED_BYTES = 1 << 30
"""Freed memory blocks up to this size are reused by the process."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # constants of malloc.h


def reuse_memory() -> None:
    """Tells the C library to reuse large freed blocks, for the whole process (Linux only).

    glibc returns every block above 32 MiB to the system and requests it again: with activations of that size, a forward pass
    spends as much time on page faults as on arithmetic.
    """
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):
        set_option = ctypes.CDLL(None).mallopt
        for option in (_MMAP_THRESHOLD, _TRIM_THRESHOLD):
            set_option(option, REUSED_BYTES)


@contextlib.contextmanager
def in_precision(precision: Precision, device: torch.device) -> Iterator[None]:
    """Runs the body in this precision; float32 changes nothing."""
    if precision == "float32":
        yield
        return
    with torch.autocast(device.type, dtype=getattr(torch, precision)):
        yield


def check_precision(precision: Precision, device: torch.device) -> None:
    """Raises a SnellenError if this precision does not work here; tried in another process, because it may crash."""
    if precision == "float32":
        return
    trial = (
        "import torch\n"
        f"with torch.autocast('{device.type}', dtype=torch.{precision}), torch.inference_mode():\n"
        f"    x = torch.ones(2, 3, 16, 16, device='{device}')\n"
        f"    y = torch.nn.Conv2d(3, 8, 3).to('{device}')(x).flatten(1)\n"
        f"    z = torch.nn.Linear(y.shape[1], 4).to('{device}')(y)\n"
        "assert z.isfinite().all()\n"
    )
    process = subprocess.run([sys.executable, "-c", trial], capture_output=True, text=True, timeout=120, check=False)
    if process.returncode:
        raise SnellenError(
            f"precision '{precision}' does not work on {device} here (the trial ended with code {process.returncode}); "
            "use float32"
        )


def in_threads(compute: Callable[[Part], Result], parts: Iterable[Part]) -> list[Result]:
    """The result for each part, computed in as many threads as a pass of the model uses, on one processor core each."""
    threads = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(compute, parts))
    finally:
        torch.set_num_threads(threads)  # the initializer also changed what threads that are started later use
