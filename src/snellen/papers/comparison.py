"""Runs a published protocol and puts its numbers beside the paper's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from snellen.classifier import Classifier
from snellen.errors import SnellenError, nearest
from snellen.images import Samples
from snellen.papers.published_table import Arm, Column, Protocol
from snellen.papers.table_values import Key, MissingError, Values
from snellen.papers.tables import PROTOCOLS
from snellen.plugins.registry import METHODS, METRICS, label
from snellen.runs import Run
from snellen.runs import plan as planning
from snellen.runs.progress import Observer
from snellen.runs.settings import Loaded, Settings, workers_for_short_passes
from snellen.verdicts import certainty

State = Literal["holds", "does not hold", "cannot be told"]

Measure = Callable[[Bool[np.ndarray, " images"]], float]
"""From the images that count to one number in the paper's units."""


@dataclass(frozen=True)
class Answer:
    """Whether a finding holds in the paper's own table and in the measured one, and why not more can be said."""

    claim: str
    note: str
    published: State
    measured: State
    why: str


@dataclass(frozen=True)
class Comparison:
    """A published table beside the same table measured here; `skipped` says by method why it was not run."""

    protocol: Protocol
    published: Values
    measures: Mapping[Key, Measure]
    images: int
    classifier: str
    source: str
    methods: tuple[str, ...]
    skipped: Mapping[str, str]

    @cached_property
    def measured(self) -> Values:
        """The numbers over all images."""
        return self._values(np.ones(self.images, dtype=bool))

    def _values(self, kept: Bool[np.ndarray, " images"]) -> Values:
        return Values({key: measure(kept) for key, measure in self.measures.items()})

    def answers(self) -> list[Answer]:
        """Every finding of the paper, asked of both tables.

        A measured answer counts only if it stays the same whichever single image is left out.
        """
        fewer = []
        for place in range(self.images if self.images > 1 else 0):
            kept = np.ones(self.images, dtype=bool)
            kept[place] = False
            fewer.append(self._values(kept))
        found = []
        for finding in self.protocol.findings:
            state, why = _asked(finding.asks, self.measured)
            if state != "cannot be told":
                without = [_asked(finding.asks, values)[0] for values in fewer]
                if self.images < 2 or any(one != state for one in without):
                    state, why = "cannot be told", "it hangs on single images"
            found.append(Answer(finding.claim, finding.note, _asked(finding.asks, self.published)[0], state, why))
        return found

    def table(self) -> pd.DataFrame:
        """One line per arm, method and metric, with the published and the measured number."""
        lines = [
            {
                "table": self.protocol.name,
                "arm": arm.published,
                "method": method,
                "metric": metric,
                "snellen_method": self.protocol.methods[method],
                "snellen_metric": column.metric,
                "published": self.published.cells.get((arm.published, method, metric)),
                "measured": self.measured.cells.get((arm.published, method, metric)),
                "images": self.images,
            }
            for arm in self.protocol.arms
            for method in self.protocol.methods
            for metric, column in self.protocol.columns.items()
        ]
        return pd.DataFrame(lines)

    def write_csv(self, path: Path) -> Path:
        """The same as a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        self.table().to_csv(path, index=False)
        return path

    @property
    def certainty(self) -> str:
        """How much this number of images allows to be said."""
        return certainty(self.images).words


def _asked(question: Callable[[Values], bool], values: Values) -> tuple[State, str]:
    try:
        return ("holds" if question(values) else "does not hold"), ""
    except MissingError as missing:
        return "cannot be told", str(missing)


def reproduce(
    name: str, given: Mapping[str, Any], *, methods: Sequence[str] | None = None, variations: int = 1, observer: Observer
) -> Comparison:
    """Runs the protocol of a published table.

    `given` are settings, such as the model and the images; `methods` are names as the paper or Snellen writes them, or
    "all". Without it the methods that take too long for a first look are left out. Where the paper averages over several
    variations of a change, `variations` says over how many.
    """
    if variations < 1:
        raise SnellenError(f"variations must be at least 1, not {variations}")
    if name not in PROTOCOLS:
        raise SnellenError(f"unknown table '{name}'{nearest(name, PROTOCOLS)} (known: {', '.join(PROTOCOLS)})")
    protocol = PROTOCOLS[name]
    chosen, skipped = _chosen(protocol, methods)
    values: dict[str, Any] = dict(given)
    if protocol.subject and "model" not in given:
        values = {**protocol.subject, "workers": workers_for_short_passes(), **given}
    values.setdefault("out", f"runs/{name}")
    settings = Settings.of(values)
    loaded = settings.load(observer)
    chosen, refused = _able(protocol, chosen, *loaded)
    measures: dict[Key, Measure] = {}
    runs: list[Run] = []
    for arm in protocol.arms:
        observer.note(f"{protocol.title}{f': {arm.title}' if arm.title else ''}")
        found = [
            _run(protocol, arm, place, chosen, settings, loaded, observer)
            for place in range(min(variations, len(arm.variations)))
        ]
        measures |= _measures(protocol, arm, chosen, found)
        runs += found
    return Comparison(
        protocol, protocol.published(), measures, len(runs[0].samples()), runs[0].record.classifier.name,
        runs[0].record.samples.source, tuple(chosen), {**skipped, **refused},
    )  # fmt: skip


def _chosen(protocol: Protocol, methods: Sequence[str] | None) -> tuple[list[str], dict[str, str]]:
    """The paper's names of the methods to run, in the paper's order."""
    if methods is None:
        return [one for one in protocol.methods if one not in protocol.left_out], dict(protocol.left_out)
    if list(methods) == ["all"]:
        return list(protocol.methods), {}
    known: dict[str, str] = {}
    for paper, ours in protocol.methods.items():
        known |= dict.fromkeys((paper.lower(), ours, re.split("[@(]", ours)[0]), paper)
    asked = []
    for one in methods:
        if one.lower() not in known:
            names = ", ".join(protocol.methods)
            raise SnellenError(
                f"{protocol.name} has no method '{one}'{nearest(one.lower(), known)} (it has: {names}, or all)"
            )
        asked.append(known[one.lower()])
    return [one for one in protocol.methods if one in asked], {
        one: "not asked for" for one in protocol.methods if one not in asked
    }


def _able(
    protocol: Protocol, chosen: Sequence[str], classifier: Classifier, samples: Samples
) -> tuple[list[str], dict[str, str]]:
    """The methods that can explain this classifier, and why the others cannot, under the paper's names."""
    methods = {paper: METHODS.parse(protocol.methods[paper]) for paper in chosen}
    inputs = classifier.to_inputs(samples[0].image[None])
    able, refused = planning.servable(classifier, list(methods.values()), inputs)
    if not able:
        raise SnellenError(f"no method of {protocol.name} can explain '{classifier.name}': {next(iter(refused.values()))}")
    why = {paper: refused.get(label(method)) for paper, method in methods.items()}
    return [paper for paper in chosen if why[paper] is None], {paper: one for paper, one in why.items() if one is not None}


