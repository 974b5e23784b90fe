"""Every method: its passes, its time, the share of it inside the model, and the same maps by whoever else computes them.

    python benchmarks/methods.py [--images 4] [--repeats 3] [--only NAME ...] [--engine NAME] [--markdown FILE]

Both sides run in one process on the same images, alternating, each method paying for all of its own passes.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import os
import statistics
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

os.environ["TQDM_DISABLE"] = "1"
import torch
from torch import Tensor

from elsewhere import Rival, rivals
from neighbours import SEED, pictures, table, timed, usual_memory
from snellen import fit, zoo
from snellen.classifier import Classifier, arithmetic
from snellen.errors import SnellenError
from snellen.plugins.registry import METHODS, label, traits
from snellen.runs import requirements
from snellen.runs.machine import machine, revision
from snellen.runs.progress import Silent
from snellen.types import Method, Passes, Rng
from theirs import with_relu

CHEAPER = {"rise": "rise(masks=200)", "sis": "sis(per_step=1000)", "sis-removal": "sis-removal(cells=4)"}
"""Settings for methods without a rival whose defaults would take minutes."""


@dataclass
class Row:
    """One method, and whoever else computes it."""

    method: Method
    rival: Rival | None
    classifier: Classifier
    ours: list[float] = field(default_factory=list)
    model: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    passes: Passes = field(default_factory=Passes)
    difference: float | None = None


def stretched(maps: Tensor) -> Tensor:
    """Each map from 0 to 1."""
    low, high = maps.amin(dim=(1, 2), keepdim=True), maps.amax(dim=(1, 2), keepdim=True)
    return (maps - low) / (high - low).clamp_min(1e-12)


class Bench:
    """All rows over the same images."""

    def __init__(self, images: int, only: list[str]) -> None:
        self.classifier = zoo.load_classifier(zoo.EMBEDDED)
        samples = pictures(images, self.classifier)
        self.inputs = self.classifier.to_inputs(torch.stack([sample.image for sample in samples]))
        self.targets = self.classifier.logits(self.inputs).argmax(dim=1)
        self.rng = Rng(SEED, tuple(sample.id for sample in samples))
        relu = Classifier(
            with_relu(self.classifier.module),
            mean=self.classifier.mean.flatten().tolist(),
            std=self.classifier.std.flatten().tolist(),
            name="with nn.ReLU",
        )
        self.refused: dict[str, str] = {}
        self.rows: list[Row] = []
        others = rivals(self.classifier, self.inputs)
        compared = {traits(METHODS.parse(other.ours)).name for other in others}
        for rival in others:
            self.rows.append(Row(METHODS.parse(rival.ours), rival, relu if rival.relu else self.classifier))
        for name in METHODS:
            if name not in compared and not traits(METHODS[name]).control:
                self.rows.append(Row(METHODS.parse(CHEAPER.get(name, name)), None, self.classifier))
        self.rows = [row for row in self.rows if not only or traits(row.method).name in only]
        for row in self.rows:
            try:
                requirements.check_needs(row.classifier, [row.method], self.inputs)
            except SnellenError as problem:
                self.refused[label(row.method)] = str(problem)
            else:
                fit(row.classifier, samples, methods=[row.method], observer=Silent())
        self.rows = [row for row in self.rows if label(row.method) not in self.refused]

    def run(self, row: Row, repeat: int) -> None:
        """Both sides once; the one that went first goes second the next time."""
        inputs, targets = self.inputs.clone(), self.targets.clone()  # new tensors, so that no earlier pass is shared

        def ours() -> Tensor:
            arithmetic.reuse_memory()
            with row.classifier.counting() as ledger, torch.no_grad():
                seconds, maps = timed(lambda: row.method(row.classifier, inputs, targets, rng=self.rng))
            row.ours.append(seconds)
            row.model.append(ledger.seconds)
            row.passes = ledger.passes
            return maps

        def theirs() -> Tensor | None:
            if row.rival is None:
                return None
            usual_memory()
            seconds, maps = timed(lambda: row.rival.explain(self.inputs.clone(), self.targets).detach())
            row.theirs.append(seconds)
            return maps

        gc.collect()
        sides: list[Callable[[], Tensor | None]] = [ours, theirs] if repeat % 2 == 0 else [theirs, ours]
        results = [side() for side in sides]
        mine, other = results if repeat % 2 == 0 else results[::-1]
        if row.rival is not None and row.rival.same and mine is not None and other is not None:
            if row.rival.scaled:
                mine, other = stretched(mine), stretched(other)
            gap = float((mine - other).abs().max() / other.abs().max().clamp_min(1e-12))
            row.difference = max(gap, row.difference or 0.0)

    def lines(self) -> list[str]:
        """The table."""
        head = ["method", "passes per image", "seconds", "in the model", "other", "seconds", "ratio", "largest difference"]
        body = []
        images = len(self.targets)
        for row in self.rows:
            ours, model = statistics.median(row.ours), statistics.median(row.model)
            passes = f"{row.passes.forward / images:.0f} + {row.passes.backward / images:.0f}"
            line = [label(row.method), passes, f"{ours:.2f}", f"{model / ours:.0%}"]
            if row.rival is None:
                line += ["", "", "", ""]
            else:
                theirs = statistics.median(row.theirs)
                gap = row.rival.note or "not compared" if row.difference is None else f"{row.difference:.1e}"
                line += [
                    row.rival.whose + (", nn.ReLU" if row.rival.relu else ""),
                    f"{theirs:.2f}",
                    f"{theirs / ours:.1f}×",
                    gap,
                ]
            body.append(line)
        return table("Every method", head, body)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--engine", default="eager", help="of our forward-only passes: eager, compiled, onnxruntime")
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")  # the others' own, like their progress bars
    bench = Bench(options.images, options.only)
    if problem := bench.classifier.use_engine(options.engine, bench.inputs).reason:
        parser.error(problem)
    for row in bench.rows:
        for repeat in range(-1, options.repeats):  # the first is to warm up
            bench.run(row, repeat)
            if repeat < 0 and max([*row.ours, *row.theirs]) < 20:
                row.ours, row.model, row.theirs = [], [], []  # slow ones are measured once
            elif repeat < 0:
                break
        print(f"{label(row.method)}: {statistics.median(row.ours):.2f} s", file=sys.stderr, flush=True)
    where = machine()
    lines = [
        f"{options.images} images of 224×224, EfficientNet-Lite0, medians of {options.repeats} after one to warm up"
        + f"; engine {options.engine}",
        "(a method that takes more than 20 s was measured once).",
        f"{datetime.date.today()}, revision {revision()}.",
        f"{where['processor']}, {where['cores']} cores, torch {where['torch']}.",
        "",
        *bench.lines(),
        "",
        *[f"- {name}: {why}" for name, why in bench.refused.items()],
    ]
    print("\n".join(lines))
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
