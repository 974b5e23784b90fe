"""The means of buckets under the paper's short names of methods, to ask claims of, and numbers as it writes them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

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

FEWEST = 4
"""Of fewer methods than this, nothing is said about most or all of them."""

MOST = 8
"""No more methods than this are named one by one in a sentence."""


class MissingError(Exception):
    """What was run does not decide the claim."""


@dataclass(frozen=True, eq=False)
class BucketMeans:
    """The mean of every bucket for some methods under short names, and their fates: a row per setting, bucket and method.

    `others` holds the same of all other lines under their labels: controls, the oracle, further methods.
    """

    buckets: pd.DataFrame
    methods: tuple[str, ...]
    others: pd.DataFrame

    @staticmethod
    def of(frame: pd.DataFrame, names: Mapping[str, str]) -> BucketMeans:
        """From a frame, of those methods, under their short names, that explained every setting in it."""
        settings = frame.groupby("method")["setting"].nunique()
        everywhere = set(settings.index[settings == frame["setting"].nunique()])
        short = {label: name for name, label in names.items() if label in everywhere}
        means = summaries.with_outcomes(summaries.means_of(frame[frame["method"].isin(everywhere)]))
        asked = means["method"].isin(list(short))
        kept = means[asked]
        return BucketMeans(kept.assign(method=kept["method"].map(short)), tuple(short.values()), means[~asked])

    @property
    def enough(self) -> list[str]:
        """All methods, if they are enough to speak about most of them."""
        if len(self.methods) < FEWEST:
            raise MissingError(f"{len(self.methods)} methods were run; at least {FEWEST} are needed")
        return list(self.methods)

    def some(self, *names: str) -> list[str]:
        """These methods, all of which must have been run."""
        missing = [name for name in names if name not in self.methods]
        if missing:
            raise MissingError(f"not run: {', '.join(missing)}")
        return list(names)

    def rows(self, *, simple: bool | None = None, setting: str | None = None) -> pd.DataFrame:
        """The buckets of simple settings, of complex ones, or of one."""
        found = self.buckets
        if simple is not None:
            found = found[found["simple"] == simple]
        if setting is not None:
            found = found[found["setting"] == setting]
        if found.empty:
            kind = "simple" if simple else "complex"
            raise MissingError(f"{setting} was not run" if setting else f"no {kind} setting was run")
        return found

    def average(self, score: str, *, simple: bool) -> pd.Series:
        """The mean over buckets, by method."""
        return by_method(self.rows(simple=simple), score, "mean", self.methods)

    def worst(self, score: str, *, simple: bool) -> pd.Series:
        """The lowest bucket, by method."""
        return by_method(self.rows(simple=simple), score, "min", self.methods)

    def spread(self, score: str, *, simple: bool) -> pd.Series:
        """The standard deviation over buckets, by method: the published one, as in `summaries.averages`."""
        return by_method(self.rows(simple=simple), score, lambda one: one.std(ddof=0), self.methods)

    def beside(self, score: str, *, simple: bool, named: Callable[[str], bool]) -> pd.Series:
        """The mean over buckets of other lines whose labels are so, by label; it may be empty."""
        rows = self.others[self.others["simple"] == simple]
        labels = [str(one) for one in rows["method"].unique() if named(str(one))]
        return by_method(rows, score, "mean", labels)

    def contested(self, *, simple: bool | None = None, settings: Sequence[str] = ()) -> pd.DataFrame:
        """The buckets with something to focus on and something to avoid, and the fates there: see `summaries.with_fates`."""
        for setting in settings:
            self.rows(setting=setting)
        found = self.rows(simple=simple)
        found = found[found["setting"].isin(list(settings))] if settings else found
        found = found[found["contested"]]
        if found.empty:
            raise MissingError("no bucket has both something to focus on and something to avoid")
        return found

    def shares(self, column: str, *, simple: bool) -> pd.DataFrame:
        """The share of contested buckets that are a `success`, or a `failure`, of those defined: settings by methods."""
        rows = self.contested(simple=simple)
        found = rows[rows["defined"]].groupby(["setting", "method"], sort=False)[column].mean().unstack("method")
        return found.reindex(columns=self.enough)

    def whole(self, *, simple: bool, settings: Sequence[str] = ()) -> pd.DataFrame:
        """Whether a method succeeds in all contested buckets of a setting, undefined ones included: settings by methods."""
        rows = self.contested(simple=simple, settings=settings)
        found = rows.groupby(["setting", "method"], sort=False)["success"].all().unstack("method")
        return found.reindex(columns=self.enough)


def by_method(rows: pd.DataFrame, score: str, how: str | Callable[[pd.Series], float], methods: Sequence[str]) -> pd.Series:
    """One number of some buckets for each method; a method without any bucket has none."""
    found: pd.Series = rows.groupby("method", sort=False)[score].agg(how).reindex(list(methods))
    return found


def paper_methods(labels: Iterable[str]) -> dict[str, str]:
    """Which of these labels stand for the paper's methods, by its short names; its settings first, others will do."""
    known = list(labels)
    found = {}
    for name, wanted in PAPER.items():
        alike = [one for one in known if plain_name(one) == wanted]
        if alike:
            found[name] = min(alike, key=lambda one: (not one.endswith("@kim2022"), len(one)))
    return found


def own_methods(labels: Iterable[str]) -> dict[str, str]:
    """All labels but those of controls and of the oracle, each under itself."""
    return {label: label for label in labels if label != ORACLE and not is_control(label)}


def is_control(label: str) -> bool:
    """Whether it knows nothing of the classifier: random, edge, centre and the like."""
    name = plain_name(label)
    return name in METHODS and traits(METHODS[name]).control


# Numbers -------------------------------------------------------------------------------------------------------------------


def value(number: float) -> str:
    """Two digits without the zero before the point, as the paper writes shares.

    >>> value(0.534), value(-0.1), value(1.0), value(float("nan"))
    ('.53', '−.10', '1.00', 'undefined')
    """
    if math.isnan(number):
        return "undefined"
    text = f"{abs(number):.2f}"
    return ("−" if number < 0 and float(text) else "") + text.removeprefix("0")


def listed(found: pd.Series, names: Iterable[str] | None = None) -> str:
    """Each name with its number."""
    return ", ".join(f"{name} {value(float(found[name]))}" for name in (map(str, found.index) if names is None else names))


def counted(true: pd.Series, found: pd.Series | None = None) -> str:
    """Of how many methods it is true, and of which it is not, or of which alone it is, whichever are fewer."""
    yes, no = ([str(one) for one in true.index[true == wanted]] for wanted in (True, False))
    text = f"{len(yes)} of {len(true)}"
    if not yes or not no:
        return text
    named, word = (no, "not") if len(no) <= len(yes) else (yes, "only")
    shown, more = named[:MOST], len(named) - MOST
    told = ", ".join(shown) if found is None else listed(found, shown)
    return f"{text}, {word} {told}{f' and {more} more' if more > 0 else ''}"


def most(true: pd.Series) -> bool:
    """Whether it is true of more than half of the methods."""
    return bool(2 * int(true.sum()) > len(true))
