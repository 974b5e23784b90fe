"""The figures of Kim, Plumb and Talwalkar (2022) from measured scores, with further methods and controls."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Literal

import pandas as pd

from snellen.charts.chart import MarkerShape
from snellen.textbox.exam import summaries
from snellen.textbox.exam.families import FAMILIES, family, plain_name, short_names
from snellen.textbox.exam.oracle import ORACLE
from snellen.textbox.exam.summaries import BAR
from snellen.textbox.report.dot_plots import (
    Dot,
    DotPlot,
    DotPlotCell,
    DotPlotPanel,
    DotPlotRow,
    NumberTable,
    group_rows,
    number_table,
    score,
)

SettingKind = Literal["simple", "complex"]
CellAndNumbers = tuple[DotPlotCell, list[float]]
PERFECT = "A perfect map"
ORDER = (PERFECT, *FAMILIES)
"""The order of groups of rows: the perfect map first, the controls last."""

PAIRS: Mapping[str, tuple[tuple[int, str], ...]] = {
    "box1": ((10, "box1 and box2, no text"), (12, "the same with text B")),
    'text == "B"': ((6, "text B and box2, no box1"), (12, "the same with box1")),
    'if box1: box2 else: text == "B"': (
        (9, "text B and box1"),
        (6, "text B and box2"),
        (12, "text B and both boxes"),
    ),
}
"""By rule: the buckets that the published figures show one by one, with their contents."""


@dataclass(frozen=True)
class PublishedScore:
    """A number of the paper, read off a figure."""

    value: float
    at_most: bool
    """Whether the figure shows only an upper bound."""
    source: str
    """How it was read off."""

    def __str__(self) -> str:
        return f"{'≤ ' if self.at_most else ''}{score(self.value)}"


def published_scores() -> dict[tuple[str, str, str, str], PublishedScore]:
    """Numbers of the paper by method, score, kind of setting, and `average` or `worst`."""
    text = resources.files("snellen.textbox.report").joinpath("published.csv").read_text(encoding="utf-8")
    return {
        (row["method"], row["score"], row["setting"], row["statistic"]): PublishedScore(
            float(row["value"]), row["at_most"] == "yes", row["source"]
        )
        for row in csv.DictReader(text.splitlines())
    }


@dataclass(frozen=True, eq=False, kw_only=True)
class PaperFigures:
    """The figures of an exam, in one reading."""

    frame: pd.DataFrame
    """Scores: a row per setting, scene and method."""
    methods: tuple[str, ...]
    """Their labels."""
    controls: tuple[str, ...]
    """Their labels."""
    rules: Mapping[str, str]
    """By setting."""

    @cached_property
    def names(self) -> dict[str, str]:
        """The name of each method in figures, by label."""
        return short_names(self.methods)

    @cached_property
    def kinds(self) -> tuple[SettingKind, ...]:
        """The kinds of settings of the exam."""
        present = set(self.frame["simple"])
        both: tuple[tuple[SettingKind, bool], ...] = (("simple", True), ("complex", False))
        return tuple(kind for kind, simple in both if simple in present)

    @cached_property
    def order(self) -> list[str]:
        """The methods, the best on average in the hardest kind of setting first; the oracle before all."""
        means = {method: self.average("pafl", self.kinds[-1], method) for method in self.methods}
        rest = sorted(self.methods, key=lambda method: -means[method] if _is_defined(means[method]) else 1.0)
        return [method for method in rest if method == ORACLE] + [method for method in rest if method != ORACLE]

    @cached_property
    def _overall(self) -> dict[tuple[str, bool, str], tuple[float, float]]:
        """By score, whether simple, and method: the average and the worst bucket over all such settings."""
        return {
            (measure, bool(row["simple"]), row["method"]): (_number(row["average"]), _number(row["minimum"]))
            for measure in ("pafl", "safl", "piou")
            for row in summaries.simple_and_complex(self.frame, measure).to_dict("records")
        }

    def average(self, measure: str, kind: SettingKind, method: str) -> float:
        """Over the buckets of all settings of a kind; NaN where there is none."""
        return self._overall.get((measure, kind == "simple", method), (math.nan, math.nan))[0]

    def minimum(self, measure: str, kind: SettingKind, method: str) -> float:
        """The mean of the worst bucket of all settings of a kind; NaN where there is none."""
        return self._overall.get((measure, kind == "simple", method), (math.nan, math.nan))[1]

    def all(self) -> list[DotPlot]:
        """Every figure for which the exam has scores."""
        figures = [self.summary(), *(self.focus(kind) for kind in self.kinds), self.by_visible()]
        return [*figures, self.worst_cases()] if len(self.kinds) > 1 else figures

    # Figure 2 ---------------------------------------------------------------------------------------------------------

    def summary(self) -> DotPlot:
        """Fig. 2: average and worst bucket."""
        columns_of = [(measure, kind) for measure in ("pafl", "piou") for kind in self.kinds]

        def cell(measure: str, kind: SettingKind, method: str) -> CellAndNumbers:
            mean, low = self.average(measure, kind, method), self.minimum(measure, kind, method)
            dots = (Dot(low, "ring", "worst bucket"), Dot(mean, "dot", "average"))
            return DotPlotCell(dots=dots, link=(low, mean)), [mean, low]

        groups, numbers = self._rows(columns_of, cell)
        columns = [
            f"{measure.upper()} {kind}, {what}" for measure, kind in columns_of for what in ("average", "worst bucket")
        ]
        return DotPlot(
            name="summary",
            title="Average and worst case",
            after="Fig. 2",
            note="PAFL is the share of a map that lies on what the model uses. PIOU measures how well the "
            "brightest pixels coincide with it. The dot is the average over all buckets, the ring the bucket with the "
            "lowest mean: what can go wrong.",
            panels=tuple(self._panel(measure, kind) for measure, kind in columns_of),
            groups=groups,
            keys=(("dot", "ink", "average over all buckets"), ("ring", "ink", "worst bucket")),
            table=number_table(columns, numbers),
        )

    def beside_published(self) -> DotPlot | None:
        """Numbers read off the paper's figures, beside measured ones; comparable in the published reading only."""
        paper_scores = published_scores()
        names = {key[0] for key in paper_scores}
        labels = {plain_name(method): method for method in reversed(self.methods) if plain_name(method) in names}
        chosen = [method for method in self.order if method in labels.values()]
        if not chosen:
            return None
        columns_of = [(measure, kind) for measure in ("pafl", "piou") for kind in self.kinds]
        rows, numbers = {}, []
        for method in chosen:
            name = plain_name(method)
            cells, texts = [], [self.names[method]]
            for measure, kind in columns_of:
                published, measured = paper_scores[name, measure, kind, "average"], self.average(measure, kind, method)
                dots = (Dot(published.value, "cross", "published", colour="rust"), Dot(measured, "dot", "measured"))
                cells.append(DotPlotCell(dots=dots, link=(published.value, measured)))
                texts += [score(measured), str(published)]
                if measure == "pafl":
                    texts += [score(self.minimum(measure, kind, method)), str(paper_scores[name, measure, kind, "worst"])]
            rows[method] = DotPlotRow(method, tuple(cells))
            numbers.append(tuple(texts))
        columns = ["method"]
        for measure, kind in columns_of:
            columns += [f"{measure.upper()} {kind}, measured", "published"]
            columns += ["worst bucket, measured", "published"] if measure == "pafl" else []
        source = next(iter(paper_scores.values())).source
        return DotPlot(
            name="published",
            title="Beside the published numbers",
            after="Fig. 2",
            note="Averages in the reading of the published code, which is how those numbers came about. They were "
            f"{source}. Networks, letters and places of objects are ours, so expect agreement within a tenth.",
            panels=tuple(self._panel(measure, kind) for measure, kind in columns_of),
            groups=self._grouped(rows),
            keys=(("dot", "ink", "measured here"), ("cross", "rust", "published")),
            table=NumberTable(tuple(columns), tuple(numbers)),
        )

    # Figures 6 and 8 ---------------------------------------------------------------------------------------------------

    def focus(self, kind: SettingKind) -> DotPlot:
        """Fig. 6a, or 8a: PAFL and SAFL with their spread over buckets, and some buckets one by one."""
        singles = self._singles(kind)
        spreads = {
            measure: summaries.averages(self._of(kind), measure).set_index("method")["spread"].to_dict()
            for measure in ("pafl", "safl")
        }
        means = {measure: self._by_bucket(kind, measure) for measure in ("pafl", "safl")}

        def cell(measure: str, kind: SettingKind, method: str) -> CellAndNumbers:
            mean, spread = self.average(measure, kind, method), _number(spreads[measure].get(method))
            of_buckets = [means[measure].get((setting, bucket, method), math.nan) for setting, bucket, *_ in singles]
            dots = tuple(
                Dot(value, shape, f"{setting} bucket {bucket}", colour=colour)
                for value, (setting, bucket, _, shape, colour) in zip(of_buckets, singles, strict=True)
            )
            link, further = (mean - spread, mean + spread), (("spread", spread),)
            return DotPlotCell(dots=dots, bar=mean, link=link, further=further), [mean, spread, *of_buckets]

        groups, numbers = self._rows([("pafl", kind), ("safl", kind)], cell)
        columns = []
        for measure in ("PAFL", "SAFL"):
            columns += [measure, "spread", *(f"{setting}, bucket {bucket}" for setting, bucket, *_ in singles)]
        return DotPlot(
            name=f"focus-{kind}",
            title=f"What {kind} settings get: attention on the right objects and on the wrong ones",
            after="Fig. 6a" if kind == "simple" else "Fig. 8a",
            note="PAFL is the share of a map on what the model uses, and should be large; SAFL is the share on what it "
            "does not use, and should be small. The bar is the average over buckets, the thin line a standard deviation of "
            "the buckets to either side: how much depends on what else is in the picture. SAFL also counts scenes without "
            "anything to look at, where a map that lights up at all is bound to be wrong.",
            panels=(self._panel("pafl", kind), self._panel("safl", kind, threshold=False)),
            groups=groups,
            keys=tuple((shape, colour, f"{setting}: {words}") for setting, _, words, shape, colour in singles),
            table=number_table(columns, numbers),
        )

    def _singles(self, kind: SettingKind) -> list[tuple[str, int, str, MarkerShape, str]]:
        """Buckets that are shown one by one, where the exam has the settings that the paper chose for it."""
        markers: Iterable[tuple[MarkerShape, str]] = (
            ("ring", "blue"), ("dot", "blue"), ("box", "rust"), ("square", "rust"),
        )  # fmt: skip
        if kind == "complex":
            markers = (("ring", "blue"), ("square", "rust"), ("triangle", "violet"))
        present = set(self._of(kind)["setting"])
        buckets = [
            (setting, bucket, words)
            for rule, pairs in PAIRS.items()
            for setting, text in self.rules.items()
            if text == rule and setting in present
            for bucket, words in pairs
        ]
        return [(*bucket, *marker) for bucket, marker in zip(buckets, markers, strict=False)]

    def by_visible(self) -> DotPlot:
        """Fig. 6b: by the number of objects in the scene."""
        columns_of = [(measure, kind) for kind in self.kinds for measure in ("pafl", "safl")]
        scored = self.frame[self.frame["pafl"].notna()]
        means = {
            measure: summaries.by_visible(scored, measure).set_index(["simple", "visible", "method"])["mean"].to_dict()
            for measure in ("pafl", "safl")
        }
        counts = [count for count in sorted({int(visible) for visible in self.frame["visible"]}) if 1 <= count <= 3]

        def cell(measure: str, kind: SettingKind, method: str) -> CellAndNumbers:
            values = [means[measure].get((kind == "simple", visible, method), math.nan) for visible in counts]
            pairs = zip(counts, values, strict=True)
            dots = tuple(Dot(value, _digit(n), f"{n} shown") for n, value in pairs if _is_defined(value))
            ends = [dot.value for dot in dots]
            return DotPlotCell(dots=dots, link=(min(ends), max(ends)) if len(ends) > 1 else None), values

        groups, numbers = self._rows(columns_of, cell)
        columns = [f"{measure.upper()} {kind}, {n} shown" for measure, kind in columns_of for n in counts]
        return DotPlot(
            name="crowded",
            title="When more objects are in the picture",
            after="Fig. 6b",
            note="Averages over the scenes that show one object, two, or three. A method that highlights whatever is shown "
            "does worse the more is shown: its PAFL numbers run from right to left, its SAFL numbers from left to right. "
            "Only scenes with something to look at count, so that SAFL begins with two objects.",
            panels=tuple(self._panel(measure, kind, threshold=measure == "pafl") for measure, kind in columns_of),
            groups=groups,
            keys=tuple((_digit(n), "ink", f"{n} {'object' if n == 1 else 'objects'} in the scene") for n in counts),
            table=number_table(columns, numbers),
        )

    def worst_cases(self) -> DotPlot:
        """Fig. 8b: the worst bucket, simple against complex."""

        def cell(measure: str, _: SettingKind, method: str) -> CellAndNumbers:
            simple, hard = (self.minimum(measure, kind, method) for kind in ("simple", "complex"))
            dots = (Dot(simple, "dot", "simple", colour="blue"), Dot(hard, "square", "complex", colour="rust"))
            return DotPlotCell(dots=dots, link=(simple, hard)), [simple, hard]

        groups, numbers = self._rows([("pafl", "simple"), ("piou", "simple")], cell)
        return DotPlot(
            name="worst",
            title="The worst bucket: simple against complex",
            after="Fig. 8b",
            note="The lowest mean over the scenes of one bucket. It matters in practice, because there the bucket of a "
            "picture is unknown.",
            panels=tuple(
                DotPlotPanel(title=f"{measure.upper()}, worst bucket", threshold=BAR) for measure in ("pafl", "piou")
            ),
            groups=groups,
            keys=(("dot", "blue", "simple settings"), ("square", "rust", "complex settings")),
            table=number_table(["PAFL simple", "PAFL complex", "PIOU simple", "PIOU complex"], numbers),
        )

    # Parts --------------------------------------------------------------------------------------------------------------

    def _rows(
        self, columns: Sequence[tuple[str, SettingKind]], cell: Callable[[str, SettingKind, str], CellAndNumbers]
    ) -> tuple[tuple[tuple[str, tuple[DotPlotRow, ...]], ...], list[tuple[str, list[float]]]]:
        """The rows of all methods in groups, and the numbers of each method."""
        cells = {method: [cell(measure, kind, method) for measure, kind in columns] for method in self.order}
        rows = {method: DotPlotRow(method, tuple(chart for chart, _ in row)) for method, row in cells.items()}
        numbers = [(self.names[method], [value for _, values in row for value in values]) for method, row in cells.items()]
        return self._grouped(rows), numbers

    def _panel(self, measure: str, kind: SettingKind, *, threshold: bool = True) -> DotPlotPanel:
        controls = [value for control in self.controls if _is_defined(value := self.average(measure, kind, control))]
        return DotPlotPanel(
            title=f"{measure.upper()}, {kind}",
            threshold=BAR if threshold else None,
            best_control=max(controls) if controls and measure[0] == "p" else None,
            oracle=self.average(measure, kind, ORACLE) if measure[0] == "p" else None,
        )

    def _of(self, kind: SettingKind) -> pd.DataFrame:
        return self.frame[self.frame["simple"] == (kind == "simple")]

    def _by_bucket(self, kind: SettingKind, measure: str) -> dict[tuple[str, int, str], float]:
        means = summaries.bucket_means(self._of(kind), measure)
        return {(row["setting"], int(row["bucket"]), row["method"]): row["mean"] for row in means.to_dict("records")}

    def _grouped(self, rows: Mapping[str, DotPlotRow]) -> tuple[tuple[str, tuple[DotPlotRow, ...]], ...]:
        families = {
            label: PERFECT if label == ORACLE else "Controls" if label in self.controls else family(label) for label in rows
        }
        return group_rows(rows, families, ORDER)


def _number(value: object) -> float:
    return math.nan if value is None or pd.isna(value) else float(value)  # type: ignore[call-overload, arg-type]


def _is_defined(value: object) -> bool:
    return math.isfinite(_number(value))


def _digit(number: int) -> MarkerShape:
    digits: dict[int, MarkerShape] = {1: "1", 2: "2", 3: "3"}
    return digits[number]
