"""Runs the protocol of a published table and compares the measured numbers and claims with the paper's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from snellen.classifier import Classifier
from snellen.errors import SnellenError, nearest
from snellen.images import Samples
from snellen.papers.claims import Claim, ClaimResult
from snellen.papers.published_table import PublishedColumn, PublishedTable, TableBlock
from snellen.papers.table_values import CellKey, TableValues
from snellen.papers.tables import TABLES
from snellen.plugins.registry import METHODS, METRICS, label
from snellen.runs import Run, requirements
from snellen.runs.progress import Observer
from snellen.runs.settings import LoadedSubject, Settings, workers_for_short_passes
from snellen.verdicts import certainty

Measure = Callable[[Bool[np.ndarray, " images"]], float]
"""From a mask of the images that count to one number in the paper's units."""


@dataclass(frozen=True, kw_only=True)
class ClaimComparison:
    """A claim decided from the paper's own table and from the measured one."""

    claim: Claim[TableValues]
    published: ClaimResult
    """Decided from the paper's numbers."""
    measured: ClaimResult
    """Decided from the numbers measured here."""


@dataclass(frozen=True, kw_only=True)
class TableComparison:
    """A published table beside the same table measured here."""

    table: PublishedTable
    published: TableValues
    """The paper's numbers."""
    measures: Mapping[CellKey, Measure]
    """By cell of the table, the function that computes its number."""
    images: int
    """Number of images."""
    classifier: str
    source: str
    """Where the images come from."""
    methods: tuple[str, ...]
    """The paper's names of those that were run."""
    skipped: Mapping[str, str]
    """By method why it was not run."""

    @cached_property
    def measured(self) -> TableValues:
        """The numbers over all images."""
        return self._values(np.ones(self.images, dtype=bool))

    def _values(self, counted: Bool[np.ndarray, " images"]) -> TableValues:
        return TableValues({key: measure(counted) for key, measure in self.measures.items()})

    def claims(self) -> list[ClaimComparison]:
        """Every claim of the paper, decided from both tables.

        A measured result counts only if it stays the same whichever single image is left out.
        """
        all_but_one = [self._values(mask) for mask in ~np.eye(self.images, dtype=bool)] if self.images > 1 else []
        comparisons = []
        for claim in self.table.claims:
            measured = claim.decide(self.measured)
            stable = self.images > 1 and all(claim.decide(values).holds == measured.holds for values in all_but_one)
            if measured.holds is not None and not stable:
                measured = replace(measured, holds=None, numbers="it depends on single images")
            comparisons.append(ClaimComparison(claim=claim, published=claim.decide(self.published), measured=measured))
        return comparisons

    def frame(self) -> pd.DataFrame:
        """One row per block, method and metric, with the published and the measured number."""
        rows = [
            {
                "table": self.table.name,
                "arm": block.published,
                "method": method,
                "metric": metric,
                "snellen_method": self.table.methods[method],
                "snellen_metric": column.metric,
                "published": self.published.cells.get((block.published, method, metric)),
                "measured": self.measured.cells.get((block.published, method, metric)),
                "images": self.images,
            }
            for block in self.table.blocks
            for method in self.table.methods
            for metric, column in self.table.columns.items()
        ]
        return pd.DataFrame(rows)

    def write_csv(self, path: Path) -> Path:
        """Writes the rows of `frame` to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.frame().to_csv(path, index=False)
        return path

    @property
    def certainty(self) -> str:
        """What this number of images allows to conclude, in words."""
        return certainty(self.images).words


def reproduce(
    name: str,
    values: Mapping[str, Any],
    *,
    methods: Sequence[str] | None = None,
    variations: int = 1,
    observer: Observer,
) -> TableComparison:
    """Runs the protocol of a published table.

    Args:
        name: The table, such as `zhang2024-table1`.
        values: Settings, such as the model and the images.
        methods: Names as the paper or Snellen writes them, or `["all"]`. By default, methods that take too long for a first
            look are left out.
        variations: Over how many variations of a change to average, where the paper averages over several.
        observer: Shows the progress.
    """
    if variations < 1:
        raise SnellenError(f"variations must be at least 1, not {variations}")
    if name not in TABLES:
        raise SnellenError(f"unknown table '{name}'{nearest(name, TABLES)} (known: {', '.join(TABLES)})")
    table = TABLES[name]
    chosen, skipped = _chosen_methods(table, methods)
    settings_values = {"out": f"runs/{name}", **values}
    if table.subject and "model" not in values:
        settings_values = {**table.subject, "workers": workers_for_short_passes(), **settings_values}
    settings = Settings.of(settings_values)
    loaded = settings.load(observer)
    chosen, refused = _supported_methods(table, chosen, *loaded)
    measures: dict[CellKey, Measure] = {}
    runs: list[Run] = []
    for block in table.blocks:
        observer.note(f"{table.title}{f': {block.title}' if block.title else ''}")
        block_runs = [
            _run(table, block, index, chosen, settings, loaded, observer)
            for index in range(min(variations, len(block.variations)))
        ]
        measures |= _measures(table, block, chosen, block_runs)
        runs += block_runs
    return TableComparison(
        table=table,
        published=table.published(),
        measures=measures,
        images=len(runs[0].samples()),
        classifier=runs[0].record.classifier.name,
        source=runs[0].record.samples.source,
        methods=tuple(chosen),
        skipped={**skipped, **refused},
    )


def _chosen_methods(table: PublishedTable, methods: Sequence[str] | None) -> tuple[list[str], dict[str, str]]:
    """The paper's names of the methods to run, in the paper's order, and by method why it is not run."""
    if methods is None:
        return [name for name in table.methods if name not in table.left_out], dict(table.left_out)
    if list(methods) == ["all"]:
        return list(table.methods), {}
    paper_names: dict[str, str] = {}
    for paper, ours in table.methods.items():
        paper_names |= dict.fromkeys((paper.lower(), ours, re.split("[@(]", ours)[0]), paper)
    chosen = set()
    for method in methods:
        if method.lower() not in paper_names:
            names = ", ".join(table.methods)
            raise SnellenError(
                f"{table.name} has no method '{method}'{nearest(method.lower(), paper_names)} (it has: {names}, or all)"
            )
        chosen.add(paper_names[method.lower()])
    return [name for name in table.methods if name in chosen], {
        name: "not requested" for name in table.methods if name not in chosen
    }


def _supported_methods(
    table: PublishedTable, chosen: Sequence[str], classifier: Classifier, samples: Samples
) -> tuple[list[str], dict[str, str]]:
    """The methods that can explain this classifier, and why the others cannot, under the paper's names."""
    methods = {paper: METHODS.parse(table.methods[paper]) for paper in chosen}
    inputs = classifier.to_inputs(samples[0].image[None])
    able, refused = requirements.split_by_support(classifier, list(methods.values()), inputs)
    if not able:
        raise SnellenError(f"no method of {table.name} can explain '{classifier.name}': {next(iter(refused.values()))}")
    reasons = {paper: refused.get(label(method)) for paper, method in methods.items()}
    return [paper for paper in chosen if reasons[paper] is None], {
        paper: reason for paper, reason in reasons.items() if reason is not None
    }


