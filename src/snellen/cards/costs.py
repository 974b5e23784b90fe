"""What one map costs on this machine: seconds, passes, memory; and what a method needs of a model."""

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
from snellen.types import Method, Passes, Rng

REPEATS = 7
QUICK, PATIENCE, SLOW = 1.0, 3.0, 6.0
"""Seconds: up to where memory has a map of its own, that repeated maps may take together, from where one map must do."""

INSTANT = 0.1
"""Seconds that feel like none (Nielsen 1993): up to here the share is 1; it falls by a quarter with each factor of ten."""


@dataclass(frozen=True, kw_only=True)
class MapCost:
    """One map of one image alone, the median of some images; the memory is that of the peak above what was held before."""

    seconds: float
    repeats: int
    forward: int
    backward: int
    memory_mib: float | None


def measure_cost(method: Method, loaded: LoadedRun, on_pass: Callable[[Passes], None] | None = None) -> MapCost:
    """Explains images one by one: the first warms up, the second shows the memory, the next are timed.

    Other images each time, because a method may remember what it found out about one; a slow method does it all in one.
    """

    def explain(place: int) -> tuple[float, Passes]:
        inputs, targets, name = loaded.image(place % len(loaded.samples))
        rng = Rng(loaded.run.record.spec.seed, (name,))
        started = time.perf_counter()
        with loaded.classifier.counting(on_pass) as paid, torch.no_grad():
            method(loaded.classifier, inputs, targets, rng=rng)
            _wait(loaded.classifier.device)
        return time.perf_counter() - started, paid.passes + paid.cached

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
    """Watches the memory from now on; Linux counts that of the process, CUDA that of the device, others nothing.

    A process that ran units itself keeps freed blocks (`engines.reuse_memory`) and may count a large one more than once.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.before: float | None = None
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            self.before = torch.cuda.memory_allocated(device) / 2**20
        elif sys.platform == "linux":
            with contextlib.suppress(OSError, AttributeError):
                # What was freed but kept for reuse would hide what is needed: it goes back first.
                ctypes.CDLL(None).malloc_trim(0)
                Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
                self.before = _status("VmRSS")

    def peak(self) -> float | None:
        """The most that was held beyond what was held before, in MiB; None where nothing counts it."""
        if self.before is None:
            return None
        if self.device.type == "cuda":
            return max(0.0, torch.cuda.max_memory_allocated(self.device) / 2**20 - self.before)
        now = _status("VmHWM")
        return None if now is None else max(0.0, now - self.before)


def efficiency(cost: MapCost, method: Method, loaded: LoadedRun, machine: Mapping[str, Any]) -> Finding:
    """Seconds per image, and as a share: 1 up to a tenth of a second, and a quarter less for each factor of ten."""
    seconds = max(cost.seconds, 1e-9)
    order = math.floor(math.log10(seconds))
    share = min(1.0, max(0.0, 1 - math.log10(seconds / INSTANT) / 4))
    memory = "memory not measured" if cost.memory_mib is None else f"{cost.memory_mib:.0f} MiB more at the peak"
    fitted = f", after learning from {len(loaded.samples)} images" if methods_to_fit(method) else ""
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
    """What a method needs of a model, which the contract suite proves, and whether it could explain this one."""
    inside = sorted(set(needs) & {"layer", "relu"})
    if inside or "gradients" in needs:
        word, share = ("white box", 0.25) if inside else ("gradients", 0.5)
        names = {"gradients": "gradients", "layer": "layers", "relu": "rectifiers"}
        wants = f"It needs the model's {' and '.join(names[name] for name in names if name in needs)}"
    else:
        word, share, wants = "black box", 1.0, "It asks a model for its outputs alone"
    wants += ", and images to learn from" if "training-data" in needs else ""
    if problem is not None:
        sentence = f"{wants}; on this model it failed: {problem.rstrip('.')}."
        return Finding(
            attribute="model-agnosticism", word="refused", sentence=sentence, share=0.0, numbers={"needs": sorted(needs)}
        )
    sentence = f"{wants}; on this model it explained all {images} images."
    return Finding(
        attribute="model-agnosticism",
        word=word,
        sentence=sentence,
        share=share,
        numbers={"needs": sorted(needs), "n": images},
    )


def expected(method: Method, loaded: LoadedRun) -> Passes:
    """About how many passes `measure_cost` will make, for the progress bar."""
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
