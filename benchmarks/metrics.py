"""Our time against Quantus, captum.metrics, pytorch-grad-cam and torch-cam for the same scores: each metric, and a battery.

    python benchmarks/metrics.py [--model digits] [--images N] [--repeats 2] [--only NAME ...] [--quick] [--markdown FILE]

Both sides run in one process over the maps of the same methods, taking turns at going first. Rows are direct calls, each
paying for all of its own passes. The battery is `snellen.evaluate` over all those methods and metrics, as a user would run
it, against the sum of the others' times for the same maps and scores.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import importlib.metadata
import math
import statistics
import sys
import warnings
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import snellen
from neighbours import HEAD, SEED, Cell, Shard, compare, name_of, pictures, row_of, table, timed
from snellen import zoo
from snellen.classifier import Classifier, arithmetic
from snellen.metrics.pixel_removal import pixel_ranks
from snellen.plugins.registry import METHODS, METRICS, label
from snellen.runs.machine import machine, revision
from snellen.runs.progress import Silent
from snellen.runs.record import RunRecord
from snellen.types import Case, Method, Metric, Sample
from their_metrics import contests
from theirs import Judge, Work, rivals

LIBRARIES = ("captum", "quantus", "grad-cam", "torchcam", "numpy")
WORK = {zoo.EMBEDDED: Work(), zoo.DIGITS: Work(sweep=16, chunks=8, region=4)}
_FEW = {"steps": 4, "cells": 2, "perturbations": 2, "draws": 2, "regions": 4, "subsets": 4, "squares": 4, "stages": 2}
QUICK = {zoo.EMBEDDED: {**_FEW, "sweep": 7}, zoo.DIGITS: {**_FEW, "sweep": 8}}
IMAGES = {zoo.EMBEDDED: 7, zoo.DIGITS: 64}


@dataclass(frozen=True, eq=False)
class Battery:
    """One call of evaluate(): seconds, and what its record says."""

    wall: float
    preparing: float
    record: RunRecord
    table: Any


def subject(model: str, count: int) -> tuple[Classifier, list[Sample]]:
    """The classifier, and so many of the pictures that come with it."""
    classifier = zoo.load_classifier(model)
    if model == zoo.EMBEDDED:
        return classifier, pictures(count, classifier)
    scenes = zoo.digit_samples()
    return classifier, [scenes[place] for place in range(min(count, len(scenes)))]


class Bench:
    """All cells of the comparison, and what fills them."""

    def __init__(self, model: str, images: int, work: Work, patience: float, only: list[str]) -> None:
        self.model, self.work, self.patience = model, work, patience
        self.classifier, self.samples = subject(model, images)
        self.methods: list[Method] = [
            METHODS.build("gradient"),
            METHODS.build("integrated-gradients", {"steps": work.steps}),
            METHODS.build("grad-cam"),
            METHODS.build("occlusion", {"cells": work.cells}),
        ]
        self.shards = Shard.several(self.classifier, self.samples)
        first = self.shards[0]
        self.rivals = rivals(self.classifier, self.classifier, first.inputs, work, first.rng)
        pixels = first.truth[0].numel()

        def chosen(judge: Judge) -> bool:
            return not only or any(name_of(METRICS.parse(notation)) in only for notation in judge.ours)

        self.judges = [[judge for judge in contests(work, pixels, shard.rng) if chosen(judge)] for shard in self.shards]
        self.ours = [[METRICS.parse(notation) for notation in judge.ours] for judge in self.judges[0]]
        self.metrics: list[Metric] = list({label(metric): metric for several in self.ours for metric in several}.values())
        self.cells: dict[tuple[str, int], Cell] = {}
        self.maps = {name_of(method): Cell() for method in self.methods}
        self.scores: dict[tuple[str, str, str], float] = {}

    # Direct calls ----------------------------------------------------------------------------------------------------

    def repeat(self, number: int) -> None:
        """Every cell once more, except those whose first time was beyond patience."""
        for first, method in enumerate(self.methods):
            for turn, (shard, judges) in enumerate(zip(self.shards, self.judges, strict=True), start=first):
                maps, other = self._explain(number, turn, method, shard)
                for place, judge in enumerate(judges):
                    cell = self.cells.setdefault((name_of(method), place), Cell())
                    if number == 0 or max(cell.ours[0], cell.theirs[0]) <= self.patience:
                        self._judge(cell, number, turn, method, self.ours[place], judge, shard, maps, other)
            print(f"    {label(method)}", file=sys.stderr, flush=True)

    def _explain(self, number: int, turn: int, method: Method, shard: Shard) -> tuple[Tensor, Tensor]:
        cell, rival = self.maps[name_of(method)], self.rivals[name_of(method)]
        inputs, targets = shard.inputs.clone(), shard.targets.clone()  # new tensors, so that no earlier pass is shared
        mine, other = compare(
            cell,
            number,
            self.classifier,
            lambda: method(self.classifier, inputs, targets, rng=shard.rng),
            lambda: rival.explain(shard.inputs.clone(), shard.targets).detach(),
            turn=turn,
        )
        gap = float((mine - other).abs().max() / other.abs().max())
        cell.difference = max(gap, cell.difference or 0.0)
        return mine, other

    def _judge(
        self,
        cell: Cell,
        number: int,
        turn: int,
        method: Method,
        metrics: list[Metric],
        judge: Judge,
        shard: Shard,
        maps: Tensor,
        other: Tensor,
    ) -> None:
        case = self._case(method, judge, shard, maps)
        # What is not explained again is judged over the very same maps.
        run = judge.prepare(
            self._case(method, judge, shard, other if judge.explains else maps), self.rivals[name_of(method)]
        )
        scores, answer = compare(
            cell,
            number,
            self.classifier,
            lambda: torch.stack([metric(case, rng=shard.rng) for metric in metrics]),
            run,
            turn=turn,
        )
        theirs = torch.as_tensor(np.asarray(answer, dtype=np.float64)).reshape(len(metrics), -1)
        mine = scores.double() if theirs.shape[1] == len(case) else scores.double().nanmean(dim=1, keepdim=True)
        if not judge.same or (judge.unsigned and bool((case.maps < 0).any())):
            return
        gap = (mine - theirs).abs() / theirs.abs().clamp_min(1)
        cell.difference = max(float(gap.nan_to_num(0.0).max()), cell.difference or 0.0)
        if theirs.shape[1] == len(case) and not judge.ordered:
            for metric, row in zip(metrics, theirs.tolist(), strict=True):
                for sample, value in zip(shard.rng.ids, row, strict=True):
                    self.scores[label(method), label(metric), sample] = value

    def _case(self, method: Method, judge: Judge, shard: Shard, maps: Tensor) -> Case:
        if judge.ordered:
            # Equal values have no order of their own, so both sides get the places that Snellen draws for them. Roots,
            # because whole numbers would add up to equal sums of regions.
            maps = (maps[0].numel() - pixel_ranks(maps, rng=shard.rng)).float().sqrt()
        inputs, targets = shard.inputs.clone(), shard.targets.clone()
        return snellen.case_of(
            method, self.classifier, inputs, targets, rng=shard.rng, truth=shard.truth, maps=maps.contiguous()
        )

    def warm_up(self) -> None:
        """One pass of each kind on either side, outside every account."""
        shard = self.shards[0]
        for method in self.methods:
            method(self.classifier, shard.inputs.clone(), shard.targets.clone(), rng=shard.rng)
            self.rivals[name_of(method)].explain(shard.inputs.clone(), shard.targets)
        self.classifier.logits(shard.inputs.repeat(4, 1, 1, 1))

    # The battery -----------------------------------------------------------------------------------------------------

    def battery(self) -> Battery:
        """evaluate() as a user would call it; it chooses the engine by itself."""
        classifier = zoo.load_classifier(self.model)
        arithmetic.reuse_memory()
        seconds, run = timed(
            lambda: snellen.evaluate(
                classifier, self.samples, methods=self.methods, metrics=self.metrics, seed=SEED, observer=Silent()
            )
        )
        preparing = run.record.planned.preparation_seconds
        return Battery(seconds - preparing, preparing, run.record, run.scores())

    def needed(self) -> set[int]:
        """Of the others, those without whom some score would be missing; where several can give it, the fastest stays."""
        kept = set(range(len(self.ours)))
        for place in sorted(kept, key=lambda cell: -self._seconds(cell)[1]):
            rest = {label(metric) for other in kept - {place} for metric in self.ours[other]}
            if all(label(metric) in rest for metric in self.ours[place]):
                kept.remove(place)
        return kept

    def _seconds(self, place: int) -> tuple[float, float, float]:
        """Ours, theirs, and ours inside the model, over all methods."""
        medians = [self.cells[name_of(method), place].median() for method in self.methods]
        ours, theirs, model = (sum(column) for column in zip(*medians, strict=True))
        return ours, theirs, model

    def totals(self) -> tuple[float, float, float]:
        """The same three for all maps and everyone who is needed."""
        medians = [cell.median() for cell in self.maps.values()] + [self._seconds(place) for place in self.needed()]
        ours, theirs, model = (sum(column) for column in zip(*medians, strict=True))
        return ours, theirs, model

    def gap(self, battery: Battery) -> tuple[float, str]:
        """The largest difference between evaluate()'s scores and the others' over the same maps, and where it is."""
        largest, where = 0.0, "nowhere"
        for row in battery.table.itertuples():
            theirs = self.scores.get((row.method, row.metric, row.sample), math.nan)
            difference = abs(float(row.value) - theirs) / max(1.0, abs(theirs))
            if difference > largest:
                largest, where = difference, f"{row.metric} of {row.method}"
        return largest, where


# What is printed -----------------------------------------------------------------------------------------------------


def report(bench: Bench, batteries: list[Battery], command: str, repeats: int) -> list[str]:
    """Everything as Markdown lines."""
    where, size = machine(), "×".join(str(side) for side in bench.shards[0].inputs.shape[2:])
    packages = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in LIBRARIES if installed(name))
    layout = f"{bench.classifier.rows} rows per forward pass, {bench.classifier.gradient_rows} with gradients"
    lines = [
        f"## Every metric that somebody else computes, on {bench.classifier.name}",
        "",
        f"- command: `{command}`",
        f"- date: {datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC, Snellen {snellen.__version__} at {revision()}",
        f"- machine: {where['processor']}, {where['cores']} cores, {where['threads']} threads, {where['memory_gib']} GiB; "
        f"Python {where['python']}, torch {where['torch']}, {packages}",
        f"- subject: {bench.classifier.name}, {len(bench.samples)} images of {size}, {layout}",
        f"- work: {bench.work}",
        f"- maps: {', '.join(label(method) for method in bench.methods)}",
        f"- each figure is the median of up to {repeats} repeats, the sides taking turns at going first, call by call; what "
        f"takes one side longer than {bench.patience:.0f} s is measured once",
        "- differences of scores above 1 are relative",
        "",
    ]
    maps = [
        row_of(
            label(method),
            bench.rivals[name_of(method)].whose,
            [bench.maps[name_of(method)]],
            bench.rivals[name_of(method)].note,
        )
        for method in bench.methods
    ]
    lines += table("Maps (difference relative to the largest value)", HEAD, maps)
    scores = []
    for place, (judge, metrics) in enumerate(zip(bench.judges[0], bench.ours, strict=True)):
        cells = [bench.cells[name_of(method), place] for method in bench.methods]
        scores.append(row_of(" + ".join(label(metric) for metric in metrics), judge.whose, cells, judge.note))
    lines += table(f"Metrics, each over the maps of all {len(bench.methods)} methods", HEAD, scores)
    head = ["", "theirs s", "ours s", "theirs/ours", "in model", "largest difference", "note"]
    lines += table("The battery", head, totals(bench, batteries))
    return lines + outside(batteries) + slower(bench) + passes(bench, batteries)


def outside(batteries: list[Battery]) -> list[str]:
    """The share of evaluate()'s time outside of the model, repeat by repeat, without choosing and preparing an engine."""
    shares = ", ".join(f"{1 - battery.record.totals.model_seconds / battery.wall:.1%}" for battery in batteries)
    return [f"Of evaluate()'s time outside of the model: {shares}.", ""] if batteries else []


