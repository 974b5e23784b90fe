"""Our time against captum + Quantus for the same maps and the same scores, alternating in one process on the same images.

    python benchmarks/neighbours.py [--images N] [--repeats 2] [--quick] [--markdown FILE]

Rows are direct calls, each paying for all of its own passes. Totals are `snellen.evaluate` over the same methods and
metrics, as a user would run it, against the sum of the neighbours' rows.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import gc
import importlib.metadata
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import snellen
from snellen import zoo
from snellen.classifier import Classifier, arithmetic
from snellen.metrics.pixel_removal import pixel_ranks
from snellen.plugins.registry import METHODS, METRICS, label
from snellen.runs.machine import machine, revision
from snellen.runs.progress import Silent
from snellen.types import Case, Method, Metric, Rng, Sample
from theirs import Counts, Judge, Rival, judges, rivals, with_relu

SEED = 0
SHARD = 16
NEIGHBOURS = {"captum", "Quantus"}
MAP = "map"
TIE_FREE = {"deletion", "insertion", "pointing-game"}


@dataclass
class Cell:
    """One method's maps, or one metric over them: seconds of either side, repeat by repeat."""

    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)
    model: list[float] = field(default_factory=list)
    difference: float | None = None

    def median(self) -> tuple[float, float, float]:
        """Ours, theirs, and the part of ours that was spent inside the model."""
        return statistics.median(self.ours), statistics.median(self.theirs), statistics.median(self.model)


@dataclass(frozen=True, eq=False)
class Shard:
    """Some images with what is asked about them."""

    inputs: Tensor
    targets: Tensor
    truth: Tensor
    rng: Rng

    @classmethod
    def several(cls, classifier: Classifier, samples: list[Sample]) -> list[Shard]:
        """The samples in groups of at most `SHARD`, with the predicted classes as targets."""
        shards = []
        for start in range(0, len(samples), SHARD):
            group = samples[start : start + SHARD]
            inputs = classifier.to_inputs(torch.stack([sample.image for sample in group]))
            truth = torch.stack([sample.truth for sample in group if sample.truth is not None])
            rng = Rng(SEED, tuple(sample.id for sample in group))
            shards.append(cls(inputs, classifier.logits(inputs).argmax(dim=1), truth, rng))
        return shards


@dataclass(frozen=True, eq=False)
class Whole:
    """One call of evaluate(): seconds without preparing an engine, for preparing it, in the model, and its table."""

    wall: float
    preparing: float
    model: float
    table: Any
    engine: str


# The subject --------------------------------------------------------------------------------------------------------


