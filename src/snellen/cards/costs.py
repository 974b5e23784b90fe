"""The cost of one map on this machine (seconds, passes, memory), and what a method needs of a model."""

from __future__ import annotations

import contextlib
import ctypes
import math
import statistics
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from snellen.cards.loaded_run import LoadedRun
from snellen.cards.schema import Finding
from snellen.charts.numbers import count, duration
from snellen.maps.fitted_state import methods_to_fit
from snellen.plugins.outside import UNSTATED
from snellen.types import Method, Passes, Rng

REPEATS = 7
QUICK, PATIENCE, SLOW = 1.0, 3.0, 6.0
"""Seconds: below QUICK, memory is measured on a second map; PATIENCE limits all timed maps; from SLOW on one map is made."""

INSTANT = 0.1
"""Seconds that feel instantaneous (Nielsen 1993): up to here the share is 1; it falls by ¼ with each factor of ten."""


@dataclass(frozen=True, kw_only=True)
class MapCost:
    """The cost of one map of a single image."""

    seconds: float
    """The median over `repeats` images."""
    repeats: int
    forward: int
    backward: int
    """Counted passes of one image."""
    memory_mib: float | None
    """Growth of memory at the peak, in MiB; None where it is not measured."""


def measure_cost(method: Method, loaded: LoadedRun, on_pass: Callable[[Passes], None] | None = None) -> MapCost:
    """Explains images one by one: the first is a warm-up, the second measures memory, the next are timed.

    Each time another image, because methods may cache. For a slow method the first map is all three.
    """

    def explain(number: int) -> tuple[float, Passes]:
        inputs, targets, name = loaded.image(number % len(loaded.samples))
        rng = Rng(loaded.run.record.spec.seed, (name,))
        started = time.perf_counter()
        with loaded.classifier.counting(on_pass) as ledger, torch.no_grad():
            method(loaded.classifier, inputs, targets, rng=rng)
            _wait(loaded.classifier.device)
        return time.perf_counter() - started, ledger.passes + ledger.cached

    memory = Memory(loaded.classifier.device)
    first, passes = explain(0)
    peak, times = memory.peak(), [first]
    if first < QUICK:
        memory = Memory(loaded.classifier.device)
        explain(1)
        peak = memory.peak()
    if first < SLOW:
        times = []
        while not times or (len(times) < REPEATS and sum(times) + times[-1] <= PATIENCE):
            times.append(explain(2 + len(times))[0])
    return MapCost(
        seconds=statistics.median(times),
        repeats=len(times),
        forward=passes.forward,
        backward=passes.backward,
        memory_mib=peak,
    )


class Memory:
    """Measures memory from now on: of the process on Linux, of the device on CUDA; not measured elsewhere.

    A process that ran units itself reuses freed blocks (`arithmetic.reuse_memory`), so a large one may count twice.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.before: float | None = None
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            self.before = torch.cuda.memory_allocated(device) / 2**20
        elif sys.platform == "linux":
            with contextlib.suppress(OSError, AttributeError):
                # Freed memory goes back to the system first; reused, it would not be counted.
                ctypes.CDLL(None).malloc_trim(0)
                Path("/proc/self/clear_refs").write_text("5")  # resets the peak
                self.before = _status("VmRSS")

    def peak(self) -> float | None:
        """Growth of memory at the peak, in MiB; None if it is not measured here."""
        if self.before is None:
            return None
        if self.device.type == "cuda":
            return max(0.0, torch.cuda.max_memory_allocated(self.device) / 2**20 - self.before)
        now = _status("VmHWM")
        return None if now is None else max(0.0, now - self.before)


def efficiency(cost: MapCost, method: Method, loaded: LoadedRun, machine: Mapping[str, Any]) -> Finding:
    """The finding on computational efficiency. Its share is 1 up to INSTANT, and ¼ less for each factor of ten."""
    seconds = max(cost.seconds, 1e-9)
    order = math.floor(math.log10(seconds))
    share = min(1.0, max(0.0, 1 - math.log10(seconds / INSTANT) / 4))
    memory = "memory not measured" if cost.memory_mib is None else f"{cost.memory_mib:.0f} MiB more at the peak"
    fitted = f", after fitting to {len(loaded.samples)} images" if methods_to_fit(method) else ""
    height, width = loaded.size
    where = machine["gpu"] if loaded.classifier.device.type == "cuda" else machine["processor"]
    sentence = (
        f"{duration(seconds)} for one image of {height}×{width} alone{fitted} (order 1e{order}; "
        f"{'median of ' if cost.repeats > 1 else ''}{count(cost.repeats, 'image')}; "
        f"passes: {cost.forward:,} forward, {cost.backward:,} backward; {memory}) "
        f"on {where}, {count(machine['threads'], 'thread')}."
    )
    numbers = {
        "seconds": cost.seconds,
        "forward": cost.forward,
        "backward": cost.backward,
        "memory_mib": cost.memory_mib,
        "order": order,
        "n": cost.repeats,
        "machine": {key: machine[key] for key in ("processor", "cores", "threads", "gpu")},
    }
    return Finding(attribute="computational-efficiency", word=f"1e{order}", sentence=sentence, share=share, numbers=numbers)


def agnosticism(needs: Collection[str], images: int, problem: str | None) -> Finding:
    """The finding on model agnosticism: what a method needs, and whether it could explain this model.

    Args:
        needs: The method's trait, which the contract suite tests.
        images: How many images were explained.
        problem: Why the method failed; None if it did not.
    """
    inside = sorted(set(needs) & {"layer", "relu"})
    if inside or "gradients" in needs:
        word, share = ("white box", 0.25) if inside else ("gradients", 0.5)
        names = {"gradients": "gradients", "layer": "layers", "relu": "rectifiers"}
        needed = f"It needs the model's {' and '.join(names[name] for name in names if name in needs)}"
    elif UNSTATED in needs:
        word, share, needed = "not stated", math.nan, "It does not state what it needs of the model"
    else:
        word, share, needed = "black box", 1.0, "It needs only the model's outputs"
    needed += ", and images to be fitted to" if "training-data" in needs else ""
    if problem is not None:
        sentence = f"{needed}; on this model it failed: {problem.rstrip('.')}."
        return Finding(
            attribute="model-agnosticism", word="refused", sentence=sentence, share=0.0, numbers={"needs": sorted(needs)}
        )
    sentence = f"{needed}; on this model it explained all {images} images."
    return Finding(
        attribute="model-agnosticism",
        word=word,
        sentence=sentence,
        share=share,
        numbers={"needs": sorted(needs), "n": images},
    )


def expected(method: Method, loaded: LoadedRun) -> Passes:
    """An estimate of the passes that `measure_cost` will make, for the progress bar."""
    once = loaded.passes(method)
    seconds = max(loaded.pass_seconds.seconds(once), 1e-3)
    return once * (1 if seconds >= SLOW else 2 + max(1, min(REPEATS, int(PATIENCE / seconds))))


def _status(name: str) -> float | None:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) / 1024
    return None


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
