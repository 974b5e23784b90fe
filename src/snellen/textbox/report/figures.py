"""The figures of Kim, Plumb and Talwalkar (2022), remade from measured scores; our methods and controls beside theirs."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from typing import Literal

import pandas as pd

from snellen.textbox.exam import summaries
from snellen.textbox.exam.families import FAMILIES, family, plain_name, short_names
from snellen.textbox.exam.oracle import ORACLE
from snellen.textbox.exam.summaries import BAR
from snellen.textbox.report.dot_plots import DotRow, Figure, Mark, Panel, Row, Shape, Table, grouped, score, table

Kind = Literal["simple", "complex"]
PERFECT = "A perfect map"
ORDER = (PERFECT, *FAMILIES)
"""Of the groups of a figure: what could be reached first, what knows nothing last."""

PAIRS: Mapping[str, tuple[tuple[int, str], ...]] = {
    "box1": ((10, "box1 and box2, no text"), (12, "the same with text B")),
    'text == "B"': ((6, "text B and box2, no box1"), (12, "the same with box1")),
    'if box1: box2 else: text == "B"': (
        (9, "text B and box1"),
        (6, "text B and box2"),
        (12, "text B and both boxes"),
    ),
}
"""By rule: the buckets that the published figures show one by one."""


@dataclass(frozen=True)
class Published:
    """A number of the paper, read off a figure; `at_most` where only a bound can be read."""

    value: float
    at_most: bool
    source: str

    def __str__(self) -> str:
        return f"{'≤ ' if self.at_most else ''}{score(self.value)}"


def published() -> dict[tuple[str, str, str, str], Published]:
    """By method, score, kind of setting, and `average` or `worst`."""
    text = resources.files("snellen.textbox.report").joinpath("published.csv").read_text(encoding="utf-8")
    return {
        (row["method"], row["score"], row["setting"], row["statistic"]): Published(
            float(row["value"]), row["at_most"] == "yes", row["source"]
        )
        for row in csv.DictReader(text.splitlines())
    }


@dataclass(frozen=True, eq=False)
class PaperFigures:
    """The figures of one field, from its frame in one reading. `rules` are those of the settings, by name."""

    frame: pd.DataFrame
    methods: tuple[str, ...]
    controls: tuple[str, ...]
    rules: Mapping[str, str]

    @cached_property
    def names(self) -> dict[str, str]:
        """What each method is called in figures."""
        return short_names(self.methods)

    @cached_property
    def kinds(self) -> tuple[Kind, ...]:
        """Which kinds of settings there are."""
        held = set(self.frame["simple"])
        both: tuple[tuple[Kind, bool], ...] = (("simple", True), ("complex", False))
        return tuple(kind for kind, simple in both if simple in held)

    @cached_property
    def order(self) -> list[str]:
        """The methods, the best on average in the hardest kind of setting first; the oracle before all."""
        means = {method: self.average("pafl", self.kinds[-1], method) for method in self.methods}
        rest = sorted(self.methods, key=lambda one: -means[one] if _defined(means[one]) else 1.0)
        return [one for one in rest if one == ORACLE] + [one for one in rest if one != ORACLE]

    @cached_property
    def _overall(self) -> dict[tuple[str, bool, str], tuple[float, float]]:
        """By score, whether simple, and method: the average and the worst bucket over all such settings."""
        return {
            (of, bool(row["simple"]), row["method"]): (_number(row["average"]), _number(row["minimum"]))
            for of in ("pafl", "safl", "piou")
            for row in summaries.simple_and_complex(self.frame, of).to_dict("records")
        }

    def average(self, of: str, kind: Kind, method: str) -> float:
        """Over the buckets of all settings of a kind; NaN where there is none."""
        return self._overall.get((of, kind == "simple", method), (math.nan, math.nan))[0]

    def minimum(self, of: str, kind: Kind, method: str) -> float:
        """The mean of the worst bucket of all settings of a kind; NaN where there is none."""
        return self._overall.get((of, kind == "simple", method), (math.nan, math.nan))[1]

    def all(self) -> list[Figure]:
        """Every figure that this field can fill."""
        found = [self.summary(), *(self.focus(kind) for kind in self.kinds), self.crowded()]
        return [*found, self.worst_cases()] if len(self.kinds) > 1 else found

    # Figure 2 ---------------------------------------------------------------------------------------------------------

    def summary(self) -> Figure:
        """Fig. 2: average and worst bucket."""
        cells = [(of, kind) for of in ("pafl", "piou") for kind in self.kinds]
        rows = {
            method: Row(method, tuple(self._average_and_worst(of, kind, method) for of, kind in cells))
            for method in self.order
        }
        columns = ["method"]
        columns += [f"{of.upper()} {kind}, {what}" for of, kind in cells for what in ("average", "worst bucket")]
        numbers = [
            (
                self.names[method],
                [value(of, kind, method) for of, kind in cells for value in (self.average, self.minimum)],
            )
            for method in self.order
        ]
        return Figure(
            "summary",
            "Average and worst case",
            "Fig. 2",
            "PAFL is the share of a map that lies on what the model uses. PIOU asks the same of the brightest pixels only: "
            "how well they coincide with it. The dot is the average over all kinds of scenes, the ring the kind with the "
            "lowest mean: what can go wrong.",
            tuple(self._panel(of, kind) for of, kind in cells),
            self._grouped(rows),
            (("dot", "ink", "average over all buckets"), ("ring", "ink", "worst bucket")),
            table(columns, numbers),
        )

    def _average_and_worst(self, of: str, kind: Kind, method: str) -> DotRow:
        mean, low = self.average(of, kind, method), self.minimum(of, kind, method)
        marks = (Mark(low, "ring", "worst bucket"), Mark(mean, "dot", "average"))
        return DotRow(marks, link=(low, mean))

    def beside_published(self) -> Figure | None:
        """The numbers of the paper that can be read off its figures, beside ours; only fair in the published reading."""
        theirs = published()
        known = {key[0] for key in theirs}
        ours = {plain_name(method): method for method in reversed(self.methods) if plain_name(method) in known}
        chosen = [one for one in self.order if one in ours.values()]
        if not chosen:
            return None
        cells = [(of, kind) for of in ("pafl", "piou") for kind in self.kinds]
        rows, numbers = {}, []
        for method in chosen:
            name = plain_name(method)
            lanes, texts = [], [self.names[method]]
            for of, kind in cells:
                there, here = theirs[name, of, kind, "average"], self.average(of, kind, method)
                marks = (Mark(there.value, "cross", "published", "far"), Mark(here, "dot", "measured"))
                lanes.append(DotRow(marks, link=(there.value, here)))
                texts += [score(here), str(there)]
                if of == "pafl":
                    texts += [score(self.minimum(of, kind, method)), str(theirs[name, of, kind, "worst"])]
            rows[method] = Row(method, tuple(lanes))
            numbers.append(tuple(texts))
        columns = ["method"]
        for of, kind in cells:
            columns += [f"{of.upper()} {kind}, measured", "published"]
            columns += ["worst bucket, measured", "published"] if of == "pafl" else []
        source = next(iter(theirs.values())).source
        return Figure(
            "published",
            "Beside the published numbers",
            "Fig. 2",
            "Averages in the reading of the published code, which is how those numbers came about. They were "
            f"{source}. Networks, letters and places of things are ours, so agreement within a tenth is all one may expect.",
            tuple(self._panel(of, kind) for of, kind in cells),
            self._grouped(rows),
            (("dot", "ink", "measured here"), ("cross", "far", "published")),
            Table(tuple(columns), tuple(numbers)),
        )

    # Figures 6 and 8 ---------------------------------------------------------------------------------------------------

    def focus(self, kind: Kind) -> Figure:
        """Fig. 6a, or 8a: PAFL and SAFL with their spread over buckets, and some buckets one by one."""
        singles = self._singles(kind)
        rows, numbers = {}, []
        spreads = {
            of: summaries.averages(self._of(kind), of).set_index("method")["spread"].to_dict() for of in ("pafl", "safl")
        }
        means = {of: self._by_bucket(kind, of) for of in ("pafl", "safl")}
        for method in self.order:
            lanes, values = [], []
            for of in ("pafl", "safl"):
                mean, spread = self.average(of, kind, method), _number(spreads[of].get(method))
                found = [means[of].get((setting, bucket, method), math.nan) for setting, bucket, *_ in singles]
                marks = tuple(
                    Mark(value, shape, f"{setting} bucket {bucket}", tone)
                    for value, (setting, bucket, _, shape, tone) in zip(found, singles, strict=True)
                )
                lanes.append(DotRow(marks, bar=mean, link=(mean - spread, mean + spread), said=(("spread", spread),)))
                values += [mean, spread, *found]
            rows[method] = Row(method, tuple(lanes))
            numbers.append((self.names[method], values))
        columns = ["method"]
        for of in ("PAFL", "SAFL"):
            columns += [of, "spread", *(f"{setting}, bucket {bucket}" for setting, bucket, *_ in singles)]
        return Figure(
            f"focus-{kind}",
            f"What {kind} settings get: attention on the right things and on the wrong ones",
            "Fig. 6a" if kind == "simple" else "Fig. 8a",
            "PAFL is the share of a map on what the model uses, and should be large; SAFL is the share on what it does not "
            "even consult, and should be small. The bar is the average over buckets, the thin line a standard deviation of "
            "the buckets to either side: how much depends on what else is in the picture. SAFL also counts scenes without "
            "anything to look at, where a map that lights up at all is bound to be wrong.",
            (self._panel("pafl", kind), self._panel("safl", kind, threshold=False)),
            self._grouped(rows),
            tuple((shape, tone, f"{setting}: {words}") for setting, _, words, shape, tone in singles),
            table(columns, numbers),
        )

    def _singles(self, kind: Kind) -> list[tuple[str, int, str, Shape, str]]:
        """Buckets that are shown one by one, where the settings that the paper chose for it are in the field."""
        looks: Iterable[tuple[Shape, str]] = (("ring", "one"), ("dot", "one"), ("box", "two"), ("square", "two"))
        if kind == "complex":
            looks = (("ring", "one"), ("square", "two"), ("triangle", "three"))
        there = set(self._of(kind)["setting"])
        buckets = [
            (setting, bucket, words)
            for rule, some in PAIRS.items()
            for setting, text in self.rules.items()
            if text == rule and setting in there
            for bucket, words in some
        ]
        return [(*bucket, *look) for bucket, look in zip(buckets, looks, strict=False)]

    def crowded(self) -> Figure:
        """Fig. 6b: by the number of things in the scene."""
        cells = [(of, kind) for kind in self.kinds for of in ("pafl", "safl")]
        seen = self.frame[self.frame["pafl"].notna()]
        known = {
            of: summaries.by_visible(seen, of).set_index(["simple", "visible", "method"])["mean"].to_dict()
            for of in ("pafl", "safl")
        }
        counts = [one for one in sorted({int(one) for one in self.frame["visible"]}) if 1 <= one <= 3]
        rows, numbers = {}, []
        for method in self.order:
            lanes, values = [], []
            for of, kind in cells:
                found = [known[of].get((kind == "simple", visible, method), math.nan) for visible in counts]
                marks = tuple(
                    Mark(value, _digit(n), f"{n} shown") for n, value in zip(counts, found, strict=True) if _defined(value)
                )
                ends = [mark.value for mark in marks]
                lanes.append(DotRow(marks, link=(min(ends), max(ends)) if len(ends) > 1 else None))
                values += found
            rows[method] = Row(method, tuple(lanes))
            numbers.append((self.names[method], values))
        columns = ["method", *(f"{of.upper()} {kind}, {n} shown" for of, kind in cells for n in counts)]
        return Figure(
            "crowded",
            "When more things are in the picture",
            "Fig. 6b",
            "Averages over the scenes that show one thing, two, or three. A method that is drawn to whatever is there does "
            "worse the more there is: its PAFL numbers run from right to left, its SAFL numbers from left to right. Only "
            "scenes with something to look at count, so that SAFL begins with two things: one to look at, one to avoid.",
            tuple(self._panel(of, kind, threshold=of == "pafl") for of, kind in cells),
            self._grouped(rows),
            tuple((_digit(n), "ink", f"{n} {'thing' if n == 1 else 'things'} in the scene") for n in counts),
            table(columns, numbers),
        )

    def worst_cases(self) -> Figure:
        """Fig. 8b: the worst bucket, simple against complex."""
        rows, numbers = {}, []
        for method in self.order:
            lanes, values = [], []
            for of in ("pafl", "piou"):
                simple, hard = (self.minimum(of, kind, method) for kind in ("simple", "complex"))
                marks = (Mark(simple, "dot", "simple", "one"), Mark(hard, "square", "complex", "two"))
                lanes.append(DotRow(marks, link=(simple, hard)))
                values += [simple, hard]
            rows[method] = Row(method, tuple(lanes))
            numbers.append((self.names[method], values))
        return Figure(
            "worst",
            "The worst bucket: simple against complex",
            "Fig. 8b",
            "The lowest mean over the scenes of one bucket. Whoever relies on a method has to reckon with it, for in "
            "practice nobody knows which bucket a picture belongs to.",
            tuple(Panel(f"{of.upper()}, worst bucket", threshold=BAR) for of in ("pafl", "piou")),
            self._grouped(rows),
            (("dot", "one", "simple settings"), ("square", "two", "complex settings")),
            table(["method", "PAFL simple", "PAFL complex", "PIOU simple", "PIOU complex"], numbers),
        )

    # Parts --------------------------------------------------------------------------------------------------------------

    def _panel(self, of: str, kind: Kind, *, threshold: bool = True) -> Panel:
        controls = [value for control in self.controls if _defined(value := self.average(of, kind, control))]
        return Panel(
            f"{of.upper()}, {kind}",
            threshold=BAR if threshold else None,
            ignorance=max(controls) if controls and of[0] == "p" else None,
            oracle=self.average(of, kind, ORACLE) if of[0] == "p" else None,
        )

    def _of(self, kind: Kind) -> pd.DataFrame:
        return self.frame[self.frame["simple"] == (kind == "simple")]

    def _by_bucket(self, kind: Kind, of: str) -> dict[tuple[str, int, str], float]:
        means = summaries.bucket_means(self._of(kind), of)
        return {(row["setting"], int(row["bucket"]), row["method"]): row["mean"] for row in means.to_dict("records")}

    def _grouped(self, rows: Mapping[str, Row]) -> tuple[tuple[str, tuple[Row, ...]], ...]:
        families = {row: PERFECT if row == ORACLE else "Controls" if row in self.controls else family(row) for row in rows}
        return grouped(rows, families, ORDER)


def _number(value: object) -> float:
    return math.nan if value is None or pd.isna(value) else float(value)  # type: ignore[call-overload, arg-type]


def _defined(value: object) -> bool:
    return math.isfinite(_number(value))


def _digit(number: int) -> Shape:
    digits: dict[int, Shape] = {1: "1", 2: "2", 3: "3"}
    return digits[number]