def _run(
    protocol: Protocol,
    arm: Arm,
    place: int,
    chosen: Sequence[str],
    settings: Settings,
    loaded: Loaded,
    observer: Observer,
) -> Run:
    """One variation of one arm, in a folder of its own where there are several."""
    change = dict(arm.variations[place])
    change["seed"] = settings.seed + int(change.get("seed", 0))
    out = settings.out if len(protocol.arms) == 1 else str(Path(settings.out) / f"{arm.published}{place or ''}")
    values = {
        **settings.as_values(),
        **arm.settings,
        **change,
        "out": out,
        "methods": [protocol.methods[one] for one in chosen],
        "metrics": list(dict.fromkeys(column.metric for column in protocol.columns.values())),
    }
    return Settings.of(values).run_what_works(observer, loaded)


def _measures(protocol: Protocol, arm: Arm, chosen: Sequence[str], runs: Sequence[Run]) -> dict[Key, Measure]:
    tables = []
    for run in runs:
        wide = run.scores().pivot(index="sample", columns=["method", "metric"], values="value")
        tables.append(wide.reindex(run.samples()["sample"]))
    found: dict[Key, Measure] = {}
    for paper in chosen:
        method = label(METHODS.parse(protocol.methods[paper]))
        for name, column in protocol.columns.items():
            metric = label(METRICS.parse(column.metric))
            at = arm.published, paper, name
            if column.pooled is not None:
                traces = runs[0].curves(metric)
                points = next(one.points for one in runs[0].record.spec.metrics if one.label == metric) or ()
                if method in traces:
                    rows = runs[0].scores()
                    written = rows.loc[(rows["method"] == method) & (rows["metric"] == metric), "sample"]
                    whole = np.full((len(tables[0]), len(points)), np.nan)  # images that were not run have no trace
                    whole[tables[0].index.isin(written)] = traces[method]
                    found[at] = _pooled(column, whole, points)
                continue
            scores = [table[method, metric].to_numpy(dtype=np.float64) for table in tables if (method, metric) in table]
            if scores:
                found[at] = _mean(column, np.stack(scores, axis=1))
    return found


def _mean(column: Column, scores: Float[np.ndarray, "images variations"]) -> Measure:
    def measure(kept: Bool[np.ndarray, " images"]) -> float:
        some = scores[kept]
        defined = some[~np.isnan(some)]
        return column.unit(float(defined.mean())) if defined.size else float("nan")

    return measure


def _pooled(column: Column, traces: np.ndarray, points: Sequence[str]) -> Measure:
    pooled = column.pooled
    assert pooled is not None
    return lambda kept: column.unit(pooled(traces[kept], points))
