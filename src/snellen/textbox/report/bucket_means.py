"""Mean scores per bucket, under the paper's short names of methods, from which claims are decided."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from snellen.papers.claims import MissingError
from snellen.plugins.registry import METHODS, traits
from snellen.textbox.exam import summaries
from snellen.textbox.exam.families import plain_name
from snellen.textbox.exam.oracle import ORACLE

PAPER = {
    "G": "gradient",
    "SG": "smoothgrad-squared",
    "DCN": "deconvnet",
    "GBP": "guided-backprop",
    "DT": "deep-taylor",
    "I*G": "input-x-gradient",
    "IG": "integrated-gradients",
    "LRP-Z": "lrp-z",
    "LRP-E": "lrp-epsilon",
    "LRP-Ab": "lrp-alpha1-beta0",
    "LRP-Bb": "lrp-alpha2-beta1",
    "DL-RC": "deeplift-reveal-cancel",
    "DL-R": "deeplift-rescale",
    "G-CAM": "grad-cam",
    "D-SHAP": "deepshap",
}
"""The fifteen methods of Kim et al. (2022) by the short names of its figures, in their order."""

FEWEST_METHODS = 4
"""Claims about most or all methods need at least so many."""

MOST_NAMED = 8
"""A sentence names at most so many methods one by one."""


@dataclass(frozen=True, eq=False, kw_only=True)
class BucketMeans:
    """Mean scores and outcomes: a row per setting, bucket and method."""

    rows: pd.DataFrame
    """Of the methods that claims are about, under short names."""
    methods: tuple[str, ...]
    """The short names."""
    other_rows: pd.DataFrame
    """Of all other methods, under their labels: controls, the oracle, further methods."""

    @staticmethod
    def of(frame: pd.DataFrame, names: Mapping[str, str]) -> BucketMeans:
        """Computes the means of a frame of scores.

        Args:
            frame: One row per setting, scene and method.
            names: Labels of methods by short name. Methods that did not explain every setting of the frame are left out.
        """
        settings = frame.groupby("method")["setting"].nunique()
        everywhere = set(settings.index[settings == frame["setting"].nunique()])
        short = {label: name for name, label in names.items() if label in everywhere}
        means = summaries.with_outcomes(summaries.means_of(frame[frame["method"].isin(everywhere)]))
        named = means["method"].isin(list(short))
        rows = means[named]
        return BucketMeans(
            rows=rows.assign(method=rows["method"].map(short)), methods=tuple(short.values()), other_rows=means[~named]
        )

    @property
    def enough_methods(self) -> list[str]:
        """All methods; `MissingError` where they are too few for a claim about most of them."""
        if len(self.methods) < FEWEST_METHODS:
            raise MissingError(f"{len(self.methods)} methods were run; at least {FEWEST_METHODS} are needed")
        return list(self.methods)

    def require(self, *names: str) -> list[str]:
        """These methods; `MissingError` where one was not run."""
        missing = [name for name in names if name not in self.methods]
        if missing:
            raise MissingError(f"not run: {', '.join(missing)}")
        return list(names)

    def select(self, *, simple: bool | None = None, setting: str | None = None) -> pd.DataFrame:
        """The rows of simple settings, of complex ones, or of one setting."""
        rows = self.rows
        if simple is not None:
            rows = rows[rows["simple"] == simple]
        if setting is not None:
            rows = rows[rows["setting"] == setting]
        if rows.empty:
            kind = "simple" if simple else "complex"
            raise MissingError(f"{setting} was not run" if setting else f"no {kind} setting was run")
        return rows

    def average(self, score: str, *, simple: bool) -> pd.Series:
        """The mean over buckets, by method."""
        return by_method(self.select(simple=simple), score, "mean", self.methods)

    def worst(self, score: str, *, simple: bool) -> pd.Series:
        """The lowest bucket, by method."""
        return by_method(self.select(simple=simple), score, "min", self.methods)

    def deviation(self, score: str, *, simple: bool) -> pd.Series:
        """The standard deviation over buckets, by method: the published one, as in `summaries.averages`."""
        return by_method(self.select(simple=simple), score, lambda values: values.std(ddof=0), self.methods)

    def other_averages(self, score: str, *, simple: bool, where: Callable[[str], bool]) -> pd.Series:
        """The mean over buckets of other methods, by label, if `where(label)`; it may be empty."""
        rows = self.other_rows[self.other_rows["simple"] == simple]
        labels = [str(label) for label in rows["method"].unique() if where(str(label))]
        return by_method(rows, score, "mean", labels)

    def contested(self, *, simple: bool | None = None, settings: Sequence[str] = ()) -> pd.DataFrame:
        """The rows of buckets with something to focus on and something to avoid: see `summaries.with_outcomes`."""
        for setting in settings:
            self.select(setting=setting)
        rows = self.select(simple=simple)
        rows = rows[rows["setting"].isin(list(settings))] if settings else rows
        rows = rows[rows["contested"]]
        if rows.empty:
            raise MissingError("no bucket has both something to focus on and something to avoid")
        return rows

    def shares(self, outcome: str, *, simple: bool) -> pd.DataFrame:
        """Settings by methods: in what share of the defined contested buckets the outcome is a success, or a failure."""
        rows = self.contested(simple=simple)
        shares = rows[rows["defined"]].groupby(["setting", "method"], sort=False)[outcome].mean().unstack("method")
        return shares.reindex(columns=self.enough_methods)

    def succeeds(self, *, simple: bool, settings: Sequence[str] = ()) -> pd.DataFrame:
        """Settings by methods: whether a method succeeds in all contested buckets, undefined ones included."""
        rows = self.contested(simple=simple, settings=settings)
        successes = rows.groupby(["setting", "method"], sort=False)["success"].all().unstack("method")
        return successes.reindex(columns=self.enough_methods)


def by_method(
    rows: pd.DataFrame, score: str, statistic: str | Callable[[pd.Series], float], methods: Sequence[str]
) -> pd.Series:
    """A statistic over buckets for each method; NaN for a method without any bucket."""
    values: pd.Series = rows.groupby("method", sort=False)[score].agg(statistic).reindex(list(methods))
    return values


def paper_methods(labels: Iterable[str]) -> dict[str, str]:
    """The paper's methods among these labels, by short name; the paper's settings are preferred to others."""
    candidates = list(labels)
    methods = {}
    for short, name in PAPER.items():
        matches = [label for label in candidates if plain_name(label) == name]
        if matches:
            methods[short] = min(matches, key=lambda label: (not label.endswith("@kim2022"), len(label)))
    return methods


def own_methods(labels: Iterable[str]) -> dict[str, str]:
    """All labels but those of controls and of the oracle, each under itself."""
    return {label: label for label in labels if label != ORACLE and not is_control(label)}


def is_control(label: str) -> bool:
    """Whether a method is a control, whose maps contain no information about the classifier."""
    name = plain_name(label)
    return name in METHODS and traits(METHODS[name]).control


# Numbers -------------------------------------------------------------------------------------------------------------------


def two_digits(number: float) -> str:
    """Two digits without the zero before the point, as the paper writes shares.

    >>> two_digits(0.534), two_digits(-0.1), two_digits(1.0), two_digits(float("nan"))
    ('.53', '−.10', '1.00', 'undefined')
    """
    if math.isnan(number):
        return "undefined"
    text = f"{abs(number):.2f}"
    return ("−" if number < 0 and float(text) else "") + text.removeprefix("0")


def named_numbers(values: pd.Series, names: Iterable[str] | None = None) -> str:
    """Each name with its number."""
    chosen = map(str, values.index) if names is None else names
    return ", ".join(f"{name} {two_digits(float(values[name]))}" for name in chosen)


def count_methods(true: pd.Series, values: pd.Series | None = None) -> str:
    """For how many methods something is true; the exceptions by name, or the few for which it is true."""
    yes, no = ([str(method) for method in true.index[true == answer]] for answer in (True, False))
    text = f"{len(yes)} of {len(true)}"
    if not yes or not no:
        return text
    named, word = (no, "not") if len(no) <= len(yes) else (yes, "only")
    first, more = named[:MOST_NAMED], len(named) - MOST_NAMED
    names = ", ".join(first) if values is None else named_numbers(values, first)
    return f"{text}, {word} {names}{f' and {more} more' if more > 0 else ''}"


def is_majority(true: pd.Series) -> bool:
    """Whether something is true of more than half of the methods."""
    return bool(2 * int(true.sum()) > len(true))