def pictures(count: int, classifier: Classifier) -> list[Sample]:
    """The embedded photographs; more than seven are the same ones mirrored and turned, under other names."""
    samples: list[Sample] = []
    turns: tuple[tuple[int, ...], ...] = ((), (2,), (1,), (1, 2))
    for turn in range(-(-count // len(zoo.PHOTOGRAPHS))):
        for photograph in zoo.photographs(classifier.geometry):
            axes = turns[turn % len(turns)]
            shifted = photograph.image.roll(turn // len(turns), dims=2)
            truth = photograph.truth.roll(turn // len(turns), dims=1) if photograph.truth is not None else None
            image = shifted.flip(axes) if axes else shifted
            mask = truth.flip([axis - 1 for axis in axes]) if truth is not None and axes else truth
            samples.append(Sample(f"{photograph.id}-{turn}", image.contiguous(), photograph.label, mask))
    return samples[:count]


def contestants(counts: Counts) -> tuple[list[Method], list[Metric]]:
    """The methods and metrics that both sides can compute."""
    methods = [
        METHODS.build("gradient"),
        METHODS.build("input-x-gradient"),
        METHODS.build("integrated-gradients", {"steps": counts.steps}),
        METHODS.build("smoothgrad", {"samples": counts.samples}),
        METHODS.build("guided-backprop"),
        METHODS.build("grad-cam"),
        METHODS.build("occlusion", {"cells": counts.cells}),
        METHODS.build("rise", {"masks": counts.masks}),
    ]
    metrics = [
        METRICS.build("complexity"),
        METRICS.build("sparseness"),
        METRICS.build("pointing-game"),
        METRICS.build("energy-pointing-game"),
        METRICS.build("max-sensitivity", {"samples": counts.perturbations}),
        METRICS.build("avg-sensitivity", {"samples": counts.perturbations}),
        METRICS.build("deletion", {"steps": counts.sweep}),
        METRICS.build("insertion", {"steps": counts.sweep}),
        METRICS.build("average-drop"),
    ]
    return methods, metrics


def name_of(plugin: Any) -> str:
    """A plug-in's registered name."""
    return str(plugin.traits.name)


# The clock ----------------------------------------------------------------------------------------------------------


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what was computed."""
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result


def usual_memory() -> None:
    """What glibc does by itself once large blocks were freed; Snellen's own setting is for its own turns."""
    if sys.platform == "linux":
        allocator = ctypes.CDLL(None).mallopt
        allocator(-3, 32 << 20)  # M_MMAP_THRESHOLD, at its largest automatic value
        allocator(-1, 64 << 20)  # M_TRIM_THRESHOLD, twice that


def compare(
    cell: Cell,
    repeat: int,
    classifier: Classifier,
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    *,
    turn: int = 0,
) -> tuple[Any, Any]:
    """Runs both sides, the one that went first going second the next time; what they found.

    Who goes first pays for memory that the row before gave back, as much as a third of a row of a few milliseconds. Where a
    row is the sum of several calls, `turn` counts them, so that either side goes first in half of them.
    """

    def run_ours() -> Any:
        arithmetic.reuse_memory()
        with classifier.counting() as ledger, torch.no_grad():
            seconds, result = timed(ours)
        add(cell.ours, seconds)
        add(cell.model, ledger.seconds)
        return result

    def run_theirs() -> Any:
        usual_memory()
        seconds, result = timed(theirs)
        add(cell.theirs, seconds)
        return result

    def add(times: list[float], seconds: float) -> None:
        if len(times) <= repeat:
            times.append(0.0)
        times[repeat] += seconds

    gc.collect()
    if (repeat + turn) % 2:
        other = run_theirs()
        return run_ours(), other
    mine = run_ours()
    return mine, run_theirs()


class Bench:
    """All cells of the comparison, and what fills them."""

    def __init__(self, samples: list[Sample], counts: Counts, patience: float) -> None:
        self.samples, self.counts, self.patience = samples, counts, patience
        self.classifier = zoo.load_classifier(zoo.EMBEDDED)
        # captum's guided backpropagation can be compared on a network with nn.ReLU only.
        self.relu = Classifier(with_relu(self.classifier.module), mean=self.classifier.mean.flatten().tolist(),
                               std=self.classifier.std.flatten().tolist(), name="with nn.ReLU")  # fmt: skip
        self.methods, self.metrics = contestants(counts)
        self.shards = Shard.several(self.classifier, samples)
        first = self.shards[0]
        self.relu.rows_for(first.inputs)
        self.rivals = rivals(self.classifier, self.relu, first.inputs, counts, first.rng)
        self.cells: dict[tuple[str, str], Cell] = {}
        self.scores: dict[tuple[str, str], Tensor] = {}

    def repeat(self, number: int) -> None:
        """Every cell once more, except those whose first time was beyond patience."""
        for method in self.methods:
            rival = self.rivals[name_of(method)]
            classifier = self.relu if name_of(method) == "guided-backprop" else self.classifier
            scores: dict[str, list[Tensor]] = {}
            if not self._wanted(name_of(method), MAP, number):
                continue  # its metrics then cost no less
            for shard in self.shards:
                by_metric = judges(self.counts, shard.rng)
                maps, other = self._maps(number, method, rival, classifier, shard)
                for metric in self.metrics:
                    if self._wanted(name_of(method), name_of(metric), number):
                        judge = by_metric[name_of(metric)]
                        case = self._case(method, metric, classifier, shard, maps)
                        score = self._score(number, metric, method, case, replace(case, maps=other), rival, judge, shard)
                        scores.setdefault(name_of(metric), []).append(score)
            for name, parts in scores.items():
                self.scores[name_of(method), name] = torch.cat(parts)

    def _wanted(self, method: str, what: str, number: int) -> bool:
        cell = self.cells.setdefault((method, what), Cell())
        return number == 0 or (len(cell.ours) == number and max(cell.ours[0], cell.theirs[0]) <= self.patience)

    def _maps(
        self, number: int, method: Method, rival: Rival, classifier: Classifier, shard: Shard
    ) -> tuple[Tensor, Tensor]:
        cell = self.cells[name_of(method), MAP]
        inputs, targets = shard.inputs.clone(), shard.targets.clone()  # new tensors, so that no earlier pass is shared
        mine, other = compare(
            cell,
            number,
            classifier,
            lambda: method(classifier, inputs, targets, rng=shard.rng),
            lambda: rival.explain(shard.inputs.clone(), shard.targets).detach(),
        )
        if rival.same:
            gap = float((mine - other).abs().max() / other.abs().max())
            cell.difference = max(gap, cell.difference or 0.0)
        return mine, other

    def _case(self, method: Method, metric: Metric, classifier: Classifier, shard: Shard, maps: Tensor) -> Case:
        if name_of(metric) in TIE_FREE:
            # Equal values have no order of their own, so both sides get the places that Snellen draws for them.
            maps = -pixel_ranks(maps, rng=shard.rng).float()
        inputs, targets = shard.inputs.clone(), shard.targets.clone()
        return snellen.case_of(method, classifier, inputs, targets, rng=shard.rng, truth=shard.truth, maps=maps.contiguous())

    def _score(
        self,
        number: int,
        metric: Metric,
        method: Method,
        case: Case,
        their_case: Case,
        rival: Rival,
        judge: Judge,
        shard: Shard,
    ) -> Tensor:
        cell = self.cells[name_of(method), name_of(metric)]
        # What is not explained again is judged over the very same maps.
        run = judge.prepare(their_case if judge.explains else case, rival)
        mine, other = compare(cell, number, case.classifier, lambda: metric(case, rng=shard.rng), run)
        other = torch.as_tensor(np.asarray(other, dtype=np.float64))
        if rival.same or not judge.explains:
            gap = float((mine.double() - other).abs().nan_to_num(0.0).max())
            cell.difference = max(gap, cell.difference or 0.0)
        return other

    def warm_up(self) -> None:
        """One pass of each kind on either side, outside every account."""
        shard = self.shards[0]
        for name in ("gradient", "occlusion", "guided-backprop", "grad-cam"):
            method = next(candidate for candidate in self.methods if name_of(candidate) == name)
            classifier = self.relu if name == "guided-backprop" else self.classifier
            method(classifier, shard.inputs[:1].clone(), shard.targets[:1].clone(), rng=shard.rng[:1])
            self.rivals[name].explain(shard.inputs[:1].clone(), shard.targets[:1])
        self.classifier.logits(shard.inputs.repeat(4, 1, 1, 1))
        self.rivals["gradient"].explain(shard.inputs.clone(), shard.targets)

    # The whole suite ---------------------------------------------------------------------------------------------------

    def whole(self, neighbours_only: bool) -> Whole:
        """evaluate() as a user would call it; it chooses the engine by itself."""
        methods = [
            method for method in self.methods if not neighbours_only or self.rivals[name_of(method)].whose in NEIGHBOURS
        ]
        whose = {name: judge.whose for name, judge in judges(self.counts, self.shards[0].rng).items()}
        metrics = [metric for metric in self.metrics if not neighbours_only or whose[name_of(metric)] in NEIGHBOURS]
        classifier = zoo.load_classifier(zoo.EMBEDDED)
        arithmetic.reuse_memory()
        seconds, run = timed(
            lambda: snellen.evaluate(
                classifier, self.samples, methods=methods, metrics=metrics, seed=SEED, observer=Silent()
            )
        )
        preparing = run.record.planned.preparation_seconds
        return Whole(
            seconds - preparing,
            preparing,
            run.record.totals.model_seconds,
            run.scores(),
            run.record.spec.engine_name,
        )

    def gap(self, whole: Whole) -> tuple[float, str]:
        """The largest difference between evaluate()'s scores and the neighbours', and where it is."""
        names = {label(plugin): name_of(plugin) for plugin in [*self.methods, *self.metrics]}
        places = {sample.id: place for place, sample in enumerate(self.samples)}
        largest, where = 0.0, "nowhere"
        for row in whole.table.itertuples():
            method, metric = names[row.method], names[row.metric]
            if method == "guided-backprop" or not self.rivals[method].same or metric == "pointing-game":
                continue  # another network, maps with another noise, or ties that Quantus decides by their place in memory
            difference = abs(float(row.value) - float(self.scores[method, metric][places[row.sample]]))
            if difference > largest:
                largest, where = difference, f"{metric} of {method}"
        return largest, where

    def total(self, keep: Callable[[str, str], bool]) -> tuple[float, float, float]:
        """Sums of medians over the cells that `keep` accepts."""
        chosen = [cell.median() for (method, what), cell in self.cells.items() if keep(method, what)]
        return (
            sum(seconds[0] for seconds in chosen),
            sum(seconds[1] for seconds in chosen),
            sum(seconds[2] for seconds in chosen),
        )


# What is printed ----------------------------------------------------------------------------------------------------


def table(title: str, head: list[str], rows: Iterable[list[str]]) -> list[str]:
    """A Markdown table whose columns also line up in a terminal."""
    cells = [head, *rows]
    widths = [max(len(row[place]) for row in cells) for place in range(len(head))]
    ruler = [("-" * width if place == 0 else "-" * (width - 1) + ":") for place, width in enumerate(widths)]
    ruler[-1] = "-" * widths[-1]

    def line(row: list[str]) -> str:
        last = len(row) - 1
        padded = (text.ljust(width) if place in (0, last) else text.rjust(width)
                  for place, (text, width) in enumerate(zip(row, widths, strict=True)))  # fmt: skip
        return f"| {' | '.join(padded)} |"

    return [f"### {title}", "", line(head), f"| {' | '.join(ruler)} |", *(line(row) for row in cells[1:]), ""]


HEAD = ["", "neighbour", "theirs s", "ours s", "theirs/ours", "in model", "largest difference", "note"]


def row_of(name: str, whose: str, cells: list[Cell], note: str) -> list[str]:
    """One line; several cells are added up."""
    ours, theirs, model = (sum(column) for column in zip(*(cell.median() for cell in cells), strict=True))
    gaps = [cell.difference for cell in cells if cell.difference is not None]
    gap = f"{max(gaps):.1e}" if gaps else "not comparable"
    return [name, whose, f"{theirs:.3f}", f"{ours:.3f}", f"{theirs / ours:.2f}", f"{model / ours:.0%}", gap, note]


def report(bench: Bench, wholes: dict[str, list[Whole]], command: str, repeats: int) -> list[str]:
    """Everything as Markdown lines."""
    by_metric = judges(bench.counts, bench.shards[0].rng)
    where = machine()
    packages = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("captum", "quantus", "numpy"))
    layout = f"{bench.classifier.rows} rows per forward pass, {bench.classifier.gradient_rows} with gradients"
    lines = [
        "## Snellen against captum + Quantus",
        "",
        f"- command: `{command}`",
        f"- date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC, Snellen {snellen.__version__} at {revision()}",
        f"- machine: {where['processor']}, {where['cores']} cores, {where['threads']} threads, {where['memory_gib']} GiB; "
        f"Python {where['python']}, torch {where['torch']}, {packages}",
        f"- subject: EfficientNet-Lite0, {len(bench.samples)} images of 224×224, {layout} on both sides",
        f"- work: {bench.counts}",
        f"- each figure is the median of up to {repeats} repeats, the sides taking turns at going first; what takes "
        f"one side longer than {bench.patience:.0f} s is measured once",
        "",
    ]
    maps = [
        row_of(label(method), bench.rivals[name_of(method)].whose, [bench.cells[name_of(method), MAP]],
               bench.rivals[name_of(method)].note)
        for method in bench.methods
    ]  # fmt: skip
    lines += table("Maps (difference relative to the largest value)", HEAD, maps)
    names = [name_of(method) for method in bench.methods]
    scores = [
        row_of(label(metric), by_metric[name_of(metric)].whose, [bench.cells[name, name_of(metric)] for name in names],
               by_metric[name_of(metric)].note)
        for metric in bench.metrics
    ]  # fmt: skip
    lines += table(f"Metrics, each over the maps of all {len(names)} methods", HEAD, scores)

    def neighbourly(method: str, what: str) -> bool:
        return bench.rivals[method].whose in NEIGHBOURS and (what == MAP or by_metric[what].whose in NEIGHBOURS)

    totals = []
    for title, keep in (("captum + Quantus rows", neighbourly), ("all rows", lambda method, what: True)):
        ours, theirs, model = bench.total(keep)
        totals.append(
            [f"{title}: direct calls", f"{theirs:.1f}", f"{ours:.1f}", f"{theirs / ours:.2f}", f"{model / ours:.0%}", "", ""]
        )
        runs = wholes.get(title, [])
        if runs:
            wall, inside = statistics.median(o.wall for o in runs), statistics.median(o.model for o in runs)
            preparing = statistics.median(o.preparing for o in runs)
            gap, place = bench.gap(runs[0])
            state = f"engine {runs[0].engine}"
            totals.append(
                [f"{title}: evaluate()", f"{theirs:.1f}", f"{wall:.1f}", f"{theirs / wall:.2f}", f"{inside / wall:.0%}",
                 f"{gap:.1e} ({place})", state]
            )  # fmt: skip
            if preparing:
                slower = wall + preparing
                totals.append(
                    [f"{title}: evaluate() and preparing", f"{theirs:.1f}", f"{slower:.1f}", f"{theirs / slower:.2f}",
                     f"{inside / slower:.0%}", "", f"choosing and preparing the engine took {preparing:.1f} s"]
                )  # fmt: skip
    head = ["", "theirs s", "ours s", "theirs/ours", "in model", "largest difference", "note"]
    return lines + table("Totals", head, totals)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Our time against captum + Quantus at equal maps and scores.")
    parser.add_argument("--images", type=int, default=7, help="seven photographs; more are mirrored copies")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="two images, few steps, one repeat: does it still work?")
    parser.add_argument("--markdown", type=Path, help="also write the tables to this file")
    parser.add_argument("--threads", type=int, help="torch threads, the same for both sides")
    parser.add_argument("--patience", type=float, default=5.0, help="seconds beyond which nothing is repeated")
    for name, value in vars(Counts()).items():
        parser.add_argument(f"--{name}", type=int, default=None, help=f"{value} unless given")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    chosen = parse(arguments)
    warnings.filterwarnings("ignore")  # the neighbours' own
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    counts = Counts(steps=4, samples=2, masks=16, cells=2, sweep=4, perturbations=2) if chosen.quick else Counts()
    counts = replace(counts, **{name: getattr(chosen, name) for name in vars(counts) if getattr(chosen, name) is not None})
    images, repeats = (min(2, chosen.images), 1) if chosen.quick else (chosen.images, chosen.repeats)
    bench = Bench(pictures(images, zoo.load_classifier(zoo.EMBEDDED)), counts, chosen.patience)
    bench.warm_up()
    wholes: dict[str, list[Whole]] = {"captum + Quantus rows": [], "all rows": []}
    for number in range(repeats):
        seconds, _ = timed(lambda number=number: bench.repeat(number))
        print(f"repeat {number + 1} of {repeats}: rows in {seconds:.0f} s", file=sys.stderr, flush=True)
        for title, runs in wholes.items():
            if not runs or runs[0].wall <= chosen.patience:
                runs.append(bench.whole(neighbours_only=title != "all rows"))
                print(f"    {title}: evaluate() in {runs[-1].wall:.0f} s", file=sys.stderr, flush=True)
    text = "\n".join(report(bench, wholes, " ".join(["python benchmarks/neighbours.py", *arguments]), repeats))
    print(text)
    if chosen.markdown:
        chosen.markdown.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
