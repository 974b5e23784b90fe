"""What guarding costs: the time of one comparison of a model and its inputs, beside the time of the cheapest unit of a run.

    python benchmarks/guard.py [--images 16] [--repeats 20]

The cheapest unit is one gradient of each image and no metric: it is guarded by two comparisons, one when it begins (is the
model still the one that was copied?) and one after the method. Every metric adds one more.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

from snellen.runs.guard import Guard
from snellen.zoo.models import load_classifier

SIDES = {"digits": 32, "efficientnet-lite0": 224}


def seconds(call: Callable[[], object], repeats: int) -> float:
    """The median of so many calls."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return sorted(times)[len(times) // 2]


def main() -> None:
    """Prints a row per model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=20)
    chosen = parser.parse_args()
    print("| model | one comparison | gradients of the images | share |\n| --- | --- | --- | --- |")
    for name, side in SIDES.items():
        classifier = load_classifier(name)
        inputs = torch.rand(chosen.images, classifier.channels, side, side)
        targets = torch.zeros(chosen.images, dtype=torch.long)
        tensors = {"the inputs": inputs, "the targets": targets}
        guard = Guard({"the model": classifier}, tensors)

        def watch(guard: Guard = guard) -> None:
            with guard.watching("nobody"):
                pass

        unit = seconds(lambda: classifier.gradient(inputs, targets), max(3, chosen.repeats // 4))  # noqa: B023
        compared = seconds(watch, chosen.repeats)
        begun = seconds(lambda: Guard({"the model": classifier}, tensors), chosen.repeats)  # noqa: B023
        print(f"| {name} | {1e3 * compared:.2f} ms | {1e3 * unit:.0f} ms | {(compared + begun) / unit:.2%} |", flush=True)


if __name__ == "__main__":
    main()
