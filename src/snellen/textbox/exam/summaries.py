"""From scores per image to what the figures of Kim, Plumb and Talwalkar (2022) show: means of buckets, and the worst one.

The *frame* has one row per setting, sample and method, with the columns of `COLUMNS`. An average is the mean of the means of
buckets, so that each kind of scene counts once. Scores that are undefined are left out and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np
import pandas as pd

from snellen.errors import SnellenError, nearest
from snellen.textbox.exam.scoring import LOWER_IS_BETTER, SCORES

COLUMNS = ("setting", "simple", "bucket", "visible", "sample", "method", *SCORES)
BAR = 0.5
"""A method succeeds in a bucket in which more than this share of its maps lies on what they should focus on."""

_BUCKET = ["setting", "simple", "bucket", "visible"]


def bucket_means(frame: pd.DataFrame, score: str = "pafl") -> pd.DataFrame:
    """One row per setting, bucket and method: the mean over its images, how many were defined (`n`), and how many not."""
    _check(frame, score)
    groups = frame.groupby([*_BUCKET, "method"], sort=False)[score]
    found = groups.agg(mean="mean", n="count", images="size").reset_index()
    found["undefined"] = found.pop("images") - found["n"]
    return found


def means_of(frame: pd.DataFrame, scores: Sequence[str] = SCORES) -> pd.DataFrame:
    """One row per setting, bucket and method: the mean of each of these scores over its images."""
    tables = [
        bucket_means(frame, score).rename(columns={"mean": score}).drop(columns=["n", "undefined"]) for score in scores
    ]
    return reduce(pd.merge, tables)


def with_outcomes(means: pd.DataFrame) -> pd.DataFrame:
    """Means of buckets, PAFL and SAFL among them, with what became of each method there (Fig. 7).

    A bucket is `contested` that has something to focus on and something to avoid: some method has both means there. A method
    that has both itself is `defined`. `success`: PAFL above one half; `failure`: SAFL above PAFL; one that has no means, for
    its maps are zero, does neither.
    """
    defined = means["pafl"].notna() & means["safl"].notna()
    return means.assign(
        defined=defined,
        contested=defined.groupby([means["setting"], means["bucket"]]).transform("any"),
        success=means["pafl"] > BAR,
        failure=means["safl"] > means["pafl"],
    )


def averages(frame: pd.DataFrame, score: str = "pafl", by: Sequence[str] = ("method",)) -> pd.DataFrame:
    """The mean of the means of buckets, with their standard deviation as `spread`, for each value of the columns `by`.

    `buckets` are those with a mean, `undefined` the images without a score. The deviation is the published one, over all
    buckets rather than a sample of them. Settings are kept apart by `by=("setting", "method")`, the simple ones from the
    complex ones by `("simple", "method")`.
    """
    groups = bucket_means(frame, score).groupby(list(by), sort=False)
    found = groups["mean"].agg(mean="mean", spread=lambda one: one.std(ddof=0), buckets="count")
    found["undefined"] = groups["undefined"].sum()
    return found.reset_index()


def by_visible(frame: pd.DataFrame, score: str = "pafl") -> pd.DataFrame:
    """Averages over the buckets that show so many things (Fig. 6b), simple and complex settings apart."""
    found = averages(frame, score, ("simple", "visible", "method"))
    return found.sort_values(["simple", "visible"], ascending=[False, True], kind="stable", ignore_index=True)


def worst(frame: pd.DataFrame, score: str = "pafl", by: Sequence[str] = ("method",)) -> pd.DataFrame:
    """The worst bucket for each value of `by`: its setting, its number and its mean; the first of equals.

    The worst is the lowest, but the highest of scores of what should be avoided. Without any defined bucket it is NaN.
    """
    means = bucket_means(frame, score)
    sign = -1.0 if score in LOWER_IS_BETTER else 1.0
    rows = []
    for key, group in means.groupby(list(by), sort=False):
        fields = dict(zip(by, key, strict=True))
        if group["mean"].isna().all():
            rows.append({**fields, "setting": fields.get("setting"), "bucket": pd.NA, "mean": np.nan})
        else:
            row = group.iloc[int(np.nanargmin((sign * group["mean"]).to_numpy()))]
            rows.append({**fields, "setting": row["setting"], "bucket": row["bucket"], "mean": row["mean"]})
    columns = list(dict.fromkeys([*by, "setting", "bucket", "mean"]))
    return pd.DataFrame(rows, columns=columns).astype({"bucket": "Int64", "mean": np.float64})


def success(frame: pd.DataFrame) -> pd.DataFrame:
    """In what share of a setting's buckets each method succeeds: mean PAFL above one half (Fig. 7, top).

    Only buckets with something to focus on and something to avoid count. `undefined` are those of them in which this method
    has no mean, though another has.
    """
    return _shares(frame, "success")


def failure(frame: pd.DataFrame) -> pd.DataFrame:
    """In what share of a setting's buckets a method looks more at what it should avoid: SAFL above PAFL (Fig. 7, bottom).

    `fails` where that is more than half of them. Buckets count as for `success`.
    """
    found = _shares(frame, "failure")
    found["fails"] = (found["share"] > 0.5).astype("boolean").mask(found["share"].isna())
    return found


def simple_and_complex(frame: pd.DataFrame, score: str = "pafl") -> pd.DataFrame:
    """Average, and worst bucket as `minimum`, over all buckets of the simple and of the complex settings (Fig. 2)."""
    keys = ("simple", "method")
    lowest = worst(frame, score, keys).rename(columns={"mean": "minimum"})
    found = averages(frame, score, keys).rename(columns={"mean": "average"})
    return found.merge(lowest, on=list(keys), how="left")


def _shares(frame: pd.DataFrame, fate: str) -> pd.DataFrame:
    means = with_outcomes(means_of(frame, ("pafl", "safl")))
    defined = means["defined"]
    means = means.assign(holds=means[fate] & defined, missing=means["contested"] & ~defined)
    groups = means.groupby(["setting", "simple", "method"], sort=False)
    found = groups.agg(held=("holds", "sum"), buckets=("defined", "sum"), undefined=("missing", "sum")).reset_index()
    found["share"] = found.pop("held") / found["buckets"].where(found["buckets"] > 0)
    return found[["setting", "simple", "method", "share", "buckets", "undefined"]]


def _check(frame: pd.DataFrame, score: str) -> None:
    if score not in SCORES:
        raise SnellenError(f"there is no score '{score}'{nearest(score, SCORES) or '; there are ' + ', '.join(SCORES)}")
    missing = [one for one in (*_BUCKET, "sample", "method", score) if one not in frame.columns]
    if missing:
        raise SnellenError(f"a frame of scores needs the columns {', '.join(COLUMNS)}, but lacks {', '.join(missing)}")