def _run(
    table: PublishedTable,
    block: TableBlock,
    index: int,
    chosen: Sequence[str],
    settings: Settings,
    loaded: LoadedSubject,
    observer: Observer,
) -> Run:
    """Runs one variation of one block, in a folder of its own where there are several."""
    change = dict(block.variations[index])
    change["seed"] = settings.seed + int(change.get("seed", 0))
    out = settings.out if len(table.blocks) == 1 else f"{settings.out}/{block.published}{index or ''}"
    values = {
        **settings.as_values(),
        **block.settings,
        **change,
        "out": out,
        "methods": [table.methods[paper] for paper in chosen],
        "metrics": list(dict.fromkeys(column.metric for column in table.columns.values())),
    }
    return Settings.of(values).run_what_works(observer, loaded)


def _measures(
    table: PublishedTable, block: TableBlock, chosen: Sequence[str], runs: Sequence[Run]
) -> dict[CellKey, Measure]:
    """A function for each number of a block, which computes it from the scores of the block's runs."""
    frames = []
    for run in runs:
        wide = run.scores().pivot(index="sample", columns=["method", "metric"], values="value")
        frames.append(wide.reindex(run.samples()["sample"]))
    measures: dict[CellKey, Measure] = {}
    for paper in chosen:
        method = label(METHODS.parse(table.methods[paper]))
        for name, column in table.columns.items():
            metric = label(METRICS.parse(column.metric))
            key = block.published, paper, name
            if column.pooling is not None:
                traces = runs[0].curves(metric)
                points = next(facts.points for facts in runs[0].record.spec.metrics if facts.label == metric) or ()
                if method in traces:
                    scores = runs[0].scores()
                    scored = scores.loc[(scores["method"] == method) & (scores["metric"] == metric), "sample"]
                    rows = np.full((len(frames[0]), len(points)), np.nan)  # images that were not run have no trace
                    rows[frames[0].index.isin(scored)] = traces[method]
                    measures[key] = _pooled(column, rows, points)
                continue
            columns = [frame[method, metric].to_numpy(dtype=np.float64) for frame in frames if (method, metric) in frame]
            if columns:
                measures[key] = _mean(column, np.stack(columns, axis=1))
    return measures


def _mean(column: PublishedColumn, scores: Float[np.ndarray, "images variations"]) -> Measure:
    def measure(counted: Bool[np.ndarray, " images"]) -> float:
        chosen = scores[counted]
        defined = chosen[~np.isnan(chosen)]
        return column.unit(float(defined.mean())) if defined.size else float("nan")

    return measure


def _pooled(column: PublishedColumn, traces: Float[np.ndarray, "images points"], points: Sequence[str]) -> Measure:
    pooling = column.pooling
    assert pooling is not None
    return lambda counted: column.unit(pooling(traces[counted], points))