def slower(bench: Bench) -> list[str]:
    """The rows below 1.0 in some repeat, with the ratio of every repeat: how far they differ is the noise."""
    columns = {label(method): [bench.maps[name_of(method)]] for method in bench.methods}
    for place, metrics in enumerate(bench.ours):
        cells = [bench.cells[name_of(method), place] for method in bench.methods]
        columns[f"{' + '.join(label(metric) for metric in metrics)} ({bench.judges[0][place].whose})"] = cells
    lines = []
    for name, cells in columns.items():
        repeats = range(min(len(cell.ours) for cell in cells))
        ratios = [sum(cell.theirs[turn] for cell in cells) / sum(cell.ours[turn] for cell in cells) for turn in repeats]
        if min(ratios) < 1:
            lines.append(f"- {name}: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
    return ["Rows below 1.0 in some repeat, with every repeat:", "", *lines, ""] if lines else []


def totals(bench: Bench, batteries: list[Battery]) -> list[list[str]]:
    """All maps and scores at once: by direct calls, by evaluate(), and with the time to choose and prepare an engine."""
    ours, theirs, model = bench.totals()

    def row(name: str, seconds: float, inside: float, gap: str, note: str) -> list[str]:
        return [name, f"{theirs:.1f}", f"{seconds:.1f}", f"{theirs / seconds:.2f}", f"{inside / seconds:.0%}", gap, note]

    rows = [row("direct calls", ours, model, "", "")]
    if batteries:
        wall, preparing = (
            statistics.median(getattr(battery, name) for battery in batteries) for name in ("wall", "preparing")
        )
        inside = statistics.median(battery.record.totals.model_seconds for battery in batteries)
        gap, place = bench.gap(batteries[0])
        state = f"engine {batteries[0].record.spec.engine_name}"
        rows.append(row("evaluate()", wall, inside, f"{gap:.1e} ({place})", state))
        if preparing:
            note = f"choosing and preparing the engine took {preparing:.1f} s"
            rows.append(row("evaluate() and preparing", wall + preparing, inside, "", note))
    return rows


def passes(bench: Bench, batteries: list[Battery]) -> list[str]:
    """What was compared in the battery, and what sharing saved."""
    counted = sorted(bench.needed())
    whose = dict.fromkeys(bench.judges[0][place].whose for place in counted)
    lines = [
        f"The battery holds {len(bench.methods)} methods and {len(bench.metrics)} metrics. Their time is the sum of the "
        f"maps and of these: {', '.join(whose)}. Where several give a score, the fastest is counted.",
        "",
    ]
    if batteries:
        record = batteries[0].record
        planned, done = record.planned, record.totals
        lines += [
            f"Planned: {planned.forward:,} forward and {planned.backward:,} backward passes, of which sharing saved "
            f"{done.shared_forward:,} and {done.shared_backward:,}.",
            "",
        ]
    return lines


def installed(package: str) -> bool:
    """Whether there is such a distribution."""
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Our time against other libraries at equal scores, metric by metric.")
    parser.add_argument("--model", choices=sorted(WORK), default=zoo.EMBEDDED)
    parser.add_argument("--images", type=int, help="; ".join(f"{count} on {name}" for name, count in IMAGES.items()))
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[], help="names of metrics")
    parser.add_argument("--quick", action="store_true", help="two images, few steps, one repeat: does it still work?")
    parser.add_argument("--markdown", type=Path, help="also write the tables to this file")
    parser.add_argument("--threads", type=int, help="torch threads, the same for both sides")
    parser.add_argument("--patience", type=float, default=5.0, help="seconds beyond which nothing is repeated")
    for name in vars(Work()):
        parser.add_argument(f"--{name}", type=int, help=f"{getattr(WORK[zoo.EMBEDDED], name)} unless given")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> None:
    chosen = parse(arguments)
    warnings.filterwarnings("ignore")  # the others' own
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    work = replace(WORK[chosen.model], **(QUICK[chosen.model] if chosen.quick else {}))
    work = replace(work, **{name: getattr(chosen, name) for name in vars(work) if getattr(chosen, name) is not None})
    images, repeats = (2, 1) if chosen.quick else (chosen.images or IMAGES[chosen.model], chosen.repeats)
    bench = Bench(chosen.model, images, work, chosen.patience, chosen.only)
    bench.warm_up()
    gc.collect()
    gc.freeze()  # what the libraries hold is looked through no more before each row, which took longer than the rows
    batteries: list[Battery] = []
    for number in range(repeats):
        seconds, _ = timed(lambda number=number: bench.repeat(number))
        print(f"repeat {number + 1} of {repeats}: rows in {seconds:.0f} s", file=sys.stderr, flush=True)
        batteries.append(bench.battery())
        print(f"    evaluate() in {batteries[-1].wall:.0f} s", file=sys.stderr, flush=True)
    text = "\n".join(report(bench, batteries, " ".join(["python benchmarks/metrics.py", *arguments]), repeats))
    print(text)
    if chosen.markdown:
        chosen.markdown.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
